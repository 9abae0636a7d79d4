//! The run queue of the fake host: one thread, nothing moves unless the test turns the crank, virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Wake, Waker};

use crate::Status;
use crate::abi::closure::message_of;
use crate::abi::host::{HostCallback, HostConnectCallback, HostOffload, HostReadyCallback, HostTask};

use super::channel::FakeChannel;

thread_local! {
    /// The dispatchers whose callbacks run on this thread, innermost last.
    static CURRENT: RefCell<Vec<Arc<FakeDispatcher>>> = const { RefCell::new(Vec::new()) };
}

/// What the fake host shares between all its objects.
#[derive(Default)]
pub(crate) struct World {
    state: Mutex<State>,
    pub(super) net: Arc<Mutex<super::socket::Listeners>>,
}

#[derive(Default)]
struct State {
    now: u64,
    next: u64,
    ready: VecDeque<(Arc<FakeDispatcher>, Step)>,
    timers: BTreeMap<(u64, u64), (Arc<FakeDispatcher>, u64)>,
    work: VecDeque<(Arc<FakeDispatcher>, u64)>,
    panics: Vec<String>,
    dispatchers: Vec<Weak<FakeDispatcher>>,
}

/// One turn of the crank.
enum Step {
    /// An operation has its outcome.
    Fire(u64, Outcome),
    /// A future was woken.
    Poll(u64),
    /// The dispatcher tells everybody that it shuts down.
    Shutdown,
}

/// What an operation learns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) status: Result<(), Status>,
    pub(super) ready: u32,
}

pub(super) const FIRED: Outcome = Outcome { status: Ok(()), ready: 0 };

/// What a dispatcher has accepted.
pub(super) enum Op {
    Task(HostCallback),
    Read(HostCallback, Weak<FakeChannel>),
    Wait(HostReadyCallback),
    Connect(HostConnectCallback, Option<Arc<FakeChannel>>),
    Work(HostOffload, bool),
    Accept(Arc<super::context::FakeService>, Arc<FakeChannel>),
}

pub(crate) struct FakeDispatcher {
    pub(super) world: Arc<World>,
    pub(super) name: String,
    pub(super) flags: std::sync::atomic::AtomicU32,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ops: BTreeMap<u64, Op>,
    futures: BTreeMap<u64, Option<HostTask>>,
    observer: Option<HostCallback>,
    stopping: bool,
}

pub(super) fn current() -> Option<Arc<FakeDispatcher>> {
    CURRENT.with_borrow(|stack| stack.last().cloned())
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the fake host does not panic")
    }

    pub(super) fn now(&self) -> u64 {
        self.state().now
    }

    pub(super) fn panics(&self) -> Vec<String> {
        std::mem::take(&mut self.state().panics)
    }

    pub(super) fn timers(&self) -> usize {
        self.state().timers.len()
    }

    fn id(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// One step; false when there is nothing to do now.
    pub(super) fn step(&self) -> bool {
        let due = {
            let mut state = self.state();
            let now = state.now;
            match state.timers.first_key_value() {
                Some((&key, _)) if key.0 <= now => state.timers.remove(&key),
                _ => None,
            }
        };
        if let Some((dispatcher, op)) = due {
            dispatcher.fire(op, FIRED);
        }
        let next = self.state().ready.pop_front();
        if let Some((dispatcher, step)) = next {
            dispatcher.run(step);
            return true;
        }
        let work = self.state().work.pop_front();
        let Some((dispatcher, op)) = work else { return false };
        dispatcher.work(op);
        true
    }

    /// Moves the clock to the next timer; false when there is none.
    pub(super) fn skip_to_timer(&self) -> bool {
        let mut state = self.state();
        let Some((&(deadline, _), _)) = state.timers.first_key_value() else { return false };
        state.now = state.now.max(deadline);
        true
    }

    /// Shuts everything down, so that what is left afterwards is a leak.
    pub(super) fn end(&self) {
        let dispatchers = std::mem::take(&mut self.state().dispatchers);
        dispatchers.iter().filter_map(Weak::upgrade).for_each(|dispatcher| dispatcher.shutdown());
        while self.step() {}
        self.state().timers.clear();
    }

    pub(super) fn advance_to(&self, now: u64) {
        self.state().now = now;
    }
}

