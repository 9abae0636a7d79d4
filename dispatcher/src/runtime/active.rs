//! What of a dispatcher runs at this moment, so that it can be listed.

use std::time::Duration;

use super::callback_queue::{AtWork, Kind, Label, TypeNameOf};
use super::flavour::Flavour;
use super::ids::DispatcherId;
use crate::site::Site;
use crate::sync::Arc;
use crate::sync::thread::{self, ThreadId};
use crate::time::Instant;

/// A callback that runs at this moment.
#[derive(Clone)]
pub(crate) struct Active {
    pub(crate) thread: ThreadId,
    pub(crate) what: ActiveWhat,
    pub(crate) flavour: Flavour,
    pub(crate) since: Instant,
    /// What it waits for, if it sleeps in a blocking call.
    pub(crate) waits_for: Option<Box<WaitsFor>>,
}

/// What a callback waits for that sleeps in a blocking call.
#[derive(Clone)]
pub(crate) struct WaitsFor {
    pub(crate) what: &'static str,
    /// Who would bring it about, if that is known.
    pub(crate) whom: Option<Whom>,
}

/// Tells at each moment which dispatcher would bring about what is waited for. Called under the lock of the one that
/// waits: it takes no lock.
pub(crate) type Whom = Arc<dyn Fn() -> Option<DispatcherId> + Send + Sync>;

/// What runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ActiveWhat {
    Callback { kind: Kind, type_name: TypeNameOf, location: Site },
    ShutdownObserver,
}

impl AtWork {
    /// What runs, as it is listed: on a tray there are tasks only.
    pub(super) fn what(&self) -> ActiveWhat {
        let Label { type_name, location, .. } = self.label;
        ActiveWhat::Callback { kind: Kind::Task, type_name, location }
    }
}

/// The callback that took longest, as far as the coarse clock tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Longest {
    pub(crate) what: ActiveWhat,
    pub(crate) ran_for: Duration,
}

/// The place of a running callback in the list of what runs.
#[derive(Debug, Clone, Copy)]
#[must_use = "a callback that is entered has to be exited"]
pub(crate) struct ActiveId(ThreadId);

impl ActiveId {
    /// The newest callback of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        ActiveId(thread::current_id())
    }
}

/// All that runs, in the order in which it began. Most often that is one callback, which has a place of its own; what few
/// dispatchers need stands elsewhere.
#[derive(Default)]
pub(crate) struct Actives {
    /// Begun before all the others, if there is one.
    first: Option<Active>,
    others: Others,
    /// Of those that have returned.
    longest: Option<Box<Longest>>,
}

/// What has begun while something else ran.
#[allow(clippy::box_collection, reason = "one word in each dispatcher, instead of three that few use")]
#[derive(Default)]
struct Others(Option<Box<Vec<Active>>>);

impl Others {
    fn push(&mut self, active: Active) {
        self.0.get_or_insert_default().push(active);
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|others| others.is_empty())
    }

    fn iter(&self) -> std::slice::Iter<'_, Active> {
        self.0.as_ref().map_or(&[][..], |others| others).iter()
    }

    fn newest_mut(&mut self, thread: ThreadId) -> Option<&mut Active> {
        self.0.as_mut()?.iter_mut().rfind(|active| active.thread == thread)
    }

    fn take_newest(&mut self, thread: ThreadId) -> Option<Active> {
        let at = self.iter().rposition(|active| active.thread == thread)?;
        self.0.as_mut().map(|others| others.remove(at))
    }
}

impl Actives {
    /// Something begins to run on this thread.
    #[inline]
    pub(super) fn enter(&mut self, what: ActiveWhat, flavour: Flavour, since: Instant) -> ActiveId {
        let id = ActiveId::of_this_thread();
        let active = Active { thread: id.0, what, flavour, since, waits_for: None };
        match self.first.is_none() && self.others.is_empty() {
            true => self.first = Some(active),
            false => self.others.push(active),
        }
        id
    }

    /// The newest of a thread has returned.
    #[inline(always)]
    pub(super) fn exit(&mut self, id: ActiveId, now: Instant) {
        // By the coarse clock most take no time at all.
        let is_plain = self.first.as_ref().is_some_and(|first| first.thread == id.0 && first.since == now);
        if is_plain && self.others.is_empty() {
            self.first = None;
            return;
        }
        self.exit_slowly(id, now);
    }

    #[cold]
    fn exit_slowly(&mut self, id: ActiveId, now: Instant) {
        // Inline calls nest only across dispatchers, but an unsynchronized one may nest.
        let ended = match self.others.take_newest(id.0) {
            Some(ended) => Some(ended),
            None => self.first.take_if(|first| first.thread == id.0),
        };
        let Some(Active { what, since, .. }) = ended else { return };
        self.note_longest(what, now.duration_since(since));
    }

