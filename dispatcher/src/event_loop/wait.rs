//! [`Wait`]: a callback of a loop when a descriptor becomes ready, once or each time.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use crate::event_loop::event_loop::{EventLoop, Local, WAIT_KEY};
use crate::event_loop::fd_waits::LOST;
use crate::event_loop::reactor::WaitId;
use crate::event_loop::slots::Key;
use crate::event_loop::source::{Interest, Readiness, SourceId, WaitError, WaitRefused, Waitable};
use crate::event_loop::summary::{Holder, HolderKind};

/// A wait in its loop's table.
pub(crate) struct WaitSlot {
    source: SourceId,
    interest: Interest,
    callback: Callback,
    /// What the reactor knows it by; `None` while its callback runs.
    armed: Option<WaitId>,
    since_shutdown: bool,
    kind: HolderKind,
    created: &'static Location<'static>,
}

type OnceFn = Box<dyn FnOnce(&EventLoop, Readiness)>;
type EachTimeFn = Box<dyn FnMut(&EventLoop, Readiness)>;

enum Callback {
    Once(OnceFn),
    EachTime(EachTimeFn),
    /// It is being called.
    Lent,
}

impl WaitSlot {
    /// What keeps a loop from ending: a wait that was armed since the shutdown began.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.since_shutdown.then_some(Holder { kind: self.kind, created: self.created })
    }

    pub(crate) fn disarm(&mut self, local: &Local) {
        if let Some(id) = self.armed.take() {
            local.reactor.cancel_wait(id);
        }
    }
}

impl EventLoop {
    /// Calls `callback` once, when `source` is ready for any of `interest`; what is ready at this moment counts.
    ///
    /// The source must stay open until the callback has been called or the wait is dropped.
    ///
    /// # Errors
    /// [`WaitError`] with the callback in it, when the source cannot be waited on or the loop has ended.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::Interest;
    /// use fuchsine_dispatcher::event_loop::LoopManager;
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let (near, mut far) = UnixStream::pair()?;
    /// far.write_all(b"!")?;
    /// LoopManager::builder()
    ///     .loops(1)
    ///     .setup(0, move |event_loop| {
    ///         let near = std::rc::Rc::new(near);
    ///         let kept_open = near.clone();
    ///         let wait = event_loop.wait_once(&*near, Interest::READABLE, move |event_loop, ready| {
    ///             assert!(ready.is_readable());
    ///             drop(kept_open);
    ///             event_loop.manager().unwrap().shutdown();
    ///         });
    ///         wait.unwrap().detach();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wait_once<S, F>(&self, source: &S, interest: Interest, callback: F) -> Result<Wait, WaitError<F>>
    where
        S: Waitable + ?Sized,
        F: FnOnce(&EventLoop, Readiness) + 'static,
    {
        let created = (HolderKind::Wait, Location::caller());
        self.begin_wait(source, interest, callback, created, |callback| Callback::Once(Box::new(callback)))
    }

    /// Calls `callback` each time that `source` is ready for any of `interest`, as long as the wait lives. Readiness
    /// that the callback does not use up leads to the next call.
    ///
    /// The source must stay open as long as the wait lives; if it is closed before, the callback is told of an error
    /// and a hangup, for the last time.
    ///
    /// # Errors
    /// [`WaitError`] with the callback in it, when the source cannot be waited on or the loop has ended.
    #[track_caller]
    pub fn wait<S, F>(&self, source: &S, interest: Interest, callback: F) -> Result<Wait, WaitError<F>>
    where
        S: Waitable + ?Sized,
        F: FnMut(&EventLoop, Readiness) + 'static,
    {
        let created = (HolderKind::Wait, Location::caller());
        self.begin_wait(source, interest, callback, created, |callback| Callback::EachTime(Box::new(callback)))
    }

    /// [`EventLoop::wait`] on behalf of something else, which is named if it holds the loop.
    #[track_caller]
    pub(crate) fn wait_for<S, F>(
        &self,
        kind: HolderKind,
        source: &S,
        interest: Interest,
        callback: F,
    ) -> Result<Wait, WaitError<F>>
    where
        S: Waitable + ?Sized,
        F: FnMut(&EventLoop, Readiness) + 'static,
    {
        self.wait_of((kind, Location::caller()), source, interest, callback)
    }

