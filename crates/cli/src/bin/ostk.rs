//! The `ostk` program.
fn main() {}
