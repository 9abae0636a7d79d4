//! Goal: the bench measures what it says, linked and loaded, and every operation of a driver is seen to happen.
//! Method: the program itself, with a hundredth of the operations.

use std::process::Command;

use fuchsine_tests::clients::require_client;
use serde_json::Value;

#[test]
fn each_workload_is_measured_linked_and_loaded_and_every_operation_is_seen() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_fuchsine-boundary")).args(["--quick", "--rounds", "1", "--json"]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let named: Vec<_> = lines.iter().map(|line| (line["workload"].as_str(), line["subject"].as_str())).collect();
    let expected =
        ["B1-post", "B1-inline"].into_iter().flat_map(|name| ["linked", "loaded"].map(|who| (Some(name), Some(who))));
    assert_eq!(named, expected.collect::<Vec<_>>());
    for line in &lines {
        assert!(line["ok"] == true && line["ops"].as_u64().is_some_and(|ops| ops >= 5_000), "{line}");
        assert!(line["cpu"]["median"].as_f64().is_some_and(|cpu| cpu > 0.0), "{line}");
    }
}

/// As the tests are built, without optimization: so it is the path that is compared, not what a compiler makes of it.
#[test]
fn a_loaded_driver_takes_at_most_1_3_times_the_instructions_of_a_linked_one() {
    if require_client("valgrind").is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_fuchsine-boundary")).args(["--quick", "--instructions"]).output();
    let output = output.expect("the program runs");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    assert!(said.contains("B1-post") && said.contains("B1-inline"), "{said}");
}

#[test]
fn a_module_that_is_not_there_is_said() {
    let output = Command::new(env!("CARGO_BIN_EXE_fuchsine-boundary")).args(["--module", "/nowhere/libx.so"]).output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot find /nowhere/libx.so"), "{said}");
}
