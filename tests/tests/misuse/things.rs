//! One of everything, on a runtime of its own.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fuchsine_dispatcher::{
    Arena, Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, Interest, Irq, IrqHandle, IrqTrigger,
    JoinHandle, Lane, Message, OffloadHandle, PanicPolicy, Runtime, RuntimeBuilder, StopToken, TaskHandle, WaitHandle,
    WeakDispatcher,
};
use fuchsine_tests::pools::HANG_LIMIT;

pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// One of everything.
pub(crate) struct Things {
    pub(crate) runtime: Runtime,
    pub(crate) driver: Driver,
    pub(crate) other_driver: Driver,
    pub(crate) owner: Mutex<Option<Dispatcher>>,
    /// What operations are made on.
    pub(crate) target: DispatcherHandle,
    pub(crate) other: DispatcherHandle,
    pub(crate) blocking: DispatcherHandle,
    /// Run by the observer of the target's shutdown.
    pub(crate) at_the_end: Arc<Mutex<Option<Body>>>,
    pub(crate) near: Arc<Channel>,
    pub(crate) far: Arc<Channel>,
    pub(crate) closed: Channel,
    pub(crate) task: TaskHandle,
    pub(crate) wait: WaitHandle,
    pub(crate) work: OffloadHandle,
    pub(crate) join: Mutex<Option<JoinHandle<()>>>,
    pub(crate) stop: StopToken,
    pub(crate) weak: WeakDispatcher,
    pub(crate) arena: Arena,
    pub(crate) irq: Irq,
    pub(crate) trigger: IrqTrigger,
    pub(crate) bound: IrqHandle,
    pub(crate) pinned: DispatcherHandle,
    pub(crate) stream: std::os::unix::net::UnixStream,
    _peer: std::os::unix::net::UnixStream,
}

const FAR_AWAY: Duration = Duration::from_secs(100_000);

impl Things {
    pub(crate) fn new() -> Self {
        let runtime = RuntimeBuilder::new().threads(2).panic_policy(PanicPolicy::Continue).build().expect("threads");
        let (driver, other_driver) = (runtime.new_driver("driver"), runtime.new_driver("other"));
        let at_the_end: Arc<Mutex<Option<Body>>> = Arc::default();
        let ending = Arc::clone(&at_the_end);
        let owner = driver
            .new_dispatcher(DispatcherBuilder::new().name("target").shutdown_observer(move || {
                let body = ending.lock().expect("nobody panics here").take();
                if let Some(body) = body {
                    body();
                }
            }))
            .expect("it is made");
        let target = owner.handle();
        let make = |builder: DispatcherBuilder| other_driver.new_dispatcher(builder).expect("it is made").release();
        let (other, blocking) = (make(DispatcherBuilder::new()), make(DispatcherBuilder::new().allow_sync_calls()));
        let pinned = make(DispatcherBuilder::new().no_thread_migration());
        let (irq, trigger) = target.new_irq().expect("there is a descriptor");
        // It acknowledges nothing, so each binding is told once.
        let bound = target.bind_irq(&irq, |_| ()).expect("it runs");
        let (near, far) = Channel::pair();
        let closed = Channel::pair().0;
        let (stream, peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        Things {
            task: target.post_after(FAR_AWAY, |_| ()).expect("it runs"),
            wait: target.begin_wait(&stream, Interest::READABLE, |_| ()).expect("it can be waited for"),
            work: target.offload(Lane::Fast, |_| (), |_| ()).expect("it runs"),
            join: Mutex::new(Some(target.spawn(std::future::pending()).expect("it runs"))),
            stop: target.stop_token(),
            weak: target.downgrade(),
            arena: Arena::new(),
            irq,
            trigger,
            bound,
            pinned,
            near: Arc::new(near),
            far: Arc::new(far),
            owner: Mutex::new(Some(owner)),
            _peer: peer,
            runtime,
            driver,
            other_driver,
            target,
            other,
            blocking,
            at_the_end,
            closed,
            stream,
        }
    }

    /// Waits for something, with a limit.
    pub(crate) fn wait_for<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let since = Instant::now();
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if since.elapsed() > HANG_LIMIT {
                eprintln!("{}", self.runtime.dump());
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// A new driver of the runtime does what drivers do, or is refused because the runtime is over.
    pub(crate) fn works_or_is_over(&self) {
        let driver = self.runtime.new_driver("afterwards");
        let Ok(dispatcher) = driver.new_dispatcher(DispatcherBuilder::new()) else { return };
        let (sender, receiver) = std::sync::mpsc::channel();
        let (near, far) = Channel::pair();
        let (told, own) = (sender.clone(), dispatcher.handle());
        let posted = dispatcher.post_task(move |outcome| {
            let end = Arc::new(far);
            let kept = Arc::clone(&end);
            let read = end.begin_read(&own, move |_| {
                let _ = (told.send(()), kept);
            });
            let _ = (outcome, read.is_ok(), near.write(Message::new()));
            let _ = sender.send(());
        });
        if posted.is_ok() {
            receiver.recv_timeout(HANG_LIMIT).expect("a task runs afterwards");
            // Canceled, if the runtime is being shut down.
            receiver.recv_timeout(HANG_LIMIT).expect("a read is told afterwards");
        }
    }

    /// Shuts down; nothing is left.
    pub(crate) fn end(&self) {
        self.runtime.shutdown(HANG_LIMIT).unwrap_or_else(|error| panic!("{error}"));
        let counters = self.runtime.counters();
        assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
    }

    /// All that holds something, each by itself.
    pub(crate) fn parts(self) -> Vec<Box<dyn Any + Send>> {
        let carried = Channel::pair();
        let message = self.arena.message(16).with(carried.0).with(fuchsine_dispatcher::Handle::value("value"));
        let Things { runtime, driver, other_driver, owner, target, other, blocking, .. } = self;
        vec![
            Box::new(runtime),
            Box::new(driver),
            Box::new(other_driver),
            Box::new(owner),
            Box::new(target),
            Box::new(other),
            Box::new(blocking),
            Box::new(self.near),
            Box::new(self.far),
            Box::new(self.closed),
            Box::new(self.task),
            Box::new(self.wait),
            Box::new(self.work),
            Box::new(self.join),
            Box::new(self.stop),
            Box::new(self.weak),
            Box::new(self.arena),
            Box::new(self.irq),
            Box::new(self.trigger),
            Box::new(self.bound),
            Box::new(self.pinned),
            Box::new(message),
            Box::new(carried.1),
            Box::new(self.stream),
        ]
    }
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something".to_owned())
}
