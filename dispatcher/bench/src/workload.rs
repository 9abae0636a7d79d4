//! What is timed, and who does it.
//!
//! Names are those under which peers of dispatcher runtimes are commonly compared here: W by posts, timers and work, C by
//! channels, S what becomes of the cost when there is more of something, L event loops alone; long names are those of
//! the microbenchmarks of Fuchsia's driver runtime.

use std::rc::Rc;
use std::sync::OnceLock;

use crate::sample::Sample;

/// Measures one pair.
pub(crate) type Measure = Rc<dyn Fn() -> Vec<Sample>>;

/// One subject of a workload.
#[derive(Clone)]
pub(crate) struct Run {
    /// Who does it.
    pub(crate) subject: &'static str,
    pub(crate) measure: Measure,
}

impl Run {
    pub(crate) fn new(subject: &'static str, measure: impl Fn() -> Vec<Sample> + 'static) -> Self {
        Run { subject, measure: Rc::new(measure) }
    }
}

/// A workload with everybody who does it, the first of whom is compared with the others.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// What one operation is.
    pub(crate) description: String,
    pub(crate) runs: Vec<Run>,
}

impl Workload {
    pub(crate) fn new(name: impl Into<String>, description: impl Into<String>, runs: Vec<Run>) -> Self {
        Workload { name: name.into(), description: description.into(), runs }
    }

    /// Whether `pattern` is its name, or the family that the name begins with: `W4` is that of `W4-1k` and `W4-10k`.
    pub(crate) fn is(&self, pattern: &str) -> bool {
        let Some(rest) = self.name.strip_prefix(pattern) else { return false };
        rest.is_empty() || rest.starts_with(['-', '/', '_'])
    }
}

/// Everybody of `$peers`, who are of `$trait`, does `$measure`, in which `$peer` is the type of the peer.
macro_rules! by {
    ($peer:ident: $trait:ident in [$($peers:ty),* $(,)?] => $measure:expr) => {
        vec![$({
            type $peer = $peers;
            $crate::workload::Run::new(<$peers as $trait>::NAME, move || $measure)
        }),*]
    };
}
pub(crate) use by;

static QUICK: OnceLock<bool> = OnceLock::new();

/// From here on a run takes a hundredth of its operations: enough to see that it works.
pub(crate) fn be_quick(quick: bool) {
    QUICK.set(quick).expect("it is said once");
}

/// Which part of the operations is done: all, or a hundredth.
pub(crate) fn part() -> u64 {
    if QUICK.get() == Some(&true) { 100 } else { 1 }
}

/// How many operations to do: `ops`, or a part of that.
pub(crate) fn scaled(ops: u64) -> u64 {
    (ops / part()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_the_family_it_begins_with() {
        let workload = |name: &str| Workload::new(name, "", Vec::new());
        assert!(workload("W4-1k").is("W4") && workload("W4-1k").is("W4-1k"));
        assert!(workload("Arena/Contains/4blocks").is("Arena/Contains"));
        assert!(workload("OneWay_Inline_Synchronized_1_64bytes").is("OneWay"));
        assert!(!workload("W11").is("W1") && !workload("W1b").is("W1") && !workload("W4-1k").is("W4-10k"));
    }
}
