//! How many queries fit under each rule, and how accurate are they?
//!
//! For two policies and a few queries: how often each fits before the budget of a block is spent. Then the whole
//! ceiling of one block is spent on mean queries of equal noise, with noise from a printed seed, and the error of
//! one result is measured. `cargo run --release --manifest-path experiments/Cargo.toml --bin fits [seed]`.

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    Mechanism, MemoryLog, Policy, Range, Rate, Request, RequestKey, Rounding, Rows, Rule, Sigma, TableNoise,
};
use sage_learn::plan::fits;

const RULES: [Rule; 3] = Rule::ADAPTIVE;

fn query(part: Mechanism) -> Cost {
    Cost::at_delta(vec![part], Delta::cost("1e-9").expect("a chance")).expect("a cost")
}

fn queries() -> Vec<(&'static str, Cost)> {
    let loss = |text| Epsilon::cost(text).expect("a loss");
    let sigma = |text| Sigma::cost(text).expect("a multiplier");
    vec![
        (
            "black box (0.1, 1e-9)",
            query(Mechanism::BlackBox { epsilon: loss("0.1"), delta: Delta::cost("1e-9").expect("a chance") }),
        ),
        ("Laplace 0.1", query(Mechanism::Laplace { epsilon: loss("0.1"), count: 1 })),
        ("Laplace 0.01", query(Mechanism::Laplace { epsilon: loss("0.01"), count: 1 })),
        ("Gaussian 50", query(Mechanism::Gaussian { sigma: sigma("50"), coordinates: 1, count: 1 })),
        (
            "1000 steps, q 0.01, sigma 4",
            query(Mechanism::SampledGaussian {
                rate: Rate::cost("0.01").expect("a rate"),
                sigma: sigma("4"),
                coordinates: 1,
                steps: 1000,
            }),
        ),
    ]
}

fn filter(rule: Rule, epsilon: &str, delta: &str) -> Filter {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling(epsilon).expect("a ceiling"),
        delta: Delta::ceiling(delta).expect("a ceiling"),
    };
    Filter::new(rule, ceiling).expect("a rule with a ceiling")
}

fn print_table(epsilon: &str, delta: &str) {
    println!("\nfit under ({epsilon}, {delta})\n{:<30}{:>10}{:>10}{:>10}", "", RULES[0], RULES[1], RULES[2]);
    let block = Blocks::range(0, 0).expect("a block");
    for (name, cost) in queries() {
        let counts = RULES.map(|rule| {
            let filter = filter(rule, epsilon, delta);
            let price = filter.price(&cost, Lane::Train, &block).expect("a price");
            fits(&filter, &vec![0; filter.caps().len()], &price)
        });
        println!("{name:<30}{:>10}{:>10}{:>10}", counts[0], counts[1], counts[2]);
    }
}

/// Rows with the numbers from 0 to 1 in equal steps.
struct Ramp(usize);

impl Rows for Ramp {
    type Row<'rows> = f64;

    fn count(&self) -> usize {
        self.0
    }

    fn row(&self, index: usize) -> f64 {
        index as f64 / (self.0 - 1) as f64
    }
}

/// The root mean square error of a mean over `rows` rows when the given number of means share a block.
fn error_of_means(loss: Epsilon, answers: u32, rows: usize, seed: u64) -> f64 {
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let policy = Policy::single(filter(Rule::Renyi, "1000", "1e-6"), AccessModes::EnforcedOnly);
    let stream = gate.create_stream(0, "ramp", policy).expect("a stream");
    gate.add_blocks(0, stream, vec!["all".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("means"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(query(Mechanism::Laplace { epsilon: loss, count: answers })), None],
        access: AccessMode::Enforced,
        purpose: "how well do means come out?".to_owned(),
    };
    let Some(ChargeOutcome::Granted(grant)) = gate.charge(0, vec![request]).expect("a log").pop() else {
        panic!("the play ceiling is wide enough");
    };
    let permit = gate.start(0, grant).expect("a log");
    let read = |_: &_| Ok::<_, ()>([vec![Ramp(rows)], Vec::new()]);
    let mut session = permit.open(SeededNoise::new(seed), read).expect("a reader that cannot fail");
    let unit = Range::new(0.0, 1.0).expect("a range");
    let noise = TableNoise::Laplace(loss);
    let squares: f64 = (0..answers)
        .map(|_| {
            let pairs = session.pairs(Lane::Train, 1, unit, Rounding::Nearest, noise, |value| Some((0, value)));
            let pair = pairs.expect("the charge covers it")[0];
            let mean = pair.above / (pair.above + pair.below);
            (mean - 0.5) * (mean - 0.5)
        })
        .sum();
    (squares / f64::from(answers)).sqrt()
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    print_table("1", "1e-6");
    print_table("10", "1e-7");
    println!("\nerror of a mean of 10,000 rows when a block of (1, 1e-6) is spent on equal queries (seed {seed})");
    for loss in ["0.1", "0.05", "0.02", "0.01"] {
        let block = Blocks::range(0, 0).expect("a block");
        let loss = Epsilon::cost(loss).expect("a loss");
        let filter = filter(Rule::Renyi, "1", "1e-6");
        let price = filter.price(&query(Mechanism::Laplace { epsilon: loss, count: 1 }), Lane::Train, &block);
        let answers = fits(&filter, &vec![0; filter.caps().len()], &price.expect("a price")) as u32;
        println!("  {answers:>4} results at epsilon {loss}: {:.6}", error_of_means(loss, answers, 10_000, seed));
    }
}
