//! What a driver's end leads to: policies, and the pure function that applies them.

use std::collections::VecDeque;
use std::time::Duration;

/// When a driver that has ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Restart {
    /// Not at all.
    #[default]
    Never,
    /// When it has failed.
    OnFailure,
    /// When it has failed or come to its own end.
    Always,
}

/// What a panic of a driver leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnPanic {
    /// The same as any other failure.
    #[default]
    AsFailure,
    /// It is started again, whatever `restart` says, within the limit.
    Restart,
    /// It is not started again, whatever `restart` says.
    Stop,
    /// The whole process is ended at once, as by an assertion.
    Abort,
}

/// How long a restart waits: longer with each failure that is not forgotten yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first restart.
    pub initial: Duration,
    /// By how much each further wait is longer than the one before.
    pub factor: u32,
    /// No wait is longer.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { initial: Duration::from_millis(100), factor: 2, max: Duration::from_secs(30) }
    }
}

/// How often a driver may be restarted: so often within so long. After that it counts as failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// So many restarts.
    pub count: u32,
    /// Within so long; what is longer ago is forgotten.
    pub within: Duration,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { count: 5, within: Duration::from_secs(60) }
    }
}

/// What becomes of a driver that ends, fails or does not stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Policy {
    /// Whether it is started again.
    pub restart: Restart,
    /// What a panic leads to.
    pub on_panic: OnPanic,
    /// How long a restart waits.
    pub backoff: Backoff,
    /// How often it is restarted.
    pub limit: Limit,
    /// Whether its node is offered to other drivers once it has ended for good.
    pub rematch: bool,
    /// How long its stop may take; `None`: as long as that of the host may take.
    pub stop_timeout: Option<Duration>,
}

/// How an instance ended, as far as policies tell ends apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Panic,
    Failure,
    /// It came to its own end.
    Finished,
}

/// What follows from an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start it again after so long: the restart of this number, counted from one.
    Restart { after: Duration, number: u32 },
    /// It stays down.
    Down,
    /// It stays down, because it was restarted as often as the limit allows.
    GivenUp,
    /// End the process.
    Abort,
}

/// The ends of one driver on one node that are not forgotten yet.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Duration>);

impl History {
    /// An end at `now`, on a clock of the caller's.
    pub(crate) fn ended(&mut self, end: End, now: Duration, policy: &Policy) -> Verdict {
        let again = match (end, policy.on_panic, policy.restart) {
            (End::Panic, OnPanic::Abort, _) => return Verdict::Abort,
            (End::Panic, OnPanic::Restart, _) => true,
            (End::Panic, OnPanic::Stop, _) => false,
            (End::Panic | End::Failure, _, restart) => restart != Restart::Never,
            (End::Finished, _, restart) => restart == Restart::Always,
        };
        if !again {
            return Verdict::Down;
        }
        let Limit { count, within } = policy.limit;
        while self.0.front().is_some_and(|&at| now.saturating_sub(at) >= within) {
            self.0.pop_front();
        }
        let before = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if before >= count {
            return Verdict::GivenUp;
        }
        self.0.push_back(now);
        Verdict::Restart { after: policy.backoff.wait(before), number: before + 1 }
    }
}

impl Backoff {
    /// The wait before a restart that so many others went before.
    fn wait(&self, before: u32) -> Duration {
        let mut wait = self.initial.min(self.max);
        for _ in 0..before {
            if wait >= self.max || self.factor <= 1 {
                break;
            }
            wait = wait.saturating_mul(self.factor).min(self.max);
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn policy(restart: Restart, on_panic: OnPanic) -> Policy {
        Policy { restart, on_panic, ..Policy::default() }
    }

    #[test]
    fn each_end_leads_where_the_policy_says() {
        let down = Verdict::Down;
        let again = Verdict::Restart { after: 100 * MS, number: 1 };
        for (restart, on_panic, panic, failure, finished) in [
            (Restart::Never, OnPanic::AsFailure, down, down, down),
            (Restart::OnFailure, OnPanic::AsFailure, again, again, down),
            (Restart::Always, OnPanic::AsFailure, again, again, again),
            (Restart::Never, OnPanic::Restart, again, down, down),
            (Restart::Always, OnPanic::Stop, down, again, again),
            (Restart::Always, OnPanic::Abort, Verdict::Abort, again, again),
        ] {
            let policy = policy(restart, on_panic);
            for (end, expected) in [(End::Panic, panic), (End::Failure, failure), (End::Finished, finished)] {
                let got = History::default().ended(end, Duration::ZERO, &policy);
                assert_eq!(got, expected, "{restart:?} {on_panic:?} {end:?}");
            }
        }
    }

    #[test]
    fn waits_grow_up_to_the_longest_and_the_limit_ends_them() {
        let backoff = Backoff { initial: 10 * MS, factor: 3, max: 50 * MS };
        let limit = Limit { count: 4, within: Duration::from_secs(1) };
        let policy = Policy { restart: Restart::OnFailure, backoff, limit, ..Policy::default() };
        let mut history = History::default();
        let mut fail = |at: u32| history.ended(End::Failure, at * MS, &policy);
        let again = |after: u32, number| Verdict::Restart { after: after * MS, number };
        assert_eq!([fail(0), fail(1), fail(2), fail(3)], [again(10, 1), again(30, 2), again(50, 3), again(50, 4)]);
        assert_eq!(fail(999), Verdict::GivenUp);
        assert_eq!(fail(1_001), again(50, 3), "the first two are forgotten");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn within_any_window_there_are_no_more_restarts_than_the_limit_allows(
            steps in prop::collection::vec(0..2_000_u32, 1..80),
            count in 0..6_u32,
            within in 1..5_000_u32,
            factor in 1..5_u32,
        ) {
            let policy = Policy {
                restart: Restart::Always,
                backoff: Backoff { initial: 3 * MS, factor, max: 40 * MS },
                limit: Limit { count, within: within * MS },
                ..Policy::default()
            };
            let (mut history, mut now, mut restarts) = (History::default(), Duration::ZERO, Vec::new());
            for step in steps {
                now += step * MS;
                let recent = |at: &&Duration| now - **at < within * MS;
                match history.ended(End::Failure, now, &policy) {
                    Verdict::Restart { after, number } => {
                        prop_assert!(after >= 3 * MS && after <= 40 * MS);
                        restarts.push(now);
                        prop_assert_eq!(restarts.iter().filter(recent).count(), number as usize);
                        prop_assert!(number <= count);
                    }
                    verdict => {
                        prop_assert_eq!(verdict, Verdict::GivenUp);
                        prop_assert_eq!(restarts.iter().filter(recent).count(), count as usize);
                    }
                }
            }
        }
    }
}
