//! The ledger, its log and its filters: what is admitted, what is written, and what a broken or hostile store can do.

mod filters;
#[cfg(feature = "seeded")]
mod gate;
mod hostile;
#[cfg(feature = "seeded")]
mod ledger_model;
mod stored;
