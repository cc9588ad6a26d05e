//! The `netsky` program.
fn main() {}
