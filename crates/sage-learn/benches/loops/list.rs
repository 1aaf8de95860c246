//! Every hot loop of the arithmetic, the kernel and the learners, on a small input of its own.
//!
//! One list for three purposes: the bench program `loops` times each loop, `cargo xtask check` counts its
//! instructions on every instruction set, and the test `paths` compares its results between them, bit by bit.

use sage_kernel::noise::{RoundedGaussian, SeededNoise};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    Mechanism, MemoryLog, Policy, Rate, Request, RequestKey, Rule, Session, Sigma, Step,
};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::{AdaSsp, Ridge};
use sage_learn::network::{Inputs, Loss, Network, Plan, Rates, Shape, Training, train};
use sage_numerics::{
    FactorShape, Factors, OneHotMoments, Rescaler, add_product, smallest_eigenvalue, sum_outer_products, triangle_row,
};

/// What a loop computes, bit by bit.
pub(crate) type Bits = Vec<u64>;

/// A prepared loop, to be run once.
type Prepared = Box<dyn FnOnce() -> Output>;

/// What a loop computes. Turning it into bits is not part of the loop.
pub(crate) enum Output {
    Integers(Vec<i64>),
    Wide(Vec<i128>),
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Output {
    /// The bits of every number.
    pub(crate) fn bits(&self) -> Bits {
        match self {
            Self::Integers(numbers) => numbers.iter().map(|&number| number as u64).collect(),
            Self::Wide(numbers) => numbers.iter().flat_map(|&number| [number as u64, (number >> 64) as u64]).collect(),
            Self::Single(numbers) => numbers.iter().map(|number| u64::from(number.to_bits())).collect(),
            Self::Double(numbers) => numbers.iter().map(|number| number.to_bits()).collect(),
        }
    }
}

/// A hot loop.
pub(crate) struct Loop {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn() -> Prepared,
}

/// All of them. Every file that has one is named.
pub(crate) const LOOPS: &[Loop] = &[
    // sage-numerics: outer.
    Loop { name: "outer", prepare: outer },
    // sage-numerics: factors.
    Loop { name: "gather_wide", prepare: || gather(Gather { rows: 256, active: 5, columns: 61, outputs: 512 }) },
    Loop { name: "gather_narrow", prepare: || gather(Gather { rows: 4096, active: 1, columns: 100, outputs: 8 }) },
    // sage-numerics: rescale, one_hot, product, spectral.
    Loop { name: "rescale", prepare: rescale },
    Loop { name: "one_hot", prepare: one_hot },
    Loop { name: "product", prepare: product },
    Loop { name: "spectral", prepare: spectral },
    // sage-learn: network/product and network/relu_sparse, each with network/pass.
    Loop { name: "forward_dense", prepare: || forward(criteo(), 192) },
    Loop { name: "forward_sparse", prepare: || forward(taxi(), 192) },
    // sage-learn: network/train; kernel: factors, gradient, vector.
    Loop { name: "step_dense", prepare: || step(criteo()) },
    Loop { name: "step_sparse", prepare: || step(taxi()) },
    // kernel: noise/rounded, moments, vector; sage-learn: linear.
    Loop { name: "noise", prepare: noise },
    Loop { name: "linear_one_hot", prepare: || linear(Layout { numbers: 0, active: 10, columns: 60 }) },
    Loop { name: "linear_numbers", prepare: || linear(Layout { numbers: 24, active: 0, columns: 0 }) },
    Loop { name: "vector", prepare: vector },
];

/// Numbers from a seed, for synthetic inputs.
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.word() % u64::from(bound)) as u32
    }

    /// From −1 to 1.
    fn number(&mut self) -> f32 {
        (self.word() % 2001) as f32 / 1000.0 - 1.0
    }
}

