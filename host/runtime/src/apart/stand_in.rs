//! The driver that stands for one in another process.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use fuchsine_driver::abi::DriverNote;
use fuchsine_driver::{
    Channel, Child, ChildNode, Driver, DriverContext, DriverEntry, Instant, Message, StartError, Status, StopError,
    Txid, spawn,
};
use parking_lot::Mutex;

use super::process::Lease;
use super::protocol::{Reply, Run, ToDriver, ToHost, decode, encode};
use crate::host::{Instance, Shared};
use crate::load;
use crate::supervisor::OnPanic;

/// The stand-in of the driver that a note is about. Of each note one is made, and kept.
pub(crate) fn entry_for(note: &DriverNote) -> &'static DriverEntry {
    static MADE: Mutex<Vec<(DriverNote, &'static DriverEntry)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock();
    if let Some((_, entry)) = made.iter().find(|(known, _)| known == note) {
        return entry;
    }
    let entry: &'static DriverEntry = Box::leak(Box::new(DriverEntry::of::<StandIn>().described(note)));
    made.push((note.clone(), entry));
    entry
}

struct StandIn(Arc<Talk>);

/// The session of one instance.
struct Talk {
    cx: DriverContext,
    instance: Arc<Instance>,
    host: Weak<Shared>,
    session: Channel,
    lease: Lease,
    /// By the paths of their nodes in the child.
    children: Mutex<BTreeMap<String, Child>>,
    start: Mutex<Start>,
    /// Whether its end is known, or asked for.
    is_ending: AtomicBool,
}

/// How the start of the driver has ended, of which the first word counts.
#[derive(Default)]
struct Start {
    outcome: Option<Result<(), StartError>>,
    is_known: bool,
    waker: Option<Waker>,
}

impl Driver for StandIn {
    const NAME: &'static str = "stand-in";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let instance = load::instance_of(&cx);
        let gone = || StartError::new(Status::BadState, "the host is gone");
        let host = instance.host.upgrade().ok_or_else(gone)?;
        let Some(apart) = instance.apart.clone() else {
            return Err(StartError::new(Status::Internal, "its process is not known"));
        };
        let lease = host.processes().enter(&host, &apart, &instance.name);
        let lease = lease.map_err(|error| StartError::from(error).context("its process cannot be started"))?;
        instance.runs_in(lease.process.id());
        let policy = host.policy_of(&instance.name);
        let run = Run {
            name: instance.name.clone(),
            driver: apart.driver.clone(),
            module: apart.module.as_ref().map(|module| module.path.clone()),
            config: instance.config.clone(),
            node: instance.node_name.clone(),
            properties: instance.properties.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            aborts: policy.is_some_and(|policy| policy.on_panic == OnPanic::Abort),
        };
        let (session, far) = Channel::pair()?;
        let sent = lease.process.run(run, load::taken_from(far));
        sent.map_err(|death| StartError::new(Status::PeerClosed, death))?;
        let talk = Arc::new(Talk {
            host: Arc::downgrade(&host),
            cx,
            instance,
            session,
            lease,
            children: Mutex::default(),
            start: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        drop(host);
        let listening = Arc::clone(&talk);
        drop(spawn(async move { listening.listen().await })?);
        match poll_fn(|cx| talk.poll_start(cx)).await {
            Ok(()) => Ok(StandIn(talk)),
            Err(error) => {
                talk.lease.end().await;
                Err(error)
            }
        }
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        self.0.stop().await
    }
}

impl Talk {
    /// Hears what the driver says, until its session is over.
    async fn listen(self: &Arc<Self>) {
        while let Ok(message) = self.session.read().await {
            if let Err(error) = self.hear(message) {
                let (driver, pid) = (&self.instance.name, self.lease.process.id());
                tracing::error!(driver, pid, "its process is killed: {error}");
                break;
            }
        }
        // It closes last, after it was told to stop; else it is dead or as good as that.
        if self.is_ending() && self.lease.process.death().is_none() {
            return;
        }
        self.lease.process.kill();
        let death = self.lease.process.died().await;
        if !self.begun(Err(StartError::new(Status::PeerClosed, &death))) && !self.end() {
            self.cx.fail(Status::PeerClosed, death);
        }
    }

