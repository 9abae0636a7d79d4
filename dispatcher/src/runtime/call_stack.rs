//! The driver call stack of each thread: which drivers and dispatchers this thread is inside of, innermost last.
//!
//! It answers what is *current*, and whether a driver would be called into while it is still in a call further up
//! (never: the call is deferred). What the top of each thread's stack is can be read from other threads too, for dumps.
//!
//! # Invariants
//! - Every push is undone by the drop of its [`FrameGuard`], in reverse order, also when a callback panics.

use std::cell::{Cell, RefCell};

use thread_local::ThreadLocal;

use super::dispatcher::DispatcherInner;
use super::driver_inner::DriverInner;
use super::ids::DispatcherId;
#[cfg(feature = "testing")]
use crate::sync::Weak;
use crate::sync::probe::{self, Note};
use crate::sync::thread::ThreadId;
use crate::sync::unmodelled::{AtomicU64, Mutex, Ordering};
use crate::sync::{Arc, thread, thread_local};
use crate::sys::thread_id;

/// One level of the stack.
#[derive(Clone)]
enum Frame {
    /// A callback of this dispatcher runs.
    Dispatcher(Arc<DispatcherInner>),
    /// The thread entered this driver without a dispatcher.
    Driver(Arc<DriverInner>),
    /// The observers of this driver's shutdown run; with the first dispatcher that it had, if they count as its callbacks.
    Observers(Arc<DriverInner>, Option<DispatcherId>),
}

impl Frame {
    fn owner(&self) -> &Arc<DriverInner> {
        match self {
            Frame::Dispatcher(dispatcher) => dispatcher.owner(),
            Frame::Driver(driver) | Frame::Observers(driver, _) => driver,
        }
    }

    fn dispatcher(&self) -> Option<&Arc<DispatcherInner>> {
        match self {
            Frame::Dispatcher(dispatcher) => Some(dispatcher),
            Frame::Driver(_) | Frame::Observers(..) => None,
        }
    }
}

thread_local! {
    static STACK: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// The dispatcher that is current while the stack is empty, if a test has said so.
    #[cfg(feature = "testing")]
    static DEFAULT: RefCell<Weak<DispatcherInner>> = const { RefCell::new(Weak::new()) };
    /// The dispatcher whose offloaded work this thread does.
    static WORK_OF: RefCell<Option<Arc<DispatcherInner>>> = const { RefCell::new(None) };
    /// Whether this thread has said who it is.
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// What a thread shows of itself to others. Values of dead threads are reused by later ones, hence ids only, and a thread
/// says who it is before it shows anything else.
#[derive(Debug, Default)]
struct Published {
    driver: AtomicU64,
    dispatcher: AtomicU64,
    who: Mutex<Option<Who>>,
}

/// Who a thread is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) id: ThreadId,
    /// What the operating system calls it, where it does.
    pub(crate) os_id: Option<u32>,
    /// `None` for a thread that was given no name.
    pub(crate) name: Option<String>,
}

/// A thread that is or was inside of some driver, and where it is now.
#[derive(Debug, Clone)]
pub(crate) struct ThreadView {
    pub(crate) who: Who,
    /// The driver of its innermost frame, 0 for none.
    pub(crate) driver: u64,
    /// The dispatcher of its innermost frame, 0 for none.
    pub(crate) dispatcher: u64,
}

static PUBLISHED: ThreadLocal<Published> = ThreadLocal::new();

/// Lets others find this thread by its numbers, and its name by them.
pub(crate) fn make_known() {
    if IS_KNOWN.with(|known| known.replace(true)) {
        return;
    }
    let name = std::thread::current().name().map(str::to_owned);
    let who = Who { id: thread::current_id(), os_id: thread_id::current(), name };
    *PUBLISHED.get_or_default().who.lock() = Some(who);
}

/// All threads that have made themselves known, those included that have ended and whose place nobody has taken yet;
/// they are inside of nothing.
pub(crate) fn known_threads() -> Vec<ThreadView> {
    let view = |published: &Published| {
        Some(ThreadView {
            who: published.who.lock().clone()?,
            driver: published.driver.load(Ordering::Relaxed),
            dispatcher: published.dispatcher.load(Ordering::Relaxed),
        })
    };
    PUBLISHED.iter().filter_map(view).collect()
}

