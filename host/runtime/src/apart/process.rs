//! A child process with the drivers in it, as the host has it.
//!
//! # States
//! ```text
//!   takes drivers ──the last one leaves it──▶ ends ──▶ dead
//!        └────────────it dies─────────────────────────▶ dead
//! ```
//! Who is in a process holds a [`Lease`]. The last one to leave closes the control channel, upon which the child ends by itself;
//! one that does not, or whose leases were dropped, is killed.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Driver, Instant, Message};
use parking_lot::Mutex;
use rustix::process::{Signal, pidfd_send_signal};

use super::output::{self, Source};
use super::plan::{Apart, ProcessName};
use super::protocol::{Dumped, Run, Setup, ToProcess, decode, encode};
use crate::host::{Shared, shut_down};
use crate::process::{Child, Sandbox, bridge, socket_pair};

/// Makes the command that becomes a child.
pub(crate) type Program = Box<dyn Fn() -> Command + Send + Sync>;

/// How long a child has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// What of the environment a child gets.
const KEPT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// The child processes of a host.
#[derive(Default)]
pub(crate) struct Processes {
    program: Option<Program>,
    /// Those that several drivers may be in, by name.
    named: Mutex<BTreeMap<String, Weak<Process>>>,
    /// All of them, by their numbers.
    all: Mutex<BTreeMap<u32, Weak<Process>>>,
}

/// See the head of the module.
pub(super) struct Process {
    pid: u32,
    /// A descriptor of it, which stays that of this process whatever becomes of its number.
    pidfd: OwnedFd,
    /// `None` once it is to end.
    control: Mutex<Option<Channel>>,
    owner: Driver,
    /// Of the bridges.
    home: DispatcherHandle,
    fate: Arc<Fate>,
    /// What it may do. One of the same name that may do something else, after a reload, is another process.
    sandbox: Option<Sandbox>,
}

/// What becomes of a process, and who waits for it.
#[derive(Debug, Default)]
struct Fate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The drivers in it, by the numbers of their leases and their names in the manifest.
    drivers: Vec<(u64, String)>,
    next: u64,
    is_ending: bool,
    /// How it has ended, as a sentence about somebody who was in it.
    death: Option<String>,
    /// How many of the ways of its output have ended.
    silent: u8,
    wakers: Vec<Waker>,
}

/// A driver in a process. Dropping it takes the driver out of it: what nobody is in any more is killed.
pub(super) struct Lease {
    pub(super) process: Arc<Process>,
    host: Weak<Shared>,
    driver: String,
    number: u64,
    /// Whether nothing of it is in the way any more.
    is_free: AtomicBool,
}

impl Processes {
    pub(crate) fn new(program: Option<Program>) -> Processes {
        Processes { program, named: Mutex::default(), all: Mutex::default() }
    }

    /// What all dispatchers of these processes do and hold; `None` of one that does not answer in time. Blocks.
    pub(crate) fn dumps(&self, processes: &[u32], patience: Duration) -> Vec<(u32, Option<Dumped>)> {
        let until = std::time::Instant::now() + patience;
        let find = |pid: &u32| Some((*pid, self.all.lock().get(pid)?.upgrade()?));
        let asked: Vec<_> = processes.iter().filter_map(find).map(|(pid, process)| (pid, process.ask_dump())).collect();
        let answer = |(pid, answer): (u32, mpsc::Receiver<Dumped>)| {
            (pid, answer.recv_timeout(until.saturating_duration_since(std::time::Instant::now())).ok())
        };
        asked.into_iter().map(answer).collect()
    }

