//! [`Socket`]: a listener or a stream, real or simulated, with the waits that are pending on it.
//!
//! A wait must not outlive the socket: a closed descriptor never becomes ready, and its number may be somebody else's
//! soon. So the socket knows its waits, and closing it takes them back and has their callbacks told `Canceled`.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::{Arc, Weak};

#[cfg(feature = "testing")]
use fuchsine_dispatcher::testing::sim;
use fuchsine_dispatcher::{
    DispatcherHandle, Driver, Interest, Site, Status, WaitHandle, WakeSource, WakeVector, WakeVectorError,
};
use fuchsine_driver::abi::host::HostReadyCallback;
use parking_lot::Mutex;

use super::address::Address;
use super::real;
use crate::host::driver_status;

/// What a driver holds as a socket.
#[derive(Debug)]
pub(crate) struct Socket {
    kind: Kind,
    waits: Arc<Mutex<Waits>>,
}

#[derive(Debug)]
enum Kind {
    Listener(Arc<real::Listener>, WakeSource),
    Stream(Arc<real::Stream>, WakeSource),
    #[cfg(feature = "testing")]
    SimListener(sim::Listener),
    #[cfg(feature = "testing")]
    SimStream(sim::Stream),
}

#[derive(Default)]
struct Waits {
    next: u64,
    pending: BTreeMap<u64, Pending>,
}

struct Pending {
    site: Site,
    /// Set right after the wait has begun; until then the socket cannot be closed, because its holder is in a call.
    handle: Option<WaitHandle>,
    dispatcher: DispatcherHandle,
    /// Called when the wait has ended, on the dispatcher.
    ended: HostReadyCallback,
}

/// Which direction of a stream is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    Both,
}

/// Bytes to be written, in their order.
pub(crate) type SlicesOut<'a> = [IoSlice<'a>];

/// Why a socket was not made: a status for programs, a sentence for people.
pub(crate) type Refused = (Status, String);

/// One wait, which can be taken back.
#[derive(Debug)]
pub(crate) struct SocketWait {
    waits: Weak<Mutex<Waits>>,
    key: u64,
}

impl Socket {
    fn new(kind: Kind) -> Socket {
        Socket { kind, waits: Arc::default() }
    }

    /// A socket of the system has no identity by itself: its number may be that of another one tomorrow. So it is waited on by
    /// way of a source that has one, and shares it.
    fn over_listener(listener: real::Listener) -> Socket {
        let listener = Arc::new(listener);
        let source = WakeSource::over(Arc::clone(&listener));
        Socket::new(Kind::Listener(listener, source))
    }

    /// As [`over_listener`](Self::over_listener).
    fn over_stream(stream: real::Stream) -> Socket {
        let stream = Arc::new(stream);
        let source = WakeSource::over(Arc::clone(&stream));
        Socket::new(Kind::Stream(stream, source))
    }

    /// Listens on an address; gives the real one too.
    #[cfg_attr(not(feature = "testing"), expect(unused_variables, reason = "only a simulated network is found by it"))]
    pub(crate) fn listen(
        site: Site,
        dispatcher: &DispatcherHandle,
        address: &str,
    ) -> Result<(Socket, String), Refused> {
        let fail = |error: io::Error| (Status::from(&error), format!("cannot listen on {address}: {error}"));
        #[cfg(feature = "testing")]
        if let Some(network) = dispatcher.sim_net() {
            let listener = network.listen_from(site, address).map_err(fail)?;
            let local = listener.local_addr().to_owned();
            return Ok((Socket::new(Kind::SimListener(listener)), local));
        }
        let parsed = parse(address)?;
        let listener = real::Listener::bind(&parsed).map_err(fail)?;
        let local = listener.local_address().map_err(fail)?;
        Ok((Socket::over_listener(listener), local))
    }

