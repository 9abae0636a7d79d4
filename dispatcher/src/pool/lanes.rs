//! Work lanes: threads for what may block, shared by the dispatchers of a pool.
//!
//! Each [`Lane`] has workers of its own, started when there is an item and none of them is idle, up to a limit, so that
//! slow items never hold up fast ones. A worker without an item for [`IDLE_LIFE`] ends. Items are run in the order in
//! which they were submitted. A pool that is driven by hand has no workers: whoever drives it takes
//! the items.
//!
//! A worker that has just ended an item waits for the next one awake for a moment, one in each lane, if that was worth it
//! of late (`patience.rs`). Then nobody has to be woken for that one. What it looks at meanwhile is a hint: whether there is
//! something for it is decided under the lock, also by whoever submits and counts on it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use super::patience::{Look, Patience};
use crate::event_loop::Lane;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Wakeup, thread, thread_local};
use crate::time::Clock;

thread_local! {
    /// The lane that this thread works for, by its address; 0 for none.
    static CURRENT_LANE: Cell<usize> = const { Cell::new(0) };
}

/// How long a worker waits for another item before it ends.
const IDLE_LIFE: Duration = Duration::from_secs(10);
/// For so many items there is room while a worker waits.
const KEPT_ITEMS: usize = 256;
/// The most workers of the slow lane.
const SLOW_LIMIT: usize = 64;

/// An item: what a worker does. It is never dropped unrun while the lane is open; who submits it decides inside of it
/// whether there is still something to do.
pub(crate) trait LaneItem: Send + Sync + 'static {
    /// Does the work, on a worker thread, and says whether there is something to tell. Catches its own panics.
    fn work(&self) -> bool;

    /// Tells whoever waits for the work that it is done. Does not block.
    fn tell(&self);

    /// All of it, one after the other.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    fn run(&self) {
        if self.work() {
            self.tell();
        }
    }
}

#[derive(Default)]
struct State {
    items: VecDeque<Arc<dyn LaneItem>>,
    workers: usize,
    /// Those that sleep.
    idle: usize,
    /// Whether one waits awake.
    has_awake: bool,
    /// Items for which nobody has been woken yet, since one that waits awake comes to look first.
    unannounced: usize,
    started: u64,
    closed: bool,
    handles: Vec<thread::JoinHandle<()>>,
}

/// The numbers of a lane's state that are looked at without its lock.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Hints {
    /// Items that no worker has started.
    waiting: AtomicUsize,
    /// Items of which nobody has been told that they are done.
    outstanding: AtomicUsize,
}

struct LaneShared {
    name: String,
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
    hints: Hints,
    /// How many threads run at once.
    processors: usize,
}

impl LaneShared {
    /// To be called with the lock, after the number of items has changed.
    fn show(&self, state: &State) {
        self.hints.waiting.store(state.items.len(), Ordering::Relaxed);
    }

