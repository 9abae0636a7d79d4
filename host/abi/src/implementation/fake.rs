//! For tests of waits and irqs: a dispatcher that C could have made, and an object whose signals a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::{DispatcherBuilder, Interest, Runtime, RuntimeBuilder, WakeSource};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};

use super::faces::{Draft, Face, Kind};
use super::handles::Observable;
use crate::types::{zx_signals_t, zx_status_t};

pub(super) const HANG_LIMIT: Duration = Duration::from_secs(60);

/// A runtime with one dispatcher, known to C. The record is left behind: a test ends with its process.
pub(super) fn dispatcher(builder: DispatcherBuilder) -> (Runtime, &'static Face) {
    let runtime = RuntimeBuilder::new().threads(2).build().expect("the system has threads");
    let driver = runtime.new_driver("driver");
    let draft = Draft::new(0, None, Kind::Managed);
    let made = driver.new_dispatcher(builder.shutdown_observer(draft.observer(std::ptr::null_mut())));
    (runtime, draft.finish(made.expect("created").release()))
}

/// An object with two sources: the first for signal 1, the second for all others.
pub(super) struct Fake {
    sources: [(Arc<OwnedFd>, WakeSource); 2],
    signals: AtomicU32,
}

impl Fake {
    pub(super) fn new() -> Arc<Fake> {
        let source = || {
            let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd"));
            (Arc::clone(&fd), WakeSource::over(fd))
        };
        Arc::new(Fake { sources: [source(), source()], signals: AtomicU32::new(0) })
    }

    /// Makes a source ready, and keeps it so.
    pub(super) fn wake(&self, source: usize) {
        rustix::io::write(self.sources[source].0.as_fd(), &1_u64.to_ne_bytes()).expect("it is not full");
    }

    /// Takes what made a source ready.
    pub(super) fn drain(&self, source: usize) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(self.sources[source].0.as_fd(), &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    pub(super) fn set(&self, signals: zx_signals_t) {
        self.signals.store(signals, Ordering::Release);
    }
}

impl Observable for Fake {
    fn signals(&self) -> zx_signals_t {
        self.signals.load(Ordering::Acquire)
    }

    fn sources(&self, wanted: zx_signals_t) -> Result<Vec<(WakeSource, Interest)>, zx_status_t> {
        let is_wanted = [wanted & 1 != 0, wanted & !1 != 0];
        let wanted = self.sources.iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted);
        Ok(wanted.map(|((_, source), _)| (source.clone(), Interest::READABLE)).collect())
    }

    fn is_interrupt(&self) -> bool {
        true
    }

    fn take_interrupts(&self) -> u64 {
        self.drain(1)
    }
}
