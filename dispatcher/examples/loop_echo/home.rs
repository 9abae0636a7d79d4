//! `Homes`: what each loop keeps for its clients, without a lock: settings, and counts of what it has done.

use std::cell::{Cell, RefCell};

use fuchsine_dispatcher::event_loop::net::ListenerCounters;
use fuchsine_dispatcher::event_loop::{EventLoop, LoopLocal};

use crate::settings::Settings;

/// One loop's own.
struct Home {
    settings: RefCell<Settings>,
    counts: Cell<Counts>,
}

/// What one loop has done, or all of them together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    pub(crate) hashes: u64,
}

/// All loops' homes, each reached on its own loop.
#[derive(Debug, Clone)]
pub(crate) struct Homes {
    homes: LoopLocal<Home>,
}

impl Homes {
    pub(crate) fn new(settings: Settings) -> Self {
        let make = move |_: &EventLoop| Home { settings: RefCell::new(settings.clone()), counts: Cell::default() };
        Homes { homes: LoopLocal::new(make) }
    }

    /// The settings, as this loop has them.
    pub(crate) fn settings(&self, event_loop: &EventLoop) -> Settings {
        self.homes.with(event_loop, |home| home.settings.borrow().clone())
    }

    /// Counts something on this loop.
    pub(crate) fn count(&self, event_loop: &EventLoop, change: impl FnOnce(&mut Counts)) {
        self.homes.with(event_loop, |home| {
            let mut counts = home.counts.get();
            change(&mut counts);
            home.counts.set(counts);
        });
    }

    /// Gives all loops new settings, by an asynchronous callback each.
    pub(crate) fn change(&self, event_loop: &EventLoop, settings: Settings) {
        let Some(manager) = event_loop.manager() else { return };
        let Settings { hash_rounds, idle_timeout, .. } = settings;
        self.homes.run_on_each(&manager, move |_, home| *home.settings.borrow_mut() = settings.clone());
        eprintln!("settings: hash_rounds {hash_rounds}, idle timeout {idle_timeout:?}");
    }

    /// Asks all loops what they have done, and prints the sum when the answers are back.
    pub(crate) fn report(&self, event_loop: &EventLoop, listener: ListenerCounters) {
        let ListenerCounters { accepted, open, pauses, .. } = listener;
        self.homes.gather(
            event_loop,
            |_, home| home.counts.get(),
            move |_, answers| {
                let sum = answers.into_iter().flatten().fold(Counts::default(), |sum, one| Counts {
                    lines: sum.lines + one.lines,
                    bytes: sum.bytes + one.bytes,
                    hashes: sum.hashes + one.hashes,
                });
                let Counts { lines, bytes, hashes } = sum;
                eprintln!(
                    "statistics: {open} open, {accepted} accepted, {pauses} pauses, {lines} lines, {bytes} bytes, \
                     {hashes} hashes"
                );
            },
        );
    }
}
