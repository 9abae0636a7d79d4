//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::measure::{self, SUBJECTS, WORKLOADS};
use crate::module;
use crate::report::{Measured, too_dear};

/// Times what drivers do that are loaded from a module, beside the same ones linked in.
///
/// The exit code is 1 if a loaded driver takes more than 1.3 times the CPU time of a linked one, or if not every operation was
/// seen to happen.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// How many rounds; the medians are told.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print a line of JSON for each figure, instead of text.
    #[arg(long)]
    json: bool,
    /// Have valgrind count instructions instead of timing.
    #[arg(long)]
    instructions: bool,
    /// A hundredth of the operations: to see that everything works, not for its figures; times are not judged, instructions
    /// are.
    #[arg(long)]
    quick: bool,
    /// The module to load; built by Cargo if not given.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    #[command(subcommand)]
    single: Option<Single>,
}

#[derive(Debug, Subcommand)]
enum Single {
    /// Measure once in this process, and print a line of JSON.
    Run {
        /// `post` or `inline`.
        work: String,
        /// How many operations.
        operations: u64,
        /// The module with the drivers; without it those that are linked in are measured.
        module: Option<PathBuf>,
    },
}

/// Does what the arguments say; an error is a sentence for whoever called.
pub(crate) fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if let Some(Single::Run { work, operations, module }) = &arguments.single {
        let sample = measure::here(module.as_deref(), work, *operations)?;
        println!("{}", serde_json::to_string(&sample).map_err(|error| error.to_string())?);
        return Ok(());
    }
    let module = match &arguments.module {
        // Modules are found from the root, not from where somebody stands.
        Some(path) => path.canonicalize().map_err(|error| format!("cannot find {}: {error}", path.display()))?,
        None => module::build()?,
    };
    let defects = if arguments.instructions { count(&arguments, &module)? } else { time(&arguments, &module)? };
    if defects.is_empty() { Ok(()) } else { Err(defects.join("\n")) }
}

/// The modules of the subjects.
fn sources(module: &Path) -> [Option<&Path>; 2] {
    [None, Some(module)]
}

fn time(arguments: &Arguments, module: &Path) -> Result<Vec<String>, String> {
    let mut all = WORKLOADS.map(|workload| Measured { workload, samples: Default::default() });
    for round in 1..=arguments.rounds {
        for measured in &mut all {
            let workload = measured.workload;
            let operations = if arguments.quick { workload.operations / 100 } else { workload.operations };
            for (at, source) in sources(module).into_iter().enumerate() {
                eprint!("\r\x1b[Kround {round} of {}: {} by {}", arguments.rounds, workload.name, SUBJECTS[at]);
                let sample = measure::apart(source, workload.work, operations);
                measured.samples[at]
                    .push(sample.map_err(|error| format!("{}, {}: {error}", workload.name, SUBJECTS[at]))?);
            }
        }
    }
    eprint!("\r\x1b[K");
    for measured in &all {
        print!("{}", if arguments.json { measured.json() } else { measured.text() });
    }
    let defects = all.iter().filter_map(Measured::defect);
    // Times of a hundredth are those of whatever else the machine does.
    Ok(defects.filter(|defect| !arguments.quick || defect.contains("seen")).collect())
}

fn count(arguments: &Arguments, module: &Path) -> Result<Vec<String>, String> {
    let more = if arguments.quick { 1_000 } else { 20_000 };
    let mut defects = Vec::new();
    println!("{:<12}{:>10}{:>10}{:>8}   instructions an operation", "", SUBJECTS[0], SUBJECTS[1], "ratio");
    for workload in WORKLOADS {
        let counts = sources(module).map(|source| measure::instructions(source, workload.work, more));
        let [linked, loaded] = counts;
        let (linked, loaded) = (linked?, loaded?);
        println!("{:<12}{linked:>10.1}{loaded:>10.1}{:>8.2}   {}", workload.name, loaded / linked, workload.what);
        defects.extend(too_dear(workload.name, loaded / linked));
    }
    Ok(defects)
}
