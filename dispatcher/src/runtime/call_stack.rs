//! The driver call stack of each thread: which drivers and dispatchers this thread is inside of, innermost last.
//!
//! It answers what is *current*, and whether a driver would be called into while it is still in a call further up
//! (never: the call is deferred). What the top of each thread's stack is can be read from other threads too, for dumps.
//!
//! A frame is lent for the time of the call: nothing is counted or allocated for it.

use std::cell::{Cell, RefCell};

use thread_local::ThreadLocal;

use super::callback_queue::Poster;
use super::dispatcher::DispatcherInner;
use super::driver_inner::DriverInner;
use super::ids::DispatcherId;
#[cfg(feature = "testing")]
use crate::sync::Weak;
use crate::sync::probe::{self, Note};
use crate::sync::thread::ThreadId;
use crate::sync::unmodelled::{AtomicU64, Mutex, Ordering};
use crate::sync::{Arc, LentStack, thread, thread_local};
use crate::sys::thread_id;

/// What this thread is inside of.
trait Frame {
    fn owner(&self) -> &Arc<DriverInner>;

    /// Whose callback runs, if it is one of a dispatcher.
    fn dispatcher(&self) -> Option<&Arc<DispatcherInner>> {
        None
    }

    /// The dispatcher that it counts as a callback of.
    fn stands_in_for(&self) -> Option<DispatcherId> {
        None
    }
}

/// A callback of this dispatcher runs.
impl Frame for Arc<DispatcherInner> {
    fn owner(&self) -> &Arc<DriverInner> {
        DispatcherInner::owner(self)
    }

    fn dispatcher(&self) -> Option<&Arc<DispatcherInner>> {
        Some(self)
    }
}

/// The thread entered this driver without a dispatcher.
impl Frame for Arc<DriverInner> {
    fn owner(&self) -> &Arc<DriverInner> {
        self
    }
}

/// The observers of this driver's shutdown run; with the first dispatcher that it had, if they count as its callbacks.
struct Observers(Arc<DriverInner>, Option<DispatcherId>);

impl Frame for Observers {
    fn owner(&self) -> &Arc<DriverInner> {
        &self.0
    }

    fn stands_in_for(&self) -> Option<DispatcherId> {
        self.1
    }
}

/// The stack of one thread.
struct Stack {
    /// With the ids of each frame.
    frames: LentStack<dyn Frame, Poster>,
    /// What the thread shows of itself, once it has said who it is. Looking it up costs more than all else that a frame does.
    shown: Cell<Option<&'static Published>>,
}

impl Stack {
    /// The ids of the innermost frame.
    #[inline]
    fn top(&self) -> Poster {
        self.frames.note().unwrap_or(Poster::NOBODY)
    }

    /// Lets others see what the innermost frame is.
    #[inline]
    fn show(&self, top: Poster) {
        let shown = match self.shown.get() {
            Some(shown) => shown,
            None => self.begin_to_show(),
        };
        shown.driver.store(top.driver, Ordering::Relaxed);
        shown.dispatcher.store(top.dispatcher, Ordering::Relaxed);
        probe::note(|| Note::Entered { driver: top.driver, dispatcher: top.dispatcher });
    }

    #[cold]
    fn begin_to_show(&self) -> &'static Published {
        make_known();
        let shown = PUBLISHED.get_or_default();
        // Another thread is given the place when this one has ended, which destroys that value before.
        if AT_END.try_with(|_| ()).is_ok() {
            self.shown.set(Some(shown));
        }
        shown
    }
}

/// Shows again what was shown before, when it is dropped.
struct ShowAgain<'a>(&'a Stack, Poster);

impl Drop for ShowAgain<'_> {
    #[inline]
    fn drop(&mut self) {
        let ShowAgain(stack, Poster { driver, dispatcher }) = *self;
        if let Some(shown) = stack.shown.get() {
            shown.driver.store(driver, Ordering::Relaxed);
            shown.dispatcher.store(dispatcher, Ordering::Relaxed);
        }
        probe::note(|| Note::Left);
    }
}

/// Looks up anew from its end on what the thread shows.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        // In a model the stack may have gone before.
        let _ = STACK.try_with(|stack| stack.shown.set(None));
    }
}

