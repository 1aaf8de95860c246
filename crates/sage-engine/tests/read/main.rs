//! Reading: the allowed SQL, the opened files, the values, and that no row can cause a failure.

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
