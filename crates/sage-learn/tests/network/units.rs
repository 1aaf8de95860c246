//! Units of several records: steps take them in turn.

use sage_kernel::noise::SeededNoise;
use sage_kernel::{Lane, Rate, Sigma, Step};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::network::{Inputs, Loss, Network, Plan, Rates, Shape, Training, train};

use crate::support::{opened, run_seed};

const RECORDS: usize = 10;

/// Units whose first record has label one and all others label zero.
fn units(count: usize) -> Encoded {
    let layout = Layout { numbers: 1, active: 0, columns: 0 };
    let labels = (0..count * RECORDS).map(|index| f32::from(u8::from(index % RECORDS == 0))).collect();
    let rows = Encoded::from_parts(layout, vec![0.5; count * RECORDS], Vec::new(), labels).expect("rows");
    rows.with_units((1..=count).map(|unit| unit * RECORDS).collect()).expect("units")
}

/// The model of all records predicts a tenth. That of the first would predict one.
#[test]
fn a_network_learns_from_all_records_of_a_unit() {
    let seed = run_seed("units");
    let rows = units(2_000);
    let shape = Shape::new(rows.layout(), Inputs::Direct, Vec::new(), Loss::Logistic).expect("a shape");
    let step = Step { rate: Rate::cost("0.5").expect("a rate"), sigma: Sigma::cost("4").expect("σ"), clip: 2.0 };
    let plan = Plan::with_noise(&shape, step, 120, 1_000.0).expect("a plan");
    let mut session = opened(plan.charge().expect("a cost"), vec![rows], SeededNoise::new(seed));
    let training = Training { rates: Rates::Constant(1.0), momentum: 0.0, decay: 0.0, threads: 2 };
    let network = train(&mut session, Lane::Train, &plan, &training, Network::new(shape, 1)).expect("trains");
    let predicted = network.predict(&units(1))[0];
    assert!((predicted - 0.1).abs() < 0.05, "{predicted}");
}

#[test]
fn units_have_records_and_records_have_units() {
    let rows = |ends: Vec<usize>| units(2).with_units(ends);
    assert!(rows(vec![20]).is_some() && rows(vec![1, 7, 20]).is_some());
    for ends in [vec![], vec![19], vec![21], vec![0, 20], vec![7, 7, 20], vec![9, 7, 20]] {
        assert!(rows(ends.clone()).is_none(), "{ends:?}");
    }
}