impl FakeDispatcher {
    pub(super) fn new(world: &Arc<World>, name: &str, flags: u32, observer: Option<HostCallback>) -> Arc<Self> {
        let inner = Mutex::new(Inner { observer, ..Inner::default() });
        let dispatcher =
            Arc::new(FakeDispatcher { world: Arc::clone(world), name: name.to_owned(), flags: flags.into(), inner });
        world.state().dispatchers.push(Arc::downgrade(&dispatcher));
        dispatcher
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("the fake host does not panic")
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.inner().stopping
    }

    /// Nothing that was accepted is left.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.inner();
        inner.ops.is_empty() && inner.futures.is_empty() && inner.observer.is_none()
    }

    /// Accepts an operation, unless the dispatcher is stopping; then it comes back.
    pub(super) fn accept(&self, op: Op) -> Result<u64, Op> {
        let id = self.world.id();
        let mut inner = self.inner();
        if inner.stopping {
            return Err(op);
        }
        inner.ops.insert(id, op);
        Ok(id)
    }

    pub(super) fn fire(self: &Arc<Self>, op: u64, outcome: Outcome) {
        self.world.state().ready.push_back((Arc::clone(self), Step::Fire(op, outcome)));
    }

    pub(super) fn fire_at(self: &Arc<Self>, op: u64, deadline: u64) {
        self.world.state().timers.insert((deadline, op), (Arc::clone(self), op));
    }

    pub(super) fn queue_work(self: &Arc<Self>, op: u64) {
        self.world.state().work.push_back((Arc::clone(self), op));
    }

    /// Takes an operation back.
    pub(super) fn take_back(&self, op: u64) -> Option<Op> {
        self.world.state().timers.retain(|_, (_, other)| *other != op);
        self.inner().ops.remove(&op)
    }

    /// Cancels work that has not begun: it is told on the dispatcher.
    pub(super) fn cancel_work(self: &Arc<Self>, op: u64) -> bool {
        let waits = matches!(self.inner().ops.get(&op), Some(Op::Work(_, false)));
        let queued = {
            let mut state = self.world.state();
            let before = state.work.len();
            state.work.retain(|(_, other)| *other != op);
            before != state.work.len()
        };
        if waits && queued {
            self.fire(op, Outcome { status: Err(Status::Canceled), ready: 0 });
        }
        waits && queued
    }

    pub(super) fn spawn(self: &Arc<Self>, future: HostTask) -> Result<u64, HostTask> {
        let id = self.world.id();
        let mut inner = self.inner();
        if inner.stopping {
            return Err(future);
        }
        inner.futures.insert(id, Some(future));
        drop(inner);
        self.wake(id);
        Ok(id)
    }

    pub(super) fn wake(self: &Arc<Self>, future: u64) {
        self.world.state().ready.push_back((Arc::clone(self), Step::Poll(future)));
    }

    /// Drops a future on the dispatcher, by waking it as canceled: the next poll finds it marked.
    pub(super) fn cancel_future(self: &Arc<Self>, future: u64) {
        let taken = self.inner().futures.get_mut(&future).and_then(Option::take);
        if let Some(task) = taken {
            // A future that is polled right now is not there; its own cancel comes too late then.
            self.inner().futures.remove(&future);
            self.within(|| drop(task));
        }
    }

    pub(super) fn shutdown(self: &Arc<Self>) {
        if std::mem::replace(&mut self.inner().stopping, true) {
            return;
        }
        self.world.state().ready.push_back((Arc::clone(self), Step::Shutdown));
    }

    /// Runs `f` with this dispatcher as the current one; a panic is noted.
    pub(super) fn within(self: &Arc<Self>, f: impl FnOnce()) {
        CURRENT.with_borrow_mut(|stack| stack.push(Arc::clone(self)));
        let outcome = catch_unwind(AssertUnwindSafe(f));
        CURRENT.with_borrow_mut(|stack| stack.pop());
        if let Err(payload) = outcome {
            self.world.state().panics.push(message_of(payload));
        }
    }

    fn run(self: &Arc<Self>, step: Step) {
        match step {
            Step::Fire(op, outcome) => {
                let op = self.inner().ops.remove(&op);
                if let Some(op) = op {
                    self.within(|| call(op, outcome));
                }
            }
            Step::Poll(future) => self.poll(future),
            Step::Shutdown => self.tell_everybody(),
        }
    }

    fn poll(self: &Arc<Self>, id: u64) {
        let taken = self.inner().futures.get_mut(&id).and_then(Option::take);
        let Some(mut task) = taken else { return };
        let waker = Waker::from(Arc::new(FakeWaker { dispatcher: Arc::downgrade(self), future: id }));
        let mut slot = None;
        self.within(|| {
            let pending = Future::poll(std::pin::Pin::new(&mut task), &mut Context::from_waker(&waker)).is_pending();
            if pending {
                slot = Some(task);
            }
        });
        let mut inner = self.inner();
        if slot.is_some() && !inner.stopping {
            inner.futures.insert(id, slot);
        } else {
            inner.futures.remove(&id);
            drop(inner);
            self.within(|| drop(slot));
        }
    }

    fn tell_everybody(self: &Arc<Self>) {
        let (ops, futures, observer) = {
            let mut inner = self.inner();
            (std::mem::take(&mut inner.ops), std::mem::take(&mut inner.futures), inner.observer.take())
        };
        for (_, op) in ops {
            let begun = matches!(op, Op::Work(_, true));
            let status = if begun { Ok(()) } else { Err(Status::Canceled) };
            self.within(|| call(op, Outcome { status, ready: 0 }));
        }
        for (_, future) in futures {
            self.within(|| drop(future));
        }
        if let Some(observer) = observer {
            self.within(|| observer.call(Ok(())));
        }
    }

    /// Does work, as a lane would.
    fn work(self: &Arc<Self>, op: u64) {
        let taken = self.inner().ops.remove(&op);
        let Some(Op::Work(mut job, _)) = taken else { return };
        // SAFETY: the token is the address of the dispatcher, which lives for the call.
        unsafe { job.work(Arc::as_ptr(self).cast()) };
        self.inner().ops.insert(op, Op::Work(job, true));
        self.fire(op, FIRED);
    }
}

/// Ends an operation by calling it.
fn call(op: Op, outcome: Outcome) {
    match op {
        Op::Task(callback) => callback.call(outcome.status),
        Op::Read(callback, channel) => {
            if let Some(channel) = channel.upgrade() {
                channel.forget_read();
            }
            callback.call(outcome.status);
        }
        Op::Wait(callback) => callback.call(outcome.status.map(|()| outcome.ready)),
        Op::Connect(callback, end) => {
            let end = outcome.status.and_then(|()| end.ok_or(Status::NotFound)).map(super::channel::give);
            // SAFETY: `give` has made an owned end of it.
            unsafe { callback.call(end) };
        }
        Op::Work(job, _) => job.done(outcome.status),
        Op::Accept(service, end) => {
            if outcome.status.is_ok() {
                service.accept(end);
            }
        }
    }
}

struct FakeWaker {
    dispatcher: Weak<FakeDispatcher>,
    future: u64,
}

impl Wake for FakeWaker {
    fn wake(self: Arc<Self>) {
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            dispatcher.wake(self.future);
        }
    }
}
