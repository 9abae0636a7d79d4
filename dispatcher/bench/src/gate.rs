//! What a measuring thread sleeps at until all has happened.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// After so long something hangs.
const HANG: Duration = Duration::from_secs(100);

/// Closed until it is opened, once.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().expect("nobody panics with it") = true;
        self.opened.notify_all();
    }

    /// Sleeps until it is open, and says whether it is.
    pub(crate) fn pass(&self) -> bool {
        let open = self.open.lock().expect("nobody panics with it");
        let (open, _) = self.opened.wait_timeout_while(open, HANG, |open| !*open).expect("nobody panics with it");
        *open
    }
}

/// Lives as long as the process, which measures one pair: so messages can share it without counting references.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