    /// Puts a driver into its process, which is started if it is not there.
    ///
    /// # Errors
    /// What the system said to the start of a process.
    pub(super) fn enter(&self, host: &Arc<Shared>, apart: &Apart, driver: &str) -> io::Result<Lease> {
        let mut named = self.named.lock();
        let running = match &apart.process {
            ProcessName::Own => None,
            ProcessName::Named(name) => named.get(name).and_then(Weak::upgrade),
        };
        let process = match running.filter(|process| process.fate.takes_drivers() && process.sandbox == apart.sandbox) {
            Some(running) => running,
            None => {
                let started = self.start(host, apart, driver)?;
                if let ProcessName::Named(name) = &apart.process {
                    named.insert(name.clone(), Arc::downgrade(&started));
                }
                started
            }
        };
        let mut all = self.all.lock();
        all.retain(|_, process| process.strong_count() > 0);
        all.insert(process.pid, Arc::downgrade(&process));
        drop(all);
        let mut state = process.fate.0.lock();
        let number = state.next;
        state.next += 1;
        state.drivers.push((number, driver.to_owned()));
        drop(state);
        let is_free = AtomicBool::new(false);
        Ok(Lease { process, host: Arc::downgrade(host), driver: driver.to_owned(), number, is_free })
    }

    fn start(&self, host: &Arc<Shared>, apart: &Apart, driver: &str) -> io::Result<Arc<Process>> {
        let title = apart.title(driver);
        let program = self.program.as_ref();
        let program = program.ok_or_else(|| io::Error::other("this program runs no drivers in other processes"))?;
        let ((ours, theirs), (log, their_log)) = (socket_pair()?, socket_pair()?);
        let (output, errors) = output::pipe()?;
        let level = tracing::level_filters::LevelFilter::current().to_string();
        let sandbox = apart.sandbox.clone();
        let setup = Setup { title: title.to_owned(), level, threads: host.threads(), sandbox };
        let mut command = program();
        command.arg(String::from_utf8_lossy(&encode(&setup)).as_ref());
        command.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdout(Stdio::from(their_log)).stderr(Stdio::from(errors));
        let child = Child::spawn(&mut command, theirs)?;
        // It holds the other sides of the log.
        drop(command);
        let (pid, pidfd) = (child.id(), child.pidfd()?);
        let owner = host.runtime().new_driver(format!("{title} (process {pid})"));
        let fate = Arc::new(Fate::default());
        let (home, control) = match serve(&owner, ours) {
            Ok((home, control)) => {
                let source = Source { host: Arc::downgrade(host), title: title.to_owned(), pid: pid.to_string() };
                spawn(&home, watch(child, Arc::clone(&fate)));
                let (told, speaker) = (Arc::clone(&fate), source.clone());
                spawn(&home, async move {
                    output::records(&speaker, log).await;
                    told.set(|state| state.silent += 1);
                });
                let told = Arc::clone(&fate);
                spawn(&home, async move {
                    output::lines(&source, output).await;
                    told.set(|state| state.silent += 1);
                });
                (home, control)
            }
            Err(error) => {
                shut_down(&owner, || {});
                return Err(error);
            }
        };
        tracing::debug!(driver = title, pid, "its process is there");
        Ok(Arc::new(Process {
            sandbox: apart.sandbox.clone(),
            pid,
            pidfd,
            control: Mutex::new(Some(control)),
            owner,
            home,
            fate,
        }))
    }
}

/// The dispatcher of all bridges to the process, and the control channel.
fn serve(owner: &Driver, socket: OwnedFd) -> io::Result<(DispatcherHandle, Channel)> {
    let refused = |status: fuchsine_dispatcher::Status| io::Error::other(status.to_string());
    let home = owner.new_dispatcher(DispatcherBuilder::new().name("bridges"));
    let home = home.map_err(|error| io::Error::other(error.to_string()))?.release();
    let (control, far) = Channel::pair();
    bridge(&home, far, socket).map_err(refused)?;
    Ok((home, control))
}

fn spawn(home: &DispatcherHandle, future: impl Future<Output = ()> + Send + 'static) {
    // Refused only when it shuts down, upon which nobody waits for it.
    let _ = home.spawn(future);
}

/// Collects the process at its end.
async fn watch(mut child: Child, fate: Arc<Fate>) {
    let told = match child.ended().await {
        Ok(death) => format!("its process {death}"),
        Err(error) => format!("its process {} is lost: {error}", child.id()),
    };
    fate.set(|state| {
        let others = if state.drivers.len() > 1 {
            let names: Vec<_> = state.drivers.iter().map(|(_, name)| name.as_str()).collect();
            format!("; in it were {}", names.join(", "))
        } else {
            String::new()
        };
        state.death = Some(told + &others);
    });
}

