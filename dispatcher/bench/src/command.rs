//! The command line.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::graph;
use crate::rounds;
use crate::workload::{Workload, be_quick};
use crate::workloads;

/// Times what Fuchsine does, beside its peers.
///
/// Each pair of a workload and a subject is measured in a process of its own, all pairs in turn, round after round. The
/// table goes to standard output, progress to standard error. Compare ratios, and CPU times before wall times, unless
/// the machine does nothing else.
///
/// A pair that hangs is ended after two minutes. If a pair fails, or one of its operations was not seen to happen as it
/// should, the others are measured all the same, and the exit code is 1.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Only these workloads, separated by commas: a name (W4-1k), or what names begin with (W4, Arena).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// How many rounds; from six on each ratio is given with its range.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Write a line of JSON for each figure to this file, or to standard output for `-` (the table then goes to standard
    /// error).
    ///
    /// Fields: workload, metric (where a workload has several figures), subject, unit; wall and cpu, each of an operation
    /// in that unit, as {min, median, max}; value in their place where it is no time (B, x, callbacks); ratio of the
    /// first subject's figure to this one's, median and within what range it is for sure; goal, what is aimed at, and whether it
    /// was reached; others (processors that other programs used meanwhile); rounds, ops, ok;
    /// histogram, as pairs of an upper bound and a count.
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the table as Markdown to this file.
    #[arg(long, value_name = "FILE")]
    markdown: Option<String>,
    /// Draw graphs as SVG into this folder: the latency when idle and under load, turns, and what becomes of the cost with
    /// more producers, dispatchers, timers, endpoints. Those are drawn whose workloads (W11, W12, S1) were measured.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// A hundredth of the operations: to see that everything works, not for its figures.
    #[arg(long, global = true)]
    quick: bool,
    #[command(subcommand)]
    single: Option<Single>,
}

#[derive(Debug, Subcommand)]
enum Single {
    /// Measure one pair in this process and print a line of JSON for each of its figures.
    Run {
        /// What is timed; see `list`.
        workload: String,
        /// Who does it.
        subject: String,
    },
    /// List the workloads and who does them.
    List,
}

/// Does what the arguments say; an error is a sentence for whoever called.
pub(crate) fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    be_quick(arguments.quick);
    match &arguments.single {
        Some(Single::Run { workload, subject }) => run_one(workload, subject),
        Some(Single::List) => {
            list();
            Ok(())
        }
        None => run_all(&arguments),
    }
}

fn list() {
    for workload in workloads() {
        let subjects: Vec<_> = workload.runs.iter().map(|run| run.subject).collect();
        println!("{:<14} {}", workload.name, workload.description);
        println!("{:<14} by {}", "", subjects.join(", "));
    }
}

fn run_one(workload: &str, subject: &str) -> Result<(), String> {
    let all = workloads();
    let found = all.iter().find(|known| known.name == workload);
    let found = found.ok_or_else(|| format!("no workload is called {workload}; `list` shows them"))?;
    let run = found.runs.iter().find(|run| run.subject == subject).ok_or_else(|| {
        let subjects: Vec<_> = found.runs.iter().map(|run| run.subject).collect();
        format!("{workload} is not measured for {subject}, but for {}", subjects.join(", "))
    })?;
    for sample in (run.measure)() {
        println!("{}", serde_json::to_string(&sample).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// Those that are asked for.
fn chosen(only: &[String]) -> Result<Vec<Workload>, String> {
    let all = workloads();
    if let Some(unknown) = only.iter().find(|pattern| !all.iter().any(|workload| workload.is(pattern))) {
        return Err(format!("no workload is called {unknown}, and no name begins with it; `list` shows them"));
    }
    let is_chosen = |workload: &Workload| only.is_empty() || only.iter().any(|pattern| workload.is(pattern));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Opened before anything is measured: a wrong path is not to cost an hour.
fn create(path: Option<&str>) -> Result<Option<(File, &str)>, String> {
    let Some(path) = path else { return Ok(None) };
    let file = File::create(path).map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok(Some((file, path)))
}

fn write(file: Option<(File, &str)>, text: &str) -> Result<(), String> {
    let Some((mut file, path)) = file else { return Ok(()) };
    file.write_all(text.as_bytes()).map_err(|error| format!("cannot write {path}: {error}"))
}

fn run_all(arguments: &Arguments) -> Result<(), String> {
    let chosen = chosen(&arguments.only)?;
    let to_stdout = arguments.json.as_deref() == Some("-");
    let json = create(arguments.json.as_deref().filter(|_| !to_stdout))?;
    let markdown = create(arguments.markdown.as_deref())?;
    if let Some(folder) = &arguments.svg {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    }
    let report = rounds::measure(&chosen, arguments.rounds, arguments.quick)?;
    if to_stdout {
        eprintln!("{report}");
        print!("{}", report.json_lines());
    } else {
        println!("{report}");
    }
    write(json, &report.json_lines())?;
    write(markdown, &report.markdown())?;
    if let Some(folder) = &arguments.svg {
        graph::draw(&report.lines(), folder)?;
    }
    let defects = report.defects();
    if defects.is_empty() { Ok(()) } else { Err(format!("this does not count:\n  {}", defects.join("\n  "))) }
}
