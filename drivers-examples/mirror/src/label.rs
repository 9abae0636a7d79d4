//! [`Label`]: what is written at the end of each leg, and [`judge`]: what follows from the labels of all that are there.
//!
//! Each time a leg is lost, those that stay get the next *generation*, with a number that nobody else has; so a leg that was
//! away is known by its older one, and two legs that were both used alone are known by different numbers.

/// How much of the end of a leg belongs to the mirror: a multiple of every block size.
pub(crate) const RESERVED: u64 = 64 << 10;

/// The bytes of a label; the rest of its block is zeroes.
pub(crate) const LABEL_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"FUCHMIRR";
const VERSION: u32 = 1;

/// What a leg says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It was closed in order.
    Closed,
    /// It is in use, or was when something ended badly.
    Open,
    /// It is being copied to, and has not got everything.
    Copying,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    /// The same on all legs of a mirror, and on no other.
    pub(crate) mirror: u64,
    pub(crate) generation: u64,
    /// Which of several that follow the same generation.
    pub(crate) event: u64,
    /// What the mirror has room for.
    pub(crate) size: u64,
    pub(crate) condition: Condition,
}

impl Label {
    pub(crate) fn encode(&self) -> [u8; LABEL_LEN] {
        let condition: u32 = match self.condition {
            Condition::Closed => 0,
            Condition::Open => 1,
            Condition::Copying => 2,
        };
        let mut bytes = [0; LABEL_LEN];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&condition.to_le_bytes());
        for (at, word) in [(16, self.mirror), (24, self.generation), (32, self.event), (40, self.size)] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = sum_of(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The label in the bytes at its place; `None` when there is none that can be read.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Label> {
        let bytes: &[u8; LABEL_LEN] = bytes.first_chunk()?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != MAGIC || half(8) != VERSION || word(56) != sum_of(&bytes[..56]) {
            return None;
        }
        let condition = match half(12) {
            0 => Condition::Closed,
            1 => Condition::Open,
            2 => Condition::Copying,
            _ => return None,
        };
        Some(Label { mirror: word(16), generation: word(24), event: word(32), size: word(40), condition })
    }
}

/// FNV-1a: tells a label from one that was written in part.
fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What becomes of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has everything.
    Good,
    /// It gets everything from one that has it.
    Copy,
    /// It belongs to another mirror.
    Foreign,
    /// It was used alone, as another was that is taken instead.
    Diverged,
}

/// Nothing that is there has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no leg is there that has all of the contents: the one that others were being copied from is missing")]
pub(crate) struct NoSource;

