//! Round after round: each pair in a process of its own.

use std::io::{self, IsTerminal as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::{self, Others};
use crate::report::Report;
use crate::sample::Sample;
use crate::workload::Workload;

/// After so long a measurement hangs.
const HANG: Duration = Duration::from_secs(120);
/// So often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Measures all pairs of these workloads, so many times.
pub(crate) fn measure(workloads: &[Workload], rounds: u16, quick: bool) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut report = Report::default();
    let (load, meanwhile) = (machine::load(), Others::watch());
    let progress = Progress::of(workloads, rounds);
    for round in 1..=rounds {
        let mut nth = 0;
        for workload in workloads {
            for run in &workload.runs {
                nth += 1;
                if report.has_failed(workload, run.subject) {
                    continue;
                }
                progress.tell(round, nth, &workload.name, run.subject);
                let others = Others::watch();
                let mut command = Command::new(&program);
                command.args(["run", &workload.name, run.subject]).args(quick.then_some("--quick"));
                let measured = measure_pair(command);
                report.add(workload, run.subject, measured, others.processors());
            }
        }
    }
    progress.end();
    let others = meanwhile.processors().map_or_else(|| "unknown".to_owned(), |others| format!("{others:.1}"));
    report.machine = format!(
        "{}; load {load} before, {} after; processors that others used meanwhile: {others}; rounds: {rounds}, in {} s",
        machine::name(),
        machine::load(),
        progress.start.elapsed().as_secs()
    );
    Ok(report)
}

/// What is said on standard error meanwhile.
struct Progress {
    start: Instant,
    pairs: usize,
    rounds: u16,
    /// A line that is written anew for each pair; in a log one line a round.
    is_terminal: bool,
}

impl Progress {
    fn of(workloads: &[Workload], rounds: u16) -> Self {
        let pairs = workloads.iter().map(|workload| workload.runs.len()).sum();
        Progress { start: Instant::now(), pairs, rounds, is_terminal: io::stderr().is_terminal() }
    }

    fn tell(&self, round: u16, nth: usize, workload: &str, subject: &str) {
        let Progress { start, pairs, rounds, is_terminal } = *self;
        let so_far = format!("round {round} of {rounds}, after {} s", start.elapsed().as_secs());
        if is_terminal {
            eprint!("\r\x1b[K{so_far}: {nth} of {pairs}, {workload} by {subject}");
        } else if nth == 1 {
            eprintln!("{so_far}: {pairs} pairs");
        }
    }

    fn end(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn measure_pair(mut command: Command) -> Result<Vec<Sample>, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| format!("cannot start a measurement: {error}"))?;
    if !ends_in_time(&mut child)? {
        return Err(format!("it hangs: ended after {} s", HANG.as_secs()));
    }
    let output = child.wait_with_output().map_err(|error| format!("cannot read what came out: {error}"))?;
    if !output.status.success() {
        return Err(format!("it failed: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let samples = text.lines().map(serde_json::from_str).collect::<Result<Vec<Sample>, _>>();
    samples.map_err(|error| format!("no figures came back: {error}"))
}

/// Waits for the end of the process, and kills it when it takes too long. What it prints fits into the pipe.
fn ends_in_time(child: &mut Child) -> Result<bool, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(true),
            Ok(None) if start.elapsed() < HANG => thread::sleep(LOOK),
            Ok(None) => {
                let killed = child.kill().and_then(|()| child.wait());
                killed.map_err(|error| format!("it hangs, and cannot be ended: {error}"))?;
                return Ok(false);
            }
            Err(error) => return Err(format!("cannot wait for a measurement: {error}")),
        }
    }
}
