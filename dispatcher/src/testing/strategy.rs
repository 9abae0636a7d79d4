//! Strategies: who picks among the legal ways to go on.

use std::collections::{HashMap, HashSet};

use super::random::Random;
use crate::sync::probe::{Actor, Choice};

/// How the schedules of an [`Explorer`](super::Explorer) are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Each seed picks one of the others, with settings of its own: no strategy finds everything.
    #[default]
    Mixed,
    /// Each pick is as likely as every other one.
    Random,
    /// Whoever goes on has a random priority, and the highest goes first, except that at a few steps, picked beforehand,
    /// whoever is about to go on becomes the last: a mistake that needs few such changes is found soon, whatever else
    /// happens. (Burckhardt and others, "A randomized scheduler with probabilistic guarantees of finding bugs", 2010.)
    Pct {
        /// How many changes.
        preemptions: u32,
    },
    /// All schedules, one after the other, for small scenarios; seeds mean nothing.
    Exhaustive {
        /// The most schedules to run.
        limit: u64,
    },
}

/// Picks.
pub(super) trait Picker: Send {
    /// One of `of` ways, at least 2.
    fn pick(&mut self, choice: Choice, of: usize) -> usize;

    /// One of `actors`, at least 2.
    fn next(&mut self, actors: &[Actor]) -> usize {
        self.pick(Choice::Next, actors.len())
    }

    /// A step begins.
    fn step(&mut self, step: u64) {
        let _ = step;
    }
}

impl Strategy {
    /// The picker of one seed. There is none of an exhaustive search.
    pub(super) fn picker(self, seed: u64) -> Box<dyn Picker> {
        let mut random = Random::new(seed);
        match self {
            Strategy::Pct { preemptions } => Box::new(Pct::new(random, preemptions)),
            Strategy::Random => Box::new(Biased::even(random)),
            Strategy::Mixed | Strategy::Exhaustive { .. } => match random.below(4) {
                0 => Box::new(Biased::even(random)),
                1 => {
                    let preemptions = random.below(4) as u32;
                    Box::new(Pct::new(random, preemptions))
                }
                _ => Box::new(Biased::any(random)),
            },
        }
    }
}

/// Picks at random, some things more often than others.
struct Biased {
    random: Random,
    /// How often the second of two ways is taken, of a thousand times.
    inline: u64,
    apart: u64,
    overlap: u64,
}

impl Biased {
    fn even(random: Random) -> Self {
        Biased { random, inline: 500, apart: 500, overlap: 500 }
    }

    /// With likelihoods that are themselves picked: what never happens makes way for what then happens in a row.
    fn any(mut random: Random) -> Self {
        let mut one_of = |choices: [u64; 4]| choices[random.below(4)];
        let inline = one_of([0, 100, 500, 1000]);
        let apart = one_of([0, 100, 500, 1000]);
        let overlap = one_of([100, 300, 500, 900]);
        Biased { random, inline, apart, overlap }
    }
}

impl Picker for Biased {
    fn pick(&mut self, choice: Choice, of: usize) -> usize {
        let likelihood = match choice {
            Choice::Inline => self.inline,
            Choice::Apart => self.apart,
            Choice::Overlap => self.overlap,
            Choice::Next | Choice::Event | Choice::Claim => return self.random.below(of),
        };
        usize::from(self.random.below(1000) < likelihood as usize)
    }
}

/// The longest run among whose first steps the changes are picked.
const LONGEST_RUN: u64 = 512;

/// Priorities, with a few changes.
struct Pct {
    random: Random,
    /// The higher goes first.
    priorities: HashMap<Actor, u64>,
    /// The steps at which whoever goes on becomes the last.
    changes: HashSet<u64>,
    is_change: bool,
    /// Below all priorities that were given.
    lowest: u64,
}

impl Pct {
    fn new(mut random: Random, preemptions: u32) -> Self {
        // Most runs are short: a change that comes too late is none.
        let length = LONGEST_RUN >> random.below(6);
        let changes = (0..preemptions).map(|_| 1 + random.below(length as usize) as u64).collect();
        Pct { random, priorities: HashMap::new(), changes, is_change: false, lowest: u64::MAX / 2 }
    }

    fn priority(&mut self, actor: Actor) -> u64 {
        let random = &mut self.random;
        *self.priorities.entry(actor).or_insert_with(|| u64::MAX / 2 + random.below(1 << 32) as u64)
    }
}

impl Picker for Pct {
    fn pick(&mut self, choice: Choice, of: usize) -> usize {
        match choice {
            Choice::Inline => self.random.below(2),
            Choice::Apart => usize::from(!self.changes.is_empty()),
            Choice::Overlap => usize::from(self.is_change),
            Choice::Next | Choice::Event | Choice::Claim => self.random.below(of),
        }
    }

    fn next(&mut self, actors: &[Actor]) -> usize {
        let highest = |pct: &mut Self| {
            let priorities: Vec<u64> = actors.iter().map(|&actor| pct.priority(actor)).collect();
            (0..actors.len()).rev().max_by_key(|&nth| priorities[nth]).unwrap_or(0)
        };
        let first = highest(self);
        if !std::mem::take(&mut self.is_change) {
            return first;
        }
        self.lowest -= 1;
        self.priorities.insert(actors[first], self.lowest);
        highest(self)
    }

    fn step(&mut self, step: u64) {
        self.is_change |= self.changes.contains(&step);
    }
}

/// Picks what was picked before; where nothing is left, the first.
pub(super) struct Replay {
    picks: std::vec::IntoIter<usize>,
}

impl Replay {
    pub(super) fn new(picks: Vec<usize>) -> Self {
        Replay { picks: picks.into_iter() }
    }
}

impl Picker for Replay {
    fn pick(&mut self, _choice: Choice, _of: usize) -> usize {
        self.picks.next().unwrap_or(0)
    }
}