/// What becomes of each leg at the start, in the order of the legs. A leg without a label is a new one.
///
/// # Errors
/// [`NoSource`].
pub(crate) fn judge(labels: &[Option<Label>]) -> Result<Vec<Verdict>, NoSource> {
    let whole = |label: &&Label| label.condition != Condition::Copying;
    let Some(first) = labels.iter().flatten().find(whole) else {
        if labels.iter().any(Option::is_some) {
            return Err(NoSource);
        }
        // A new mirror: the first leg is as good as any, and what is on it may be wanted.
        return Ok((0..labels.len()).map(|at| if at == 0 { Verdict::Good } else { Verdict::Copy }).collect());
    };
    let own = |label: &&Label| label.mirror == first.mirror;
    let known = || labels.iter().flatten().filter(own).filter(whole);
    let newest = known().map(|label| label.generation).max().unwrap_or(first.generation);
    let event = known().find(|label| label.generation == newest).map(|label| label.event);
    let current = |label: &Label| label.generation == newest && Some(label.event) == event;
    // One that was closed in order had everything last.
    let all_closed = known().filter(|label| current(label)).all(|label| label.condition == Condition::Closed);
    let source = labels.iter().position(|label| {
        label.as_ref().is_some_and(|label| own(&label) && current(label) && label.condition == Condition::Closed)
    });
    let source = source.or_else(|| {
        labels
            .iter()
            .position(|label| label.as_ref().is_some_and(|label| own(&label) && whole(&label) && current(label)))
    });
    let verdict = |(at, label): (usize, &Option<Label>)| match label {
        None => Verdict::Copy,
        Some(label) if label.mirror != first.mirror => Verdict::Foreign,
        Some(label) if label.condition == Condition::Copying => Verdict::Copy,
        Some(label) if label.generation == newest && Some(label.event) != event => Verdict::Diverged,
        Some(label) if current(label) && (all_closed || Some(at) == source) => Verdict::Good,
        Some(_) => Verdict::Copy,
    };
    Ok(labels.iter().enumerate().map(verdict).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Condition::{Closed, Copying, Open};
    use super::Verdict::{Copy, Diverged, Foreign, Good};
    use super::*;

    fn label(generation: u64, event: u64, condition: Condition) -> Option<Label> {
        Some(Label { mirror: 1, generation, event, size: 4096, condition })
    }

    #[test]
    fn what_was_written_is_read_and_a_part_of_it_is_not() {
        for condition in [Closed, Open, Copying] {
            let written = Label { mirror: 1, generation: 2, event: 3, size: 4, condition };
            let bytes = written.encode();
            assert_eq!(Label::decode(&bytes), Some(written));
            for at in 0..LABEL_LEN {
                let mut spoilt = bytes;
                spoilt[at] ^= 1;
                assert_eq!(Label::decode(&spoilt), None, "byte {at}");
            }
            assert_eq!(Label::decode(&bytes[..40]), None);
        }
        assert_eq!(Label::decode(&[0; 512]), None);
    }

    #[test]
    fn a_new_mirror_keeps_what_is_on_its_first_leg() {
        assert_eq!(judge(&[None, None, None]), Ok(vec![Good, Copy, Copy]));
    }

    #[test]
    fn legs_that_were_closed_together_are_all_good() {
        assert_eq!(judge(&[label(3, 9, Closed), label(3, 9, Closed)]), Ok(vec![Good, Good]));
    }

    #[test]
    fn after_a_bad_end_one_is_copied_to_the_others() {
        assert_eq!(judge(&[label(3, 9, Open), label(3, 9, Open)]), Ok(vec![Good, Copy]));
        assert_eq!(judge(&[label(3, 9, Open), label(3, 9, Closed)]), Ok(vec![Copy, Good]), "closed last");
    }

    #[test]
    fn a_leg_that_was_away_or_is_new_gets_everything() {
        assert_eq!(judge(&[label(2, 8, Closed), label(3, 9, Open)]), Ok(vec![Copy, Good]));
        assert_eq!(judge(&[None, label(3, 9, Closed)]), Ok(vec![Copy, Good]));
        assert_eq!(judge(&[label(3, 9, Copying), label(3, 9, Open)]), Ok(vec![Copy, Good]));
    }

    #[test]
    fn legs_of_another_mirror_and_legs_that_went_their_own_ways_are_left_alone() {
        let other = Some(Label { mirror: 2, generation: 9, event: 1, size: 4096, condition: Closed });
        assert_eq!(judge(&[label(3, 9, Closed), other]), Ok(vec![Good, Foreign]));
        assert_eq!(judge(&[label(3, 9, Closed), label(3, 7, Closed)]), Ok(vec![Good, Diverged]));
    }

    #[test]
    fn a_leg_that_was_being_copied_to_is_no_source() {
        assert_eq!(judge(&[label(3, 9, Copying), None]), Err(NoSource));
    }

    fn some_label() -> impl Strategy<Value = Option<Label>> {
        let condition = prop_oneof![Just(Closed), Just(Open), Just(Copying)];
        prop::option::of((1..3u64, 1..4u64, 1..3u64, condition).prop_map(|(mirror, generation, event, condition)| {
            Label { mirror, generation, event, size: 4096, condition }
        }))
    }

    proptest! {
        #[test]
        fn one_at_least_is_good_and_all_that_are_good_have_the_same(labels in prop::collection::vec(some_label(), 1..5)) {
            let Ok(verdicts) = judge(&labels) else { return Ok(()) };
            let good: Vec<_> = (0..labels.len()).filter(|at| verdicts[*at] == Good).map(|at| labels[at]).collect();
            prop_assert!(!good.is_empty());
            prop_assert!(good.iter().all(|label| label.map(|l| (l.mirror, l.generation, l.event))
                == good[0].map(|l| (l.mirror, l.generation, l.event))));
            prop_assert!(good.len() == 1 || good.iter().flatten().all(|label| label.condition == Closed));
        }
    }
}
