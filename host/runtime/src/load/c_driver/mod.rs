//! The adapter by which a driver in C is a driver of the host.
//!
//! To the host it is like any other: an entry with hooks. Its `start` calls `initialize` of the module, on the default dispatcher,
//! and asks the driver to start by way of the channel that it has given it (`fuchsine/driver.h`); its `prepare_stop` asks it to
//! stop, and waits until it has closed that channel. `destroy` of the module is called once all dispatchers of the driver
//! have shut down, also after a start that failed. `node` is the other channel, by which the driver asks things of the host.
//!
//! # Invariants
//! - `destroy` is called once for each `initialize` that was called, with what that returned, and after it.

mod node;

use std::collections::HashMap;
use std::ffi::c_void;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use fuchsine_abi::host;
use fuchsine_abi::protocol::{FUCHSINE_DRIVER_START, FUCHSINE_DRIVER_STOP, Packet};
use fuchsine_abi::types::DriverRegistration;
use fuchsine_dispatcher::{Channel, Message};
use fuchsine_driver::{Child, Driver, DriverContext, DriverEntry, StartError, Status, StopError, spawn};
use parking_lot::Mutex;
use serde_json::Value;

use super::module::{Module, instance_here};
use crate::host::Instance;

/// The entry that those of modules in C are made of.
pub(super) const ENTRY: DriverEntry = DriverEntry::of::<CDriver>();

/// An instance of a driver in C.
pub(super) struct CDriver(Arc<Talk>);

/// Both channels, from the host's side.
struct Talk {
    cx: DriverContext,
    driver: Channel,
    /// The acceptors of services write to it too.
    node: Arc<Channel>,
    node_is_closed: AtomicBool,
    children: Mutex<HashMap<String, Child>>,
    /// Whether the host has asked it to stop.
    is_stopping: AtomicBool,
    closed: Closed,
}

/// Whether the driver has closed its channel.
#[derive(Default)]
struct Closed(Mutex<(bool, Option<Waker>)>);

/// What comes next.
enum Heard {
    Driver(Message),
    DriverClosed,
    Node(Message),
    NodeClosed,
}

impl Driver for CDriver {
    const NAME: &'static str = "c";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (ours, theirs) = Channel::pair();
        let (node, nodes) = Channel::pair();
        initialize(theirs)?;
        let talk = Arc::new(Talk {
            cx,
            driver: ours,
            node: Arc::new(node),
            node_is_closed: AtomicBool::new(false),
            children: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            closed: Closed::default(),
        });
        // If it has closed its end already, that is what it is heard to say.
        let _ = talk.driver.write(talk.start_message().with(nodes));
        talk.wait_for_start().await?;
        spawn(Arc::clone(&talk).serve()).map_err(|error| error.status())?;
        Ok(CDriver(talk))
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        // ORDERING: Relaxed; whoever closes because of the message that follows is heard after it.
        self.0.is_stopping.store(true, Ordering::Relaxed);
        let _ = self.0.driver.write(Packet::new::<String>(FUCHSINE_DRIVER_STOP, 0, []).to_message());
        self.0.closed.wait().await;
        Ok(())
    }
}

/// Calls `initialize` of the module whose driver runs here, and sees to it that `destroy` follows.
fn initialize(end: Channel) -> Result<(), StartError> {
    let found = instance_here().and_then(|instance| {
        let registration = Module::of(instance.entry)?.registration()?;
        Some((instance, registration))
    });
    let (instance, registration) = found.ok_or(Status::BadState)?;
    let shared = instance.host.upgrade().ok_or(Status::BadState)?;
    host::bind(shared.runtime()).map_err(|_| {
        let why = "this process has an environment of the C interface that is not this host's (`fdf_env_start`)";
        StartError::new(Status::BadState, why)
    })?;
    drop(shared);
    let handle = host::give(end)
        .map_err(|_| StartError::new(Status::NoResources, "all 65,536 handles of the C interface are in use"))?;
    run(&instance, registration, handle);
    Ok(())
}

fn run(instance: &Instance, registration: &'static DriverRegistration, handle: u32) {
    /// What `initialize` returned, which nobody but the module follows.
    struct Token(*mut c_void);
    // SAFETY: the module says which thread may use it: whichever calls `destroy`.
    unsafe impl Send for Token {}

    // A module that lacks one is not loaded.
    let (Some(initialize), Some(destroy)) = (registration.v1.initialize, registration.v1.destroy) else { return };
    // SAFETY: as the header says: on the driver's default dispatcher, with a handle that is the driver's from now on.
    let token = Token(unsafe { initialize(handle) });
    instance.at_end.push(move || {
        let token = token;
        // SAFETY: as the header says: once, after all dispatchers of the driver, with what `initialize` returned.
        unsafe { destroy(token.0) };
    });
}

