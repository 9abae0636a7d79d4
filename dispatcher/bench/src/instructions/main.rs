//! Counts the instructions of the hot paths and compares them with what is committed.
//!
//! Times of a shared machine say little; instructions come out the same each time. A path runs under valgrind twice in a
//! process of its own, with few operations and with many: the difference is what the operations took, on whatever
//! threads, and the start and the end of the process are not in it.

mod baseline;
mod growth;
mod paths;
#[path = "../random.rs"]
mod random;

use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};

use baseline::Baseline;
use growth::{GROWING, Growing};
use paths::{PATHS, Path};

/// So many operations, and so many more.
const FEW: u64 = 1_000;
const MORE: u64 = 20_000;

/// Counts the instructions of the hot paths, by valgrind, and fails when one has grown by more than 5 %.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None)]
struct Arguments {
    /// Only these paths, by name and separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Note the counts in the file instead of comparing them.
    #[arg(long)]
    write: bool,
    /// The file with the counts.
    #[arg(long, value_name = "FILE", default_value_os_t = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml"))]
    baseline: PathBuf,
    #[command(subcommand)]
    single: Option<Single>,
}

#[derive(Debug, Subcommand)]
enum Single {
    /// Do so many operations of one path in this process; what valgrind runs.
    Run {
        /// The name of the path.
        path: String,
        /// How many operations.
        operations: u64,
        /// With so much of what there may be more, for a path of `growth`.
        size: Option<u64>,
    },
    /// Count what becomes of the workloads S1 with more of everything: instructions and misses of a simulated cache.
    Growth,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.single {
        Some(Single::Run { path, operations, size: None }) => named(path).map(|path| {
            (path.run)(*operations);
            true
        }),
        Some(Single::Run { path, operations, size: Some(size) }) => growing(path).and_then(|path| {
            let least = path.sizes[0];
            if *size < least {
                return Err(format!("{} needs a size of {least} or more, and not {size}", path.name));
            }
            (path.run)(*size, *operations);
            Ok(true)
        }),
        Some(Single::Growth) => count_growth(),
        None => count_all(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("fuchsine-instructions: {message}");
            ExitCode::from(2)
        }
    }
}

fn named(name: &str) -> Result<&'static Path, String> {
    PATHS.iter().find(|path| path.name == name).ok_or_else(|| {
        let names: Vec<_> = PATHS.iter().map(|path| path.name).collect();
        format!("there is no path {name:?}; there are {}", names.join(", "))
    })
}

