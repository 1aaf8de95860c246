//! The adaptive loop from a submitted pipeline to a release: planned, allocated, charged, run, judged, retried, served.

mod adding_a_learner;
mod adding_a_metric;
mod auc;
mod city;
mod classes;
mod constant;
mod evaluations;
mod hashed;
mod hints;
mod informed;
mod kept;
mod kill;
mod loops;
mod missing;
mod progress;
mod real;
mod retest;
mod several;
mod static_checks;
mod still;
mod teams;
mod turns;
mod users;