impl Talk {
    fn start_message(&self) -> Message {
        let config = settings(&self.cx.config_text());
        let node = self.cx.node();
        let count = i32::try_from(config.len()).unwrap_or(i32::MAX);
        let pairs = config.into_iter().chain(node.properties());
        let texts = [self.cx.name(), node.name()].into_iter().chain(pairs.flat_map(|(key, value)| [key, value]));
        Packet { txid: 1, ..Packet::new(FUCHSINE_DRIVER_START, count, texts) }.to_message()
    }

    /// The answer to the request to start. What the driver asks of its node before is done before.
    async fn wait_for_start(self: &Arc<Self>) -> Result<(), StartError> {
        let message = loop {
            match self.next().await {
                Heard::Node(message) => self.node_asks(message),
                Heard::NodeClosed => {}
                Heard::DriverClosed => {
                    let why = "it has closed its `server_handle` instead of answering the request to start";
                    return Err(StartError::new(Status::PeerClosed, why));
                }
                Heard::Driver(message) => break message,
            }
        };
        while let Ok(message) = self.node.try_read() {
            self.node_asks(message);
        }
        let answer = Packet::read(message.bytes())
            .map_err(|why| StartError::new(Status::Internal, format!("its answer to the request to start: {why}")))?;
        if answer.ordinal != FUCHSINE_DRIVER_START {
            let why = format!("it has answered the request to start with a message of the ordinal {}", answer.ordinal);
            return Err(StartError::new(Status::Internal, why));
        }
        Status::result_of(answer.value).map_err(|status| match answer.text(0) {
            "" => StartError::from(status),
            sentence => StartError::new(status, sentence),
        })
    }

    /// Hears the driver until it closes its channel.
    async fn serve(self: Arc<Self>) {
        // ORDERING: Relaxed; it is set and read on the default dispatcher.
        if self.node_is_closed.load(Ordering::Relaxed) {
            self.finish();
        }
        loop {
            match self.next().await {
                Heard::Node(message) => self.node_asks(message),
                Heard::NodeClosed => self.finish(),
                Heard::Driver(_) => self.cx.logger().warn("its message on `server_handle` answers nothing; dropped"),
                Heard::DriverClosed => {
                    self.closed.set();
                    return self.finish();
                }
            }
        }
    }

    /// The driver has closed something.
    fn finish(&self) {
        // ORDERING: Relaxed, see `prepare_stop`.
        if !self.is_stopping.load(Ordering::Relaxed) {
            self.cx.finish();
        }
    }

    async fn next(&self) -> Heard {
        let (mut driver, mut node) = (self.driver.read(), self.node.read());
        poll_fn(move |cx| {
            // ORDERING: Relaxed; it is set and read on the default dispatcher.
            if !self.node_is_closed.load(Ordering::Relaxed)
                && let Poll::Ready(read) = Pin::new(&mut node).poll(cx)
            {
                return Poll::Ready(read.map_or_else(
                    |_| {
                        self.node_is_closed.store(true, Ordering::Relaxed);
                        Heard::NodeClosed
                    },
                    Heard::Node,
                ));
            }
            Pin::new(&mut driver).poll(cx).map(|read| read.map_or(Heard::DriverClosed, Heard::Driver))
        })
        .await
    }
}

impl Closed {
    fn set(&self) {
        let waker = {
            let mut closed = self.0.lock();
            closed.0 = true;
            closed.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            let mut closed = self.0.lock();
            if closed.0 {
                return Poll::Ready(());
            }
            closed.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A configuration as keys and texts; a list has its key once for each item.
fn settings(config: &str) -> Vec<(String, String)> {
    let Ok(Value::Object(config)) = serde_json::from_str(config) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let each = |(key, value): (&String, &Value)| match value {
        Value::Array(items) => items.iter().map(|item| (key.clone(), text(item))).collect(),
        value => vec![(key.clone(), text(value))],
    };
    config.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_keys_and_texts() {
        let pairs = settings(r#"{"on": true, "list": ["a", "b"], "size": 4096, "text": "x y", "none": []}"#);
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("list", "a"), ("list", "b"), ("on", "true"), ("size", "4096"), ("text", "x y")]);
        assert!(settings("").is_empty() && settings("[1]").is_empty());
    }
}
