//! One measurement: a host in this process, or this program in a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fuchsine_host::{DriverEntry, Host, Manifest, Module, Registry, Source};
use serde::{Deserialize, Serialize};

static ECHO: DriverEntry = fuchsine_boundary_drivers::ECHO;
static LOAD: DriverEntry = fuchsine_boundary_drivers::LOAD;

/// After so long a measurement hangs.
const HANG: Duration = Duration::from_secs(120);

/// What is timed, as the driver names it, and how often it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) work: &'static str,
    pub(crate) what: &'static str,
    pub(crate) operations: u64,
}

pub(crate) const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "B1-post",
        work: "post",
        what: "a callback of a driver posts the next one to its own dispatcher",
        operations: 1_000_000,
    },
    Workload {
        name: "B1-inline",
        work: "inline",
        what: "64 B to another driver and back, by inline calls",
        operations: 500_000,
    },
];

/// Who does it; the first is what the second is compared with.
pub(crate) const SUBJECTS: [&str; 2] = ["linked", "loaded"];

/// What so many operations took, in nanoseconds, and how many were seen to happen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) wall: u64,
    pub(crate) cpu: u64,
    pub(crate) ops: u64,
    pub(crate) seen: u64,
}

impl Sample {
    /// Of what the driver publishes.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(',').map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { wall: next()?, cpu: next()?, ops: next()?, seen: next()? })
    }
}

/// Runs a host here. With `module` its drivers come from there, otherwise they are those that are linked in.
pub(crate) fn here(module: Option<&Path>, work: &str, operations: u64) -> Result<Sample, String> {
    let loaded = match module {
        Some(path) => Some(Module::load(path).map_err(|error| format!("{error}: {}", error.help()))?),
        None => None,
    };
    let entries = loaded.as_ref().map_or_else(|| vec![&ECHO, &LOAD], |module| module.drivers().to_vec());
    let registry = Registry::new(entries).map_err(|error| error.to_string())?;
    let text = format!(
        "[host]\nthreads = 1\n[drivers.echo]\n[drivers.load]\nconfig = {{ work = \"{work}\", operations = {operations} }}\n"
    );
    let manifest = Manifest::parse(Source::named("the bench", text)).map_err(|errors| errors.to_string())?;
    let plan = manifest.plan(&registry).map_err(|errors| errors.to_string())?;
    let host = Host::builder(plan).build().map_err(|error| error.to_string())?;
    host.start();
    let told = host.wait_started(HANG).map_err(|error| error.to_string())?;
    host.stop(HANG).map_err(|error| error.to_string())?;
    let sample = told.iter().find_map(|address| Sample::parse(address));
    sample.ok_or_else(|| format!("the driver published no figures: {told:?}"))
}

fn arguments(module: Option<&Path>, work: &str, operations: u64) -> Vec<std::ffi::OsString> {
    let mut arguments = vec!["run".into(), work.into(), operations.to_string().into()];
    arguments.extend(module.map(|path| path.as_os_str().to_owned()));
    arguments
}

/// Runs this program for one measurement, below `before` if that is not empty, and returns both of its outputs.
fn run(before: &[&str], arguments: &[std::ffi::OsString]) -> Result<(String, String), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = match before {
        [] => Command::new(&program),
        [tool, options @ ..] => {
            let mut command = Command::new(tool);
            command.args(options).arg(&program);
            command
        }
    };
    let output = command.args(arguments).stdin(Stdio::null()).output().map_err(|error| {
        let tool = before.first().copied().unwrap_or("a measurement");
        format!("cannot start {tool}: {error}")
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() { Ok((out, said)) } else { Err(format!("it failed ({}):\n{said}", output.status)) }
}

/// Measures in a process of its own.
pub(crate) fn apart(module: Option<&Path>, work: &str, operations: u64) -> Result<Sample, String> {
    let (out, _) = run(&[], &arguments(module, work, operations))?;
    serde_json::from_str(&out).map_err(|error| format!("no figures came back: {error}"))
}

/// Instructions of an operation, in all threads: the difference between a process that does few and one that does many.
pub(crate) fn instructions(module: Option<&Path>, work: &str, more: u64) -> Result<f64, String> {
    const FEW: u64 = 1_000;
    let valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let count = |operations| {
        let (_, said) = run(&valgrind, &arguments(module, work, operations))?;
        refs(&said).ok_or_else(|| format!("valgrind said nothing of instructions:\n{said}"))
    };
    // The driver does a tenth more than it is asked, before it begins to measure.
    let done = more as f64 * 1.1;
    Ok(count(FEW + more)?.saturating_sub(count(FEW)?) as f64 / done)
}

/// The count in what cachegrind says: `==123== I   refs:      1,234,567`.
fn refs(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("refs:").filter(|(before, _)| before.contains("== I")))?;
    line.1.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_a_driver_and_a_tool_say() {
        assert_eq!(Sample::parse("1,2,3,4"), Some(Sample { wall: 1, cpu: 2, ops: 3, seen: 4 }));
        assert_eq!((Sample::parse("1,2,3"), Sample::parse("unix:/run/disk.sock")), (None, None));
        assert_eq!(refs("==7== Cachegrind\n==7== I   refs:      2,345,678\n"), Some(2_345_678));
    }
}
