//! All samples of a run, and what is made of them: text, Markdown, lines of JSON.

mod goal;
mod line;
mod markdown;
mod spread;
mod text;

use std::collections::BTreeMap;

use goal::Goal;
pub(crate) use line::Line;
use line::Ratio;
use spread::{Interval, Spread};

use crate::sample::{Histogram, Sample};
use crate::workload::Workload;

/// A figure of a pair: workload, metric, subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    workload: String,
    metric: String,
    subject: &'static str,
}

/// One round's figures of a pair.
#[derive(Debug)]
struct Round {
    samples: Vec<Sample>,
    others: Option<f64>,
}

/// What came out so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rounds: BTreeMap<(String, &'static str), Vec<Option<Round>>>,
    /// Pairs in the order of the workloads, with what did not come back.
    pairs: Vec<Pair>,
    /// Said at the head: the machine, and its load before and after.
    pub(crate) machine: String,
}

#[derive(Debug)]
struct Pair {
    workload: String,
    description: String,
    subject: &'static str,
    /// Whom the workload compares with the others.
    first: &'static str,
    failure: Option<String>,
}

impl Report {
    /// Takes what a pair measured in one more round, or why it failed.
    pub(crate) fn add(
        &mut self,
        workload: &Workload,
        subject: &'static str,
        measured: Result<Vec<Sample>, String>,
        others: Option<f64>,
    ) {
        let known = self.pairs.iter().position(|pair| pair.workload == workload.name && pair.subject == subject);
        let place = known.unwrap_or_else(|| {
            self.pairs.push(Pair {
                workload: workload.name.clone(),
                description: workload.description.clone(),
                subject,
                first: workload.runs[0].subject,
                failure: None,
            });
            self.pairs.len() - 1
        });
        let round = match measured {
            Ok(samples) => Some(Round { samples, others }),
            Err(why) => {
                self.pairs[place].failure = Some(why);
                None
            }
        };
        self.rounds.entry((workload.name.clone(), subject)).or_default().push(round);
    }

    /// Whether this pair has failed, so that measuring it again is of no use.
    pub(crate) fn has_failed(&self, workload: &Workload, subject: &str) -> bool {
        let mut of_pair = self.pairs.iter().filter(|pair| pair.workload == workload.name && pair.subject == subject);
        of_pair.any(|pair| pair.failure.is_some())
    }

    /// What does not count, a line each.
    pub(crate) fn defects(&self) -> Vec<String> {
        let failures = self.pairs.iter().filter_map(|pair| {
            let why = pair.failure.as_ref()?;
            Some(format!("{} by {}: {why}", pair.workload, pair.subject))
        });
        let unverified = self.lines().into_iter().filter(|line| !line.ok).map(|line| {
            format!("{} by {}: not every operation was seen to happen as it should", line.title(), line.subject)
        });
        failures.chain(unverified).collect()
    }

    fn samples<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Option<(&'a Sample, Option<f64>)>> {
        let rounds = self.rounds.get(&(key.workload.clone(), key.subject)).map_or(&[][..], Vec::as_slice);
        rounds.iter().map(move |round| {
            let round = round.as_ref()?;
            let sample = round.samples.iter().find(|sample| sample.metric == key.metric)?;
            Some((sample, round.others))
        })
    }

    fn metrics(&self, pair: &Pair) -> Vec<String> {
        let rounds = &self.rounds[&(pair.workload.clone(), pair.subject)];
        let first = rounds.iter().flatten().next();
        first.map_or_else(Vec::new, |round| round.samples.iter().map(|sample| sample.metric.clone()).collect())
    }

    /// A line for each figure, in the order of the workloads.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut done = Vec::new();
        for first in &self.pairs {
            if done.contains(&&first.workload) {
                continue;
            }
            done.push(&first.workload);
            let of_workload: Vec<_> = self.pairs.iter().filter(|pair| pair.workload == first.workload).collect();
            let mut metrics: Vec<String> = Vec::new();
            for pair in &of_workload {
                let new = self.metrics(pair).into_iter().filter(|metric| !metrics.contains(metric));
                metrics.extend(new.collect::<Vec<_>>());
            }
            for metric in metrics {
                lines.extend(of_workload.iter().filter_map(|pair| self.line(pair, &metric)));
            }
        }
        lines
    }

    fn line(&self, pair: &Pair, metric: &str) -> Option<Line> {
        let key = |subject| Key { workload: pair.workload.clone(), metric: metric.to_owned(), subject };
        let (own, compared) = (key(pair.subject), key(pair.first));
        let all: Vec<_> = self.samples(&own).flatten().collect();
        let (first, _) = all.first()?;
        let figures = all.iter().map(|(sample, _)| sample.figure).collect();
        let cpus: Vec<f64> = all.iter().filter_map(|(sample, _)| sample.cpu).collect();
        let others: Vec<f64> = all.iter().filter_map(|&(_, others)| others).collect();
        let is_time = first.unit.is_time();
        let ratio = |of: fn(&Sample) -> Option<f64>| {
            let ratios = self.samples(&compared).zip(self.samples(&own)).filter_map(|(ours, theirs)| {
                let (ours, theirs) = (of(ours?.0)?, of(theirs?.0)?);
                (theirs > 0.0).then_some(ours / theirs)
            });
            Interval::of(ratios.collect())
        };
        let figure = Spread::of(figures)?;
        let ratio = (pair.subject != pair.first).then(|| Ratio {
            to: pair.first,
            wall: ratio(|sample| Some(sample.figure)),
            cpu: ratio(|sample| sample.cpu),
        });
        let goal = match ratio {
            Some(ratio) => Goal::of_ratios((&pair.workload, metric, pair.subject), ratio.wall, ratio.cpu),
            None => Goal::of_figure(&pair.workload, metric, figure.median),
        };
        Some(Line {
            workload: pair.workload.clone(),
            description: pair.description.clone(),
            metric: metric.to_owned(),
            subject: pair.subject,
            unit: first.unit,
            wall: is_time.then_some(figure),
            cpu: Spread::of(cpus),
            value: (!is_time).then_some(figure),
            ratio,
            goal,
            others: Spread::of(others).map(|others| others.median),
            rounds: all.len(),
            ops: first.ops,
            ok: all.iter().all(|(sample, _)| sample.ok),
            histogram: self.histogram(&own),
        })
    }

    /// The histograms of all rounds as one.
    fn histogram(&self, key: &Key) -> Histogram {
        let mut sum = Histogram::new();
        for (sample, _) in self.samples(key).flatten() {
            for &(bound, count) in &sample.histogram {
                match sum.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
                    Ok(place) => sum[place].1 += count,
                    Err(place) => sum.insert(place, (bound, count)),
                }
            }
        }
        sum
    }

    /// One JSON object a line and figure.
    pub(crate) fn json_lines(&self) -> String {
        self.lines()
            .iter()
            .map(|line| match serde_json::to_string(line) {
                Ok(line) => line + "\n",
                Err(error) => unreachable!("a line of numbers and names is always JSON: {error}"),
            })
            .collect()
    }
}