    fn outstanding(&self) -> usize {
        self.hints.outstanding.load(Ordering::Relaxed)
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl LaneShared {
    /// The next item, which a worker sleeps for. `None`: there is none, and the worker is to end.
    fn next(&self, has_waited_awake: bool) -> Option<Arc<dyn LaneItem>> {
        let mut state = self.state.lock();
        state.has_awake &= !has_waited_awake;
        loop {
            if let Some(item) = state.items.pop_front() {
                self.show(&state);
                let announces = state.idle > 0 && !state.items.is_empty() && state.unannounced > 0;
                state.unannounced = if announces { state.unannounced - 1 } else { 0 };
                drop(state);
                if announces {
                    self.changed.notify_one();
                }
                return Some(item);
            }
            if state.closed {
                state.workers -= 1;
                return None;
            }
            // What a burst of items took.
            state.items.shrink_to(KEPT_ITEMS);
            state.idle += 1;
            let until = Clock::real().now() + IDLE_LIFE;
            let timed_out = self.changed.wait_until(&mut state, until) == Wakeup::TimedOut;
            state.idle -= 1;
            if timed_out && state.items.is_empty() {
                state.workers -= 1;
                return None;
            }
        }
    }

    /// Whether a worker that has done its work is to wait awake for the next item. If so it counts as waiting from here on,
    /// so that whoever is told of what it has done, and submits another item, wakes nobody.
    fn begin_to_wait(&self, patience: &Patience) -> bool {
        // The item that has just been done is among those.
        let others_need_it = self.outstanding() >= self.processors;
        if others_need_it || self.hints.waiting.load(Ordering::Relaxed) > 0 || !patience.is_ready() {
            return false;
        }
        let mut state = self.state.lock();
        let waits = !state.has_awake && !state.closed && state.items.is_empty();
        state.has_awake |= waits;
        waits
    }

    fn wait_awake(&self, patience: &Patience) {
        patience.wait(|| match self.hints.waiting.load(Ordering::Relaxed) {
            0 => Look::NotYet,
            _ => Look::There,
        });
    }
}

/// The numbers of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneFigures {
    /// Workers that run.
    pub(crate) workers: usize,
    /// Those of them that have nothing to do.
    pub(crate) idle: usize,
    /// The most workers.
    pub(crate) limit: usize,
    /// Items that no worker has started. Those whose operation has ended since are among them.
    pub(crate) waiting: usize,
    /// Workers that were ever started.
    pub(crate) started: u64,
}

/// The lanes of one pool.
pub(crate) struct Lanes {
    by_hand: bool,
    /// How many threads run at once.
    processors: usize,
    /// Whether a thread of the pool waits awake for what ends here.
    is_watched: AtomicBool,
    fast: Arc<LaneShared>,
    slow: Arc<LaneShared>,
}

impl Lanes {
    pub(crate) fn new(name: String, by_hand: bool) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let lane = |kind: &str, limit| {
            Arc::new(LaneShared {
                name: format!("{name}-{kind}"),
                limit,
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
                hints: Hints::default(),
                processors: if cfg!(shuttle) { usize::MAX } else { processors },
            })
        };
        let (fast, slow) = (lane("fast", processors.max(2)), lane("slow", SLOW_LIMIT));
        Lanes { by_hand, processors: fast.processors, is_watched: AtomicBool::new(false), fast, slow }
    }

    fn lane(&self, lane: Lane) -> &Arc<LaneShared> {
        match lane {
            Lane::Fast => &self.fast,
            Lane::Slow => &self.slow,
        }
    }

    /// Whether the calling thread is one of the workers.
    pub(crate) fn is_current(&self) -> bool {
        let current = CURRENT_LANE.with(Cell::get);
        current == self.fast.id() || current == self.slow.id()
    }

    /// Queues an item. Closed lanes drop it: nobody waits for it any more.
    ///
    /// # Errors
    /// When no worker runs and none can be started; the item is not queued then.
    pub(crate) fn submit(&self, lane: Lane, item: Arc<dyn LaneItem>) -> std::io::Result<()> {
        let shared = self.lane(lane);
        let mut state = shared.state.lock();
        if state.closed {
            drop(state);
            drop(item);
            return Ok(());
        }
        state.items.push_back(item);
        if self.by_hand {
            return Ok(());
        }
        shared.show(&state);
        shared.hints.outstanding.fetch_add(1, Ordering::Relaxed);
        let awake = usize::from(state.has_awake);
        if state.idle + awake >= state.items.len() {
            // Who waits awake takes the first, and has another one woken if there is more by then: where many come at once
            // that is one wake-up, and not one for each.
            state.unannounced += awake.min(state.items.len() - 1);
            drop(state);
            if awake == 0 {
                shared.changed.notify_one();
            }
            return Ok(());
        }
        if state.workers >= shared.limit {
            return Ok(());
        }
        match start_worker(shared, &mut state) {
            Ok(()) => Ok(()),
            // The workers that run will get to it.
            Err(_) if state.workers > 0 => Ok(()),
            Err(error) => {
                state.items.pop_back();
                shared.show(&state);
                shared.hints.outstanding.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Whether something has been submitted that has not ended: a thread of the pool may expect a result.
    pub(super) fn is_at_work(&self) -> bool {
        self.outstanding() > 0
    }

    /// How many have been submitted and have not been told.
    fn outstanding(&self) -> usize {
        self.fast.outstanding() + self.slow.outstanding()
    }

    /// For a thread of the pool that has nothing to do, is counted as searching, and is about to sleep: waits awake for a
    /// moment until `has_work`, if that was worth it of late, no other thread does, and it keeps no worker from its
    /// processor. True: it has work.
    pub(super) fn wait_awake(&self, patience: &Patience, has_work: impl Fn() -> bool) -> bool {
        let may_come = || (1..self.processors).contains(&self.outstanding());
        if !may_come() || !patience.is_ready() || self.is_watched.swap(true, Ordering::Relaxed) {
            return false;
        }
        let has_come = patience.wait(|| match has_work() {
            true => Look::There,
            false if may_come() => Look::NotYet,
            // What ended last may have come between the two looks.
            false if has_work() => Look::There,
            false => Look::Never,
        });
        self.is_watched.store(false, Ordering::Relaxed);
        has_come
    }

    /// What a lane has at this moment.
    pub(crate) fn figures(&self, lane: Lane) -> LaneFigures {
        let shared = self.lane(lane);
        let state = shared.state.lock();
        LaneFigures {
            workers: state.workers,
            idle: state.idle + usize::from(state.has_awake),
            limit: shared.limit,
            waiting: state.items.len(),
            started: state.started,
        }
    }

    /// Whether nothing waits, and no worker was started that is not joined.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_at_rest(&self) -> bool {
        [&self.fast, &self.slow].into_iter().all(|lane| {
            let state = lane.state.lock();
            state.items.is_empty() && state.workers == 0 && state.handles.is_empty()
        })
    }

    /// The item that is next in a pool without threads.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    pub(crate) fn take_by_hand(&self) -> Option<Arc<dyn LaneItem>> {
        if !self.by_hand {
            return None;
        }
        [Lane::Fast, Lane::Slow].into_iter().find_map(|lane| self.take_from(lane))
    }

    /// The lanes of a pool without threads that have an item.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    pub(crate) fn waiting_by_hand(&self) -> impl Iterator<Item = Lane> + '_ {
        let has_item = |lane: &Lane| self.by_hand && !self.lane(*lane).state.lock().items.is_empty();
        [Lane::Fast, Lane::Slow].into_iter().filter(has_item)
    }

