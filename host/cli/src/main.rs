//! The fuchsine command: run, check and list drivers.
fn main() {}