    /// The newest of a thread has returned, and begins again.
    #[inline(always)]
    pub(super) fn begin_again(&mut self, id: ActiveId, now: Instant) -> Option<&Active> {
        if self.newest_of(id)?.since != now {
            self.restart(id, now);
        }
        self.newest_of(id)
    }

    #[cold]
    fn restart(&mut self, id: ActiveId, now: Instant) {
        let newest = self.others.newest_mut(id.0).or(self.first.as_mut()).filter(|active| active.thread == id.0);
        let Some(active) = newest else { return };
        let (what, since) = (active.what, std::mem::replace(&mut active.since, now));
        self.note_longest(what, now.duration_since(since));
    }

    /// Something has returned that ran so long.
    pub(super) fn note_longest(&mut self, what: ActiveWhat, ran_for: Duration) {
        if ran_for > self.longest.as_ref().map_or(Duration::ZERO, |longest| longest.ran_for) {
            let longest = Longest { what, ran_for };
            match &mut self.longest {
                Some(place) => **place = longest,
                none => *none = Some(Box::new(longest)),
            }
        }
    }

    /// The newest of a thread.
    #[inline]
    pub(super) fn newest_of(&self, id: ActiveId) -> Option<&Active> {
        let newest = self.others.iter().rfind(|active| active.thread == id.0).or(self.first.as_ref());
        newest.filter(|active| active.thread == id.0)
    }

    /// How the newest of a thread was posted.
    pub(super) fn flavour_of(&self, id: ActiveId) -> Flavour {
        self.newest_of(id).map_or(Flavour::REGULAR, |active| active.flavour)
    }

    /// Notes what the newest of a thread waits for; what it waited for before comes back.
    pub(super) fn note_wait(&mut self, thread: ThreadId, waits_for: Option<Box<WaitsFor>>) -> Option<Box<WaitsFor>> {
        let newest = self.others.newest_mut(thread).or(self.first.as_mut());
        let newest = newest.filter(|active| active.thread == thread)?;
        std::mem::replace(&mut newest.waits_for, waits_for)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Active> + '_ {
        self.first.iter().chain(self.others.iter())
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    /// The longest of those that have returned.
    pub(crate) fn longest(&self) -> Option<Longest> {
        self.longest.as_deref().copied()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn enter(actives: &mut Actives, flavour: Flavour, since: u64) -> ActiveId {
        actives.enter(ActiveWhat::ShutdownObserver, flavour, Instant::from_nanos(since))
    }

    #[test]
    fn what_a_thread_began_last_ends_first_and_the_longest_is_kept() {
        let mut actives = Actives::default();
        let outer = enter(&mut actives, Flavour::REGULAR, 1);
        let inner = enter(&mut actives, Flavour::ALWAYS_ON, 2);
        assert!(actives.note_wait(inner.0, Some(Box::new(WaitsFor { what: "a reply", whom: None }))).is_none());
        let waits: Vec<_> = actives.iter().map(|active| active.waits_for.as_ref().map(|it| it.what)).collect();
        assert_eq!(waits, [None, Some("a reply")]);
        assert_eq!(actives.flavour_of(inner), Flavour::ALWAYS_ON);
        actives.exit(inner, Instant::from_nanos(9));
        assert_eq!(actives.flavour_of(outer), Flavour::REGULAR);
        actives.exit(outer, Instant::from_nanos(1));
        assert!(actives.is_empty());
        assert_eq!(actives.longest().expect("one took time").ran_for, Duration::from_nanos(7));
    }

    #[test]
    fn threads_end_in_any_order() {
        let mut actives = Actives::default();
        let here = enter(&mut actives, Flavour::REGULAR, 1);
        let enter_there = || enter(&mut actives, Flavour::ALWAYS_ON, 1);
        let there = std::thread::scope(|scope| scope.spawn(enter_there).join()).expect("it does not panic");
        actives.exit(here, Instant::from_nanos(1));
        let again = enter(&mut actives, Flavour::REGULAR, 1);
        assert_eq!(
            actives.iter().map(|active| active.flavour).collect::<Vec<_>>(),
            [Flavour::ALWAYS_ON, Flavour::REGULAR]
        );
        actives.exit(there, Instant::from_nanos(1));
        actives.exit(again, Instant::from_nanos(1));
        actives.exit(again, Instant::from_nanos(5));
        assert!(actives.is_empty() && actives.longest().is_none());
    }
}
