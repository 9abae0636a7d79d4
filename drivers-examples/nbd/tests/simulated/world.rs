//! The world of a test: a host on a foreground runtime, and clients on its simulated network.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::Instant;
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::testing::sim::{Net, Stream};
use fuchsine_driver::DriverEntry;
use fuchsine_host::{Host, HostState, Manifest, Registry, Source};

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const TRIM: u16 = 4;

static RAMDISK: DriverEntry = fuchsine_ramdisk::DRIVER;
static NBD: DriverEntry = fuchsine_nbd::DRIVER;

/// Bytes that tell which write they belong to.
pub(crate) fn pattern(cookie: u64, length: u32) -> Vec<u8> {
    (0..length).map(|at| (cookie as u8).wrapping_mul(37).wrapping_add((at / 5) as u8)).collect()
}

/// The runtime of a world: its own, or one that somebody else explores.
enum Held<'r> {
    Own(ForegroundRuntime),
    Lent(&'r ForegroundRuntime),
}

impl Deref for Held<'_> {
    type Target = ForegroundRuntime;

    fn deref(&self) -> &ForegroundRuntime {
        match self {
            Held::Own(runtime) => runtime,
            Held::Lent(runtime) => runtime,
        }
    }
}

pub(crate) struct World<'r> {
    runtime: Held<'r>,
    host: Arc<Host>,
    address: String,
    began: Instant,
    stop_began: Arc<Mutex<Option<Instant>>>,
}

impl World<'static> {
    /// A device of 1 MiB and its server, started; `nbd` are further keys of the server's configuration.
    #[track_caller]
    pub(crate) fn new(nbd: &str) -> Self {
        World::start(Held::Own(ForegroundRuntime::new()), nbd)
    }
}

impl<'r> World<'r> {
    /// A world on a runtime into which something is injected: by a target of its own the host stops. It may stop, or end
    /// otherwise, before it runs.
    #[track_caller]
    pub(crate) fn explored(runtime: &'r ForegroundRuntime) -> Self {
        World::start(Held::Lent(runtime), "")
    }

    #[track_caller]
    fn start(runtime: Held<'r>, nbd: &str) -> Self {
        let text = format!(
            "[drivers.ramdisk]\nconfig = {{ size = \"1MiB\" }}\n\
             [drivers.nbd]\nbind = {{ protocol = \"block\" }}\n\
             [drivers.nbd.config]\nlisten = \"127.0.0.1:0\"\n{nbd}\n"
        );
        let registry = Registry::new([&RAMDISK, &NBD]).expect("the names differ");
        let manifest = Manifest::parse(Source::named("test", text)).expect("the manifest is well formed");
        let plan = manifest.plan(&registry).expect("the manifest fits the drivers");
        let host = Host::builder(plan).runtime((**runtime).clone()).build().expect("a given runtime cannot fail");
        let (host, stop_began) = (Arc::new(host), Arc::new(Mutex::new(None)));
        let stop = (Arc::downgrade(&host), Arc::clone(&stop_began), (**runtime).clone());
        runtime.on_injection(move || {
            let (host, stop_began, runtime) = stop;
            *stop_began.lock().expect("nobody panics with it") = Some(runtime.now());
            host.upgrade().into_iter().for_each(|host| host.begin_stop());
        });
        host.start();
        runtime.run_until_idle();
        assert!(host.state() == HostState::Running || runtime.was_injected());
        let addresses = host.addresses();
        assert!(!addresses.is_empty() || runtime.was_injected());
        let address = addresses.first().map_or("nbd://nowhere/ramdisk", |address| address);
        let address = address.strip_prefix("nbd://").and_then(|rest| rest.strip_suffix("/ramdisk"));
        let address = address.expect("the form of an address").to_owned();
        let began = runtime.now();
        Self { runtime, host, address, began, stop_began }
    }

    pub(crate) fn net(&self) -> Net {
        self.runtime.sim_net().expect("a foreground runtime has a simulated network")
    }

    /// A connection on which nothing was said yet.
    #[track_caller]
    pub(crate) fn connect(&self) -> Client<'_> {
        let stream = self.net().connect(&self.address).expect("the server listens");
        self.run();
        Client { world: self, stream, received: RefCell::default() }
    }

    /// A client that has negotiated.
    #[track_caller]
    pub(crate) fn client(&self) -> Client<'_> {
        let Ok(stream) = self.net().connect(&self.address) else {
            assert!(self.is_ending(), "a running server refuses nobody");
            return Client { world: self, stream: closed_stream(), received: RefCell::default() };
        };
        let client = Client { world: self, stream, received: RefCell::default() };
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x07ramdisk");
        client.send(&hello);
        // Greeting, size and flags.
        if client.receive(18 + 10).is_none() {
            assert!(self.is_ending(), "a running server negotiates");
        }
        client
    }

    /// Whether it was asked to stop, or something else has happened to it.
    pub(crate) fn is_ending(&self) -> bool {
        self.stop_began().is_some() || self.runtime.was_injected()
    }

    fn stop_began(&self) -> Option<Instant> {
        *self.stop_began.lock().expect("nobody panics with it")
    }

    /// Turns the crank once; false when there is nothing to do.
    pub(crate) fn turn(&self) -> bool {
        self.runtime.run_once()
    }

    /// Turns the crank until there is nothing to do.
    pub(crate) fn run(&self) {
        while self.turn() {}
    }

    pub(crate) fn advance(&self, duration: Duration) {
        self.runtime.advance(duration);
    }

    pub(crate) fn begin_stop(&self) {
        if self.stop_began().is_none() {
            *self.stop_began.lock().expect("nobody panics with it") = Some(self.runtime.now());
            self.host.begin_stop();
        }
    }

    /// Runs until the host has stopped, time included.
    #[track_caller]
    pub(crate) fn run_to_the_end(&self) {
        let stopped = self.runtime.run_until_condition(|| self.host.state() == HostState::Stopped);
        assert!(stopped, "the host does not stop; it was begun {:?} after the start", self.runtime.now() - self.began);
    }

    /// Stops, and looks whether all is as it should be at the end.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.begin_stop();
        self.run_to_the_end();
        self.check_the_end();
    }

    /// After the end: it did not take long, and each callback ran or was told.
    #[track_caller]
    pub(crate) fn check_the_end(self) {
        let took = self.runtime.now() - self.stop_began().expect("the stop was begun");
        assert!(took <= Duration::from_secs(1), "the stop took {took:?}");
        let summary = self.host.summary();
        let names: Vec<&str> = summary.drivers().iter().map(|driver| driver.driver()).collect();
        if !self.runtime.was_injected() {
            assert!(!summary.has_failed(), "{summary:?}");
            assert_eq!(names, ["nbd", "ramdisk"], "children stop before their parents");
        }
        for driver in summary.drivers() {
            let counters = driver.counters();
            assert!(counters.add_up() && counters.pending == 0, "{driver:?}");
        }
        drop(self.host);
        self.runtime.shutdown().expect("nothing keeps the runtime from its end");
        assert!(self.runtime.counters().add_up());
    }
}

