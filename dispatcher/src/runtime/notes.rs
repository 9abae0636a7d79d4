//! What is noted of callbacks for whoever tests: see [`probe`].
//!
//! Everything is looked up inside of the closures that are handed to the probe, so that nothing of it is left in a build
//! for production.

use super::callback_queue::{Kind, OpId, Outcome, Stage, TypeNameOf};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::ids::DispatcherId;
use super::live_futures::FutureId;
use crate::site::Site;
use crate::sync::probe::{self, Note, Ticket, Told};

impl OpId {
    /// What notes name it by.
    pub(crate) fn ticket(self, dispatcher: DispatcherId) -> Ticket {
        Ticket { dispatcher: dispatcher.as_raw(), operation: self.as_key(), is_future: false }
    }
}

impl FutureId {
    /// What notes name it by.
    pub(crate) fn ticket(self, dispatcher: DispatcherId) -> Ticket {
        Ticket { dispatcher: dispatcher.as_raw(), operation: self.as_key(), is_future: true }
    }
}

impl Core {
    /// Notes that an operation was accepted, and whether it is ready.
    #[inline]
    pub(super) fn note_accepted(&self, dispatcher: DispatcherId, id: OpId) {
        probe::note(|| {
            let Some((entry, details)) = self.queue.look(id) else { unreachable!("it was accepted a moment ago") };
            Note::Accepted {
                ticket: id.ticket(dispatcher),
                kind: entry.kind.as_str(),
                type_name: details.location.type_name().unwrap_or_else(|| entry.callback.type_name()),
                location: details.location,
                deadline: details.deadline.as_nanos(),
                always_on: entry.flavour.is_always_on(),
            }
        });
        self.note_ready(dispatcher, id);
    }

    /// Notes that something was accepted which is ready and comes next.
    #[inline]
    pub(super) fn note_passed(
        dispatcher: DispatcherId,
        id: OpId,
        kind: Kind,
        flavour: Flavour,
        location: Site,
        type_name: TypeNameOf,
    ) {
        probe::note(|| Note::Accepted {
            ticket: id.ticket(dispatcher),
            kind: kind.as_str(),
            type_name: location.type_name().unwrap_or_else(type_name),
            location,
            deadline: u64::MAX,
            always_on: flavour.is_always_on(),
        });
        probe::note(|| Note::Ready { ticket: id.ticket(dispatcher), told: Told::Outcome });
    }

    /// Notes that something was accepted which is the last of the row by now.
    #[inline]
    pub(super) fn note_posted(&self, dispatcher: DispatcherId, id: OpId) {
        probe::note_some(|| {
            let (posted, _) = self.queue.newest_of_row()?;
            Some(Note::Accepted {
                ticket: id.ticket(dispatcher),
                kind: posted.manner.kind().as_str(),
                type_name: posted.location.type_name().unwrap_or_else(|| posted.callback.type_name()),
                location: posted.location,
                deadline: u64::MAX,
                always_on: posted.manner.flavour().is_always_on(),
            })
        });
        probe::note_some(|| {
            let (_, outcome) = self.queue.newest_of_row()?;
            Some(Note::Ready { ticket: id.ticket(dispatcher), told: outcome.as_told() })
        });
    }

    /// Notes that an operation is ready, if it is.
    #[inline]
    pub(super) fn note_ready(&self, dispatcher: DispatcherId, id: OpId) {
        let ticket = || self.queue.noted_as(id).ticket(dispatcher);
        probe::note_some(|| {
            let (entry, _) = self.queue.look(id)?;
            let told = entry.outcome.as_told();
            match self.queue.stage(id)? {
                Stage::Ready => Some(Note::Ready { ticket: ticket(), told }),
                Stage::Parked => Some(Note::Parked { ticket: ticket(), told, comes_first: false }),
                Stage::ParkedWake => Some(Note::Parked { ticket: ticket(), told, comes_first: true }),
                _ => None,
            }
        });
    }
}

impl DispatcherInner {
    /// Notes that a task was accepted which was put onto the tray of this thread.
    #[inline]
    pub(super) fn note_put(dispatcher: DispatcherId, id: OpId, location: Site, type_name: TypeNameOf) {
        probe::note(move || Note::Accepted {
            ticket: id.ticket(dispatcher),
            kind: Kind::Task.as_str(),
            type_name: location.type_name().unwrap_or_else(type_name),
            location,
            deadline: u64::MAX,
            always_on: false,
        });
        probe::note(|| Note::Ready { ticket: id.ticket(dispatcher), told: Told::Outcome });
    }

    /// Notes that an operation is about to be called.
    #[inline]
    pub(super) fn note_begun(&self, id: OpId, outcome: Outcome, inline: bool) {
        probe::note(|| Note::Begun { ticket: id.ticket(self.id()), told: outcome.as_told(), inline });
    }
}
