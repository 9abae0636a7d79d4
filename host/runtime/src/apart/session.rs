//! One driver in a child process: a host of its own, with the drivers above and below it (`around`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use fuchsine_dispatcher::{Channel, DispatcherHandle, Instant, Message, Status, Txid};
use fuchsine_driver::DriverEntry;
use parking_lot::Mutex;

use super::MARK;
use super::around::{ABOVE, BELOW};
use super::far::Home;
use super::protocol::{Reply, Run, ToDriver, ToHost, decode, encode};
use crate::host::{FarEvent, Host, HostEvent};
use crate::load::{self, Module};
use crate::manifest::{Manifest, Plan, PlannedDriver};
use crate::node::{BindRule, Condition};
use crate::supervisor::{Failure, OnPanic, Policy};

/// See the head of the module.
pub(super) struct Session {
    number: u64,
    pub(super) run: Run,
    channel: Arc<Channel>,
    /// Where it waits for answers.
    dispatcher: DispatcherHandle,
    /// Set before anything of it starts.
    host: OnceLock<Host>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The request to stop that is to be answered.
    stop: Option<Txid>,
    is_stopped: bool,
    /// What went wrong while it stopped.
    failures: Vec<String>,
}

/// The sessions of this process, for the drivers around each.
static SESSIONS: Mutex<BTreeMap<u64, Arc<Session>>> = Mutex::new(BTreeMap::new());

/// The session whose number a configuration has.
pub(super) fn of_config(config: &str) -> Option<Arc<Session>> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    SESSIONS.lock().get(&config["session"].as_u64()?).cloned()
}

/// Runs a driver for its stand-in.
pub(super) fn begin(home: &Home, run: Run, channel: Arc<Channel>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // ORDERING: Relaxed; each number is another one.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let entry = match entry(home, &run) {
        Ok(entry) => entry,
        Err(message) => {
            // The close says the rest if nobody hears it.
            let _ = channel.write(Message::from_bytes(&encode(&ToHost::StartFailed { message })));
            return keep_until_closed(home, channel);
        }
    };
    let plan = plan(&run, number, entry);
    let dispatcher = home.dispatcher.clone();
    let session = Session { number, run, channel, dispatcher, host: OnceLock::new(), state: Mutex::default() };
    let session = Arc::new(session);
    let (observing, hearing) = (Arc::downgrade(&session), Arc::downgrade(&session));
    let host = Host::builder(plan).runtime(home.runtime.clone());
    let host = host.observer(move |event| with(&observing, |session| session.happened(event)));
    let host = host.far(move |event| {
        if let Some(session) = hearing.upgrade() {
            session.asked(event);
        }
    });
    match host.build() {
        Ok(host) => {
            let host = session.host.get_or_init(|| host);
            SESSIONS.lock().insert(number, Arc::clone(&session));
            host.start();
        }
        Err(error) => session.tell(&ToHost::StartFailed { message: error.to_string() }),
    }
    // Refused only if the process ends.
    let _ = home.dispatcher.spawn(async move { session.listen().await });
}

fn with(session: &Weak<Session>, act: impl FnOnce(&Session)) {
    if let Some(session) = session.upgrade() {
        act(&session);
    }
}

/// What it has said is on the way until the other side has closed it.
fn keep_until_closed(home: &Home, channel: Arc<Channel>) {
    // Refused only if the process ends.
    let _ = home.dispatcher.spawn(async move { while channel.read().await.is_ok() {} });
}

fn entry(home: &Home, run: &Run) -> Result<&'static DriverEntry, String> {
    match &run.module {
        None => home.registry.get(&run.driver).ok_or_else(|| format!("the child has no driver `{}`", run.driver)),
        Some(path) => {
            let module = Module::get(path).map_err(|error| format!("{error}; {}", error.help()))?;
            let found = module.driver(&run.driver);
            found.ok_or_else(|| format!("module `{}` has no driver `{}` any more", path.display(), run.driver))
        }
    }
}

fn plan(run: &Run, number: u64, entry: &'static DriverEntry) -> Plan {
    let driver = |name: String, entry, bind, config: String| PlannedDriver {
        name,
        entry,
        bind,
        parents: Vec::new(),
        priority: 0,
        policy: Policy::default(),
        config,
        apart: None,
    };
    let session = format!("{{\"session\":{number}}}");
    let marked =
        |condition: fn(Vec<String>) -> Condition| BindRule::new([(MARK.to_owned(), condition(vec!["yes".to_owned()]))]);
    let mut it = driver(run.name.clone(), entry, marked(Condition::OneOf), run.config.clone());
    it.policy.on_panic = if run.aborts { OnPanic::Abort } else { OnPanic::Stop };
    let above = driver(format!("{}--above", run.name), &ABOVE, BindRule::default(), session.clone());
    let below = driver(format!("{}--below", run.name), &BELOW, marked(Condition::NoneOf), session);
    let drivers = vec![it, above, below];
    Plan { threads: None, stop_timeout: Manifest::DEFAULT_STOP_TIMEOUT, drivers, warnings: Vec::new() }
}

