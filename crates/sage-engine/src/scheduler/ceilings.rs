//! Whether one block admits a cost under every ceiling that applies: that of the paying context, and the joint one.
//!
//! The ledger decides about whole requests. Here single blocks are checked, so that a run chooses blocks that admit its
//! attempt instead of being refused because of one of them.

use sage_kernel::{Amounts, BlockId, ContextId, Cost, Filter, Lane, Stream as Ledgered};
use sage_learn::plan::fits;

use crate::api::submit::priced;

/// The ceilings of one stream for one pair of costs.
pub(crate) struct Ceilings<'ledger> {
    ledgered: &'ledger Ledgered,
    books: Vec<(Book, &'ledger Filter, [Option<Amounts>; 2])>,
    /// The lanes that have a cost.
    charged: [bool; 2],
}

/// The owner of a ceiling.
#[derive(Clone, Copy)]
enum Book {
    Context(ContextId),
    Joint,
}

impl<'ledger> Ceilings<'ledger> {
    /// Prices the costs of both lanes under each ceiling of a context.
    pub(crate) fn new(ledgered: &'ledger Ledgered, context: ContextId, costs: &[Option<Cost>; 2]) -> Self {
        let policy = ledgered.policy();
        let own = policy.contexts().get(context.0 as usize).map(|own| (Book::Context(context), &own.filter));
        let joint = policy.joint().map(|joint| (Book::Joint, joint));
        let books = own.into_iter().chain(joint).map(|(book, filter)| (book, filter, priced(filter, costs))).collect();
        Self { ledgered, books, charged: costs.each_ref().map(Option::is_some) }
    }

    /// How many times a block admits the costs; zero if it is retired or a cost has no price.
    pub(crate) fn times(&self, block: BlockId) -> u64 {
        self.least(block, fits)
    }

    /// Whether a block admits the costs once.
    pub(crate) fn admit(&self, block: BlockId) -> bool {
        self.least(block, |filter, spent, amounts| u64::from(filter.admits(spent, amounts))) > 0
    }

    /// The minimum over all ceilings and lanes.
    fn least(&self, block: BlockId, count: impl Fn(&Filter, &[u128], &Amounts) -> u64) -> u64 {
        if self.ledgered.is_retired(block) {
            return 0;
        }
        let lanes = self.books.iter().flat_map(|(book, filter, amounts)| {
            Lane::BOTH.into_iter().zip(amounts).zip(self.charged).filter(|(_, charged)| *charged).map({
                let count = &count;
                move |((lane, amounts), _)| {
                    let spent = match book {
                        Book::Context(context) => self.ledgered.spent(*context, block, lane),
                        Book::Joint => self.ledgered.spent_jointly(block, lane),
                    };
                    amounts.as_ref().map_or(0, |amounts| count(filter, spent.unwrap_or_default(), amounts))
                }
            })
        });
        lanes.min().unwrap_or(0)
    }
}
