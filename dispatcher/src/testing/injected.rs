//! What injections were: how many were made, and what of them was not seen.

use std::fmt;

use super::explored::write_partial;

/// What was injected. Displays as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Injected {
    /// How many schedules were run, each once or more.
    pub schedules: u64,
    /// How many runs had something injected.
    pub injections: u64,
    /// How many had not, because there was no such target at their moment: it did not exist yet, or had ended. For a
    /// [`custom`](super::Target::custom) one also because it was put off to the end, as callbacks that had been interrupted
    /// might have held what it wants.
    pub missed: u64,
    /// How many steps all runs had together.
    pub steps: u64,
    /// How many runs were judged in part only, as in [`Explored`](super::Explored).
    pub partial: u64,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Injected { schedules, injections, missed, steps, partial } = self;
        write!(f, "{injections} injections in {schedules} schedules with {steps} steps together")?;
        if *missed > 0 {
            write!(f, "; at {missed} moments there was nothing to inject into")?;
        }
        write_partial(f, *partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_was_injected_and_how_much_was_not() {
        let all = Injected { schedules: 1, injections: 7, missed: 0, steps: 70, partial: 0 };
        assert_eq!(all.to_string(), "7 injections in 1 schedules with 70 steps together");
        let some = Injected { missed: 2, partial: 1, ..all }.to_string();
        assert!(some.contains("; at 2 moments there was nothing to inject into; 1 of them judged in part"), "{some}");
    }
}