impl Session {
    pub(super) fn tell(&self, what: &ToHost) {
        // Who is not there any more need not know.
        let _ = self.channel.write(Message::from_bytes(&encode(what)));
    }

    fn asked(self: &Arc<Self>, event: FarEvent<'_>) {
        match event {
            FarEvent::Started(name) if name == self.run.name => self.tell(&ToHost::Started),
            FarEvent::Started(_) => {}
            FarEvent::Address(address) => self.tell(&ToHost::Address { address: address.to_owned() }),
            FarEvent::Connect(service, end, then) => {
                let request = Message::from_bytes(&encode(&ToHost::Connect { service: service.to_owned() })).with(end);
                let channel = Arc::clone(&self.channel);
                // Refused only when the process ends; what is told of it then is its drop.
                let _ = self.dispatcher.spawn(async move {
                    let reply = channel.call_async(request, Instant::INFINITE).await;
                    let reply = reply.ok().and_then(|reply| decode::<Reply>(reply.bytes()).ok());
                    then(reply.map_or(Err(Status::Unavailable), |reply| Status::result_of(reply.status)));
                });
            }
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What went wrong there, or that nobody is there any more.
    pub(super) async fn ask(&self, what: &ToHost) -> Result<(), String> {
        let request = Message::from_bytes(&encode(what));
        let reply = self.channel.call_async(request, Instant::INFINITE).await;
        let reply: Reply = decode(reply.map_err(|error| error.to_string())?.bytes())?;
        reply.error.map_or(Ok(()), Err)
    }

    fn happened(&self, event: HostEvent) {
        match event {
            HostEvent::Failed { driver, failure, .. } => {
                let is_it = driver == self.run.name;
                match failure {
                    Failure::Stop(message) => self.state.lock().failures.push(message),
                    Failure::Start(message) if is_it => self.tell(&ToHost::StartFailed { message }),
                    Failure::Panic(message) if is_it => self.tell(&ToHost::Panicked { message }),
                    Failure::Ended(message) if is_it => self.tell(&ToHost::Failed { message }),
                    other => self.tell(&ToHost::Failed { message: format!("what is around it {other}") }),
                }
            }
            HostEvent::Finished { driver, .. } if driver == self.run.name => self.tell(&ToHost::Finished),
            HostEvent::Stopped => {
                let mut state = self.state.lock();
                state.is_stopped = true;
                let (stop, failures) = (state.stop.take(), std::mem::take(&mut state.failures));
                drop(state);
                SESSIONS.lock().remove(&self.number);
                if let Some(txid) = stop {
                    self.stopped(txid, &failures);
                }
            }
            _ => {}
        }
    }

    fn stopped(&self, txid: Txid, failures: &[String]) {
        let error = (!failures.is_empty()).then(|| failures.join("; "));
        let _ = self.channel.write(Message::from_bytes(&encode(&Reply { error, status: 0 })).in_reply_to(txid));
    }

    /// Hears what is said about it, until its stand-in is gone.
    async fn listen(&self) {
        while let Ok(mut message) = self.channel.read().await {
            match decode(message.bytes()) {
                Ok(ToDriver::Stop) => self.stop(message.txid()),
                Ok(ToDriver::Accept { node, service }) => {
                    let end = message.take_handles().pop().and_then(|handle| handle.into_channel().ok());
                    if let (Some(host), Some(end)) = (self.host.get(), end) {
                        // One that is refused is closed, which whoever has connected is told.
                        let _ = load::connect_below(host.shared(), &node, &service, end);
                    }
                }
                Err(error) => tracing::error!(driver = self.run.name, "{error}"),
            }
        }
        self.stop(None);
    }

    fn stop(&self, txid: Option<Txid>) {
        let mut state = self.state.lock();
        let is_over = state.is_stopped || self.host.get().is_none();
        if !is_over && txid.is_some() {
            state.stop = txid;
        }
        let failures = if is_over { std::mem::take(&mut state.failures) } else { Vec::new() };
        drop(state);
        match (is_over, txid, self.host.get()) {
            (true, Some(txid), _) => self.stopped(txid, &failures),
            (false, _, Some(host)) => host.begin_stop(),
            _ => {}
        }
    }
}
