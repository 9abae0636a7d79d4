//! The thread that accepts, and what clients are served with.

use std::fmt;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clients::Clients;
use super::complaints::Complaints;
use super::log_ring::LogRing;
use super::place::ControlPlace;
use super::request::{Load, Refusal};
use super::session::{Session, refused};
use super::socket::{BindError, Bound, peer};
use crate::host::Host;
use crate::manifest::{Change, ManifestError, PlannedDriver};

/// How long the end waits for answers that are being written.
const LAST_GRACE: Duration = Duration::from_secs(1);
/// How long nobody is accepted when the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// How much one client may take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Clients at once.
    pub clients: usize,
    /// Of them, those that follow the log: they stay, unless they have not read for the idle time and another one asks.
    pub followers: usize,
    /// Bytes of a request.
    pub request: usize,
    /// How long a request may take to come in, and an answer to be taken.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { clients: 32, followers: 16, request: 64 << 10, idle: Duration::from_secs(30) }
    }
}

pub(super) type Reload = Box<dyn Fn() -> Result<Vec<Change>, String> + Send + Sync>;
pub(super) type LoadOne = Box<dyn Fn(&Load) -> Result<PlannedDriver, ManifestError> + Send + Sync>;

/// Makes a [`ControlServer`].
#[must_use = "a builder does nothing until it serves"]
pub struct ControlServerBuilder(Serving);

/// What every client is served with.
pub(super) struct Serving {
    pub(super) host: Arc<Host>,
    pub(super) reload: Option<Reload>,
    pub(super) load: Option<LoadOne>,
    pub(super) logs: Option<LogRing>,
    pub(super) limits: Limits,
    ending: AtomicBool,
    pub(super) clients: Mutex<Clients>,
    /// Notified when a client has gone.
    gone: Condvar,
}

/// A host's control socket. Dropping it closes it: answers that are being written have a moment, everything else ends.
///
/// # Examples
/// ```
/// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
/// use fuchsine_host::control::{ControlClient, ControlPlace, ControlServer, Request};
/// use fuchsine_host::{Host, Manifest, Registry, Source};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Idle;
/// impl Driver for Idle {
///     const NAME: &'static str = "idle";
///     async fn start(_cx: DriverContext) -> Result<Self, StartError> {
///         Ok(Idle)
///     }
/// }
/// static IDLE: DriverEntry = DriverEntry::of::<Idle>();
///
/// let manifest = Manifest::parse(Source::named("example", "[drivers.idle]"))?;
/// let host = Arc::new(Host::builder(manifest.plan(&Registry::new([&IDLE])?)?).build()?);
/// host.start();
/// host.wait_started(Duration::from_secs(10))?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("control.sock");
/// let server = ControlServer::builder(Arc::clone(&host)).serve(&ControlPlace::at(&path))?;
/// let answer = ControlClient::connect(&path)?.ask(&Request::Ps {})?;
/// assert_eq!(answer["drivers"][0]["state"], "running");
/// drop(server);
/// host.stop(Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it closes the socket"]
pub struct ControlServer {
    serving: Arc<Serving>,
    path: std::path::PathBuf,
    /// Closed to end the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServerBuilder {
    /// What is done to read the manifest again.
    pub fn reload(mut self, reload: impl Fn() -> Result<Vec<Change>, String> + Send + Sync + 'static) -> Self {
        self.0.reload = Some(Box::new(reload));
        self
    }

    /// What makes a driver of a request to load one.
    pub fn load(
        mut self,
        load: impl Fn(&Load) -> Result<PlannedDriver, ManifestError> + Send + Sync + 'static,
    ) -> Self {
        self.0.load = Some(Box::new(load));
        self
    }

    /// Where log lines are.
    pub fn logs(mut self, logs: LogRing) -> Self {
        self.0.logs = Some(logs);
        self
    }

