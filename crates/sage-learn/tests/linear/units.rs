//! Units of several records: a linear model is that of their means.

use sage_kernel::{Contribution, Lane, Sigma};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::{AdaSsp, Ridge};

use crate::support::session;

/// Units of ten records with one label at the top and nine at the bottom.
fn units(layout: Layout) -> Encoded {
    let count = 20_000;
    let labels = (0..10 * count).map(|record| if record % 10 == 0 { 5.0 } else { -3.0 }).collect();
    let indices: Vec<u32> = (0..layout.active).map(|field| field * layout.columns / layout.active).collect();
    let numbers = vec![0.5; 10 * count * layout.numbers as usize];
    let rows = Encoded::from_parts(layout, numbers, indices.repeat(10 * count), labels).unwrap();
    rows.with_units((1..=count).map(|unit| 10 * unit).collect()).unwrap()
}

/// The noise is a ten-thousandth of what is compared.
#[test]
fn a_linear_model_counts_the_records_of_a_unit() {
    for layout in [Layout { numbers: 1, active: 0, columns: 0 }, Layout { numbers: 0, active: 2, columns: 8 }] {
        for (records, expected) in [(1, 5.0), (2, 1.0), (10, -2.2), (30, -2.2)] {
            let plan = AdaSsp::new(layout, (-3.0, 5.0), Sigma::cost("1").unwrap(), Ridge::Adaptive).unwrap();
            let plan = plan.with_contribution(Contribution::new(records).unwrap());
            let mut session = session(plan.mechanisms(), units(layout), Encoded::new(layout));
            let model = plan.train(&mut session, Lane::Train).unwrap();
            let rows = units(layout);
            let predicted = model.predict(&rows.all_records().next().unwrap());
            assert!((predicted - expected).abs() < 0.1, "{records}: {predicted}, not {expected}");
        }
    }
}
