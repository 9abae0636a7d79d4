//! No public function is left out: those of the sources are compared with what the operations call.

use std::collections::BTreeSet;

use fuchsine_tests::source::{SourceFile, files};

/// Where they are defined.
const DEFINED: &[&str] =
    &["dispatcher/src/runtime/", "dispatcher/src/channel/", "dispatcher/src/executor/", "dispatcher/src/testing/"];

/// Those that cannot be called wrongly, or only by unsafe code.
const LEFT_OUT: &[(&str, &str)] = &[
    ("into_raw", "the counterpart of an unsafe function"),
    ("into_raw_parts", "the counterpart of an unsafe function"),
    ("into_arena", "takes its value apart"),
    ("downcast", "takes its value apart"),
    ("type_name", "reads a field"),
    ("panic_message", "reads a field"),
    ("is_canceled", "reads a field"),
    ("message", "reads a field of an error"),
    ("is_of_this_image", "reads a field"),
];

/// The names after `pub fn` in the files of some folders.
fn public_functions(files: &[SourceFile]) -> BTreeSet<String> {
    let is_source = |file: &&SourceFile| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_test = name.ends_with("_tests.rs") || name.starts_with("shuttle_") || name.starts_with("loom_");
        DEFINED.iter().any(|folder| file.path.starts_with(folder)) && !is_test && name.ends_with(".rs")
    };
    let lines = files.iter().filter(is_source).flat_map(|file| file.text.lines());
    let name = |line: &str| {
        let line = line.trim().strip_prefix("pub ")?;
        let line = line.trim_start_matches("const ").trim_start_matches("async ").strip_prefix("fn ")?;
        Some(line.split(['(', '<']).next()?.to_owned())
    };
    lines.filter_map(name).collect()
}

#[test]
fn no_public_function_is_left_out() {
    let files = files();
    let called: String = files
        .iter()
        .filter(|file| file.path.starts_with("tests/tests/misuse/"))
        .map(|file| file.text.as_str())
        .collect();
    let functions = public_functions(&files);
    assert!(functions.len() > 100, "{functions:?}");
    let is_called = |name: &str| {
        called.match_indices(name).any(|(at, _)| {
            let before = called[..at].chars().next_back().unwrap_or(' ');
            let after = called[at + name.len()..].chars().next().unwrap_or(' ');
            !before.is_alphanumeric() && before != '_' && matches!(after, '(' | ':')
        })
    };
    let left_out: Vec<&String> =
        functions.iter().filter(|name| !is_called(name) && !LEFT_OUT.iter().any(|(one, _)| one == name)).collect();
    assert!(left_out.is_empty(), "called nowhere in tests/tests/misuse: {left_out:?}");
    for (name, _) in LEFT_OUT {
        assert!(functions.contains(*name), "{name} is no public function any more");
    }
}
