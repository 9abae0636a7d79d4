//! Benchmarks of Fuchsine with its peers beside it in the same run.
fn main() {}
