//! Runs the tests that name rules of Fuchsia's driver runtime, and writes the page that lists both.
//!
//! ```text
//! conformance --write    runs the marked tests; if all pass, writes the page
//! conformance --check    runs the marked tests; fails if the page would change
//! conformance --models   writes the page of the model checks
//! ```
//!
//! What counts as run is what the test programs themselves say: each is built by Cargo, asked for its list of tests, and
//! started with the names of the marked ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use fuchsine_tests::rules::marks::{Mark, marks};
use fuchsine_tests::rules::{models, page, table};
use fuchsine_tests::source::{files, root};

type Failure = String;

fn main() -> ExitCode {
    let mode = std::env::args().nth(1);
    let is_writing = match mode.as_deref() {
        Some("--write") => true,
        Some("--check") => false,
        Some("--models") => {
            return match write_models() {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => {
                    eprintln!("{failure}");
                    ExitCode::FAILURE
                }
            };
        }
        _ => {
            eprintln!("usage: conformance --write | --check | --models");
            return ExitCode::from(2);
        }
    };
    match run(is_writing) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn write_models() -> Result<(), Failure> {
    let files = files();
    let text = models::text(&models::model_files(&files), &models::explored(&files)?);
    let path = root().join(models::PATH);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn run(is_writing: bool) -> Result<String, Failure> {
    let files = files();
    let rows = table::rows(&files)?;
    let (marks, wrong) = marks(&files);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let count = run_tests(&marks)? + run_documentation(&marks)?;
    let text = page::text(&rows, &marks);
    let path = root().join(page::PATH);
    if is_writing {
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    } else if fs::read_to_string(&path).unwrap_or_default() != text {
        return Err(format!("{} is not what the tables and tests say: run with --write", page::PATH));
    }
    let mistakes = page::mistakes(&rows, &marks);
    Ok(format!("{count} tests ran and passed; {} rows; {} mistakes left", rows.len(), mistakes.len()))
}

/// The programs that hold tests: by the source file of their root.
fn programs() -> Result<BTreeMap<String, PathBuf>, Failure> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        // Of the whole workspace: for some of its packages all would be built anew, with fewer features.
        .args(["test", "--no-run", "--message-format=json", "--workspace"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let mut programs = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let is_test = message["profile"]["test"].as_bool() == Some(true);
        let (Some(program), Some(source)) = (message["executable"].as_str(), message["target"]["src_path"].as_str())
        else {
            continue;
        };
        let source = PathBuf::from(source);
        if let (true, Ok(source)) = (is_test, source.strip_prefix(root())) {
            programs.insert(source.to_string_lossy().into_owned(), PathBuf::from(program));
        }
    }
    Ok(programs)
}

fn run_tests(marks: &[Mark]) -> Result<usize, Failure> {
    let programs = programs()?;
    let mut wanted: BTreeMap<&str, Vec<&Mark>> = BTreeMap::new();
    for mark in marks.iter().filter(|mark| mark.test.is_some()) {
        let source = if mark.path.starts_with("dispatcher/") { "dispatcher/src/lib.rs" } else { mark.path.as_str() };
        wanted.entry(source).or_default().push(mark);
    }
    let mut count = 0;
    for (source, marks) in wanted {
        let program = programs.get(source).ok_or_else(|| format!("{source} was not built as a test"))?;
        count += run_program(source, program, &marks)?;
    }
    Ok(count)
}

fn run_program(source: &str, program: &PathBuf, marks: &[&Mark]) -> Result<usize, Failure> {
    let folder = root().join(source.split('/').next().unwrap_or_default());
    let call = |arguments: &[String]| -> Result<String, Failure> {
        let output = Command::new(program).current_dir(&folder).args(arguments).output();
        let output = output.map_err(|error| format!("{source}: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let list = call(&["--list".to_owned()])?;
    let listed: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let names: BTreeSet<String> = marks.iter().map(|mark| full_name(mark, &listed)).collect::<Result<_, _>>()?;
    let mut arguments: Vec<String> = names.iter().cloned().collect();
    arguments.push("--exact".to_owned());
    let said = call(&arguments)?;
    for name in &names {
        if !said.lines().any(|line| line.strip_prefix("test ").is_some_and(|rest| is_passed(rest, name))) {
            return Err(format!("{said}\n{source}: {name} did not pass"));
        }
    }
    println!("{source}: {} passed", names.len());
    Ok(names.len())
}

/// `NAME ... ok`; what a test printed by itself may stand between.
fn is_passed(rest: &str, name: &str) -> bool {
    rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ... ") && rest.ends_with("ok"))
}

/// The name by which its program knows a test: with the path of its module.
fn full_name(mark: &Mark, listed: &[&str]) -> Result<String, Failure> {
    let test = mark.test.as_deref().unwrap_or_default();
    let inside = mark.path.strip_prefix("dispatcher/src/").unwrap_or_default();
    let module = inside.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("_tests").replace('/', "::");
    let is_it = |name: &&&str| {
        name.strip_suffix(test)
            .is_some_and(|rest| (rest.is_empty() || rest.ends_with("::")) && rest.starts_with(&*module))
    };
    let found: Vec<&&str> = listed.iter().filter(is_it).collect();
    match found.as_slice() {
        [name] => Ok((**name).to_owned()),
        [] => Err(format!("{}: {test} is not among the tests", mark.path)),
        _ => Err(format!("{}: {test} is not one test but {found:?}", mark.path)),
    }
}

/// Runs the documentation tests of the dispatcher package, if one of them is marked.
fn run_documentation(marks: &[Mark]) -> Result<usize, Failure> {
    let blocks: Vec<&Mark> = marks.iter().filter(|mark| mark.test.is_none()).collect();
    if blocks.is_empty() {
        return Ok(0);
    }
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["test", "--doc", "-p", "fuchsine-dispatcher", "--features", "testing"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    for mark in &blocks {
        let (path, line) = (mark.path.strip_prefix("dispatcher/").unwrap_or(&mark.path), mark.line - 1);
        let is_it = |one: &str| one.contains(&format!("{path} - ")) && one.contains(&format!("(line {line})"));
        if !said.lines().any(|one| is_it(one) && one.ends_with("ok")) {
            return Err(format!("{}:{}: what must not compile did not pass", mark.path, mark.line));
        }
    }
    Ok(blocks.len())
}