fn outer() -> Prepared {
    let (rows, shape) = (128, FactorShape { columns: 101, outputs: 70, active: 0, bias: None });
    let mut draw = Draw(1);
    let mut entries = |count: usize| (0..count).map(|_| draw.below(401) as i16 - 200).collect::<Vec<_>>();
    let factors = Factors {
        inputs: entries(rows * shape.columns),
        errors: entries(rows * shape.outputs),
        ones: vec![0; rows],
        peaks: vec![200 * 200; rows],
        ..Factors::default()
    };
    let mut sums = vec![0; shape.columns * shape.outputs];
    Box::new(move || {
        sum_outer_products(std::iter::once((&factors, shape, &mut sums)), 1);
        Output::Integers(sums)
    })
}

struct Gather {
    rows: usize,
    active: usize,
    columns: u32,
    outputs: usize,
}

fn gather(Gather { rows, active, columns, outputs }: Gather) -> Prepared {
    let mut draw = Draw(2);
    let factors = Factors {
        errors: (0..rows * outputs).map(|_| draw.below(401) as i16 - 200).collect(),
        ones: vec![100; rows],
        indices: (0..rows * active).map(|_| draw.below(columns)).collect(),
        peaks: vec![100 * 200; rows],
        ..Factors::default()
    };
    let shape = FactorShape { columns: 0, outputs, active, bias: Some(columns as usize) };
    let mut sums = vec![0; (columns as usize + 1) * outputs];
    Box::new(move || {
        sum_outer_products(std::iter::once((&factors, shape, &mut sums)), 1);
        Output::Integers(sums)
    })
}

fn rescale() -> Prepared {
    let (mut draw, count) = (Draw(3), 1 << 15);
    let numbers: Vec<i64> = (0..count).map(|_| draw.word() as i64 - (1 << 30)).collect();
    let added: Vec<i32> = (0..count).map(|_| draw.below(1 << 25) as i32 - (1 << 24)).collect();
    let rescaler = Rescaler { limit: 1 << 40, multiplier: 0x9e_3779_b97f, shift: 42, unit: 1.0 / 1024.0 };
    let mut out = vec![0.0; count];
    Box::new(move || {
        rescaler.apply(&numbers, &added, &mut out);
        Output::Single(out)
    })
}

fn one_hot() -> Prepared {
    const ACTIVE: usize = 10;
    let mut draw = Draw(4);
    let rows: Vec<([u32; ACTIVE], i64)> = (0..4096)
        .map(|_| (std::array::from_fn(|field| field as u32 * 6 + draw.below(6)), i64::from(draw.below(1 << 20))))
        .collect();
    let size = ACTIVE * 6 + 2;
    let mut total = vec![0; triangle_row(size, size - 1) + size];
    Box::new(move || {
        let mut sums = OneHotMoments::new(ACTIVE, ACTIVE * 6, &mut total);
        for (row, label) in &rows {
            sums.push(|active| {
                active.copy_from_slice(row);
                *label
            });
        }
        sums.finish();
        Output::Wide(total)
    })
}

fn product() -> Prepared {
    let (rows, width) = (512, 33);
    let mut draw = Draw(5);
    let entries: Vec<f64> = (0..rows * width).map(|_| f64::from(draw.below(1 << 21)) - 1_048_576.0).collect();
    let mut out = vec![0.0; width * width];
    Box::new(move || {
        add_product(&entries, &entries, rows, &mut out);
        Output::Double(out)
    })
}

fn spectral() -> Prepared {
    let (size, mut draw) = (24, Draw(6));
    let mut matrix = vec![0i128; size * size];
    for _ in 0..100 {
        let row: Vec<i128> = (0..size).map(|_| i128::from(draw.below(1 << 20))).collect();
        for (index, entry) in matrix.iter_mut().enumerate() {
            *entry += row[index / size] * row[index % size];
        }
    }
    Box::new(move || Output::Wide(vec![smallest_eigenvalue(&matrix, size)]))
}

/// Embedded fields and numbers; the first layer's inputs are rarely zero.
fn criteo() -> Shape {
    let layout = Layout { numbers: 13, active: 8, columns: 800 };
    let inputs = Inputs::Embedded { fields: vec![100; 8], width: 8 };
    Shape::new(layout, inputs, vec![96, 32], Loss::Logistic).expect("a shape")
}