    /// [`EventLoop::wait_for`] on behalf of something that was made elsewhere.
    pub(crate) fn wait_of<S, F>(
        &self,
        created: (HolderKind, &'static Location<'static>),
        source: &S,
        interest: Interest,
        callback: F,
    ) -> Result<Wait, WaitError<F>>
    where
        S: Waitable + ?Sized,
        F: FnMut(&EventLoop, Readiness) + 'static,
    {
        self.begin_wait(source, interest, callback, created, |callback| Callback::EachTime(Box::new(callback)))
    }

    fn begin_wait<S: Waitable + ?Sized, F>(
        &self,
        source: &S,
        interest: Interest,
        callback: F,
        (kind, created): (HolderKind, &'static Location<'static>),
        boxed: impl FnOnce(F) -> Callback,
    ) -> Result<Wait, WaitError<F>> {
        let local = self.local();
        if !local.accepts_arming() {
            return Err(WaitError::new(WaitRefused::Closed, callback));
        }
        let source = SourceId::from(source.as_source());
        let slot = WaitSlot {
            source: source.clone(),
            interest,
            callback: Callback::Lent,
            armed: None,
            since_shutdown: local.is_shutting_down(),
            kind,
            created,
        };
        let key = local.waits.borrow_mut().insert(slot);
        let armed = local.reactor.begin_wait_on(source, interest, local.shared.clone(), WAIT_KEY | key.to_bits());
        let mut waits = local.waits.borrow_mut();
        match armed {
            Ok(id) => {
                if let Some(slot) = waits.get_mut(key) {
                    (slot.armed, slot.callback) = (Some(id), boxed(callback));
                }
                Ok(Wait { owner: local.clone(), key, is_attached: true })
            }
            Err(reason) => {
                waits.remove(key);
                Err(WaitError::new(reason, callback))
            }
        }
    }

    /// The reactor says that a source is ready.
    pub(crate) fn fire_wait(&self, key: Key, ready: Readiness) {
        let lent = {
            let mut waits = self.local().waits.borrow_mut();
            let Some(slot) = waits.get_mut(key) else { return };
            slot.armed = None;
            let lent = std::mem::replace(&mut slot.callback, Callback::Lent);
            if matches!(lent, Callback::Once(_)) {
                waits.remove(key);
            }
            lent
        };
        match lent {
            Callback::Once(callback) => self.call("wait", || callback(self, ready)),
            Callback::EachTime(callback) => self.fire_each_time(key, callback, ready),
            Callback::Lent => {}
        }
    }

    fn fire_each_time(&self, key: Key, mut callback: EachTimeFn, ready: Readiness) {
        self.call("wait", || callback(self, ready));
        let local = self.local();
        let again = {
            let mut waits = local.waits.borrow_mut();
            waits.get_mut(key).map(|slot| (slot.source.clone(), slot.interest))
        };
        let armed = again.filter(|_| local.accepts_arming()).map(|(source, interest)| {
            local.reactor.begin_wait_on(source, interest, local.shared.clone(), WAIT_KEY | key.to_bits())
        });
        match armed {
            Some(Ok(id)) => {
                if let Some(slot) = local.waits.borrow_mut().get_mut(key) {
                    (slot.armed, slot.callback) = (Some(id), Callback::EachTime(callback));
                }
            }
            Some(Err(_)) => {
                drop(local.waits.borrow_mut().remove(key));
                self.call("wait", move || callback(self, LOST));
            }
            // Dropped by its own callback, or the loop is about to end.
            None => self.call("wait", move || drop(callback)),
        }
    }
}

/// A callback that waits for readiness. Dropping it disarms it.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of.
#[must_use = "dropping a wait disarms it; `detach` leaves it to its loop"]
pub struct Wait {
    owner: Rc<Local>,
    key: Key,
    is_attached: bool,
}

impl Wait {
    /// Whether the callback may still be called.
    pub fn is_armed(&self) -> bool {
        self.owner.waits.borrow_mut().get_mut(self.key).is_some()
    }

    /// Leaves the wait to its loop: until it has been called, or, if it is called each time, until the loop ends.
    pub fn detach(mut self) {
        self.is_attached = false;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.is_attached {
            let slot = self.owner.waits.borrow_mut().remove(self.key);
            if let Some(mut slot) = slot {
                slot.disarm(&self.owner);
            }
        }
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wait({})", if self.is_armed() { "armed" } else { "over" })
    }
}
