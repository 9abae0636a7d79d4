//! Wake vectors: sources that are a reason to resume a driver that is suspended.
//!
//! A vector names a source by its identity, which no other source ever has, and not by a number that the system gives
//! again to somebody else.

use std::collections::HashMap;

use super::flavour::SourceIdentity;
use crate::sys::{Interest, Readiness};

/// The wake vectors of a driver: for each source, which interests.
#[derive(Debug, Default)]
pub(crate) struct WakeVectors {
    interests: HashMap<SourceIdentity, Interest>,
}

impl WakeVectors {
    pub(crate) fn new() -> Self {
        WakeVectors::default()
    }

    pub(crate) fn add(&mut self, source: SourceIdentity, interest: Interest) {
        *self.interests.entry(source).or_insert(Interest::NONE) |= interest;
    }

    /// Takes these interests away; the vector goes with the last one. False if the source is no vector.
    pub(crate) fn remove(&mut self, source: SourceIdentity, interest: Interest) -> bool {
        let Some(left) = self.interests.get_mut(&source) else { return false };
        *left = left.without(interest);
        if left.is_none() {
            self.interests.remove(&source);
        }
        true
    }

    pub(crate) fn contains(&self, source: SourceIdentity) -> bool {
        self.interests.contains_key(&source)
    }

    /// Whether a source that is ready for this is a reason to resume.
    pub(crate) fn matches(&self, source: SourceIdentity, readiness: Readiness) -> bool {
        self.interests.get(&source).is_some_and(|interest| readiness.concerns(*interest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interests_add_up_and_the_vector_goes_with_the_last_one() {
        let source = SourceIdentity::fresh().expect("the process is young");
        let mut vectors = WakeVectors::new();
        assert!(!vectors.remove(source, Interest::READABLE));
        vectors.add(source, Interest::READABLE);
        assert!(vectors.matches(source, Readiness::READABLE) && !vectors.matches(source, Readiness::WRITABLE));
        vectors.add(source, Interest::WRITABLE);
        assert!(vectors.matches(source, Readiness::WRITABLE));
        assert!(vectors.remove(source, Interest::READABLE));
        assert!(vectors.contains(source) && !vectors.matches(source, Readiness::READABLE));
        assert!(vectors.remove(source, Interest::READABLE | Interest::WRITABLE));
        assert!(!vectors.contains(source) && !vectors.remove(source, Interest::WRITABLE));
    }
}
