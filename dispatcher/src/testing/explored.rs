//! What an exploration was: how many schedules, and what of them was not seen.

use std::fmt;

use super::run::Ran;

/// What was explored. Displays as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Explored {
    /// How many schedules were run.
    pub schedules: u64,
    /// How many steps they had together.
    pub steps: u64,
    /// How many schedules were judged in part only, because threads that are no part of the run used its dispatchers. Zero
    /// unless [`allow_foreign_threads`](super::Explorer::allow_foreign_threads) was called.
    pub partial: u64,
    /// Whether there is no other schedule: an exhaustive search came to its end.
    pub is_complete: bool,
}

impl Explored {
    pub(super) fn count(&mut self, ran: &Ran) {
        self.schedules += 1;
        self.steps += ran.steps;
        self.partial += u64::from(ran.partial.is_some());
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explored { schedules, steps, partial, is_complete } = self;
        write!(f, "{schedules} schedules with {steps} steps together")?;
        if *is_complete {
            f.write_str(", which are all there are")?;
        }
        write_partial(f, *partial)
    }
}

/// How much of it was judged in part, if anything was.
pub(super) fn write_partial(f: &mut fmt::Formatter<'_>, partial: u64) -> fmt::Result {
    match partial {
        0 => Ok(()),
        _ => write!(f, "; {partial} of them judged in part, as threads that are no part of the run took part"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_was_seen_and_how_much_was_not() {
        let whole = Explored { schedules: 10, steps: 70, partial: 0, is_complete: true };
        assert_eq!(whole.to_string(), "10 schedules with 70 steps together, which are all there are");
        let part = Explored { partial: 3, is_complete: false, ..whole };
        assert!(part.to_string().ends_with(
            "70 steps together; 3 of them judged in part, as threads that are no part of the run took part"
        ));
    }
}