    /// How much a client may take up.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// Makes the socket and serves it.
    ///
    /// # Errors
    /// [`BindError`]: another host has the path, or it cannot be used.
    pub fn serve(self, place: &ControlPlace) -> Result<ControlServer, BindError> {
        let refused =
            |reason: std::io::Error| BindError::Refused { path: place.path().to_owned(), reason: reason.to_string() };
        let bound = Bound::new(place)?;
        let (end, ended) = UnixStream::pair().map_err(refused)?;
        let (serving, path) = (Arc::new(self.0), bound.path().to_owned());
        let accepting = Arc::clone(&serving);
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || accept(&accepting, bound, ended)).map_err(refused)?;
        Ok(ControlServer { serving, path, end: Some(end), thread: Some(thread) })
    }
}

impl ControlServer {
    /// A server for this host.
    pub fn builder(host: Arc<Host>) -> ControlServerBuilder {
        ControlServerBuilder(Serving {
            host,
            reload: None,
            load: None,
            logs: None,
            limits: Limits::default(),
            ending: AtomicBool::new(false),
            clients: Mutex::default(),
            gone: Condvar::new(),
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // With the thread the socket leaves its path; who comes from now on is told that there is no host.
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.serving.end();
    }
}

impl Serving {
    /// Whether the server is at its end, so that nothing is waited for any more.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        let until = Instant::now() + LAST_GRACE;
        let mut clients = self.clients.lock();
        for stream in clients.streams() {
            // Nothing more is asked, and what is being answered is still written.
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
        while clients.count() > 0 && !self.gone.wait_until(&mut clients, until).timed_out() {}
        for stream in clients.streams() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(super) fn left(&self, client: u64) {
        self.clients.lock().remove(client);
        self.gone.notify_all();
    }
}

/// The thread: accepts until the other end of `ended` is closed.
fn accept(serving: &Arc<Serving>, bound: Bound, ended: UnixStream) {
    let mut complaints = Complaints::default();
    loop {
        let mut fds = [PollFd::new(&bound.listener, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing that more waiting would change.
            Err(_) => return,
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match bound.listener.accept() {
            Ok((stream, _)) => take(serving, stream, &mut complaints),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // No descriptor is left, most probably. The client stays where it is; others may go meanwhile.
                complaints.note(|| tracing::warn!(%error, "a client of the control socket has to wait"));
                let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as i64 };
                let _ = poll(&mut [PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)], Some(&pause));
            }
        }
    }
}

/// Gives a client a thread, or a reason why not.
fn take(serving: &Arc<Serving>, stream: UnixStream, complaints: &mut Complaints) {
    let refuse = |mut stream: UnixStream, refusal: Refusal| {
        // The buffer of a new connection has room for it; if not, it is not said.
        let _ = stream.set_nonblocking(true);
        let _ = stream.write_all(&refused(&serde_json::Value::Null, &refusal));
    };
    let peer = match peer(&stream) {
        Ok(peer) if peer.is_allowed() => peer,
        Ok(peer) => {
            complaints.note(|| {
                tracing::warn!(uid = peer.uid, pid = peer.pid, "another user was turned away from the control socket");
            });
            return refuse(stream, Refusal::last("denied", "this host belongs to another user"));
        }
        Err(error) => return refuse(stream, Refusal::last("denied", format!("who you are is not known: {error}"))),
    };
    let mut clients = serving.clients.lock();
    if clients.count() >= serving.limits.clients {
        drop(clients);
        let message = format!("there are {} clients already; come again later", serving.limits.clients);
        return refuse(stream, Refusal::last("busy", message));
    }
    // Another process gets a descriptor of its own state: this one blocks.
    let (Ok(()), Ok(copy)) = (stream.set_nonblocking(false), stream.try_clone()) else { return };
    let id = clients.add(copy);
    drop(clients);
    tracing::debug!(pid = peer.pid, "a client of the control socket");
    let session = Session::new(Arc::clone(serving), stream, id);
    let thread = std::thread::Builder::new().name("control client".into());
    // A session that is dropped unserved says good-bye by itself.
    if let Err(error) = thread.spawn(move || session.serve()) {
        complaints.note(|| tracing::warn!(%error, "a client of the control socket gets no thread"));
    }
}

impl fmt::Debug for ControlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlServer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for ControlServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlServerBuilder").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}