    /// The item that is next in a lane of a pool without threads.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    pub(crate) fn take_from(&self, lane: Lane) -> Option<Arc<dyn LaneItem>> {
        self.lane(lane).state.lock().items.pop_front()
    }

    /// Lets the workers end once there is nothing left to do.
    pub(crate) fn close(&self) {
        for lane in [&self.fast, &self.slow] {
            lane.state.lock().closed = true;
            lane.changed.notify_all();
        }
    }

    /// Whether the workers of closed lanes have ended.
    pub(crate) fn have_ended(&self) -> bool {
        [&self.fast, &self.slow]
            .into_iter()
            .all(|lane| lane.state.lock().handles.iter().all(thread::JoinHandle::is_finished))
    }

    /// Waits for the workers of closed lanes.
    pub(crate) fn join(&self) {
        for lane in [&self.fast, &self.slow] {
            let handles = std::mem::take(&mut lane.state.lock().handles);
            for handle in handles {
                if handle.id() != thread::current_id() {
                    // An item's panic is caught where it runs.
                    let _ = handle.join();
                }
            }
        }
    }
}

fn start_worker(shared: &Arc<LaneShared>, state: &mut State) -> std::io::Result<()> {
    let name = format!("{}-{}", shared.name, state.started);
    let worker = Arc::clone(shared);
    let handle = thread::spawn(&name, move || work(&worker))?;
    state.started += 1;
    state.workers += 1;
    state.handles.retain(|handle| !handle.is_finished());
    state.handles.push(handle);
    Ok(())
}

fn work(shared: &LaneShared) {
    CURRENT_LANE.with(|current| current.set(shared.id()));
    let patience = Patience::default();
    let mut has_waited_awake = false;
    while let Some(item) = shared.next(has_waited_awake) {
        let has_news = item.work();
        let waits = shared.begin_to_wait(&patience);
        if has_news {
            item.tell();
        }
        drop(item);
        shared.hints.outstanding.fetch_sub(1, Ordering::Relaxed);
        if waits {
            shared.wait_awake(&patience);
        }
        has_waited_awake = waits;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Weak;

    struct Never;

    impl LaneItem for Never {
        fn work(&self) -> bool {
            unreachable!("nobody waits for it any more");
        }

        fn tell(&self) {}
    }

    #[test]
    fn closed_lanes_drop_what_comes_late_and_start_no_worker() {
        let lanes = Lanes::new("late".to_owned(), false);
        lanes.close();
        lanes.join();
        let item = Arc::new(Never);
        let gone: Weak<Never> = Arc::downgrade(&item);
        lanes.submit(Lane::Slow, item).expect("it is dropped, which is no error");
        assert!(gone.upgrade().is_none());
        assert!(lanes.is_at_rest());
    }
}
