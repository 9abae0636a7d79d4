//! Schedules: what names one run, so that it can be run again.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

/// One schedule: a seed, from which everything is picked, or the picks themselves.
///
/// As text it is a number, or `picks:` and numbers with points between them, `0x3` for three zeros in a row. After the
/// last one everything goes on in the usual order.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::testing::Schedule;
///
/// let schedule: Schedule = "picks:1.0x3.2".parse()?;
/// assert_eq!(schedule.to_string(), "picks:1.0x3.2");
/// assert_eq!(Schedule::from(17).to_string(), "17");
/// assert!("picks:1.x".parse::<Schedule>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schedule(pub(super) Named);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Named {
    Seed(u64),
    Picks(Vec<usize>),
}

impl Schedule {
    /// The picks, without what goes without saying.
    pub(super) fn of_picks(mut picks: Vec<usize>) -> Self {
        while picks.last() == Some(&0) {
            picks.pop();
        }
        Schedule(Named::Picks(picks))
    }
}

impl From<u64> for Schedule {
    fn from(seed: u64) -> Self {
        Schedule(Named::Seed(seed))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picks = match &self.0 {
            Named::Seed(seed) => return seed.fmt(f),
            Named::Picks(picks) => picks,
        };
        f.write_str("picks:")?;
        for (nth, run) in picks.chunk_by(|one, next| one == next).enumerate() {
            let point = if nth == 0 { "" } else { "." };
            match run.len() {
                1 => write!(f, "{point}{}", run[0])?,
                length => write!(f, "{point}{}x{length}", run[0])?,
            }
        }
        Ok(())
    }
}

/// The most picks that a schedule given as text has.
const MOST_PICKS: usize = 10_000_000;

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, ParseScheduleError> {
        let Some(listed) = text.strip_prefix("picks:") else {
            return text.parse().map(|seed| Schedule(Named::Seed(seed))).map_err(|_| ParseScheduleError);
        };
        let mut picks = Vec::new();
        for item in listed.split('.').filter(|_| !listed.is_empty()) {
            let (pick, times) = item.split_once('x').unwrap_or((item, "1"));
            let number = |text: &str| text.parse::<usize>().map_err(|_| ParseScheduleError);
            let (pick, times) = (number(pick)?, number(times)?);
            if times > MOST_PICKS - picks.len() {
                return Err(ParseScheduleError);
            }
            picks.extend(std::iter::repeat_n(pick, times));
        }
        Ok(Schedule::of_picks(picks))
    }
}

/// A text that names no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a schedule is a number, or `picks:` and numbers with points between them, such as `picks:1.0x3.2`")]
pub struct ParseScheduleError;

/// Names the schedule to run, and no other.
const SEED_VARIABLE: &str = "FUCHSINE_SEED";

/// The schedule that the environment asks for, and the moment at which something is to be injected, if it names one.
///
/// # Panics
/// When it is no schedule.
pub(super) fn given_by_environment() -> Option<(Schedule, Option<u64>)> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    match with_moment(&text) {
        Ok(given) => Some(given),
        Err(error) => {
            panic!("{SEED_VARIABLE} is {text:?}, but {error}, with `@` and the number of a moment behind it or not")
        }
    }
}

/// A schedule, and a moment behind an `@`.
fn with_moment(text: &str) -> Result<(Schedule, Option<u64>), ParseScheduleError> {
    match text.split_once('@') {
        None => Ok((text.parse()?, None)),
        Some((schedule, moment)) => Ok((schedule.parse()?, Some(moment.parse().map_err(|_| ParseScheduleError)?))),
    }
}

/// Which seeds are run: as many as a number says, from 0 on, or those of a range.
#[derive(Debug, Clone)]
pub struct Seeds(pub(super) Range<u64>);

/// Says which seeds are run, or how many, where a test asks for that.
const SEEDS_VARIABLE: &str = "FUCHSINE_EXPLORE_SEEDS";

impl Seeds {
    /// Those that the environment asks for, as a count or as a range, `FUCHSINE_EXPLORE_SEEDS=1000..2000`; or else `usual`
    /// ones. So a test runs few seeds each day and many now and then.
    ///
    /// # Panics
    /// When the variable is neither a count nor a range.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::testing::{Seeds, explore};
    ///
    /// explore(Seeds::from_environment_or(20), |runtime| assert_eq!(runtime.run_until_idle(), 0));
    /// ```
    pub fn from_environment_or(usual: impl Into<Seeds>) -> Self {
        match std::env::var(SEEDS_VARIABLE) {
            Ok(text) => text.parse().unwrap_or_else(|error| panic!("{SEEDS_VARIABLE} is {text:?}, but {error}")),
            Err(_) => usual.into(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.end.saturating_sub(self.0.start)
    }
}

impl FromStr for Seeds {
    type Err = ParseSeedsError;

    fn from_str(text: &str) -> Result<Self, ParseSeedsError> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| ParseSeedsError);
        match text.split_once("..") {
            Some((first, end)) => Ok(Seeds(number(first)?..number(end)?)),
            None => Ok(Seeds(0..number(text)?)),
        }
    }
}

/// A text that names no seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("seeds are a number, which says how many, or two with `..` between, such as `1000..2000`")]
pub struct ParseSeedsError;

impl From<u64> for Seeds {
    fn from(count: u64) -> Self {
        Seeds(0..count)
    }
}

impl From<Range<u64>> for Seeds {
    fn from(range: Range<u64>) -> Self {
        Seeds(range)
    }
}

impl From<RangeInclusive<u64>> for Seeds {
    fn from(range: RangeInclusive<u64>) -> Self {
        Seeds(*range.start()..range.end().saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_schedule_is_written_as_is_read_back(picks in prop::collection::vec(0..4_usize, 0..40)) {
            let schedule = Schedule::of_picks(picks);
            prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule));
        }
    }

    #[test]
    fn the_moment_of_an_injection_stands_behind_the_schedule() {
        assert_eq!(with_moment("17"), Ok((Schedule::from(17), None)));
        assert_eq!(with_moment("picks:1@4"), Ok((Schedule::of_picks(vec![1]), Some(4))));
        assert!(with_moment("17@").is_err() && with_moment("@4").is_err() && with_moment("1@2@3").is_err());
    }

    #[test]
    fn seeds_are_a_count_or_a_range() {
        assert_eq!("30".parse::<Seeds>().map(|seeds| (seeds.count(), seeds.0)), Ok((30, 0..30)));
        assert_eq!("1000..2000".parse::<Seeds>().map(|seeds| (seeds.count(), seeds.0)), Ok((1000, 1000..2000)));
        for text in ["", "x", "1..", "..2", "1...2", "-1", "1 000"] {
            assert_eq!(text.parse::<Seeds>().map(|seeds| seeds.0), Err(ParseSeedsError), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "x", "-1", "picks", "picks:.", "picks:1,2", "picks:1x", "picks:0x99999999999", "1.2"] {
            assert_eq!(text.parse::<Schedule>(), Err(ParseScheduleError), "{text:?}");
        }
        assert_eq!("picks:".parse(), Ok(Schedule::of_picks(vec![0, 0])));
    }
}
