//! The adaptive loop from a submitted pipeline to a release: planned, allocated, charged, run, judged, retried, served.

mod city;
mod kept;
mod kill;
mod looks;
mod loops;
mod missing;
mod progress;
mod real;
mod reliefs;
mod still;
mod teams;
mod turns;
