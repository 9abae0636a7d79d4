//! Fuchsine: closures posted to dispatchers.

use std::time::Duration;

use fuchsine_dispatcher::{Canceled, DispatcherBuilder, DispatcherHandle, Driver, Runtime, RuntimeBuilder};

use super::{Message, Peer, Tasks};

/// How long a runtime may take to end.
const END: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Fuchsine {
    pub(crate) runtime: Runtime,
    driver: Driver,
}

impl Fuchsine {
    pub(crate) fn dispatcher(&self, builder: DispatcherBuilder) -> DispatcherHandle {
        self.driver.new_dispatcher(builder).expect("a driver that runs creates dispatchers").release()
    }
}

fn post<M: Message>(dispatcher: &DispatcherHandle, message: M) {
    let posted = dispatcher.post_task(move |outcome| match outcome {
        Ok(()) => message.run(),
        Err(Canceled) => message.canceled(),
    });
    posted.expect("a dispatcher that runs accepts");
}

impl Peer for Fuchsine {
    const NAME: &'static str = "fuchsine";
    type Queue<M: Message> = DispatcherHandle;

    fn start(threads: usize) -> Self {
        let runtime = RuntimeBuilder::new().threads(threads).build().expect("the system has threads");
        Fuchsine { driver: runtime.new_driver("bench"), runtime }
    }

    fn queue<M: Message>(&self) -> DispatcherHandle {
        self.dispatcher(DispatcherBuilder::new())
    }

    fn post<M: Message>(queue: &DispatcherHandle, message: M) {
        post(queue, message);
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        self.dispatcher(DispatcherBuilder::new()).post_task(|_| body()).expect("a dispatcher that runs accepts");
    }

    fn close(&self) {
        self.runtime.shutdown_async();
    }

    fn stop(self) -> bool {
        self.runtime.shutdown(END).is_ok() && self.runtime.counters().add_up()
    }
}

/// A pool and its one unsynchronized dispatcher.
#[derive(Debug)]
pub(crate) struct Unsynchronized {
    dispatcher: DispatcherHandle,
    /// Dropped last: its end is that of the dispatcher.
    _runtime: Runtime,
}

impl Tasks for Fuchsine {
    const NAME: &'static str = "fuchsine";
    type Pool<M: Message> = Unsynchronized;

    fn start<M: Message>(threads: usize) -> Unsynchronized {
        let fuchsine = <Fuchsine as Peer>::start(threads);
        let dispatcher = fuchsine.dispatcher(DispatcherBuilder::new().unsynchronized());
        Unsynchronized { dispatcher, _runtime: fuchsine.runtime }
    }

    fn spawn<M: Message>(pool: &Unsynchronized, message: M) {
        post(&pool.dispatcher, message);
    }
}