    /// Begins to connect to an address.
    #[cfg_attr(not(feature = "testing"), expect(unused_variables, reason = "only a simulated network is found by it"))]
    pub(crate) fn connect(site: Site, dispatcher: &DispatcherHandle, address: &str) -> Result<Socket, Refused> {
        let fail = |error: io::Error| (Status::from(&error), format!("cannot connect to {address}: {error}"));
        #[cfg(feature = "testing")]
        if let Some(network) = dispatcher.sim_net() {
            return network
                .connect_from(site, address)
                .map(|stream| Socket::new(Kind::SimStream(stream)))
                .map_err(fail);
        }
        let parsed = parse(address)?;
        real::Stream::connect(&parsed).map(Socket::over_stream).map_err(fail)
    }

    /// Takes a connection that waits, with the address of its other side.
    pub(crate) fn accept(&self) -> io::Result<(Socket, String)> {
        match &self.kind {
            Kind::Listener(listener, _) => {
                let (stream, peer) = listener.accept()?;
                Ok((Socket::over_stream(stream), peer))
            }
            #[cfg(feature = "testing")]
            Kind::SimListener(listener) => {
                let stream = listener.accept()?;
                let peer = stream.peer_addr().to_owned();
                Ok((Socket::new(Kind::SimStream(stream)), peer))
            }
            _ => Err(wrong_kind()),
        }
    }

    /// The pending error, which is cleared.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match &self.kind {
            Kind::Stream(stream, _) => stream.take_error(),
            #[cfg(feature = "testing")]
            Kind::SimStream(_) => Ok(None),
            _ => Err(wrong_kind()),
        }
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        match &self.kind {
            Kind::Stream(stream, _) => stream.read(into),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => stream.read(into),
            _ => Err(wrong_kind()),
        }
    }

    pub(crate) fn write(&self, slices: &SlicesOut<'_>) -> io::Result<usize> {
        match &self.kind {
            Kind::Stream(stream, _) => stream.write(slices),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => write_each(stream, slices),
            _ => Err(wrong_kind()),
        }
    }

    pub(crate) fn shutdown(&self, direction: Direction) -> io::Result<()> {
        let how = match direction {
            Direction::Read => Shutdown::Read,
            Direction::Write => Shutdown::Write,
            Direction::Both => Shutdown::Both,
        };
        match &self.kind {
            Kind::Stream(stream, _) => stream.shutdown(how),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => {
                if direction != Direction::Write {
                    stream.shutdown_read();
                }
                if direction != Direction::Read {
                    stream.shutdown_write();
                }
                Ok(())
            }
            _ => Err(wrong_kind()),
        }
    }

    pub(crate) fn local_address(&self) -> io::Result<String> {
        match &self.kind {
            Kind::Listener(listener, _) => listener.local_address(),
            Kind::Stream(stream, _) => stream.local_address(),
            #[cfg(feature = "testing")]
            Kind::SimListener(listener) => Ok(listener.local_addr().to_owned()),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => Ok(stream.local_addr().to_owned()),
        }
    }

    pub(crate) fn peer_address(&self) -> io::Result<String> {
        match &self.kind {
            Kind::Stream(stream, _) => stream.peer_address(),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => Ok(stream.peer_addr().to_owned()),
            _ => Err(wrong_kind()),
        }
    }

    /// Makes it a wake vector of the driver.
    ///
    /// # Errors
    /// Those of [`Driver::register_wake_vector`].
    pub(crate) fn register_wake_vector(
        &self,
        driver: &Driver,
        interest: Interest,
    ) -> Result<WakeVector, WakeVectorError> {
        match &self.kind {
            Kind::Listener(_, source) | Kind::Stream(_, source) => driver.register_wake_vector(source, interest),
            #[cfg(feature = "testing")]
            Kind::SimListener(listener) => driver.register_wake_vector(listener, interest),
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => driver.register_wake_vector(stream, interest),
        }
    }

    /// Has `ended` called on the dispatcher once the socket is ready, or when the wait ends otherwise.
    ///
    /// # Errors
    /// The status, with `ended`, uncalled.
    pub(crate) fn begin_wait(
        &self,
        site: Site,
        dispatcher: &DispatcherHandle,
        interest: Interest,
        ended: HostReadyCallback,
    ) -> Result<SocketWait, (Status, HostReadyCallback)> {
        let key = self.waits.lock().add(site, dispatcher.clone(), ended);
        let waits = Arc::clone(&self.waits);
        let fired = move |ready: Result<fuchsine_dispatcher::Readiness, Status>| {
            let pending = waits.lock().pending.remove(&key);
            if let Some(pending) = pending {
                pending.ended.call(ready.map(bits).map_err(driver_status));
            }
        };
        let begun = match &self.kind {
            Kind::Listener(_, source) | Kind::Stream(_, source) => {
                dispatcher.begin_wait_from(site, source, interest, fired).map_err(|e| e.status())
            }
            #[cfg(feature = "testing")]
            Kind::SimListener(listener) => {
                dispatcher.begin_wait_from(site, listener, interest, fired).map_err(|e| e.status())
            }
            #[cfg(feature = "testing")]
            Kind::SimStream(stream) => {
                dispatcher.begin_wait_from(site, stream, interest, fired).map_err(|e| e.status())
            }
        };
        let mut waits = self.waits.lock();
        match begun {
            Ok(handle) => {
                // It may have ended already, on another thread.
                if let Some(pending) = waits.pending.get_mut(&key) {
                    pending.handle = Some(handle);
                }
                Ok(SocketWait { waits: Arc::downgrade(&self.waits), key })
            }
            Err(status) => match waits.pending.remove(&key) {
                Some(pending) => Err((status, pending.ended)),
                None => unreachable!("a refused wait is not called"),
            },
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let pending = std::mem::take(&mut self.waits.lock().pending);
        for Pending { site, handle, dispatcher, ended } in pending.into_values() {
            // The callback is ours, so what is taken back here is only an empty shell of it.
            drop(handle.map(|handle| handle.cancel()));
            // On a dispatcher that shuts down the callback can only be dropped, which happens with the refusal.
            let refused = dispatcher.post_task_from(site, move |_| ended.call(Err(driver_status(Status::Canceled))));
            crate::load::contain(&dispatcher, || drop(refused));
        }
    }
}