/// One-hot fields and a wide layer behind a ReLU.
fn taxi() -> Shape {
    let layout = Layout { numbers: 0, active: 5, columns: 60 };
    Shape::new(layout, Inputs::Direct, vec![400, 100], Loss::Squared).expect("a shape")
}

fn rows(layout: Layout, count: usize) -> Encoded {
    let mut draw = Draw(7);
    let numbers = (0..count * layout.numbers as usize).map(|_| draw.number()).collect();
    let width = layout.columns.checked_div(layout.active).unwrap_or(0);
    let indices =
        (0..count).flat_map(|_| (0..layout.active).map(|field| field * width + draw.below(width)).collect::<Vec<_>>());
    let indices = indices.collect();
    let labels = (0..count).map(|_| draw.below(2) as f32).collect();
    Encoded::from_parts(layout, numbers, indices, labels).expect("rows of the layout")
}

fn forward(shape: Shape, count: usize) -> Prepared {
    let rows = rows(shape.layout(), count);
    let network = Network::new(shape, 1);
    Box::new(move || Output::Single(network.predict(&rows)))
}

/// A session on synthetic rows, with noise from a seed, whose table is built once in a process.
fn session(parts: Vec<Mechanism>, rows: Encoded) -> Session<Encoded, SeededNoise> {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling("40").expect("a ceiling"),
        delta: Delta::ceiling("0.5").expect("a ceiling"),
    };
    let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rows", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["0".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("loops"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(Cost::new(parts).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "loops".to_owned(),
    };
    let ChargeOutcome::Granted(grant) = gate.charge(0, vec![request]).expect("a healthy log").remove(0) else {
        panic!("not granted")
    };
    let permit = gate.start(0, grant).expect("a start");
    RoundedGaussian::new();
    permit.open(SeededNoise::new(9), |_| Ok::<_, ()>([vec![rows], Vec::new()])).expect("opens")
}

fn sigma() -> Sigma {
    Sigma::cost("2").expect("a multiplier")
}

fn step(shape: Shape) -> Prepared {
    let step = Step { rate: Rate::LIMIT, sigma: sigma(), clip: 1.0 };
    let plan = Plan::with_noise(&shape, step, 2, 192.0).expect("a plan");
    let mut session = session(vec![plan.mechanism()], rows(shape.layout(), 192));
    let training = Training { rates: Rates::Constant(0.1), momentum: 0.9, decay: 1e-4, threads: 1 };
    let network = Network::new(shape, 1);
    Box::new(move || {
        let trained = train(&mut session, Lane::Train, &plan, &training, network).expect("trains");
        Output::Single(trained.parameters().concat())
    })
}

fn noise() -> Prepared {
    let (mut source, sampler) = (SeededNoise::new(10), RoundedGaussian::new());
    let mut drawn = vec![0; 1 << 15];
    Box::new(move || {
        sampler.fill(&mut source, &mut drawn).expect("a seeded source");
        Output::Integers(drawn.into_iter().map(i64::from).collect())
    })
}

fn linear(layout: Layout) -> Prepared {
    let plan = AdaSsp::new(layout, (0.0, 1.0), sigma(), Ridge::Fixed).expect("bounds");
    let mut session = session(plan.mechanisms(), rows(layout, 2048));
    Box::new(move || {
        let model = plan.train(&mut session, Lane::Train).expect("covered");
        Output::Double(model.weights)
    })
}

fn vector() -> Prepared {
    let (width, layout) = (256, Layout { numbers: 256, active: 0, columns: 0 });
    let mut session =
        session(vec![Mechanism::Gaussian { sigma: sigma(), coordinates: width, count: 1 }], rows(layout, 256));
    Box::new(move || {
        let sum = session.vector_sum(Lane::Train, width, 4.0, sigma(), |row, values| {
            values.iter_mut().zip(row.numbers).for_each(|(value, &number)| *value = f64::from(number));
        });
        Output::Double(sum.expect("covered"))
    })
}
