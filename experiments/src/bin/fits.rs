//! How many queries fit under each filter?

fn main() {}
