//! Names for numbers: callbacks note who posted them by number, which costs nothing; a dump looks the names up.

use std::collections::HashMap;

use super::super::call_stack::{self, ThreadView, Who};
use super::super::callback_queue::Poster;
use super::super::ids::DispatcherId;
use super::super::runtime_inner::RuntimeInner;
use crate::sync::thread::ThreadId;

/// A driver or a dispatcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Named {
    /// Its number.
    pub id: u64,
    /// Its name; `None` when it is gone, or belongs to another runtime.
    pub name: Option<String>,
}

/// Where code ran: in a callback, or in a driver that a thread had entered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PlaceDump {
    /// The driver.
    pub driver: Named,
    /// The dispatcher; `None` where a driver was entered without one.
    pub dispatcher: Option<Named>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ThreadName {
    /// Its number in this program.
    pub id: ThreadId,
    /// What the operating system calls it, where it does.
    pub os_id: Option<u32>,
    /// Its name; `None` if it was given none.
    pub name: Option<String>,
}

impl From<Who> for ThreadName {
    fn from(who: Who) -> Self {
        ThreadName { id: who.id, os_id: who.os_id, name: who.name }
    }
}

/// The names of a runtime's drivers and dispatchers, and of all threads, at one moment. Made before any lock of a
/// dispatcher is taken.
pub(super) struct Names {
    drivers: HashMap<u64, String>,
    dispatchers: HashMap<u64, String>,
    threads: HashMap<ThreadId, ThreadView>,
}

impl Names {
    pub(super) fn of(runtime: &RuntimeInner) -> Self {
        let mut names = Names { drivers: HashMap::new(), dispatchers: HashMap::new(), threads: HashMap::new() };
        for driver in runtime.drivers() {
            names.drivers.insert(driver.id().as_raw(), driver.name().to_owned());
            for dispatcher in driver.dispatchers() {
                names.dispatchers.insert(dispatcher.id().as_raw(), dispatcher.options().name.to_string());
            }
        }
        names.threads = call_stack::known_threads().into_iter().map(|thread| (thread.who.id, thread)).collect();
        names
    }

    /// The place of these numbers, 0 for none.
    pub(super) fn place(&self, driver: u64, dispatcher: u64) -> Option<PlaceDump> {
        let named = |names: &HashMap<u64, String>, id| Named { id, name: names.get(&id).cloned() };
        (driver != 0).then(|| PlaceDump {
            driver: named(&self.drivers, driver),
            dispatcher: (dispatcher != 0).then(|| named(&self.dispatchers, dispatcher)),
        })
    }

    pub(super) fn dispatcher(&self, id: DispatcherId) -> Option<Named> {
        let id = id.as_raw();
        Some(Named { id, name: self.dispatchers.get(&id).cloned() })
    }

    pub(super) fn poster(&self, poster: Poster) -> Option<PlaceDump> {
        self.place(poster.driver, poster.dispatcher)
    }

    /// The name of a thread on which something runs.
    pub(super) fn thread(&self, id: ThreadId) -> ThreadName {
        match self.threads.get(&id) {
            Some(thread) => thread.who.clone().into(),
            None => ThreadName { id, os_id: None, name: None },
        }
    }

    /// Where a thread is at this moment.
    pub(super) fn place_of_thread(&self, id: ThreadId) -> Option<PlaceDump> {
        self.threads.get(&id).and_then(|thread| self.place(thread.driver, thread.dispatcher))
    }
}
