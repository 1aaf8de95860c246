//! Reading: what SQL is allowed, what is opened, what comes out, and that no row can make it fail.

mod blocks;
mod formula;
mod hostile;
mod kept;
mod property;
mod real;
mod sql;
mod sums;
mod users;
mod yard;
