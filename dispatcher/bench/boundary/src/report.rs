//! What came out: medians of the rounds, ratios, and whether they are within the limit.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::measure::{SUBJECTS, Sample, Workload};

/// All rounds of one workload: for each subject its samples, in the order of the rounds.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) workload: Workload,
    pub(crate) samples: [Vec<Sample>; 2],
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

type Figure = fn(&Sample) -> f64;

fn wall(sample: &Sample) -> f64 {
    sample.wall as f64 / sample.ops.max(1) as f64
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu as f64 / sample.ops.max(1) as f64
}

impl Measured {
    /// Loaded over linked: the median of the rounds.
    fn ratio(&self, figure: Figure) -> f64 {
        let [linked, loaded] = &self.samples;
        median(linked.iter().zip(loaded).map(|(linked, loaded)| figure(loaded) / figure(linked)).collect())
    }

    fn values(&self, subject: usize, figure: Figure) -> Vec<f64> {
        self.samples[subject].iter().map(figure).collect()
    }

    /// Whether every operation was seen to happen.
    fn is_ok(&self, subject: usize) -> bool {
        self.samples[subject].iter().all(|sample| sample.seen == sample.ops)
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.workload.name, self.workload.what);
        for (at, subject) in SUBJECTS.iter().enumerate() {
            let (wall_ns, cpu_ns) = (median(self.values(at, wall)), median(self.values(at, cpu)));
            let _ = write!(text, "  {subject:<8}{wall_ns:>10.1} ns wall{cpu_ns:>10.1} ns CPU");
            if at == 1 {
                let _ = write!(text, "   x {:.2} wall, x {:.2} CPU", self.ratio(wall), self.ratio(cpu));
            }
            text.push_str(if self.is_ok(at) { "\n" } else { "   NOT VERIFIED\n" });
        }
        text
    }

    /// For programs: a line for each subject, in the form of `fuchsine-bench`.
    pub(crate) fn json(&self) -> String {
        let spread = |values: Vec<f64>| {
            let values = sorted(values);
            json!({ "min": values.first(), "median": median(values.clone()), "max": values.last() })
        };
        let line = |at: usize| {
            let mut line = json!({
                "workload": self.workload.name, "subject": SUBJECTS[at], "unit": "ns",
                "wall": spread(self.values(at, wall)), "cpu": spread(self.values(at, cpu)),
                "rounds": self.samples[at].len(),
                "ops": self.samples[at].iter().map(|sample| sample.ops).sum::<u64>(), "ok": self.is_ok(at),
            });
            if at == 1 {
                line["ratio"] = json!({ "to": SUBJECTS[0], "wall": self.ratio(wall), "cpu": self.ratio(cpu) });
            }
            Value::to_string(&line) + "\n"
        };
        (0..SUBJECTS.len()).map(line).collect()
    }

    /// What is wrong with it; nothing if it is as it should be.
    pub(crate) fn defect(&self) -> Option<String> {
        let name = self.workload.name;
        if !(self.is_ok(0) && self.is_ok(1)) {
            return Some(format!("{name}: not every operation was seen to happen as it should"));
        }
        too_dear(name, self.ratio(cpu))
    }
}

/// A sentence if a loaded driver takes too many times as much.
pub(crate) fn too_dear(name: &str, ratio: f64) -> Option<String> {
    // Also when there is no number.
    let is_within = ratio <= LIMIT;
    (!is_within)
        .then(|| format!("{name}: a loaded driver takes {ratio:.2} times as much as a linked one, more than {LIMIT}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::WORKLOADS;

    fn measured(linked: u64, loaded: u64, seen: u64) -> Measured {
        let sample = |cpu| Sample { wall: cpu, cpu, ops: 10, seen };
        Measured { workload: WORKLOADS[0], samples: [vec![sample(linked); 3], vec![sample(loaded); 3]] }
    }

    #[test]
    fn too_dear_and_unseen_are_defects() {
        assert_eq!(measured(100, 130, 10).defect(), None);
        assert!(measured(100, 131, 10).defect().is_some_and(|told| told.contains("1.31 times")));
        assert!(measured(100, 100, 9).defect().is_some_and(|told| told.contains("seen")));
        assert!(too_dear("x", f64::NAN).is_some());
    }

    #[test]
    fn a_ratio_is_the_median_of_those_of_the_rounds() {
        let mut measured = measured(100, 100, 10);
        measured.samples[1][0].cpu = 400;
        assert!(measured.text().contains("x 1.00 CPU"), "{}", measured.text());
        let lines: Vec<Value> = measured.json().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[1]["subject"], &lines[1]["cpu"]["max"]), (2, &json!("loaded"), &json!(40.0)));
    }
}
