//! The loop from a submitted pipeline to a release: planned, allocated, charged, run, judged, tried again, served.

mod city;
mod looks;
mod loops;
