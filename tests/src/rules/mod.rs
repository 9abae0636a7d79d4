//! The rules of Fuchsia's driver runtime, as data: which there are, what became of each here, and which tests show it.
//!
//! Purpose: no rule is left out. [`list`] knows every identifier; the tables in `tests/conformance/` have one row for each;
//! [`marks`] finds the tests that name one; [`page`] makes the page of the book from the three. The binary `conformance`
//! runs the marked tests before it writes the page, and `tests/tests/runtime_rules.rs` compares all of it at each run.

pub mod list;
pub mod marks;
pub mod models;
pub mod page;
pub mod table;
