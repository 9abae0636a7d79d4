//! Listening sockets.

use std::future::Future;

use super::BindError;
use super::stream::Stream;
use super::wait::{Interest, Readiness, Ready, WaitHandle};
use crate::abi::{CallSite, SocketObject, here};
use crate::dispatcher::PostError;
use crate::{Dispatcher, Status, current};

/// A socket that accepts connections. Dropping it closes it, and removes the path of a Unix one.
#[derive(Debug)]
pub struct Listener {
    socket: SocketObject,
    local: String,
}

impl Listener {
    /// Listens on `HOST:PORT` (port 0: any free one) or `unix:/path`, from the current dispatcher.
    ///
    /// # Errors
    /// A sentence that names the address. `AddressInUse`, `InvalidArgs` for a malformed address, `BadState` outside of
    /// any dispatcher.
    #[track_caller]
    pub fn bind(address: &str) -> Result<Listener, BindError> {
        match current() {
            Some(dispatcher) => Listener::bind_on(&dispatcher, address),
            None => Err(BindError::new(address, (Status::BadState, String::new()))),
        }
    }

    /// As [`bind`](Self::bind), for the runtime that `dispatcher` belongs to.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    #[track_caller]
    pub fn bind_on(dispatcher: &Dispatcher, address: &str) -> Result<Listener, BindError> {
        let (socket, local) = SocketObject::listen(here::<Listener>(), dispatcher.object(), address)
            .map_err(|error| BindError::new(address, error))?;
        Ok(Listener { socket, local })
    }

    pub(crate) fn object(&self) -> &SocketObject {
        &self.socket
    }

    /// The real address, in the form that `bind` takes.
    pub fn local_address(&self) -> &str {
        &self.local
    }

    /// Takes a connection that waits, with the address of its other side.
    ///
    /// # Errors
    /// `ShouldWait`: none waits. `NoResources`: the process has no descriptor left; the connection still waits.
    pub fn try_accept(&self) -> Result<(Stream, String), Status> {
        let (socket, peer) = self.socket.accept()?;
        Ok((Stream::from_object(socket), peer))
    }

    /// The next connection, with the address of its other side.
    ///
    /// # Errors
    /// As [`try_accept`](Self::try_accept) without `ShouldWait`, and those of a wait.
    ///
    /// # Cancel safety
    /// Dropping the future loses no connection.
    #[track_caller]
    pub fn accept(&self) -> impl Future<Output = Result<(Stream, String), Status>> {
        self.accept_at(here::<Listener>())
    }

    async fn accept_at(&self, site: &'static CallSite) -> Result<(Stream, String), Status> {
        loop {
            match self.try_accept() {
                Err(Status::ShouldWait) => {}
                done => return done,
            }
            Ready::on_socket(site, &self.socket, Interest::READABLE).await?;
        }
    }

    /// Completes when a connection waits.
    #[track_caller]
    pub fn readable(&self) -> Ready<'_> {
        Ready::on_socket(here::<Listener>(), &self.socket, Interest::READABLE)
    }

    /// Calls `f` once on `dispatcher` when a connection waits.
    ///
    /// # Errors
    /// The dispatcher is shut down (`BadState`); the closure is inside the error.
    #[track_caller]
    pub fn begin_wait<F>(&self, dispatcher: &Dispatcher, f: F) -> Result<WaitHandle, PostError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        self.socket
            .begin_wait(here::<F>(), dispatcher.object(), Interest::READABLE.to_raw(), f)
            .map(WaitHandle::from_object)
            .map_err(PostError::new)
    }
}
