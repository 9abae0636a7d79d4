//! [`Hook`]: a callback of a loop that runs once in every iteration, as long as there are iterations.
//!
//! | kind | runs | for |
//! |---|---|---|
//! | check | after the loop has slept or looked for events, before any callback | beginning what lasts as long as the callbacks do |
//! | idle | after all callbacks; keeps the loop from sleeping | work in small steps when there is nothing better to do |
//! | prepare | last, before the loop sleeps or looks for events | ending it: a quiescent point of an epoch or RCU scheme |
//!
//! Hooks of a kind run in the order of registration. One that is registered by another waits for the next iteration.
//! They hold no loop, and run until it has ended. A panic is caught and reported; the hook stays.

use std::fmt;
use std::rc::Rc;

use crate::event_loop::event_loop::{EventLoop, Local};

/// When in an iteration a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HookKind {
    Check,
    Idle,
    Prepare,
}

impl HookKind {
    const COUNT: usize = 3;

    fn name(self) -> &'static str {
        match self {
            HookKind::Check => "check hook",
            HookKind::Idle => "idle hook",
            HookKind::Prepare => "prepare hook",
        }
    }
}

type Callback = Box<dyn FnMut(&EventLoop)>;

/// The hooks of one loop.
#[derive(Default)]
pub(crate) struct HookTable {
    /// By kind, each in the order of registration.
    entries: [Vec<Entry>; HookKind::COUNT],
    next_id: u64,
}

struct Entry {
    id: u64,
    /// Absent while it runs.
    callback: Option<Callback>,
}

impl HookTable {
    pub(crate) fn has(&self, kind: HookKind) -> bool {
        !self.entries[kind as usize].is_empty()
    }

    fn insert(&mut self, kind: HookKind, callback: Callback) -> u64 {
        self.next_id += 1;
        self.entries[kind as usize].push(Entry { id: self.next_id, callback: Some(callback) });
        self.next_id
    }

    /// The first hook after the one with this number, if it is not newer than `newest`; its callback is lent.
    fn lend_next(&mut self, kind: HookKind, after: u64, newest: u64) -> Option<(u64, Option<Callback>)> {
        let entry = self.entries[kind as usize].iter_mut().find(|entry| entry.id > after)?;
        (entry.id <= newest).then(|| (entry.id, entry.callback.take()))
    }

    /// Puts a callback back after its run; gives it out again if its hook has gone meanwhile.
    fn put_back(&mut self, kind: HookKind, id: u64, callback: Callback) -> Option<Callback> {
        match self.entries[kind as usize].iter_mut().find(|entry| entry.id == id) {
            Some(entry) => entry.callback.replace(callback),
            None => Some(callback),
        }
    }

    fn remove(&mut self, kind: HookKind, id: u64) -> Option<Callback> {
        let entries = &mut self.entries[kind as usize];
        let at = entries.iter().position(|entry| entry.id == id)?;
        entries.remove(at).callback
    }

    /// Takes all callbacks out, to be dropped by the caller.
    pub(crate) fn take_all(&mut self) -> Vec<Option<Callback>> {
        self.entries.iter_mut().flat_map(std::mem::take).map(|entry| entry.callback).collect()
    }
}

impl EventLoop {
    /// Calls `callback` once in every iteration, when all callbacks of that iteration have run: the last thing before the
    /// loop looks for events, and perhaps sleeps. The counterpart of [`EventLoop::check`].
    ///
    /// # Examples
    /// What is begun in a check hook and ended in a prepare hook never spans the loop's sleep:
    /// ```
    /// use fuchsine_dispatcher::event_loop::LoopManager;
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// LoopManager::builder()
    ///     .loops(1)
    ///     .setup(0, |event_loop| {
    ///         let inside = Rc::new(Cell::new(false));
    ///         let (begins, ends) = (inside.clone(), inside.clone());
    ///         event_loop.check(move |_| begins.set(true)).detach();
    ///         event_loop.prepare(move |_| ends.set(false)).detach();
    ///         let timer = event_loop.timer(move |event_loop, _| {
    ///             assert!(inside.get());
    ///             event_loop.manager().unwrap().shutdown();
    ///         });
    ///         timer.once(std::time::Duration::from_millis(1)).unwrap();
    ///         timer.detach();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(&self, callback: impl FnMut(&EventLoop) + 'static) -> Hook {
        self.hook(HookKind::Prepare, Box::new(callback))
    }

    /// Calls `callback` once in every iteration, when the loop has looked for events (and perhaps slept), before any
    /// callback runs. The counterpart of [`EventLoop::prepare`].
    pub fn check(&self, callback: impl FnMut(&EventLoop) + 'static) -> Hook {
        self.hook(HookKind::Check, Box::new(callback))
    }

    /// Calls `callback` once in every iteration, after all callbacks, and keeps the loop from sleeping as long as the hook
    /// lives: it uses up its thread. Drop the hook when there is nothing more to do.
    pub fn idle(&self, callback: impl FnMut(&EventLoop) + 'static) -> Hook {
        self.hook(HookKind::Idle, Box::new(callback))
    }

    fn hook(&self, kind: HookKind, callback: Callback) -> Hook {
        let id = self.local().hooks.borrow_mut().insert(kind, callback);
        Hook { owner: self.local().clone(), kind, id, is_attached: true }
    }

    #[inline]
    pub(super) fn run_hooks(&self, kind: HookKind) {
        if self.local().hooks.borrow().has(kind) {
            self.run_hooks_there(kind);
        }
    }

    #[inline(never)]
    fn run_hooks_there(&self, kind: HookKind) {
        let hooks = &self.local().hooks;
        let newest = hooks.borrow().next_id;
        let mut last = 0;
        loop {
            let lent = hooks.borrow_mut().lend_next(kind, last, newest);
            let Some((id, callback)) = lent else { return };
            last = id;
            let Some(mut callback) = callback else { continue };
            self.guarded(kind.name(), || callback(self));
            let left = hooks.borrow_mut().put_back(kind, id, callback);
            if left.is_some() {
                self.guarded(kind.name(), || drop(left));
            }
        }
    }
}

/// A callback that runs once in every iteration. Dropping it ends that.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of.
#[must_use = "dropping a hook takes it out of its loop; `detach` leaves it there"]
pub struct Hook {
    owner: Rc<Local>,
    kind: HookKind,
    id: u64,
    is_attached: bool,
}

impl Hook {
    /// Leaves the hook to its loop, until that ends.
    pub fn detach(mut self) {
        self.is_attached = false;
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if self.is_attached {
            let callback = self.owner.hooks.borrow_mut().remove(self.kind, self.id);
            drop(callback);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({})", self.kind.name())
    }
}
