//! Shares of a block: the budget that is reserved for waiting runs, and the attempts that read it.
//!
//! Reservations can be returned, so they are reported separately from charges, and as a share of what is left rather
//! than as a loss: the scheduler counts in its own units.

use sage_kernel::{BlockId, GateError, Head, Lane, Log};

use crate::api::policy::found;
use crate::api::{Engine, EngineError, lock};

/// The whole, in the unit of [`Engine::set_aside`].
pub const THOUSANDTHS: u16 = 1000;

impl Engine {
    /// For each block of a stream, in order of arrival, the share of the remaining budget that is reserved for waiting
    /// runs, in thousandths, on the train and the test lane. With several contexts, the largest share.
    ///
    /// # Errors
    /// When there is no such stream, or the log has failed.
    pub fn set_aside(&self, stream: &str) -> Result<Vec<[u16; 2]>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(Vec::new()) };
            let mut shares = vec![[0; 2]; ledgered.block_keys().len()];
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let mut schedule = lock(&self.schedule);
            for context in (0..).take(ledgered.policy().contexts().len()) {
                let Some(allocation) = schedule.allocation(stream, context) else { continue };
                for (index, block) in (0..).map(BlockId).zip(&numbers) {
                    let own = Lane::BOTH.map(|lane| allocation.held(index).map_or((0, 0), |held| held.of(lane)));
                    let share = &mut shares[block.0 as usize];
                    if !ledgered.is_retired(*block) {
                        *share = [0, 1].map(|lane| share[lane].max(thousandths(own[lane])));
                    }
                }
            }
            Ok(shares)
        })
    }

    /// The attempts that read a block, as pairs of run number and index of the attempt.
    pub fn attempts_on(&self, stream: &str, block: &str) -> Vec<(u64, usize)> {
        let catalog = self.catalog();
        let sealed = catalog.stream(stream).map_or(&[][..], |known| &known.sealed);
        let Some(index) = sealed.iter().position(|key| key == block).and_then(|index| u32::try_from(index).ok()) else {
            return Vec::new();
        };
        let reads = |ranges: &[(u32, u32)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&index));
        let own = catalog.history().runs().filter(|(_, run)| run.pipeline.stream == stream);
        own.flat_map(|(number, run)| {
            let tries = run.attempts.iter().enumerate().filter(|(_, one)| reads(&one.blocks));
            tries.map(move |(attempt, _)| (number, attempt))
        })
        .collect()
    }

    /// Reads the whole log from disk and verifies the hash chain up to the head that this process knows; returns that
    /// head.
    ///
    /// # Errors
    /// When the log cannot be read, or an event fails verification.
    pub fn verify_log(&self) -> Result<Head, EngineError> {
        const AT_A_TIME: usize = 1000;
        let end = self.with(|gate, _| Ok(gate.head()))?;
        let mut head = Head::EMPTY;
        while head.length < end.length {
            // The lock is released between two parts, so that other requests are served.
            let records = self.with(|gate, _| {
                let read = gate.log().log().read(head.length, AT_A_TIME);
                read.map_err(|error| EngineError::Gate(GateError::Log(error)))
            })?;
            let before = head.length;
            for record in records.iter().take_while(|record| record.number < end.length) {
                (_, head) = record.verify(head).map_err(|broken| EngineError::Gate(GateError::Chain(broken)))?;
            }
            if head.length == before {
                return Err(EngineError::Gate(GateError::Chain(sage_kernel::BrokenChain { number: before })));
            }
        }
        match head == end {
            true => Ok(end),
            false => Err(EngineError::Gate(GateError::Chain(sage_kernel::BrokenChain { number: end.length }))),
        }
    }
}

/// The ratio of the first to the second, in thousandths.
fn thousandths((held, left): (u64, u64)) -> u16 {
    let share = u128::from(held) * u128::from(THOUSANDTHS) / u128::from(left.max(1));
    u16::try_from(share).unwrap_or(THOUSANDTHS).min(THOUSANDTHS)
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn a_share_is_at_most_the_whole() {
        for (given, share) in [((0, 0), 0), ((0, 7), 0), ((1, 3), 333), ((7, 7), 1000), ((u64::MAX, 1), 1000)] {
            assert_eq!(thousandths(given), share, "{given:?}");
        }
    }
}
