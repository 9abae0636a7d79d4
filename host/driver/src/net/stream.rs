//! Connected sockets.

use std::future::Future;
use std::io::IoSlice;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use super::BindError;
use super::wait::{Armed, Interest, On, Readiness, Ready, WaitHandle};
use crate::abi::{self, CallSite, SocketObject, here};
use crate::dispatcher::PostError;
use crate::{Dispatcher, Status, current};

/// A connection. All methods take `&self`: one task may read while another writes. Dropping it closes it.
#[derive(Debug)]
pub struct Stream {
    // The waits are dropped, and so taken back, before the socket is closed.
    read_wait: Mutex<Armed>,
    write_wait: Mutex<Armed>,
    socket: SocketObject,
}

/// Which direction of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Nothing more is read.
    Read,
    /// Nothing more is written; the other side sees the end of the stream.
    Write,
    /// Both.
    Both,
}

impl Stream {
    pub(crate) fn from_object(socket: SocketObject) -> Self {
        Stream { read_wait: Mutex::default(), write_wait: Mutex::default(), socket }
    }

    pub(crate) fn object(&self) -> &SocketObject {
        &self.socket
    }

    /// Connects to `HOST:PORT` or `unix:/path`, from the current dispatcher.
    ///
    /// # Errors
    /// A sentence that names the address, such as for `ConnectionRefused`.
    #[track_caller]
    pub fn connect(address: &str) -> impl Future<Output = Result<Stream, BindError>> {
        Stream::connect_at(here::<Stream>(), address)
    }

    async fn connect_at(site: &'static CallSite, address: &str) -> Result<Stream, BindError> {
        let failed = |status: Status| BindError::new(address, (status, String::new()));
        let dispatcher = current().ok_or_else(|| failed(Status::BadState))?;
        let socket = SocketObject::connect(site, dispatcher.object(), address)
            .map_err(|error| BindError::new(address, error))?;
        let stream = Stream::from_object(socket);
        stream.ready_at(site, Interest::WRITABLE).await.map_err(failed)?;
        stream.socket.take_error().map_err(failed)?;
        Ok(stream)
    }

    /// Reads what is there. 0 means that the other side has ended the stream (or that `into` is empty).
    ///
    /// # Errors
    /// `ShouldWait`: nothing is there. Otherwise what the connection died of.
    pub fn try_read(&self, into: &mut [u8]) -> Result<usize, Status> {
        self.socket.read(into)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// `ShouldWait`: no room. `PeerClosed`: nobody reads any more. Otherwise what the connection died of.
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, Status> {
        self.socket.write(&[IoSlice::new(bytes)])
    }

    /// Writes as much of `slices`, in their order, as there is room for.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> Result<usize, Status> {
        self.socket.write(slices)
    }

    /// Reads at least one byte, unless the other side has ended the stream (0) or `into` is empty.
    ///
    /// # Errors
    /// What the connection died of, or what a wait ends with.
    ///
    /// # Cancel safety
    /// Dropping the future loses no bytes.
    #[track_caller]
    pub fn read(&self, into: &mut [u8]) -> impl Future<Output = Result<usize, Status>> {
        self.read_at(here::<Stream>(), into)
    }

    async fn read_at(&self, site: &'static CallSite, into: &mut [u8]) -> Result<usize, Status> {
        loop {
            match self.try_read(into) {
                Err(Status::ShouldWait) => {}
                done => return done,
            }
            self.ready_at(site, Interest::READABLE).await?;
        }
    }

