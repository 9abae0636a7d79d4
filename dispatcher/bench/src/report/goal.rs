//! What is aimed at, and whether it was reached.

use serde::Serialize;

use super::spread::Interval;

/// Between these a ratio is so near to 1 that its median alone decides nothing.
const NEAR: std::ops::RangeInclusive<f64> = 0.77..=1.3;

/// Ratios of our figure to a peer's, and how large they may be. CPU may never be more than what the peer takes.
const RATIOS: &[(&str, &str, &str, f64, f64)] = &[
    ("W1", "", "tokio-msg", 0.5, 0.5),
    ("W1", "", "crossbeam", 0.8, 1.0),
    ("W1b", "", "tokio-msg", 0.45, 0.45),
    ("W1b", "", "crossbeam", 0.9, 0.9),
    ("W2", "", "tokio-msg", 0.25, 0.25),
    ("W3a", "", "tokio-msg", 0.25, 0.25),
    ("W3b", "", "tokio-msg", 0.2, 0.2),
    ("W4-1k", "", "tokio-msg", 0.45, 0.45),
    ("W4-10k", "", "tokio-msg", 0.45, 0.45),
    ("W5-64", "", "tokio-msg", 0.5, 0.5),
    ("W5-4k", "", "tokio-msg", 0.6, 0.6),
    ("W5-64k", "", "tokio-msg", 0.9, 0.9),
    ("W6", "", "tokio-task", 0.05, 0.05),
    ("W6", "", "rayon", 0.2, 0.2),
    ("W8a", "", "tokio", 0.5, 0.5),
    // As late as they are due: the wall time is the second within which they are.
    ("W8b", "", "tokio", f64::INFINITY, 0.35),
    ("W8c", "p50", "smol", 1.0, 1.0),
    ("W9-1", "", "tokio", 0.3, 0.3),
    ("W9-64", "", "tokio", 0.1, 0.1),
    ("W10", "", "libuv", 0.5, 0.5),
    ("W10", "", "tokio-cb", 1.0, 1.0),
    ("W11", "p50", "tokio-msg", 0.7, 1.0),
    ("W11", "p50", "crossbeam", 1.1, 1.0),
    ("C1", "", "tokio-msg", 0.35, 0.35),
    ("C2", "", "tokio-msg", 1.0, 1.0),
    ("L3", "", "kernel", 1.1, 1.1),
];

/// Figures of ours that have no peer to be compared with: at most so much, or at least.
const FIGURES: &[(&str, &str, Bound)] = &[
    ("W6-1us", "speed-up", Bound::AtLeast(1.8)),
    ("W7", "memory", Bound::AtMost(384.0)),
    ("W7", "creation", Bound::AtMost(500.0)),
];

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// What a row is to show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Goal {
    /// The ratio of wall time, or the figure itself; none where it decides nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wall: Option<f64>,
    /// The ratio of CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<f64>,
    /// Whether it does; none where there were too few rounds to say so of a ratio near to 1.
    pub(crate) reached: Option<bool>,
}

impl Goal {
    /// Of the ratios of the `first` one's figure to that of `subject`.
    pub(super) fn of_ratios(
        (workload, metric, subject): (&str, &str, &str),
        wall: Option<Interval>,
        cpu: Option<Interval>,
    ) -> Option<Self> {
        let goal = RATIOS.iter().find(|&&(of, which, peer, ..)| (of, which, peer) == (workload, metric, subject))?;
        let aimed = |most: f64| most.is_finite().then_some(most);
        let (most_wall, most_cpu) = (aimed(goal.3), aimed(goal.4));
        Some(Goal { wall: most_wall, cpu: most_cpu, reached: both(reached(wall, most_wall), reached(cpu, most_cpu)) })
    }