/// The other end of a connection.
pub(crate) struct Client<'a> {
    world: &'a World<'a>,
    stream: Stream,
    received: RefCell<Vec<u8>>,
}

impl Client<'_> {
    /// Sends all bytes, turning the crank when there is no room. Gives up when the connection has ended.
    #[track_caller]
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What comes meanwhile is taken, so that a server with little room can go on.
                    let took = self.take();
                    assert!(self.world.turn() || took, "the server takes no more, {} bytes are left", rest.len());
                }
                Err(_) => return,
            }
        }
    }

    #[track_caller]
    pub(crate) fn request(&self, command: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        self.send(&head(command, cookie, offset, length));
        self.send(data);
    }

    /// Sends a request if there is room for it at once.
    pub(crate) fn try_request(&self, command: u16, cookie: u64, offset: u64, length: u32) -> std::io::Result<usize> {
        self.stream.write(&head(command, cookie, offset, length))
    }

    /// The next reply, with `length` bytes of data if it is a success: cookie, error, data.
    #[track_caller]
    pub(crate) fn reply(&self, length: u32) -> (u64, u32, Vec<u8>) {
        let head = self.receive(16).expect("a reply comes");
        let (cookie, error) = split_reply(&head);
        let length = if error == 0 { length as usize } else { 0 };
        (cookie, error, self.receive(length).expect("the data of a reply comes"))
    }

    /// So many bytes; `None` when the connection ends before.
    #[track_caller]
    pub(crate) fn receive(&self, count: usize) -> Option<Vec<u8>> {
        loop {
            if self.received.borrow().len() >= count {
                return Some(self.received.borrow_mut().drain(..count).collect());
            }
            if !self.take() && !self.world.turn() {
                assert!(self.ended(), "the server sends nothing more");
                return None;
            }
        }
    }

    /// Takes what is there; whether that was anything.
    fn take(&self) -> bool {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.received.borrow_mut().extend_from_slice(&buffer[..count]);
                count > 0
            }
            Err(_) => false,
        }
    }

    /// Whether the server has closed the connection and all it sent was taken.
    fn ended(&self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Whether the server has closed the connection; what it sent before is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.world.run();
        while self.take() {}
        self.ended()
    }

    /// Whether the server has closed the connection, without taking anything.
    pub(crate) fn is_closed_to_writing(&self) -> bool {
        matches!(self.stream.write(&[0]), Err(error) if error.kind() != ErrorKind::WouldBlock)
    }

    /// Reads to the end: each reply is a success or tells of the shutdown, no request has two, and none is wrong. The
    /// last one may be cut. `length` tells how much data a success brings.
    #[track_caller]
    pub(crate) fn check_replies(self, length: impl Fn(u64) -> usize) {
        while self.take() {}
        let received = self.received.take();
        let (mut rest, mut seen) = (&received[..], Vec::new());
        while rest.len() >= 16 {
            let (cookie, error) = split_reply(rest);
            assert!(error == 0 || error == 108, "request {cookie}: error {error}");
            assert!(!seen.contains(&cookie), "request {cookie} was answered twice");
            seen.push(cookie);
            rest = &rest[16..];
            let count = if error == 0 { length(cookie) } else { 0 };
            let (data, after) = rest.split_at(count.min(rest.len()));
            // The trim of the round before may come before or after: zeroes at the start are right too.
            let written = pattern(cookie - cookie % 10, count as u32);
            let is_whole = error == 0 && data.len() == count && cookie % 10 == 1 && cookie < 90;
            assert!(!is_whole || data[4096..] == written[4096..], "read {cookie} brings other bytes than were written");
            rest = after;
        }
    }
}

/// What a client has whose server closed the connection before the first byte.
fn closed_stream() -> Stream {
    let net = Net::new();
    let listener = net.listen("127.0.0.1:0").expect("nobody else listens");
    net.connect(listener.local_addr()).expect("somebody listens")
}

fn head(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&0u16.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

#[track_caller]
fn split_reply(bytes: &[u8]) -> (u64, u32) {
    assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98], "the client lost its place");
    let error = u32::from_be_bytes(bytes[4..8].try_into().expect("four bytes"));
    (u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes")), error)
}
