//! What a simulation came to.

use sage_kernel::Epsilon;

/// Something that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// When its pipeline came, in blocks.
    pub came: u32,
    /// When it was released.
    pub at: u32,
    /// After how many attempts.
    pub attempts: u32,
}

/// How things stood after a tick of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Pipelines that had come.
    pub came: u32,
    /// Those of which something was released.
    pub released: u32,
    /// Those that gave up.
    pub gave_up: u32,
    /// Those that waited.
    pub waiting: u32,
    /// Blocks of which too little was left for any attempt.
    pub retired: u32,
}

/// A simulation from its first block to its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Everything that was released, in order.
    pub releases: Vec<Release>,
    /// How things stood after each block.
    pub moments: Vec<Moment>,
    /// When the pipelines came that wait at the end.
    pub starved: Vec<u32>,
    /// Attempts that were charged.
    pub attempts: u32,
    /// The largest loss of any block.
    pub loss: Epsilon,
    /// The share of what all blocks have that is spent, from 0 to 1.
    pub spent_share: f64,
    /// Events in the ledger's log, which was read back and led to the same state.
    pub verified_events: u64,
}

/// Several simulations that differ in their seeds alone, added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Pipelines that came.
    pub came: u32,
    /// Those of which something was released.
    pub released: u32,
    /// Those that gave up.
    pub gave_up: u32,
    /// Those that waited at the end: starved, or too late.
    pub waiting: u32,
    /// Attempts that were charged.
    pub attempts: u32,
    /// Blocks that were used up.
    pub retired: u32,
    /// From coming to release in blocks: the mean, the median and the slowest tenth. None without a release.
    pub release_time: Option<[f64; 3]>,
    /// How long those that wait at the end have waited, on average.
    pub waited: Option<f64>,
    /// The share of all budgets that is spent.
    pub spent_share: f64,
    /// The largest loss of any block.
    pub loss: Epsilon,
}

impl Summary {
    /// Adds stories up.
    pub fn of(stories: &[Story]) -> Self {
        let end = |story: &Story| story.moments.last().copied().unwrap_or_default();
        let sum = |part: fn(&Moment) -> u32| stories.iter().map(|story| part(&end(story))).sum();
        let mut times: Vec<u32> =
            stories.iter().flat_map(|story| &story.releases).map(|release| release.at - release.came).collect();
        times.sort_unstable();
        let waits = stories.iter().flat_map(|story| {
            let blocks = story.moments.len() as f64;
            story.starved.iter().map(move |came| blocks - f64::from(*came))
        });
        Self {
            came: sum(|end| end.came),
            released: sum(|end| end.released),
            gave_up: sum(|end| end.gave_up),
            waiting: sum(|end| end.waiting),
            attempts: stories.iter().map(|story| story.attempts).sum(),
            retired: sum(|end| end.retired),
            release_time: (!times.is_empty()).then(|| {
                let mean = times.iter().copied().map(f64::from).sum::<f64>() / times.len() as f64;
                [mean, quantile(&times, 0.5), quantile(&times, 0.9)]
            }),
            waited: mean(&waits.collect::<Vec<f64>>()),
            spent_share: mean(&stories.iter().map(|story| story.spent_share).collect::<Vec<f64>>()).unwrap_or(0.0),
            loss: stories.iter().map(|story| story.loss).max().unwrap_or(Epsilon::ZERO),
        }
    }
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// The number below which such a share of sorted numbers is.
fn quantile(sorted: &[u32], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stories_add_up() {
        let story = |times: &[(u32, u32)], starved: &[u32]| Story {
            releases: times.iter().map(|&(came, at)| Release { came, at, attempts: 1 }).collect(),
            moments: vec![
                Moment::default(),
                Moment { came: 5, released: times.len() as u32, waiting: starved.len() as u32, ..Moment::default() },
            ],
            starved: starved.to_vec(),
            attempts: 7,
            loss: Epsilon::ZERO,
            spent_share: 0.5,
            verified_events: 1,
        };
        let all = Summary::of(&[story(&[(0, 1), (0, 3)], &[0]), story(&[(1, 9)], &[1, 1])]);
        assert_eq!((all.came, all.released, all.waiting, all.attempts), (10, 3, 3, 14));
        assert_eq!(all.release_time, Some([4.0, 3.0, 8.0]));
        assert_eq!(all.waited, Some(4.0 / 3.0));
        assert_eq!(Summary::of(&[]).release_time, None);
    }
}
