//! The shared library that programs and drivers in C link: the functions of `fuchsine-abi`, those for tests included.
//!
//! It is a package of its own because a host links `fuchsine-abi` without what is for tests.

pub use fuchsine_abi::*;
