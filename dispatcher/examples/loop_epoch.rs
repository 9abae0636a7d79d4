//! Loops as the participants of an epoch scheme: readers that take no lock, and a writer that reuses memory only when
//! every loop has passed a quiescent point.
//!
//! `cargo run --release -p fuchsine-dispatcher --example loop_epoch -- [GENERATIONS]`
//!
//! There are a few slots, each holding one version of some settings, and a number that says which of them is current.
//! Loop 0 writes: it fills a free slot, makes it the current one, and retires the old. The other loops read whatever is
//! current, in many small steps, without any lock; a version that was overwritten under a reader would show as one whose
//! fields do not agree.
//!
//! What makes it right is where each loop pins and unpins. A *check* hook pins the epoch before the callbacks of an
//! iteration, a *prepare* hook unpins after them. So a callback may hold on to what it read until it returns, a loop that
//! sleeps (or stands still in a pause) holds nobody up, and no callback has to think of it.
#![expect(clippy::disallowed_types, reason = "an example is a program of its own; no model looks at its lock")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_epoch::Guard;
use fuchsine_dispatcher::event_loop::{EventLoop, LoopLocal, LoopManager};

const SLOTS: usize = 4;
const FIELDS: usize = 16;
const READERS: usize = 2;

/// One version of the settings: all fields are of the same generation.
#[derive(Default)]
struct Version([AtomicU64; FIELDS]);

struct Settings {
    slots: [Version; SLOTS],
    current: AtomicUsize,
    /// Slots that nobody reads any more.
    free: Mutex<Vec<usize>>,
}

/// The guard of each loop, while it is pinned.
type Pin = LoopLocal<Rc<RefCell<Option<Guard>>>>;

/// Makes the loop a participant. Called on it, once.
fn participate(event_loop: &EventLoop, pin: &Pin) {
    let (pinned, unpinned) = pin.with(event_loop, |guard| (guard.clone(), guard.clone()));
    event_loop.check(move |_| *pinned.borrow_mut() = Some(crossbeam_epoch::pin())).detach();
    event_loop.prepare(move |_| drop(unpinned.borrow_mut().take())).detach();
    // This iteration is in the middle already.
    pin.with(event_loop, |guard| *guard.borrow_mut() = Some(crossbeam_epoch::pin()));
}

impl Settings {
    fn new() -> Self {
        Settings { slots: Default::default(), current: AtomicUsize::new(0), free: Mutex::new((1..SLOTS).collect()) }
    }

    /// Puts the next generation in place. Answers `false` if no slot is free yet: try again later.
    fn replace(self: &Arc<Self>, generation: u64, pinned: &Guard) -> bool {
        let Some(slot) = self.free.lock().unwrap().pop() else {
            // Helps the epoch on, and with it the slots that wait for it.
            pinned.flush();
            return false;
        };
        for field in &self.slots[slot].0 {
            field.store(generation, Ordering::Relaxed);
        }
        let old = self.current.swap(slot, Ordering::AcqRel);
        let settings = self.clone();
        // Runs when every loop that may have read `current` before the swap has unpinned since.
        pinned.defer(move || settings.free.lock().unwrap().push(old));
        pinned.flush();
        true
    }

    /// What is current, read slowly.
    fn read(&self) -> u64 {
        let version = &self.slots[self.current.load(Ordering::Acquire)];
        let first = version.0[0].load(Ordering::Relaxed);
        // Time enough for the writer to go round all slots.
        std::thread::yield_now();
        for field in &version.0 {
            assert_eq!(field.load(Ordering::Relaxed), first, "a version was overwritten under its reader");
        }
        first
    }
}

/// Reads again and again, one callback each time.
fn read_on(event_loop: &EventLoop, settings: Arc<Settings>, reads: LoopLocal<RefCell<u64>>) {
    settings.read();
    reads.with(event_loop, |reads| *reads.borrow_mut() += 1);
    let _ = event_loop.handle().async_run(move |event_loop| {
        if !event_loop.is_shutting_down() {
            read_on(event_loop, settings, reads);
        }
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let generations: u64 = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    let settings = Arc::new(Settings::new());
    let reads = LoopLocal::new(|_| RefCell::new(0u64));
    let pin: Pin = LoopLocal::new(|_| Rc::default());

    let (of_readers, counted, pinned) = (settings.clone(), reads.clone(), pin.clone());
    let summary = LoopManager::builder()
        .name("epoch")
        .loops(1 + READERS)
        .setup_all(move |event_loop| {
            participate(event_loop, &pinned);
            if event_loop.tid() != Some(0) {
                read_on(event_loop, of_readers.clone(), counted.clone());
            }
        })
        .setup(0, move |event_loop| {
            let mut generation = 0;
            let writer = event_loop.timer(move |event_loop, _| {
                if generation == generations {
                    return;
                }
                let replaced = pin.with(event_loop, |guard| {
                    settings.replace(generation + 1, guard.borrow().as_ref().expect("pinned during callbacks"))
                });
                generation += u64::from(replaced);
                if generation == generations {
                    reads.gather(
                        event_loop,
                        |_, reads| *reads.borrow(),
                        move |event_loop, counts| {
                            let total: u64 = counts.into_iter().flatten().sum();
                            println!("{generations} generations, {total} reads, none of them torn");
                            event_loop.manager().expect("a manager runs this loop").shutdown();
                        },
                    );
                }
            });
            writer.ticker(Duration::from_micros(50)).expect("a period is not zero");
            writer.detach();
        })
        .build()?
        .run()?;
    if summary.panics() > 0 {
        return Err("a reader saw a version that was overwritten".into());
    }
    Ok(())
}