    /// Of a figure of ours.
    pub(super) fn of_figure(workload: &str, metric: &str, median: f64) -> Option<Self> {
        let (.., bound) = *FIGURES.iter().find(|&&(of, which, _)| (of, which) == (workload, metric))?;
        let (aimed, reached) = match bound {
            Bound::AtMost(most) => (most, median <= most),
            Bound::AtLeast(least) => (least, median >= least),
        };
        Some(Goal { wall: Some(aimed), cpu: None, reached: Some(reached) })
    }

    /// As it stands in a table.
    pub(super) fn text(self) -> String {
        let aimed = match (self.wall, self.cpu) {
            (Some(wall), Some(cpu)) if wall.to_bits() != cpu.to_bits() => format!("{wall}, CPU {cpu}"),
            (Some(wall), _) => wall.to_string(),
            (None, Some(cpu)) => format!("CPU {cpu}"),
            (None, None) => String::new(),
        };
        let verdict = match self.reached {
            Some(true) => "reached",
            Some(false) => "missed",
            None => "undecided",
        };
        format!("{aimed}: {verdict}")
    }
}

/// A miss of one is a miss.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    if one == Some(false) || other == Some(false) { Some(false) } else { Some(one? && other?) }
}

/// Near 1 the whole range has to be on the right side.
fn reached(ratio: Option<Interval>, most: Option<f64>) -> Option<bool> {
    let Some(most) = most else { return Some(true) };
    let Interval { median, within } = ratio?;
    if !NEAR.contains(&most) {
        return Some(median <= most);
    }
    match within {
        Some((_, high)) if high <= most => Some(true),
        Some((low, _)) if low > most => Some(false),
        // So far off it takes no range to tell.
        _ if median > most * NEAR.end() => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(median: f64, within: Option<(f64, f64)>) -> Option<Interval> {
        Some(Interval { median, within })
    }

    fn of(subject: &str, wall: Option<Interval>, cpu: Option<Interval>) -> (Option<bool>, String) {
        let goal = Goal::of_ratios(("W1", "", subject), wall, cpu).expect("it has one");
        (goal.reached, goal.text())
    }

    #[test]
    fn wall_and_cpu_both_have_to_reach_it() {
        assert_eq!(of("tokio-msg", ratio(0.5, None), ratio(0.49, None)).0, Some(true));
        assert_eq!(of("tokio-msg", ratio(0.5, None), ratio(0.51, None)), (Some(false), "0.5: missed".to_owned()));
        assert_eq!(of("tokio-msg", ratio(0.51, None), ratio(0.1, None)).0, Some(false));
        assert_eq!(Goal::of_ratios(("W1", "", "desync"), ratio(9.0, None), None), None);
    }

    #[test]
    fn near_one_the_range_decides() {
        let sure = Some((0.6, 0.8));
        assert_eq!(of("crossbeam", ratio(0.7, sure), ratio(0.7, sure)).1, "0.8, CPU 1: reached");
        assert_eq!(of("crossbeam", ratio(0.7, Some((0.6, 0.81))), ratio(0.7, sure)).1, "0.8, CPU 1: undecided");
        assert_eq!(of("crossbeam", ratio(0.7, None), ratio(0.7, None)).0, None);
        assert_eq!(of("crossbeam", ratio(0.7, None), ratio(1.4, None)).0, Some(false));
        assert_eq!(of("crossbeam", ratio(0.7, None), ratio(1.2, Some((1.1, 1.3)))).0, Some(false));
    }

    #[test]
    fn a_figure_is_held_by_itself() {
        let of = |metric, median| Goal::of_figure("W7", metric, median).map(Goal::text);
        assert_eq!(of("memory", 384.0).as_deref(), Some("384: reached"));
        assert_eq!(of("memory", 385.0).as_deref(), Some("384: missed"));
        assert_eq!(of("else", 1.0), None);
        assert_eq!(Goal::of_figure("W6-1us", "speed-up", 1.7).map(Goal::text).as_deref(), Some("1.8: missed"));
    }
}
