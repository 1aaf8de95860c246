//! The contents of one row neither make an expression fail nor change its values for other rows.

mod independence;
mod kinds;
mod limits;
mod values;
