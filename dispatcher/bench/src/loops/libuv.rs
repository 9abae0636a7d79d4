//! libuv: a program in C, as Rust has no wrapper of it that is kept up. The build script compiles it.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use crate::sample::{Sample, Took};
use crate::workload::part;

/// What the program prints: one measurement.
#[derive(Deserialize)]
struct Printed {
    ops: u64,
    wall_ns: u64,
    cpu_ns: u64,
    ok: bool,
}

pub(crate) fn measure(workload: &str) -> Vec<Sample> {
    let output = Command::new(env!("FUCHSINE_LIBUV_PEER"))
        .args([workload, &part().to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("the build script has compiled it");
    assert!(output.status.success(), "the peer failed: {}", output.status);
    let printed: Printed = serde_json::from_slice(&output.stdout).expect("it prints a sample");
    let took = Took { wall: Duration::from_nanos(printed.wall_ns), cpu: Duration::from_nanos(printed.cpu_ns) };
    vec![took.each(printed.ops, printed.ok)]
}