impl SocketWait {
    /// Takes the wait back. `Some`: its callback, which will not be called.
    pub(crate) fn cancel(&self) -> Option<HostReadyCallback> {
        let pending = self.waits.upgrade()?.lock().pending.remove(&self.key)?;
        drop(pending.handle.map(|handle| handle.cancel()));
        Some(pending.ended)
    }
}

impl Waits {
    fn add(&mut self, site: Site, dispatcher: DispatcherHandle, ended: HostReadyCallback) -> u64 {
        let key = self.next;
        self.next += 1;
        self.pending.insert(key, Pending { site, handle: None, dispatcher, ended });
        key
    }
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits").field("pending", &self.pending.len()).finish()
    }
}

fn parse(address: &str) -> Result<Address, Refused> {
    Address::parse(address).map_err(|sentence| (Status::InvalidArgs, sentence))
}

fn wrong_kind() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a listener has no stream, and a stream accepts nothing")
}

/// The bits as the driver interface numbers them, which are those of the runtime.
pub(crate) fn bits(ready: fuchsine_dispatcher::Readiness) -> u32 {
    use fuchsine_driver::abi::{ERROR, HANGUP, READABLE, WRITABLE};
    let pick = |is: bool, bit: u32| if is { bit } else { 0 };
    pick(ready.is_readable(), READABLE)
        | pick(ready.is_writable(), WRITABLE)
        | pick(ready.is_error(), ERROR)
        | pick(ready.is_hangup(), HANGUP)
}

#[cfg(feature = "testing")]
fn write_each(stream: &sim::Stream, slices: &SlicesOut<'_>) -> io::Result<usize> {
    let mut written = 0;
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        match stream.write(slice) {
            Ok(count) => {
                written += count;
                if count < slice.len() {
                    break;
                }
            }
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(written)
}
