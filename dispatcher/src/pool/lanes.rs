//! Work lanes: threads for what may block, shared by the dispatchers of a pool.
//!
//! Each [`Lane`] has workers of its own, started when there is an item and none of them is idle, up to a limit, so that
//! slow items never hold up fast ones. A worker without an item for [`IDLE_LIFE`] ends. Items are run in the order in
//! which they were submitted. A pool that is driven by hand has no workers: whoever drives it takes
//! the items.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use crate::event_loop::Lane;
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
    /// Does the work, on a worker thread. Catches its own panics.
    fn run(self: Arc<Self>);
}

#[derive(Default)]
struct State {
    items: VecDeque<Arc<dyn LaneItem>>,
    workers: usize,
    idle: usize,
    started: u64,
    closed: bool,
    handles: Vec<thread::JoinHandle<()>>,
}

struct LaneShared {
    name: String,
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl LaneShared {
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
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
    fast: Arc<LaneShared>,
    slow: Arc<LaneShared>,
}

impl Lanes {
    pub(crate) fn new(name: String, by_hand: bool) -> Self {
        let fast = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let lane = |kind: &str, limit| {
            Arc::new(LaneShared {
                name: format!("{name}-{kind}"),
                limit,
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
            })
        };
        Lanes { by_hand, fast: lane("fast", fast), slow: lane("slow", SLOW_LIMIT) }
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
        if state.idle >= state.items.len() {
            drop(state);
            shared.changed.notify_one();
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
                Err(error)
            }
        }
    }

    /// What a lane has at this moment.
    pub(crate) fn figures(&self, lane: Lane) -> LaneFigures {
        let shared = self.lane(lane);
        let state = shared.state.lock();
        LaneFigures {
            workers: state.workers,
            idle: state.idle,
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
    loop {
        let item = {
            let mut state = shared.state.lock();
            loop {
                if let Some(item) = state.items.pop_front() {
                    break item;
                }
                if state.closed {
                    state.workers -= 1;
                    return;
                }
                // What a burst of items took.
                state.items.shrink_to(KEPT_ITEMS);
                state.idle += 1;
                let until = Clock::real().now() + IDLE_LIFE;
                let timed_out = shared.changed.wait_until(&mut state, until) == Wakeup::TimedOut;
                state.idle -= 1;
                if timed_out && state.items.is_empty() {
                    state.workers -= 1;
                    return;
                }
            }
        };
        item.run();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Weak;

    struct Never;

    impl LaneItem for Never {
        fn run(self: Arc<Self>) {
            unreachable!("nobody waits for it any more");
        }
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
