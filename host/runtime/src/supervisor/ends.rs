//! The ends of instances: who is watched, what follows by policy, and what becomes of the node.

use std::time::Duration;

use super::restart::{End, History, OnPanic, Verdict};
use super::{Action, After, Consequence, Failure, Instance, Supervisor, rules};
use crate::life_cycle::InstanceId;
use crate::node::Binding;

impl Supervisor {
    /// Has the stop of an instance watched, if it has a timeout of its own.
    pub(super) fn watch(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let timeout = self.rules.rule(instance.rule).policy.stop_timeout;
        if let Some(timeout) = timeout
            && !std::mem::replace(&mut instance.watched, true)
        {
            self.actions.push(Action::Watch(id, timeout));
        }
    }

    pub(super) fn release(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.remove(&id) else { return };
        self.actions.push(Action::Released(id));
        self.free_node(&instance);
    }

    /// Goes on as if an instance were gone of which something still runs, and this is what it is stuck in.
    pub(super) fn give_up(&mut self, id: InstanceId, stuck: &str) {
        let Some(mut instance) = self.instances.remove(&id) else { return };
        self.actions.push(Action::GivenUp(id, stuck.to_owned()));
        // Two of it beside each other would be worse than none.
        instance.after = Some(After::Quarantine);
        self.free_node(&instance);
    }

    pub(super) fn free_node(&mut self, instance: &Instance) {
        let (node, rule) = (instance.node, instance.rule);
        let after = instance.after.unwrap_or(if instance.failed { After::Quarantine } else { After::Offer });
        let leaving = self.tree.get(node).is_none_or(|node| node.removal.is_leaving());
        let retired = self.rules.get(rule).is_none_or(rules::Entry::is_retired);
        let binding = match after {
            After::Restart(Duration::ZERO) | After::Offer | After::OfferOthers => Binding::Unbound,
            _ if leaving || retired => Binding::Unbound,
            After::Restart(after) => {
                self.next_wait += 1;
                self.actions.push(Action::RestartLater { node, number: self.next_wait, after });
                Binding::Waiting(rule, self.next_wait)
            }
            After::Hold => Binding::Held(rule),
            After::Done => Binding::Done(rule),
            After::Quarantine => Binding::Quarantined(rule),
        };
        self.set_binding(node, binding);
        if !leaving && !retired && after == After::Restart(Duration::ZERO) {
            self.bind(node, rule);
        }
        self.rules.note_gone(rule);
        let unwanted = (after == After::OfferOthers).then_some(rule);
        self.offer_except(node, unwanted);
        if after == After::OfferOthers && self.tree.get(node).is_some_and(|node| node.binding == Binding::Unbound) {
            self.set_binding(node, if instance.failed { Binding::Quarantined(rule) } else { Binding::Done(rule) });
        }
        self.check(node);
        self.note_all_started();
        self.stop_if_nothing_is_left();
    }

    pub(super) fn stop_if_nothing_is_left(&mut self) {
        let expected = self.waiting > 0 || self.held > 0 || self.rules.has_held() || !self.homeless.is_empty();
        if self.instances.is_empty() && !expected {
            // Only a driver brings nodes, so nothing could ever start again.
            self.stop_all();
        }
    }

    pub(super) fn record(&mut self, id: InstanceId, failure: Failure) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        // The first failure is the reason; what follows from it (a canceled start, say) is not worth a line.
        if std::mem::replace(&mut instance.failed, true) {
            return;
        }
        let (rule, asked_for) = (instance.rule, instance.after.is_some());
        let consequence = match failure {
            Failure::Panic(_) => self.consequence(id, End::Panic),
            Failure::Start(_) | Failure::Ended(_) => self.consequence(id, End::Failure),
            // It was going anyway.
            Failure::Stop(_) => Consequence::Down,
        };
        self.actions.push(Action::Failed(id, failure, consequence));
        if self.all_started || asked_for {
            return;
        }
        match consequence {
            Consequence::Restart { .. } => {}
            // Another one stands in for it.
            Consequence::Rematch => self.rules.note_started(rule),
            Consequence::Down | Consequence::LimitReached => self.stop_all(),
        }
    }

    /// What the end of an instance leads to by its policy, unless it was told already what is to become of it.
    pub(super) fn consequence(&mut self, id: InstanceId, end: End) -> Consequence {
        let Some(instance) = self.instances.get_mut(&id) else { return Consequence::Down };
        let leaving = self.tree.get(instance.node).is_none_or(|node| node.removal.is_leaving());
        let policy = &self.rules.rule(instance.rule).policy;
        let abort = end == End::Panic && policy.on_panic == OnPanic::Abort;
        if (leaving || instance.after.is_some()) && !abort {
            return Consequence::Down;
        }
        let (whose, history) = self.histories.entry(instance.node).or_insert((instance.rule, History::default()));
        if *whose != instance.rule {
            (*whose, *history) = (instance.rule, History::default());
        }
        let verdict = history.ended(end, self.now, policy);
        let down = match end {
            _ if policy.rematch => After::OfferOthers,
            End::Finished => After::Done,
            End::Panic | End::Failure => After::Quarantine,
        };
        let (after, consequence) = match verdict {
            Verdict::Restart { after, number } => (After::Restart(after), Consequence::Restart { after, number }),
            Verdict::Down | Verdict::GivenUp if policy.rematch => (down, Consequence::Rematch),
            Verdict::Down => (down, Consequence::Down),
            Verdict::GivenUp => (down, Consequence::LimitReached),
            Verdict::Abort => {
                self.actions.push(Action::Abort(id));
                (down, Consequence::Down)
            }
        };
        instance.after = Some(after);
        consequence
    }
}