impl Fate {
    fn takes_drivers(&self) -> bool {
        let state = self.0.lock();
        !state.is_ending && state.death.is_none()
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if let Some(found) = look(&state) {
                return Poll::Ready(found);
            }
            if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.pid
    }

    /// Has a driver run in it; what is said about it comes by `session`.
    ///
    /// # Errors
    /// How it has ended, if it has.
    pub(super) fn run(&self, run: Run, session: Channel) -> Result<(), String> {
        let message = Message::from_bytes(&encode(&ToProcess::Run(run))).with(session);
        let gone = || self.death().unwrap_or_else(|| format!("its process {} ends", self.pid));
        match &*self.control.lock() {
            Some(control) => control.write(message).map_err(|_| gone()),
            None => Err(gone()),
        }
    }

    /// Asks what it does; the answer may never come.
    fn ask_dump(&self) -> mpsc::Receiver<Dumped> {
        let (told, tell) = mpsc::channel();
        if let Some(control) = &*self.control.lock() {
            let request = Message::from_bytes(&encode(&ToProcess::Dump));
            // If it is refused, nobody tells, which is the answer too.
            let _ = control.begin_call(&self.home, request, Instant::INFINITE, move |answer| {
                if let Some(dumped) = answer.ok().and_then(|answer| decode(answer.bytes()).ok()) {
                    let _ = told.send(dumped);
                }
            });
        }
        tell
    }

    /// How it has ended, if it has.
    pub(super) fn death(&self) -> Option<String> {
        self.fate.0.lock().death.clone()
    }

    /// Waits for its end.
    pub(super) async fn died(&self) -> String {
        self.fate.until(|state| state.death.clone()).await
    }

    pub(super) fn kill(&self) {
        // The group goes with it when it is collected. One that is dead already is left alone.
        if self.death().is_none() {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
    }
}

impl Lease {
    /// Says that the driver does nothing in the process any more that would have to be ended by force.
    pub(super) fn is_free(&self) {
        // ORDERING: Relaxed; whoever drops the lease has seen all that came before.
        self.is_free.store(true, Ordering::Relaxed);
    }

    /// Leaves the process. The last one to do so waits until it has ended, and what it had to say was heard.
    pub(super) async fn end(&self) {
        let is_last = {
            let host = self.host.upgrade();
            // Nobody enters meanwhile.
            let _named = host.as_ref().map(|host| host.processes().named.lock());
            let mut state = self.process.fate.0.lock();
            let is_last = state.drivers.iter().all(|(number, _)| *number == self.number);
            state.is_ending |= is_last;
            is_last
        };
        if !is_last && self.process.death().is_none() {
            return self.is_free();
        }
        *self.process.control.lock() = None;
        let (pid, fate) = (self.process.pid, &self.process.fate);
        if fuchsine_driver::timeout(GRACE, self.process.died()).await.is_err() {
            tracing::warn!(driver = self.driver, pid, "its process does not end by itself, and is killed");
            self.process.kill();
            self.process.died().await;
        }
        self.is_free();
        // Somebody may have fled with the other side of the pipe.
        let _ = fuchsine_driver::timeout(GRACE, fate.until(|state| (state.silent == 2).then_some(()))).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (pid, is_free) = (self.process.pid, *self.is_free.get_mut());
        let mut state = self.process.fate.0.lock();
        state.drivers.retain(|(number, _)| *number != self.number);
        state.is_ending |= state.drivers.is_empty() || !is_free;
        let others: Vec<_> = state.drivers.iter().map(|(_, name)| name.clone()).collect();
        let is_dead = state.death.is_some();
        drop(state);
        if !is_free && !is_dead {
            let others = others.join(", ");
            tracing::warn!(driver = self.driver, pid, others, "its process is killed, as it does not stop in time");
            self.process.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // What is left of the child goes with the future that watches it.
        shut_down(&self.owner, || {});
    }
}