fn publish(top: Option<&Frame>) {
    make_known();
    let published = PUBLISHED.get_or_default();
    let driver = top.map_or(0, |frame| frame.owner().id().as_raw());
    let dispatcher = top.and_then(Frame::dispatcher).map_or(0, |dispatcher| dispatcher.id().as_raw());
    published.driver.store(driver, Ordering::Relaxed);
    published.dispatcher.store(dispatcher, Ordering::Relaxed);
}

/// How many threads of the process are inside this driver at this moment, as far as their innermost frame tells.
pub(crate) fn threads_in_driver(driver: u64) -> usize {
    PUBLISHED.iter().filter(|published| published.driver.load(Ordering::Relaxed) == driver).count()
}

/// Pops the frame when dropped.
#[must_use = "the frame is popped when the guard is dropped"]
pub(crate) struct FrameGuard(());

impl Drop for FrameGuard {
    fn drop(&mut self) {
        let popped = with_stack(|stack| {
            let mut stack = stack.borrow_mut();
            let popped = stack.pop();
            publish(stack.last());
            probe::note(|| Note::Left);
            popped
        });
        // Outside of the borrow: dropping what it names may run code that asks what is current.
        drop(popped);
    }
}

/// The stack of this thread, or what it is when there is none any more: a thread that ends, and runs the destructors of
/// its thread-local values, is inside of nothing.
fn with_stack<R: Default>(f: impl FnOnce(&RefCell<Vec<Frame>>) -> R) -> R {
    STACK.try_with(f).unwrap_or_default()
}

fn push(frame: Frame) -> FrameGuard {
    publish(Some(&frame));
    probe::note(|| {
        let dispatcher = frame.dispatcher().map_or(0, |dispatcher| dispatcher.id().as_raw());
        Note::Entered { driver: frame.owner().id().as_raw(), dispatcher }
    });
    with_stack(|stack| stack.borrow_mut().push(frame));
    FrameGuard(())
}

/// Enters a dispatcher for a callback.
pub(crate) fn push_dispatcher(dispatcher: &Arc<DispatcherInner>) -> FrameGuard {
    push(Frame::Dispatcher(Arc::clone(dispatcher)))
}

/// Enters a driver without a dispatcher.
pub(crate) fn push_driver(driver: &Arc<DriverInner>) -> FrameGuard {
    push(Frame::Driver(Arc::clone(driver)))
}

/// Enters a driver for the observers of its shutdown, which count as callbacks of `first`.
pub(crate) fn push_observers(driver: &Arc<DriverInner>, first: Option<DispatcherId>) -> FrameGuard {
    push(Frame::Observers(Arc::clone(driver), first))
}

/// The dispatcher that a test has made the default of this thread, while the thread is inside of nothing.
#[cfg(feature = "testing")]
pub(crate) fn default_dispatcher() -> Option<Arc<DispatcherInner>> {
    let is_outside = with_stack(|stack| Some(stack.borrow().is_empty())).unwrap_or_default();
    if !is_outside {
        return None;
    }
    DEFAULT.try_with(|default| default.borrow().upgrade()).unwrap_or_default()
}

/// There is no such thing outside of tests.
#[cfg(not(feature = "testing"))]
pub(crate) fn default_dispatcher() -> Option<Arc<DispatcherInner>> {
    None
}

/// Sets or clears the default of this thread; false while the thread is inside of something.
#[cfg(feature = "testing")]
pub(crate) fn set_default_dispatcher(dispatcher: Option<&Arc<DispatcherInner>>) -> bool {
    let is_outside = with_stack(|stack| Some(stack.borrow().is_empty())).unwrap_or_default();
    let dispatcher = dispatcher.map_or_else(Weak::new, Arc::downgrade);
    is_outside && DEFAULT.try_with(|default| default.replace(dispatcher)).is_ok()
}

/// Runs `f`, which is work of `dispatcher`, as if the stack were empty: work on a lane belongs to no driver, also where
/// one thread does everything.
pub(crate) fn as_work_of<R>(dispatcher: &Arc<DispatcherInner>, f: impl FnOnce() -> R) -> R {
    struct Restore(Vec<Frame>, Option<Arc<DispatcherInner>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WORK_OF.with(|work_of| work_of.replace(self.1.take()));
            STACK.with(|stack| {
                stack.replace(std::mem::take(&mut self.0));
                publish(stack.borrow().last());
                probe::note(|| Note::Left);
            });
        }
    }
    let stack = STACK.with(RefCell::take);
    let _restore = Restore(stack, WORK_OF.with(|work_of| work_of.replace(Some(Arc::clone(dispatcher)))));
    publish(None);
    probe::note(|| Note::Entered { driver: 0, dispatcher: 0 });
    f()
}

