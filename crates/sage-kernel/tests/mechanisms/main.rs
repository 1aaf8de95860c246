//! The mechanisms of a session: sensitivity, noise, cost and output grid of everything that is released.

mod boundary;
mod contribution;
mod distinguish;
mod forged;
mod golden;
mod grid;
mod planted;
mod replay;
mod session;
mod summary;
mod support;
mod terms;
