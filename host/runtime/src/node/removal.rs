//! The removal of one node, as a state machine of its own.
//!
//! ```text
//!            mark                  (start ended)          (no children)           (driver gone)
//! Running ─────────▶ WaitingOnBind ────────────▶ WaitingOnChildren ────▶ WaitingOnDriver ────▶ Destroyed
//! ```
//!
//! A whole subtree is marked first and checked then, so that nothing is bound or added below a node that leaves.
//! [`Removal::check`] walks as far as the facts allow. The invariant: a driver is told to stop only when its node has
//! no child any more, so children stop before parents; siblings do not wait for each other.
//!
//! It calls nobody and holds nothing but its state.

/// How far the removal of a node has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The node stays.
    Running,
    /// The node is to go; its driver is still starting and is left to finish that.
    WaitingOnBind,
    /// Its children go first.
    WaitingOnChildren,
    /// Its driver was told to stop.
    WaitingOnDriver,
    /// Gone. The end of every removal.
    Destroyed,
}

/// What the machine must know of the driver that is bound to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverPresence {
    /// There is none, or it is gone.
    Absent,
    /// Its start has not ended.
    Starting,
    /// There is one, in whatever state.
    Present,
}

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Duty {
    /// Nothing, until a fact changes.
    Wait,
    /// Ask the bound driver to stop. Returned once a removal.
    StopDriver,
    /// Take the node out of the tree. Returned once a removal, last.
    Destroy,
}

impl Removal {
    /// Begins the removal; false if it has begun before.
    pub(crate) fn mark(&mut self) -> bool {
        let first = *self == Removal::Running;
        if first {
            *self = Removal::WaitingOnBind;
        }
        first
    }

    /// Whether the removal has begun.
    pub(crate) fn is_leaving(self) -> bool {
        self != Removal::Running
    }

    /// Advances as far as the facts allow.
    pub(crate) fn check(&mut self, children: usize, driver: DriverPresence) -> Duty {
        loop {
            match *self {
                Removal::Running | Removal::Destroyed => return Duty::Wait,
                Removal::WaitingOnBind if driver == DriverPresence::Starting => return Duty::Wait,
                Removal::WaitingOnBind => *self = Removal::WaitingOnChildren,
                Removal::WaitingOnChildren if children > 0 => return Duty::Wait,
                Removal::WaitingOnChildren => {
                    *self = Removal::WaitingOnDriver;
                    if driver != DriverPresence::Absent {
                        return Duty::StopDriver;
                    }
                }
                Removal::WaitingOnDriver if driver != DriverPresence::Absent => return Duty::Wait,
                Removal::WaitingOnDriver => {
                    *self = Removal::Destroyed;
                    return Duty::Destroy;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DriverPresence::{Absent, Present, Starting};

    #[test]
    fn a_node_that_is_not_marked_stays() {
        let mut removal = Removal::Running;
        assert_eq!(removal.check(0, Absent), Duty::Wait);
        assert_eq!(removal, Removal::Running);
        assert!(!removal.is_leaving());
    }

    #[test]
    fn a_removal_begins_once() {
        let mut removal = Removal::Running;
        assert!(removal.mark());
        assert!(!removal.mark());
        assert!(removal.is_leaving());
    }

    #[test]
    fn a_node_without_children_and_driver_goes_at_once() {
        let mut removal = Removal::Running;
        assert!(removal.mark());
        assert_eq!(removal.check(0, Absent), Duty::Destroy);
        assert_eq!(removal.check(0, Absent), Duty::Wait);
    }

    #[test]
    fn the_driver_is_told_once_and_only_when_the_last_child_is_gone() {
        let mut removal = Removal::Running;
        assert!(removal.mark());
        assert_eq!(removal.check(2, Starting), Duty::Wait);
        assert_eq!(removal, Removal::WaitingOnBind);
        assert_eq!(removal.check(2, Present), Duty::Wait);
        assert_eq!(removal, Removal::WaitingOnChildren);
        assert_eq!(removal.check(1, Present), Duty::Wait);
        assert_eq!(removal.check(0, Present), Duty::StopDriver);
        assert_eq!(removal.check(0, Present), Duty::Wait);
        assert_eq!(removal, Removal::WaitingOnDriver);
        assert_eq!(removal.check(0, Absent), Duty::Destroy);
        assert_eq!(removal, Removal::Destroyed);
    }

    #[test]
    fn a_driver_that_fails_to_start_while_its_node_leaves_is_not_told_to_stop() {
        let mut removal = Removal::Running;
        assert!(removal.mark());
        assert_eq!(removal.check(0, Starting), Duty::Wait);
        assert_eq!(removal.check(0, Absent), Duty::Destroy);
    }
}