    /// # Errors
    /// What came makes no sense.
    fn hear(self: &Arc<Self>, mut message: Message) -> Result<(), String> {
        let txid = message.txid();
        match decode(message.bytes())? {
            ToHost::Started => drop(self.begun(Ok(()))),
            ToHost::StartFailed { message } => drop(self.begun(Err(StartError::new(Status::Internal, message)))),
            ToHost::Failed { message } => self.cx.fail(Status::Internal, message),
            ToHost::Finished => self.cx.finish(),
            ToHost::Panicked { message } => {
                self.end();
                self.lease.is_free();
                // As if it had panicked here: what becomes of it is a matter of policies.
                resume_unwind(Box::new(message));
            }
            ToHost::Address { address } => {
                if let Err(status) = self.cx.publish_address(&address) {
                    self.cx.logger().warn(format_args!("the address {address:?} is not published: {status}"));
                }
            }
            ToHost::Connect { service } => {
                let end = message.take_handles().pop().and_then(|handle| handle.into_channel_end().ok());
                let end = end.ok_or("a connection came without its channel")?;
                let host = self.host.upgrade();
                let connected = host.map(|host| load::connect_end(&host, self.instance.node, &service, end));
                let status = match connected {
                    Some(Ok(())) => 0,
                    Some(Err(status)) => status.as_raw(),
                    None => Status::Unavailable.as_raw(),
                };
                self.answer(txid, Reply { error: None, status });
            }
            ToHost::AddChild { node, name, properties, services } => {
                let added = self.add_child(&node, name, properties, services);
                self.reply(txid, added.err());
            }
            ToHost::RemoveChild { node } => {
                let child = self.children.lock().remove(&node);
                let talk = Arc::clone(self);
                // Refused only while the dispatcher shuts down, with which the session ends.
                let _ = spawn(async move {
                    if let Some(child) = child {
                        let _ = child.remove().await;
                    }
                    talk.reply(txid, None);
                });
            }
        }
        Ok(())
    }

    fn add_child(
        self: &Arc<Self>,
        node: &str,
        name: String,
        properties: Vec<(String, String)>,
        services: Vec<String>,
    ) -> Result<(), String> {
        let mut child =
            properties.into_iter().fold(ChildNode::new(name), |child, (key, value)| child.property(key, value));
        for service in services {
            let (talk, node) = (Arc::downgrade(self), node.to_owned());
            child = child.service(service.clone(), move |end| {
                let Some(talk) = talk.upgrade() else { return };
                let told = encode(&ToDriver::Accept { node: node.clone(), service: service.clone() });
                let Ok(mut message) = Message::from_bytes(&told) else { return };
                message.push(end);
                // Whoever has connected is told by the close of the channel.
                let _ = talk.session.write(message);
            });
        }
        let added = self.cx.add_child(child).map_err(|error| error.to_string())?;
        self.children.lock().insert(node.to_owned(), added);
        Ok(())
    }

    fn reply(&self, txid: Option<Txid>, error: Option<String>) {
        self.answer(txid, Reply { error, status: 0 });
    }

    fn answer(&self, txid: Option<Txid>, reply: Reply) {
        if let (Some(_), Ok(message)) = (txid, Message::from_bytes(&encode(&reply))) {
            // Nobody waits for it if the session is over.
            let _ = self.session.write(message.in_reply_to(txid));
        }
    }

    /// Has the driver stop, and waits until nothing of it is left.
    async fn stop(&self) -> Result<(), StopError> {
        self.end();
        if self.lease.process.death().is_some() {
            self.lease.end().await;
            return Ok(());
        }
        let request = Message::from_bytes(&encode(&ToDriver::Stop))?;
        let outcome = match self.session.call_async(request, Instant::INFINITE).await {
            Ok(reply) => match decode::<Reply>(reply.bytes()) {
                Ok(Reply { error: None, .. }) => Ok(()),
                Ok(Reply { error: Some(message), .. }) | Err(message) => Err(StopError::new(Status::Internal, message)),
            },
            Err(_) => {
                self.lease.process.kill();
                Err(StopError::new(Status::PeerClosed, self.lease.process.died().await))
            }
        };
        self.lease.end().await;
        outcome
    }

    /// Tells `start`, unless it knows already. Gives whether it was told.
    fn begun(&self, outcome: Result<(), StartError>) -> bool {
        let mut start = self.start.lock();
        if std::mem::replace(&mut start.is_known, true) {
            return false;
        }
        if outcome.is_err() {
            self.end();
        }
        start.outcome = Some(outcome);
        let waker = start.waker.take();
        drop(start);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn poll_start(&self, cx: &mut Context<'_>) -> Poll<Result<(), StartError>> {
        let mut start = self.start.lock();
        match start.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                start.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives whether it was known already that it ends.
    fn end(&self) -> bool {
        // ORDERING: Relaxed; a flag between callbacks of one synchronized dispatcher.
        self.is_ending.swap(true, Ordering::Relaxed)
    }

    fn is_ending(&self) -> bool {
        // ORDERING: Relaxed; as above.
        self.is_ending.load(Ordering::Relaxed)
    }
}
