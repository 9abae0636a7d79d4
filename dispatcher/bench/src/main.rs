//! Benchmarks of Fuchsine, with its peers beside it in the same run.
//!
//! Each pair of a workload and a subject is measured in a process of its own, all pairs in turn, round after round, so
//! that a slow minute of the machine hits everybody alike. Quote ratios and medians; absolute numbers of a shared
//! machine say little. What is timed counts only if every operation was seen to happen.

mod report;
mod subjects;
mod workload;

use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};

use report::{Report, Sample};
use workload::{Subject, Workload};

/// Times what Fuchsine does, beside its peers.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None)]
struct Arguments {
    /// Only these workloads, by name and separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// How many rounds; the table shows the median of them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Also write one JSON line for each result to this file, or to standard output for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    #[command(subcommand)]
    single: Option<Single>,
}

#[derive(Debug, Subcommand)]
enum Single {
    /// Measure one pair in this process and print its sample as JSON.
    Run {
        /// What is timed.
        workload: Workload,
        /// Who does it.
        subject: Subject,
    },
    /// List the workloads and who does them.
    List,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.single {
        Some(Single::Run { workload, subject }) => run_one(*workload, *subject),
        Some(Single::List) => {
            list();
            Ok(())
        }
        None => run_all(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fuchsine-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for workload in Workload::ALL {
        let subjects: Vec<_> = workload.subjects().iter().map(|subject| subject.name()).collect();
        println!("{:<4} {:<22} {}", workload.name(), subjects.join(", "), workload.description());
    }
}

fn run_one(workload: Workload, subject: Subject) -> Result<(), String> {
    if !workload.subjects().contains(&subject) {
        return Err(format!("{} is not measured for {}; see `list`", workload.name(), subject.name()));
    }
    let sample = subjects::measure(workload, subject);
    println!("{}", serde_json::to_string(&sample).map_err(|error| error.to_string())?);
    Ok(())
}

fn run_all(arguments: &Arguments) -> Result<(), String> {
    let workloads = if arguments.only.is_empty() { Workload::ALL } else { &arguments.only };
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut report = Report::default();
    for round in 1..=arguments.rounds.max(1) {
        for &workload in workloads {
            for &subject in workload.subjects() {
                eprint!("\rround {round} of {}: {:<4} {:<12}", arguments.rounds, workload.name(), subject.name());
                let output = Command::new(&program)
                    .args(["run", workload.name(), subject.name()])
                    .stderr(Stdio::inherit())
                    .output()
                    .map_err(|error| format!("cannot start a measurement: {error}"))?;
                if !output.status.success() {
                    return Err(format!("{} by {} failed: {}", workload.name(), subject.name(), output.status));
                }
                let sample: Sample =
                    serde_json::from_slice(&output.stdout).map_err(|error| format!("no sample came back: {error}"))?;
                report.add(workload, subject, sample);
            }
        }
    }
    eprintln!("\r{:<60}", "");
    println!("{report}");
    match arguments.json.as_deref() {
        Some("-") => print!("{}", report.json_lines()),
        Some(path) => {
            std::fs::write(path, report.json_lines()).map_err(|error| format!("cannot write {path}: {error}"))?;
        }
        None => {}
    }
    Ok(())
}
