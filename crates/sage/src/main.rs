//! The program people use.

fn main() {}
