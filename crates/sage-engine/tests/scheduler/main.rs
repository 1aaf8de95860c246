//! The scheduler: adaptation of one run, and allocation of budget among many.

mod adapt;
mod allocate;
