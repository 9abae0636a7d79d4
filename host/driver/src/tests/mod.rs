//! The interface against the fake host: what a driver author may rely on, with any host that keeps to the table.

mod block;
mod channels;
mod dispatching;
mod futures;
mod hooks;
mod net;
mod nodes;
mod table;

use std::sync::{Arc, Mutex};

/// Notes what happens, in order.
#[derive(Debug, Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic under the lock").push(what.into());
    }

    /// What was noted since the last look.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic under the lock"))
    }
}

/// Notes its drop.
struct Noted(Journal, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.note(format!("{} dropped", self.1));
    }
}

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the destructor panicked");
        }
    }
}
