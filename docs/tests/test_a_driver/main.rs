//! Goal: what the tutorial about tests of drivers shows is what happens.
//! Method: its Rust blocks stand in the files of this folder, word for word, and are run; the lines of its output are
//! looked for in the real output.

#![allow(clippy::duplicate_mod, reason = "the tests are the same for the driver before and after")]

mod first;
mod second;

use std::panic::catch_unwind;

const PAGE: &str = include_str!("../../src/tutorials/test-a-driver.md");

/// The files that the Rust blocks of the page come from.
const SOURCES: [&str; 3] = [include_str!("first.rs"), include_str!("second.rs"), include_str!("steps.rs")];

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let fenced = PAGE.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(&format!("{language}\n"))).map(str::to_owned).collect()
}

/// A line without the numbers behind the names of files: they change with every edit above them.
fn without_places(line: &str) -> String {
    let mut parts = line.split(".rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ".rs" + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'))
}

#[test]
fn the_driver_passes_its_first_tests_before_and_after() {
    first::steps::a_page_is_printed();
    first::steps::a_page_is_printed_on_threads();
    first::steps::two_pages_in_any_order();
    second::steps::a_page_is_printed();
    second::steps::a_page_is_printed_on_threads();
    second::steps::two_pages_in_any_order();
}

#[test]
fn the_corrected_driver_may_be_stopped_anywhere() {
    second::steps::a_stop_at_any_step_leaves_no_page_without_an_end();
}

#[test]
fn the_output_of_the_page_is_the_real_one() {
    let report = catch_unwind(first::steps::a_stop_at_any_step_leaves_no_page_without_an_end);
    let report = report.expect_err("the first driver has a mistake");
    let report = report.downcast::<String>().expect("a report is text");
    for block in blocks("text") {
        let mut real = report.lines().map(without_places);
        for line in block.lines().filter(|line| line.trim() != "…") {
            let wanted = without_places(line);
            assert!(
                real.any(|real| real == wanted),
                "not in the real output, or not there: {line:?}\nit is:\n{report}"
            );
        }
    }
    assert_eq!(blocks("text").len(), 1);
}

#[test]
fn the_code_of_the_page_is_the_code_that_is_run() {
    let sources = SOURCES.map(|source| source.replace("pub(crate) ", ""));
    let blocks = blocks("rs");
    for block in &blocks {
        // Tests are called from here; there they are tests.
        let block = block.replace("#[test]\n", "");
        assert!(sources.iter().any(|source| source.contains(&block)), "no file has this block:\n{block}");
    }
    assert!(blocks.len() >= 5, "{} blocks were found", blocks.len());
    // Whoever copies them has all that they use.
    for line in ["use fuchsine_driver::{", "use fuchsine_testing::{", "static PRINTER: DriverEntry"] {
        assert!(blocks.iter().any(|block| block.contains(line)), "the page does not show {line:?}");
    }
}
