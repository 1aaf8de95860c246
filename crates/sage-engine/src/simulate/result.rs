//! Results of simulations.

use sage_kernel::Epsilon;

/// A simulated release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The arrival of its pipeline, in blocks.
    pub came: u32,
    /// The time of the release.
    pub at: u32,
    /// The number of attempts.
    pub attempts: u32,
}

/// The totals after a step of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulationStep {
    /// Pipelines that have arrived.
    pub came: u32,
    /// Pipelines with a release.
    pub released: u32,
    /// Pipelines that gave up.
    pub gave_up: u32,
    /// Pipelines that wait.
    pub waiting: u32,
    /// Blocks with too little budget for any attempt.
    pub retired: u32,
    /// The spent share of the budgets of all blocks of the simulation, from 0 to 1.
    pub spent_share: f64,
}

/// The result of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationResult {
    /// All releases, in order.
    pub releases: Vec<Release>,
    /// The totals after each block.
    pub moments: Vec<SimulationStep>,
    /// The arrival times of the pipelines that still wait at the end.
    pub starved: Vec<u32>,
    /// Attempts that were charged.
    pub attempts: u32,
    /// The largest loss of any block.
    pub loss: Epsilon,
    /// The spent share of all budgets, from 0 to 1.
    pub spent_share: f64,
    /// The number of events in the ledger's log, which was replayed and gave the same state.
    pub verified_events: u64,
}

/// The sum of several simulations that differ only in their seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Pipelines that arrived.
    pub came: u32,
    /// Pipelines with a release.
    pub released: u32,
    /// Pipelines that gave up.
    pub gave_up: u32,
    /// Pipelines that waited at the end: starved, or arrived too late.
    pub waiting: u32,
    /// Attempts that were charged.
    pub attempts: u32,
    /// Retired blocks.
    pub retired: u32,
    /// The time from arrival to release in blocks: mean, median and 90th percentile; `None` without a release.
    pub release_time: Option<[f64; 3]>,
    /// The average waiting time of the pipelines that wait at the end.
    pub waited: Option<f64>,
    /// The spent share of all budgets.
    pub spent_share: f64,
    /// The largest loss of any block.
    pub loss: Epsilon,
}

impl Summary {
    /// Summarises simulations.
    pub fn new(results: &[SimulationResult]) -> Self {
        let end = |result: &SimulationResult| result.moments.last().copied().unwrap_or_default();
        let sum = |part: fn(&SimulationStep) -> u32| results.iter().map(|result| part(&end(result))).sum();
        let mut times: Vec<u32> =
            results.iter().flat_map(|result| &result.releases).map(|release| release.at - release.came).collect();
        times.sort_unstable();
        let waits = results.iter().flat_map(|result| {
            let blocks = result.moments.len() as f64;
            result.starved.iter().map(move |came| blocks - f64::from(*came))
        });
        Self {
            came: sum(|end| end.came),
            released: sum(|end| end.released),
            gave_up: sum(|end| end.gave_up),
            waiting: sum(|end| end.waiting),
            attempts: results.iter().map(|result| result.attempts).sum(),
            retired: sum(|end| end.retired),
            release_time: (!times.is_empty()).then(|| {
                let mean = times.iter().copied().map(f64::from).sum::<f64>() / times.len() as f64;
                [mean, quantile(&times, 0.5), quantile(&times, 0.9)]
            }),
            waited: mean(&waits.collect::<Vec<f64>>()),
            spent_share: mean(&results.iter().map(|result| result.spent_share).collect::<Vec<f64>>()).unwrap_or(0.0),
            loss: results.iter().map(|result| result.loss).max().unwrap_or(Epsilon::ZERO),
        }
    }
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// The quantile of sorted numbers.
fn quantile(sorted: &[u32], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let result = |times: &[(u32, u32)], starved: &[u32]| SimulationResult {
            releases: times.iter().map(|&(came, at)| Release { came, at, attempts: 1 }).collect(),
            moments: vec![
                SimulationStep::default(),
                SimulationStep {
                    came: 5,
                    released: times.len() as u32,
                    waiting: starved.len() as u32,
                    ..SimulationStep::default()
                },
            ],
            starved: starved.to_vec(),
            attempts: 7,
            loss: Epsilon::ZERO,
            spent_share: 0.5,
            verified_events: 1,
        };
        let all = Summary::new(&[result(&[(0, 1), (0, 3)], &[0]), result(&[(1, 9)], &[1, 1])]);
        assert_eq!((all.came, all.released, all.waiting, all.attempts), (10, 3, 3, 14));
        assert_eq!(all.release_time, Some([4.0, 3.0, 8.0]));
        assert_eq!(all.waited, Some(4.0 / 3.0));
        assert_eq!(Summary::new(&[]).release_time, None);
    }
}
