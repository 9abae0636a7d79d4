//! Shows that the hooks of the testing kit cost nothing in production; see `fuchsine_tests::no_cost`.
//!
//! ```text
//! no_cost              compares the machine code of three builds
//! no_cost --measure    counts instructions of a round of the program in each of them, and with the feature `testing`
//!                      and nobody attached, and takes the time of many rounds (needs valgrind, and Linux). It says
//!                      whether what the feature costs is within noise: less than what runs of one build differ by
//! ```

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use fuchsine_tests::no_cost::build::{Hooks, build};
use fuchsine_tests::no_cost::listing::Listing;

/// The paths that are asked for by name, each with parts of the symbol of the function that holds it. The comparison is
/// of the whole program; these make sure that it was one of the right thing.
const PATHS: [(&str, &[&str]); 3] = [
    ("post", &["7program4postE"]),
    ("inline entry", &["DispatcherInner", "8completeE"]),
    ("turn", &["DispatcherInner", "8run_turnE"]),
];

/// As few instructions as none of the paths has.
const LEAST: usize = 50;

fn main() -> ExitCode {
    let mode = std::env::args().nth(1);
    let done = match mode.as_deref() {
        None => compare(),
        Some("--measure") => measure(),
        Some(_) => {
            eprintln!("usage: no_cost [--measure]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        println!("SKIPPED: the listing is understood for x86-64 only");
        return Ok(());
    }
    let [plain, without, counting] = thread::scope(|scope| {
        [Hooks::Plain, Hooks::Deleted, Hooks::Counting]
            .map(|hooks| scope.spawn(move || build(hooks)))
            .map(|building| building.join().map_err(|_| "a build panicked".to_owned()).flatten())
    });
    let ((plain, _), (without, deleted), (counting, _)) = (plain?, without?, counting?);
    let (plain, without, counting) = (Listing::of(&plain)?, Listing::of(&without)?, Listing::of(&counting)?);
    let sizes = PATHS.map(|(path, parts)| look_at(path, parts, &plain, &counting));
    for size in sizes {
        println!("{}", size?);
    }
    if deleted == 0 {
        return Err("no hook was found in the sources: the comparison shows nothing".into());
    }
    let differences = plain.differences(&without);
    let is_path = |name: &&String| PATHS.iter().any(|(_, parts)| parts.iter().all(|part| name.contains(part)));
    if let Some(path) = differences.other_moves.iter().find(is_path) {
        return Err(format!("hooks cost something: {path} has other moves than with the calls of hooks deleted"));
    }
    if !differences.other_instructions.is_empty() {
        let all = differences.other_instructions.join("\n");
        return Err(format!("hooks cost something: functions differ (with hooks | with their calls deleted)\n{all}"));
    }
    let (functions, instructions) = (plain.len(), plain.instructions());
    println!(
        "the same with the calls of {deleted} hooks deleted: {functions} functions, {instructions} instructions, of which \
         {} functions have theirs in another order and {} have other moves; hooks that count change {} functions",
        differences.other_order.len(),
        differences.other_moves.len(),
        plain.differences(&counting).other_instructions.len()
    );
    differences.other_order.iter().for_each(|name| println!("in another order: {name}"));
    differences.other_moves.iter().for_each(|name| println!("other moves: {name}"));
    Ok(())
}

/// The function of a path: it is there, and the control is not the same.
fn look_at(path: &str, parts: &[&str], plain: &Listing, counting: &Listing) -> Result<String, String> {
    let found = plain.named(parts);
    let [(_, code)] = found[..] else {
        return Err(format!("{path}: {} functions are named {parts:?}, one was expected", found.len()));
    };
    if code.len() < LEAST {
        return Err(format!("{path}: {} instructions are too few to be it", code.len()));
    }
    if counting.named(parts).first().is_some_and(|(_, control)| *control == code) {
        return Err(format!("{path}: hooks that count do not show: no hook is there, or the comparison sees nothing"));
    }
    Ok(format!("{path}: {} instructions", code.len()))
}

fn measure() -> Result<(), String> {
    const ALL: [Hooks; 4] = [Hooks::Plain, Hooks::Deleted, Hooks::Counting, Hooks::Unattached];
    let programs = ALL.map(|hooks| build(hooks).map(|(program, _)| program));
    let mut counted = Vec::new();
    let mut built = Vec::new();
    for program in programs {
        let program = program?;
        const ROUNDS: u64 = 100_000;
        let spent = instructions(&program, 2 * ROUNDS)?.saturating_sub(instructions(&program, ROUNDS)?);
        counted.push(spent as f64 / ROUNDS as f64);
        built.push(program);
    }
    // In turns, so that what else the machine does hits all of them. The plain one takes part once more, so that it is
    // known by how much two do that are the same.
    let mut times = vec![Vec::new(); built.len() + 1];
    for _ in 0..TIMES {
        for (program, times) in built.iter().chain(&built[..1]).zip(&mut times) {
            times.push(processor_time(program, TIMED_ROUNDS)? * 1e9 / TIMED_ROUNDS as f64);
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    let noise = noise(&times[0], &times[ALL.len()]);
    for (nth, hooks) in ALL.iter().enumerate() {
        let least = times[nth].first().copied().unwrap_or_default();
        println!(
            "{:<12} {:>7.1} instructions a round ({:.3} of plain), {:>6.1} ns of processor time (median of {TIMES}, least \
             {least:.1}; {:.3} of plain)",
            format!("{hooks:?}:"),
            counted[nth],
            counted[nth] / counted[0],
            medians[nth],
            medians[nth] / medians[0],
        );
    }
    let costs = medians[ALL.len() - 1] / medians[0] - 1.0;
    println!(
        "noise is {:.1} %: the quarters of the runs of one build lie so far apart, or the medians of two times {TIMES} runs; \
         with the feature and nobody attached it takes {:+.1} %, which is {}",
        noise * 100.0,
        costs * 100.0,
        if costs <= noise { "within noise" } else { "MORE THAN NOISE" }
    );
    Ok(())
}

/// By how much runs of one build differ, as a part of their median: the first quarter of them from the last, or the
/// medians of two rows of runs, whichever is more. Both are sorted.
fn noise(one: &[f64], other: &[f64]) -> f64 {
    let middle = |times: &[f64]| times[times.len() / 2];
    let quarters = |times: &[f64]| times[times.len() - 1 - times.len() / 4] - times[times.len() / 4];
    let apart = (middle(one) - middle(other)).abs();
    quarters(one).max(quarters(other)).max(apart) / middle(one)
}

/// How often each build is timed, and with how many rounds.
const TIMES: usize = 9;
const TIMED_ROUNDS: u64 = 5_000_000;

/// Sorts them.
fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The seconds of processor time that a run of so many rounds takes, in all its threads.
fn processor_time(program: &Path, rounds: u64) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let mut child = Command::new(program).arg(rounds.to_string()).stdout(Stdio::null()).spawn().map_err(failed)?;
    // What has ended and was not waited for tells how much it took.
    let ticks = loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).map_err(failed)?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        if let [state, ..] = fields[..]
            && state == "Z"
        {
            break [11, 12].map(|nth| fields.get(nth).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(10));
    };
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("{}: {status}", program.display()));
    }
    Ok((ticks[0] + ticks[1]) as f64 / 100.0)
}

/// What callgrind counts in a run of so many rounds.
fn instructions(program: &Path, rounds: u64) -> Result<u64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg(rounds.to_string());
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.ok_or_else(|| format!("valgrind says nothing of what it collected:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_what_the_middle_half_of_the_runs_or_two_medians_differ_by() {
        let steady = [100.0; 9];
        assert_eq!(noise(&steady, &steady), 0.0);
        let far_off = [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 900.0];
        assert_eq!(noise(&steady, &far_off), 0.0, "one that was held up says nothing");
        assert_eq!(noise(&steady, &[103.0; 9]), 0.03);
        let wide = [98.0, 98.0, 98.0, 100.0, 100.0, 100.0, 103.0, 103.0, 104.0];
        assert_eq!(noise(&wide, &steady), 0.05);
    }
}