thread_local! {
    static STACK: Stack = const { Stack { frames: LentStack::new(), shown: Cell::new(None) } };
    static AT_END: AtEnd = const { AtEnd };
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

/// How many threads of the process are inside this driver at this moment, as far as their innermost frame tells.
pub(crate) fn threads_in_driver(driver: u64) -> usize {
    PUBLISHED.iter().filter(|published| published.driver.load(Ordering::Relaxed) == driver).count()
}

#[inline]
fn within<R>(frame: &(dyn Frame + 'static), ids: Poster, f: impl FnOnce() -> R) -> R {
    STACK.with(|stack| {
        let _shown = ShowAgain(stack, stack.top());
        stack.show(ids);
        stack.frames.lend(frame, ids, f)
    })
}

/// Runs a callback of a dispatcher, or several, inside of it.
#[inline]
pub(crate) fn within_dispatcher<R>(dispatcher: &Arc<DispatcherInner>, f: impl FnOnce() -> R) -> R {
    let ids = Poster { driver: dispatcher.owner().id().as_raw(), dispatcher: dispatcher.id().as_raw() };
    within(dispatcher, ids, f)
}

/// Runs `f` inside of a driver, without a dispatcher.
pub(crate) fn within_driver<R>(driver: &Arc<DriverInner>, f: impl FnOnce() -> R) -> R {
    within(driver, Poster { driver: driver.id().as_raw(), dispatcher: 0 }, f)
}

/// Enters a driver on this thread, without a dispatcher and without an end.
pub(crate) fn enter(driver: &Arc<DriverInner>) {
    let ids = Poster { driver: driver.id().as_raw(), dispatcher: 0 };
    STACK.with(|stack| {
        stack.frames.give(Box::new(Arc::clone(driver)), ids);
        stack.show(ids);
    });
}

/// The end of the last [`enter`] on this thread, if nothing has been entered since that has not ended.
pub(crate) fn exit() -> bool {
    STACK.with(|stack| {
        let Some(frame) = stack.frames.take() else { return false };
        let Poster { driver, dispatcher } = stack.top();
        if let Some(shown) = stack.shown.get() {
            shown.driver.store(driver, Ordering::Relaxed);
            shown.dispatcher.store(dispatcher, Ordering::Relaxed);
        }
        probe::note(|| Note::Left);
        drop(frame);
        true
    })
}

/// Runs the observers of a driver's shutdown, which count as callbacks of `first`.
pub(crate) fn within_observers<R>(driver: &Arc<DriverInner>, first: Option<DispatcherId>, f: impl FnOnce() -> R) -> R {
    let ids = Poster { driver: driver.id().as_raw(), dispatcher: 0 };
    within(&Observers(Arc::clone(driver), first), ids, f)
}

/// The dispatcher that a test has made the default of this thread, while the thread is inside of nothing.
#[cfg(feature = "testing")]
pub(crate) fn default_dispatcher() -> Option<Arc<DispatcherInner>> {
    let is_outside = STACK.with(|stack| stack.frames.depth() == 0);
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
    let is_outside = STACK.with(|stack| stack.frames.depth() == 0);
    let dispatcher = dispatcher.map_or_else(Weak::new, Arc::downgrade);
    is_outside && DEFAULT.try_with(|default| default.replace(dispatcher)).is_ok()
}

/// Runs `f`, which is work of `dispatcher`, as if the stack were empty: work on a lane belongs to no driver, also where
/// one thread does everything.
pub(crate) fn as_work_of<R>(dispatcher: &Arc<DispatcherInner>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<DispatcherInner>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WORK_OF.with(|work_of| work_of.replace(self.0.take()));
        }
    }
    let _restore = Restore(WORK_OF.with(|work_of| work_of.replace(Some(Arc::clone(dispatcher)))));
    STACK.with(|stack| {
        let _shown = ShowAgain(stack, stack.top());
        stack.show(Poster::NOBODY);
        stack.frames.hide(f)
    })
}

/// The dispatcher whose offloaded work this thread does, while it is inside of nothing else.
pub(crate) fn dispatcher_of_work() -> Option<Arc<DispatcherInner>> {
    WORK_OF.try_with(|work_of| work_of.borrow().clone()).unwrap_or_default()
}

/// The dispatcher of the innermost frame.
pub(crate) fn current_dispatcher() -> Option<Arc<DispatcherInner>> {
    STACK.with(|stack| stack.frames.look(|frame| frame.dispatcher().cloned())).flatten()
}

/// The dispatcher whose sequence this thread is in: the current one, the one that observers stand in for, or the default
/// of the thread that turns the crank of a foreground runtime.
pub(crate) fn current_sequence() -> Option<DispatcherId> {
    let stands_in = STACK.with(|stack| stack.frames.look(|frame| frame.stands_in_for())).flatten();
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
    STACK.with(|stack| stack.frames.find(|frame| frame.dispatcher().cloned()))
}

/// The driver of the innermost frame.
pub(crate) fn current_driver() -> Option<Arc<DriverInner>> {
    STACK.with(|stack| stack.frames.look(|frame| Arc::clone(frame.owner())))
}

/// Who posts what this thread posts now: the innermost frame, else the default dispatcher.
#[inline]
pub(crate) fn poster() -> Poster {
    if let Some(innermost) = STACK.with(|stack| stack.frames.note()) {
        return innermost;
    }
    default_dispatcher().map_or(Poster::NOBODY, |default| Poster {
        driver: default.owner().id().as_raw(),
        dispatcher: default.id().as_raw(),
    })
}

/// Whether this thread is inside of a callback of the dispatcher, innermost or not.
pub(crate) fn is_inside(id: DispatcherId) -> bool {
    STACK.with(|stack| stack.frames.notes().any(|frame| frame.dispatcher == id.as_raw()))
}

/// Whether this dispatcher is the innermost one.
#[inline]
pub(crate) fn is_current(dispatcher: &DispatcherInner) -> bool {
    STACK.with(|stack| stack.top().dispatcher == dispatcher.id().as_raw())
}

/// What an inline decision asks about this thread's stack.
pub(crate) struct StackView {
    pub(crate) owner_in_stack: bool,
    pub(crate) allows_sync_calls: bool,
    pub(crate) depth: u32,
}

/// Looks at every frame for `owner`.
#[inline(always)]
pub(crate) fn view(owner: &DriverInner) -> StackView {
    let owner = owner.id().as_raw();
    STACK.with(|stack| StackView {
        owner_in_stack: stack.frames.notes().any(|frame| frame.driver == owner),
        allows_sync_calls: stack
            .frames
            .look(|frame| frame.dispatcher().is_some_and(|dispatcher| dispatcher.allows_sync_calls()))
            .unwrap_or_default(),
        depth: stack.frames.depth(),
    })
}
