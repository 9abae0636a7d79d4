//! Goal: every pair measures, and says so in the three forms; what is wrong with the arguments is said before anything
//! runs.
//! Method: the program itself, with a hundredth of the operations.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fuchsine-bench")).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

#[track_caller]
fn refused(arguments: &[&str], says: &str) {
    let output = bench(arguments);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains(says), "{said}");
    assert!(!said.contains("round 1"), "nothing was measured: {said}");
}

/// The names of the workloads and of who does them, as `list` shows them.
fn listed() -> BTreeSet<(String, String)> {
    let output = bench(&["list"]);
    let lines = text(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    let pairs = lines.chunks(2).flat_map(|two| {
        let name = two[0].split_whitespace().next().expect("a name");
        let subjects = two[1].trim().strip_prefix("by ").expect("who does it").split(", ");
        subjects.map(move |subject| (name.to_owned(), subject.to_owned()))
    });
    pairs.collect()
}

#[test]
fn each_pair_is_measured_and_every_operation_is_seen() {
    let output = bench(&["--quick", "--rounds", "1", "--json", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut measured = BTreeSet::new();
    for line in text(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let name = |field: &str| line[field].as_str().expect("a name").to_owned();
        assert_eq!(line["ok"], true, "{line}");
        let figure = if line["wall"].is_null() { &line["value"] } else { &line["wall"] };
        assert!(figure["median"].as_f64().is_some_and(|median| median >= 0.0), "{line}");
        assert_eq!(name("unit") == "ns" || name("unit") == "us", !line["cpu"].is_null(), "{line}");
        if (&*name("workload"), &*name("subject")) == ("W12-turns", "fuchsine") {
            assert!(line["value"]["max"].as_f64().is_some_and(|longest| longest <= 10.0), "a batch a turn: {line}");
        }
        measured.insert((name("workload"), name("subject")));
    }
    assert_eq!(measured, listed());
}

#[test]
fn one_run_gives_text_markdown_and_lines_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let (json, markdown) = (path("bench.json"), path("bench.md"));
    let output = bench(&["--quick", "--rounds", "6", "--only", "W2,W7", "--json", &json, "--markdown", &markdown]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let json = std::fs::read_to_string(json).expect("written");
    let markdown = std::fs::read_to_string(markdown).expect("written");
    for form in [&table, &json, &markdown] {
        assert!(form.contains("W2") && form.contains("W7") && form.contains("tokio-msg"), "{form}");
        assert!(!form.contains("W3a"), "{form}");
    }
    assert!(table.contains("load") && markdown.contains("load"), "the load of the machine is told");
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let peer = lines.iter().find(|line| line["subject"] == "tokio-msg").expect("tokio was measured");
    assert_eq!(peer["rounds"], 6);
    assert_eq!(peer["ratio"]["of"], "fuchsine");
    assert!(peer["ratio"]["cpu"]["within"].is_array(), "six rounds give a range: {peer}");
}

#[test]
fn graphs_are_drawn_of_what_was_measured_and_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let graphs = folder.path().join("made/for it");
    let output =
        bench(&["--quick", "--rounds", "1", "--only", "W11,S1-producers", "--svg", graphs.to_str().expect("a name")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let names = std::fs::read_dir(&graphs).expect("it was made").map(|entry| entry.expect("an entry").file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().expect("a name")).collect();
    assert_eq!(names, BTreeSet::from(["S1-producers.svg".to_owned(), "W11.svg".to_owned()]));
    for name in names {
        let graph = std::fs::read_to_string(graphs.join(name)).expect("written");
        assert!(graph.contains(">fuchsine</") && graph.contains(">tokio-msg</") && graph.contains("</svg>"), "{graph}");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_runs() {
    refused(&["--only", "W2,W99"], "no workload is called W99, and no name begins with it; `list` shows them");
    refused(&["run", "W99", "fuchsine"], "no workload is called W99");
    refused(&["run", "W9-1", "desync"], "W9-1 is not measured for desync, but for fuchsine");
    refused(&["--rounds", "0"], "invalid value '0'");
    refused(&["--quick", "--only", "W2", "--json", "/nowhere/bench.json"], "cannot write /nowhere/bench.json");
}

#[test]
fn the_script_about_block_requests_says_which_program_is_missing() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/nbd");
    let empty = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str], requires: &str| {
        let mut command = Command::new("/bin/bash");
        command.arg(script).args(arguments).env("PATH", empty.path()).env("FUCHSINE_REQUIRE_CLIENTS", requires);
        let output = command.output().expect("bash runs");
        assert!(!output.status.success(), "there is no client");
        text(&output.stderr)
    };
    let missing =
        ["qemu-img (Debian package qemu-utils)", "fio (Debian package fio)", "nbdkit (Debian package nbdkit)"];
    for (requires, end) in [("0", "nbd: there is no client\n"), ("1", "nbd: FUCHSINE_REQUIRE_CLIENTS is set\n")] {
        let said = run(&[], requires);
        let told = |program: &&str| said.contains(&format!("NOT MEASURED, as it is not installed: {program}\n"));
        assert!(missing.iter().all(told) && said.ends_with(end), "{said}");
    }
    for (arguments, says) in [
        (["--rounds", "none"], "--rounds needs a number, and none is none"),
        (["--only", "disks"], "--only needs memory or file, and not disks"),
        (["--json", "/nowhere/n1.json"], "cannot write /nowhere/n1.json"),
        (["--what", "x"], "what is --what?"),
    ] {
        let said = run(&arguments, "0");
        assert!(said.contains(says) && !said.contains("round 1"), "{said}");
    }
}
