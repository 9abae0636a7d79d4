//! libuv: a program in C, as Rust has no wrapper of it that is kept up. The build script compiles it.

use std::process::{Command, Stdio};

use crate::report::Sample;
use crate::workload::Workload;

pub(crate) fn measure(workload: Workload) -> Sample {
    let output = Command::new(env!("FUCHSINE_LIBUV_PEER"))
        .arg(workload.name())
        .stderr(Stdio::inherit())
        .output()
        .expect("the build script has compiled it");
    assert!(output.status.success(), "the peer failed: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("it prints a sample")
}
