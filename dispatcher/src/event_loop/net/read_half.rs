//! `ReadHalf`: reading from a socket of whichever kind, each time that there is something, until it is over.
//!
//! It is a wait for the socket to be readable, and the callback that is lent for each call. The read is over when the
//! wait has gone. A callback may stop its own read, and register another one, while it runs.

use std::cell::RefCell;
use std::panic::Location;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::error::NetError;
use crate::event_loop::source::{Interest, Waitable};
use crate::event_loop::summary::HolderKind;
use crate::event_loop::wait::Wait;

pub(super) struct ReadHalf<C: ?Sized> {
    wait: RefCell<Option<Wait>>,
    /// Absent while it runs, and when it has been told how the read ended.
    callback: RefCell<Option<Box<C>>>,
}

impl<C: ?Sized> ReadHalf<C> {
    pub(super) fn new() -> Self {
        ReadHalf { wait: RefCell::new(None), callback: RefCell::new(None) }
    }

    /// Makes the loop call `on_readable` from now on. What that is to lend comes with [`ReadHalf::keep`].
    ///
    /// # Errors
    /// When it is read already, the loop has told everybody to stop, the socket is closed, or cannot be waited on.
    pub(super) fn begin<S: Waitable>(
        &self,
        event_loop: &EventLoop,
        created: &'static Location<'static>,
        socket: &RefCell<Option<S>>,
        mut on_readable: impl FnMut(&EventLoop) + 'static,
    ) -> Result<(), NetError> {
        if self.is_active() {
            return Err(NetError::AlreadyReading);
        }
        if event_loop.net_is_canceled() {
            return Err(NetError::Canceled);
        }
        let socket = socket.borrow();
        let socket = socket.as_ref().ok_or(NetError::Closed)?;
        let created = (HolderKind::Socket, created);
        let waited =
            event_loop.wait_of(created, socket, Interest::READABLE, move |event_loop, _| on_readable(event_loop));
        *self.wait.borrow_mut() = Some(waited.map_err(|refused| NetError::from(refused.reason()))?);
        Ok(())
    }

    pub(super) fn is_active(&self) -> bool {
        self.wait.borrow().is_some()
    }

    /// The callback, for a call.
    pub(super) fn lend(&self) -> Option<Box<C>> {
        self.callback.take()
    }

    /// The callback for the calls to come.
    pub(super) fn keep(&self, callback: Box<C>) {
        *self.callback.borrow_mut() = Some(callback);
    }

    /// The callback has been called: it is kept for the next call, unless the read is over, or another one has begun.
    pub(super) fn put_back(&self, callback: Box<C>) {
        if self.is_active() && self.callback.borrow().is_none() {
            self.keep(callback);
        }
    }

    /// The read is over; its callback may still be told so.
    pub(super) fn end(&self) {
        drop(self.wait.take());
    }

    /// Takes the read back, and drops its callback. Answers whether there was one.
    pub(super) fn stop(&self) -> bool {
        let (wait, callback) = (self.wait.take(), self.callback.take());
        wait.is_some() || callback.is_some()
    }
}