    /// Fills `into`.
    ///
    /// # Errors
    /// `PeerClosed`: the stream ended before. Otherwise as [`read`](Self::read).
    ///
    /// # Cancel safety
    /// None: a dropped future may have read a part.
    #[track_caller]
    pub fn read_exact(&self, into: &mut [u8]) -> impl Future<Output = Result<(), Status>> {
        let site = here::<Stream>();
        async move {
            let mut into = into;
            while !into.is_empty() {
                match self.read_at(site, into).await? {
                    0 => return Err(Status::PeerClosed),
                    count => into = &mut into[count..],
                }
            }
            Ok(())
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// What the connection died of, or what a wait ends with.
    ///
    /// # Cancel safety
    /// None: a dropped future may have written a part.
    #[track_caller]
    pub fn write_all(&self, bytes: &[u8]) -> impl Future<Output = Result<(), Status>> {
        let site = here::<Stream>();
        async move { self.write_all_at(site, &mut [IoSlice::new(bytes)]).await }
    }

    /// Writes all of `slices`, in their order. They are advanced past what was written.
    ///
    /// # Errors
    /// As [`write_all`](Self::write_all).
    ///
    /// # Cancel safety
    /// None: a dropped future may have written a part.
    #[track_caller]
    pub fn write_all_vectored(&self, slices: &mut [IoSlice<'_>]) -> impl Future<Output = Result<(), Status>> {
        self.write_all_at(here::<Stream>(), slices)
    }

    async fn write_all_at(&self, site: &'static CallSite, mut slices: &mut [IoSlice<'_>]) -> Result<(), Status> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.try_write_vectored(slices) {
                Ok(0) => return Err(Status::PeerClosed),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(Status::ShouldWait) => drop(self.ready_at(site, Interest::WRITABLE).await?),
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// Completes when reading will not block.
    #[track_caller]
    pub fn readable(&self) -> Ready<'_> {
        self.ready_at(here::<Stream>(), Interest::READABLE)
    }

    /// Completes when writing will not block.
    #[track_caller]
    pub fn writable(&self) -> Ready<'_> {
        self.ready_at(here::<Stream>(), Interest::WRITABLE)
    }

    /// Whether reading will not block, for futures that watch several things. The task that polled last is woken; one
    /// that polls no more is woken in vain at most once.
    ///
    /// # Errors
    /// What a wait ends with.
    #[track_caller]
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<Result<Readiness, Status>> {
        self.poll_wait(here::<Stream>(), &self.read_wait, Interest::READABLE, cx)
    }

    /// Whether writing will not block; as [`poll_readable`](Self::poll_readable).
    ///
    /// # Errors
    /// What a wait ends with.
    #[track_caller]
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<Result<Readiness, Status>> {
        self.poll_wait(here::<Stream>(), &self.write_wait, Interest::WRITABLE, cx)
    }

    fn poll_wait(
        &self,
        site: &'static CallSite,
        armed: &Mutex<Armed>,
        interest: Interest,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Readiness, Status>> {
        armed.lock().unwrap_or_else(PoisonError::into_inner).poll(site, &On::Socket(&self.socket), interest, cx)
    }

    /// Completes when the stream is ready for some of `interest`.
    #[track_caller]
    pub fn ready(&self, interest: Interest) -> Ready<'_> {
        self.ready_at(here::<Stream>(), interest)
    }

    fn ready_at(&self, site: &'static CallSite, interest: Interest) -> Ready<'_> {
        Ready::on_socket(site, &self.socket, interest)
    }

    /// Calls `f` once on `dispatcher` when the stream is ready for some of `interest`.
    ///
    /// # Errors
    /// The dispatcher is shut down (`BadState`); the closure is inside the error.
    #[track_caller]
    pub fn begin_wait<F>(&self, dispatcher: &Dispatcher, interest: Interest, f: F) -> Result<WaitHandle, PostError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        self.socket
            .begin_wait(here::<F>(), dispatcher.object(), interest.to_raw(), f)
            .map(WaitHandle::from_object)
            .map_err(PostError::new)
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// `NotConnected`, or what the connection died of.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Status> {
        self.socket.shutdown(match how {
            Shutdown::Read => abi::SHUTDOWN_READ,
            Shutdown::Write => abi::SHUTDOWN_WRITE,
            Shutdown::Both => abi::SHUTDOWN_READ | abi::SHUTDOWN_WRITE,
        })
    }

    /// The address of this side.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn local_address(&self) -> Result<String, Status> {
        self.socket.local_address()
    }

    /// The address of the other side; a Unix peer without a name is `unix:`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer_address(&self) -> Result<String, Status> {
        self.socket.peer_address()
    }
}