/// True: nothing has grown, or the counts were noted.
fn count_all(arguments: &Arguments) -> Result<bool, String> {
    let file = &arguments.baseline;
    let mut baseline = match std::fs::read_to_string(file) {
        Ok(text) => Baseline::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?,
        Err(error) if arguments.write && error.kind() == std::io::ErrorKind::NotFound => Baseline::default(),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    let chosen: Vec<&Path> = match &*arguments.only {
        [] => PATHS.iter().collect(),
        names => names.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    };
    println!("instructions an operation");
    println!("{:<14}{:>10}{:>10}{:>9}", "", "noted", "now", "change");
    let mut failed = Vec::new();
    for path in chosen {
        let now = count(path)?;
        let verdict = baseline.judge(path.name, now);
        let (noted, change) = match baseline.entry(path.name) {
            Some(entry) => {
                (format!("{:.1}", entry.instructions), format!("{:+.1} %", baseline::growth(entry.instructions, now)))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!(
            "{:<14}{noted:>10}{now:>10.1}{change:>9}  {:<72} {}",
            path.name,
            path.what,
            if arguments.write { "" } else { verdict.as_str() }
        );
        if arguments.write {
            baseline.note(path.name, now);
        } else if verdict.is_failure() {
            failed.push(path.name);
        }
    }
    if arguments.write {
        baseline.keep_only(|name| PATHS.iter().any(|path| path.name == name));
        std::fs::write(file, baseline.to_text())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("written: {}", file.display());
    }
    if !failed.is_empty() {
        println!("grown or without a reason: {}", failed.join(", "));
        println!(
            "make them cheaper, or note what is had for it: `.ci/instructions --write`, then the note in the file"
        );
    }
    Ok(failed.is_empty())
}

fn growing(name: &str) -> Result<&'static Growing, String> {
    GROWING.iter().find(|path| path.name == name).ok_or_else(|| {
        let names: Vec<_> = GROWING.iter().map(|path| path.name).collect();
        format!("there is no path {name:?} of which there may be more; there are {}", names.join(", "))
    })
}

/// A table of all of them with each size.
fn count_growth() -> Result<bool, String> {
    println!("an operation: instructions, and misses of a nearest cache of 32 KiB and of a last one of 32 MiB");
    println!("{:<16}{:>10}{:>14}{:>10}{:>10}", "", "of them", "instructions", "nearest", "last");
    for path in GROWING {
        println!("{}: {}", path.name, path.what);
        for size in path.sizes {
            let count = |operations: u64| {
                let arguments = [path.name.to_owned(), operations.to_string(), size.to_string()];
                let said = valgrind(
                    &["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"],
                    &arguments,
                )?;
                let number =
                    |label| counted(&said, label).ok_or_else(|| format!("valgrind said nothing of {label}:\n{said}"));
                Ok::<_, String>([number("I refs")?, number("D1 misses")?, number("LLd misses")?])
            };
            let (few, many) = (count(FEW)?, count(FEW + MORE)?);
            let each = |nth: usize| (many[nth] as f64 - few[nth] as f64) / MORE as f64;
            println!("{:<16}{size:>10}{:>14.1}{:>10.2}{:>10.2}", "", each(0), each(1), each(2));
        }
    }
    Ok(true)
}

/// Instructions an operation of a path.
fn count(path: &Path) -> Result<f64, String> {
    let few = instructions(path, FEW)?;
    let many = instructions(path, FEW + MORE)?;
    Ok(many.saturating_sub(few) as f64 / MORE as f64)
}

/// Instructions of a whole process, in all its threads.
fn instructions(path: &Path, operations: u64) -> Result<u64, String> {
    let said = valgrind(&["--cache-sim=no"], &[path.name.to_owned(), operations.to_string()])?;
    counted(&said, "I refs").ok_or_else(|| format!("valgrind said nothing of instructions:\n{said}"))
}

/// What cachegrind says of this program with these arguments of `run`.
fn valgrind(options: &[&str], arguments: &[String]) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cachegrind-out-file=/dev/null"])
        .args(options)
        .arg(program)
        .arg("run")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start valgrind ({error}); on Debian: apt-get install valgrind"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} failed under valgrind ({}):\n{said}", arguments[0], output.status));
    }
    Ok(said.into_owned())
}

/// The count in what cachegrind says: `==123== I   refs:      1,234,567`; for misses reads and writes follow in parentheses.
fn counted(said: &str, label: &str) -> Option<u64> {
    let is_labeled =
        |before: &str| before.rsplit("== ").next().is_some_and(|of| of.split_whitespace().eq(label.split(' ')));
    let (_, after) = said.lines().filter_map(|line| line.split_once(':')).find(|(before, _)| is_labeled(before))?;
    after.split_whitespace().next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_what_cachegrind_says() {
        let said = "==7== Cachegrind: one\n==7== \n==7== I   refs:      2,345,678\n==7== D1  misses:     1,234  (1,000 rd   + 234 wr)\n";
        assert_eq!(counted(said, "I refs"), Some(2_345_678));
        assert_eq!(counted("==7== I refs:        12\n", "I refs"), Some(12));
        assert_eq!(counted(said, "D1 misses"), Some(1_234));
        assert_eq!(counted(said, "LLd misses"), None);
    }

    #[test]
    fn every_path_has_a_name_of_its_own() {
        for (at, path) in PATHS.iter().enumerate() {
            assert!(PATHS[at + 1..].iter().all(|other| other.name != path.name), "{}", path.name);
        }
    }
}