/// The dispatcher whose offloaded work this thread does, while it is inside of nothing else.
pub(crate) fn dispatcher_of_work() -> Option<Arc<DispatcherInner>> {
    WORK_OF.try_with(|work_of| work_of.borrow().clone()).unwrap_or_default()
}

/// The dispatcher of the innermost frame.
pub(crate) fn current_dispatcher() -> Option<Arc<DispatcherInner>> {
    with_stack(|stack| stack.borrow().last().and_then(Frame::dispatcher).cloned())
}

/// The dispatcher whose sequence this thread is in: the current one, the one that observers stand in for, or the default
/// of the thread that turns the crank of a foreground runtime.
pub(crate) fn current_sequence() -> Option<DispatcherId> {
    let stands_in = with_stack(|stack| match stack.borrow().last() {
        Some(Frame::Observers(_, first)) => *first,
        _ => None,
    });
    stands_in.or_else(|| current_dispatcher().map(|dispatcher| dispatcher.id())).or_else(sequence_of_default)
}

#[cfg(not(feature = "testing"))]
fn sequence_of_default() -> Option<DispatcherId> {
    None
}

/// The default dispatcher's sequence, where nothing of it can run meanwhile: it waits for this thread to turn its crank,
/// and no callback of it sleeps half-way.
#[cfg(feature = "testing")]
fn sequence_of_default() -> Option<DispatcherId> {
    let dispatcher = default_dispatcher()?;
    let stands_still =
        dispatcher.owner().runtime().default_pool().is_turned_here() && dispatcher.lock().inside.callbacks == 0;
    stands_still.then(|| dispatcher.id())
}

/// The innermost dispatcher, also if a driver was entered by hand since.
pub(crate) fn innermost_dispatcher() -> Option<Arc<DispatcherInner>> {
    with_stack(|stack| stack.borrow().iter().rev().find_map(Frame::dispatcher).cloned())
}

/// The driver of the innermost frame.
pub(crate) fn current_driver() -> Option<Arc<DriverInner>> {
    with_stack(|stack| stack.borrow().last().map(|frame| Arc::clone(frame.owner())))
}

/// The raw ids of the innermost frame: driver and dispatcher, 0 for none.
pub(crate) fn current_ids() -> (u64, u64) {
    let innermost = with_stack(|stack| {
        stack.borrow().last().map(|frame| {
            (frame.owner().id().as_raw(), frame.dispatcher().map_or(0, |dispatcher| dispatcher.id().as_raw()))
        })
    });
    innermost.unwrap_or_else(|| {
        default_dispatcher().map_or((0, 0), |default| (default.owner().id().as_raw(), default.id().as_raw()))
    })
}

/// Whether this thread is inside of a callback of the dispatcher, innermost or not.
pub(crate) fn is_inside(id: DispatcherId) -> bool {
    with_stack(|stack| stack.borrow().iter().filter_map(Frame::dispatcher).any(|dispatcher| dispatcher.id() == id))
}

/// Whether this dispatcher is the innermost one.
pub(crate) fn is_current(dispatcher: &DispatcherInner) -> bool {
    with_stack(|stack| {
        let stack = stack.borrow();
        stack.last().and_then(Frame::dispatcher).is_some_and(|top| std::ptr::eq(&raw const **top, dispatcher))
    })
}

/// What an inline decision asks about this thread's stack.
#[derive(Default)]
pub(crate) struct StackView {
    pub(crate) owner_in_stack: bool,
    pub(crate) allows_sync_calls: bool,
    pub(crate) depth: u32,
}

/// Looks at every frame for `owner`.
#[inline]
pub(crate) fn view(owner: &DriverInner) -> StackView {
    with_stack(|stack| {
        let stack = stack.borrow();
        StackView {
            owner_in_stack: stack.iter().any(|frame| std::ptr::eq(&raw const **frame.owner(), owner)),
            allows_sync_calls: stack
                .last()
                .and_then(Frame::dispatcher)
                .is_some_and(|dispatcher| dispatcher.allows_sync_calls()),
            depth: stack.len() as u32,
        }
    })
}
