//! [`LoopLocal`]: a value for each loop, reached without a lock from its own loop, and by a callback from elsewhere.
//!
//! The value of a loop is made there when it is first asked for, and dropped there when the loop ends, after everything
//! else that users left in it. A value lives in a table of its loop, under the number of its `LoopLocal`; nothing but
//! that loop's thread ever touches it, so it need be neither `Send` nor `Sync`.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::handle::{LoopHandle, Refused};
use crate::event_loop::loop_manager::ManagerHandle;
use crate::sync::unmodelled::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};

/// The values of one loop.
pub(crate) type LocalTable = HashMap<u64, Rc<dyn Any>>;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// State that is split by loop: each loop has a value of its own. Clones name the same values.
///
/// # Examples
/// Counters that cost no atomic operation, and are added up by asking each loop:
/// ```
/// use fuchsine_dispatcher::event_loop::{LoopLocal, LoopManager};
/// use std::cell::Cell;
///
/// let served = LoopLocal::new(|_| Cell::new(0u64));
/// let (counted, asked) = (served.clone(), served);
/// LoopManager::builder()
///     .loops(3)
///     .setup_all(move |event_loop| counted.with(event_loop, |served| served.set(served.get() + 1)))
///     .setup(0, move |event_loop| {
///         asked.gather(event_loop, |_, served| served.get(), |event_loop, counts| {
///             event_loop.manager().unwrap().shutdown();
///             assert_eq!(counts.len(), 3);
///             println!("{} served", counts.into_iter().flatten().sum::<u64>());
///         });
///     })
///     .build()?
///     .run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoopLocal<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    id: u64,
    make: Box<dyn Fn(&EventLoop) -> T + Send + Sync>,
}

impl<T: 'static> LoopLocal<T> {
    /// State whose value for a loop is what `make` answers on it, when it is first asked for.
    pub fn new(make: impl Fn(&EventLoop) -> T + Send + Sync + 'static) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        LoopLocal { shared: Arc::new(Shared { id, make: Box::new(make) }) }
    }

    /// Calls `body` with the value of this loop.
    ///
    /// # Panics
    /// What `make` panics with when the value is asked for for the first time.
    pub fn with<R>(&self, event_loop: &EventLoop, body: impl FnOnce(&T) -> R) -> R {
        body(&self.value(event_loop))
    }

    /// Calls `body` with the value of the loop that runs on this thread; `None` when none does.
    pub fn with_current<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        EventLoop::current().map(|event_loop| self.with(&event_loop, body))
    }

    fn value(&self, event_loop: &EventLoop) -> Rc<T> {
        let locals = &event_loop.local().locals;
        let of_type = |value: Rc<dyn Any>| value.downcast::<T>().expect("a number names values of one type");
        if let Some(value) = locals.borrow().get(&self.shared.id) {
            return of_type(value.clone());
        }
        // Making it may ask for other values, and in the worst case for this one: the first to be kept counts.
        let made: Rc<dyn Any> = Rc::new((self.shared.make)(event_loop));
        let kept = locals.borrow_mut().entry(self.shared.id).or_insert_with(|| made.clone()).clone();
        drop(made);
        of_type(kept)
    }

    /// Calls `body` on another loop, with the value of that, as an asynchronous callback.
    ///
    /// # Errors
    /// [`Refused`] with `body` in it, once that loop has ended.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn run_on<F>(&self, target: &LoopHandle, body: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&EventLoop, &T) + Send + 'static,
    {
        // The closure is looked for again only if the loop refuses, so that it can go back as what it was.
        let (body, own) = (Arc::new(Mutex::new(Some(body))), self.clone());
        let given = body.clone();
        let posted = target.async_run(move |event_loop| {
            let body = given.lock().take();
            if let Some(body) = body {
                own.with(event_loop, |value| body(event_loop, value));
            }
        });
        match posted {
            Ok(()) => Ok(()),
            Err(refused) => {
                let status = refused.status();
                drop(refused);
                let body = body.lock().take();
                Err(Refused::new(body.unwrap_or_else(|| unreachable!("a refused callback was not run: {status:?}"))))
            }
        }
    }

    /// Calls `body` on each loop of a manager, with the value of that. Answers how many loops have not ended.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn run_on_each(&self, loops: &ManagerHandle, body: impl Fn(&EventLoop, &T) + Send + Sync + 'static) -> usize {
        let body = Arc::new(body);
        let posted = (0..loops.len()).filter_map(|tid| loops.event_loop(tid)).filter(|target| {
            let body = body.clone();
            self.run_on(target, move |event_loop, value| body(event_loop, value)).is_ok()
        });
        posted.count()
    }

    /// Asks each loop of this loop's manager for what `map` makes of its value there, and calls `done` back on this loop
    /// with the answers, by the number of the loop: `None` for a loop that has ended, or whose `map` panicked.
    pub fn gather<R, M, D>(&self, event_loop: &EventLoop, map: M, done: D)
    where
        R: Send + 'static,
        M: Fn(&EventLoop, &T) -> R + Send + Sync + 'static,
        D: FnOnce(&EventLoop, Vec<Option<R>>) + Send + 'static,
    {
        let handles = event_loop.manager().map_or_else(|| vec![event_loop.handle()], |manager| manager.handles());
        let answers = handles.iter().map(|_| None).collect();
        let gathering = Arc::new(Gathering {
            origin: event_loop.handle(),
            state: Mutex::new(Answers { answers, done: Some(Box::new(done)) }),
        });
        let map = Arc::new(map);
        for (nth, target) in handles.iter().enumerate() {
            let (map, ticket) = (map.clone(), gathering.clone());
            // Refused or not, the ticket goes: the last one that does sends the answers.
            let _ = self.run_on(target, move |event_loop, value| {
                let answer = map(event_loop, value);
                ticket.state.lock().answers[nth] = Some(answer);
            });
        }
    }
}

type GatherDone<R> = Box<dyn FnOnce(&EventLoop, Vec<Option<R>>) + Send>;

/// The answers so far. The last who holds it sends them home.
struct Gathering<R: Send + 'static> {
    origin: LoopHandle,
    state: Mutex<Answers<R>>,
}

struct Answers<R> {
    /// By the number of the loop.
    answers: Vec<Option<R>>,
    done: Option<GatherDone<R>>,
}

impl<R: Send + 'static> Drop for Gathering<R> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let (answers, done) = (std::mem::take(&mut state.answers), state.done.take());
        drop(state);
        if let Some(done) = done {
            // An origin that has ended wants no answers any more.
            let _ = self.origin.async_run(move |event_loop| done(event_loop, answers));
        }
    }
}

impl EventLoop {
    /// Drops the values of this loop, which may ask for others, or make new ones, meanwhile.
    pub(super) fn drop_locals(&self) {
        // Bounded: values that make others in their drop, again and again, go with the loop itself.
        for _ in 0..8 {
            let values = self.local().locals.take();
            if values.is_empty() {
                return;
            }
            for value in values.into_values() {
                self.guarded("drop", || drop(value));
            }
        }
    }
}

impl<T> Clone for LoopLocal<T> {
    fn clone(&self) -> Self {
        LoopLocal { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for LoopLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopLocal({})", self.shared.id)
    }
}
