//! The table as Markdown, for the book.

use std::fmt::Write as _;

use super::Report;
use super::goal::Goal;
use super::line::{number, ratio};

impl Report {
    /// A head with the machine, and one table of medians.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.machine);
        text.push_str("| workload | one operation | who | wall | CPU | ratio of wall | ratio of CPU | aimed at |\n");
        text.push_str("|---|---|---|---:|---:|---:|---:|---|\n");
        let mut title = String::new();
        for line in self.lines() {
            let is_new = line.title() != title;
            let (name, what) = if is_new { (line.title(), line.description.clone()) } else { Default::default() };
            title = line.title();
            let unit = line.unit.name();
            let with_unit = |value: f64| format!("{} {unit}", number(value));
            let mark = if line.ok { "" } else { " (not verified)" };
            let written = writeln!(
                text,
                "| {name} | {what} | {}{mark} | {} | {} | {} | {} | {} |",
                line.subject,
                line.figure().map_or_else(String::new, |figure| with_unit(figure.median)),
                line.cpu.map_or_else(String::new, |cpu| with_unit(cpu.median)),
                ratio(line.ratio.and_then(|ratio| ratio.wall)),
                ratio(line.ratio.and_then(|ratio| ratio.cpu)),
                line.goal.map_or_else(String::new, Goal::text),
            );
            written.expect("a string takes all");
        }
        text
    }
}
