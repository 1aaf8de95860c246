//! The total cost of a list of checks, by lane.

use sage_kernel::{Cost, CostError, Lane, Mechanism};

/// The total cost of these mechanisms on the train and the test lane, ready for a request.
///
/// # Errors
/// When a mechanism has a parameter of zero or there are too many of them.
pub fn costs(parts: impl IntoIterator<Item = (Lane, Mechanism)>) -> Result<[Option<Cost>; 2], CostError> {
    let mut lanes = [Vec::new(), Vec::new()];
    for (lane, part) in parts {
        lanes[usize::from(lane == Lane::Test)].push(part);
    }
    let cost = |parts: Vec<Mechanism>| if parts.is_empty() { Ok(None) } else { Cost::new(parts).map(Some) };
    let [train, test] = lanes;
    Ok([cost(train)?, cost(test)?])
}
