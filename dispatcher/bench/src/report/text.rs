//! The table as text.

use std::fmt;

use super::goal::Goal;
use super::line::{number, ratio};
use super::spread::Spread;
use super::{Line, Report};

fn spread(spread: Option<Spread>, unit: &str) -> String {
    let Some(Spread { min, median, max }) = spread else { return String::new() };
    format!("{} {unit} ({} to {})", number(median), number(min), number(max))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(
            f,
            "An operation each: median (smallest to largest) of the rounds. Ratio: the first of a workload to that"
        )?;
        writeln!(
            f,
            "peer, median of the rounds (95 % certain range, from six rounds on). Others: processors others used."
        )?;
        writeln!(f, "Aimed at: at most such ratios, or such a figure; near to 1 the whole range has to be below.")?;
        let lines = self.lines();
        let mut workload = "";
        for line in &lines {
            if line.workload != workload {
                workload = &line.workload;
                writeln!(f, "\n{workload}: {}", line.description)?;
                let heads = ["", "wall", "cpu", "ratio of wall", "ratio of cpu", "others", "aimed at"];
                write_row(f, &heads.map(str::to_owned), "")?;
            }
            let unit = line.unit.name();
            let cells = [
                label(line),
                spread(line.figure(), unit),
                spread(line.cpu, unit),
                ratio(line.ratio.and_then(|ratio| ratio.wall)),
                ratio(line.ratio.and_then(|ratio| ratio.cpu)),
                line.others.map_or_else(String::new, |others| format!("{others:.1}")),
                line.goal.map_or_else(String::new, Goal::text),
            ];
            write_row(f, &cells, if line.ok { "" } else { "  NOT VERIFIED" })?;
        }
        Ok(())
    }
}

fn label(line: &Line) -> String {
    if line.metric.is_empty() { line.subject.to_owned() } else { format!("{} {}", line.subject, line.metric) }
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: &[String; 7], mark: &str) -> fmt::Result {
    let [label, wall, cpu, wall_ratio, cpu_ratio, others, goal] = cells;
    let row = format!("  {label:<26}{wall:>32}{cpu:>32}{wall_ratio:>22}{cpu_ratio:>22}{others:>8}  {goal}{mark}");
    writeln!(f, "{}", row.trim_end())
}
