//! What the conformance tests share: dispatchers of drivers of their own, logs, gates that hold a callback.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Message, Status};
use fuchsine_tests::pools::{HANG_LIMIT, World};

/// An ordered record of what happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A synchronized dispatcher of a driver of its own, both with this name.
#[track_caller]
pub(crate) fn plain(world: &World, name: &str) -> Dispatcher {
    make(world, name, DispatcherBuilder::new())
}

/// A dispatcher of a driver of its own, both with this name.
#[track_caller]
pub(crate) fn make(world: &World, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    world.driver(name).new_dispatcher(builder.name(name)).expect("it is made")
}

/// Posts a task that is not awaited.
#[track_caller]
pub(crate) fn task(dispatcher: &DispatcherHandle, body: impl FnOnce() + Send + 'static) {
    dispatcher.post_task(move |_| body()).expect("the dispatcher runs");
}

/// Posts a task that notes its name and how it ended.
#[track_caller]
pub(crate) fn noted(dispatcher: &DispatcherHandle, log: &Log, name: impl Into<String>) {
    let (log, name) = (log.clone(), name.into());
    let note = move |outcome: Result<(), _>| match outcome {
        Ok(()) => log.add(name),
        Err(canceled) => log.add(format!("{name} {}", Status::from(canceled))),
    };
    dispatcher.post_task(note).expect("the dispatcher runs");
}

/// Registers a read that is not taken back.
#[track_caller]
pub(crate) fn on_message(
    end: &Channel,
    dispatcher: &DispatcherHandle,
    then: impl FnOnce(Result<(), Status>) + Send + 'static,
) {
    end.begin_read(dispatcher, then).expect("it is registered");
}

/// Writes a message without contents.
#[track_caller]
pub(crate) fn write(end: &Channel) {
    end.write(Message::new()).expect("the peer is there");
}

/// Holds a callback until the test lets it go.
#[derive(Debug)]
pub(crate) struct Gate {
    entered: Receiver<()>,
    release: Sender<()>,
}

/// The part of a gate that is inside of the callback.
#[derive(Debug)]
pub(crate) struct GateKeeper {
    entered: Sender<()>,
    released: Receiver<()>,
}

pub(crate) fn gate() -> (Gate, GateKeeper) {
    let ((entered, has_entered), (release, released)) = (channel(), channel());
    (Gate { entered: has_entered, release }, GateKeeper { entered, released })
}

impl Gate {
    /// Waits until the callback has come to the gate.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.entered.recv_timeout(HANG_LIMIT).expect("the callback comes to its gate");
    }

    /// Lets it go.
    pub(crate) fn open(&self) {
        // A callback that has given up is gone.
        let _ = self.release.send(());
    }
}

impl GateKeeper {
    /// Waits until the gate opens. Gives up after a while, so that a failed test does not hang.
    pub(crate) fn pass(&self) {
        let _ = self.entered.send(());
        let _ = self.released.recv_timeout(HANG_LIMIT);
    }
}
