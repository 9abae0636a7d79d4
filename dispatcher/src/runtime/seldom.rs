//! What few dispatchers have: it stands in a box that is made when the first of it is there, so that all others are small.

use super::callback_queue::OpId;
use super::core::ShutdownObserver;
use super::irq::Irqs;
use super::stop_token::StopState;
use crate::sync::{Arc, Condvar};

/// What is behind the box.
#[derive(Default)]
struct Parts {
    observer: Option<ShutdownObserver>,
    irqs: Irqs,
    stop: Option<Arc<StopState>>,
    became_idle: Option<Arc<Condvar>>,
    late_reads: u64,
    tray_is_parked: Option<Vec<OpId>>,
}

/// What few dispatchers have. Under the lock of the dispatcher, as all of its [`Core`](super::core::Core).
#[derive(Default)]
pub(crate) struct Seldom(Option<Box<Parts>>);

impl Seldom {
    pub(super) fn new(observer: Option<ShutdownObserver>) -> Self {
        Seldom(observer.map(|observer| Box::new(Parts { observer: Some(observer), ..Parts::default() })))
    }

    fn parts(&mut self) -> &mut Parts {
        self.0.get_or_insert_default()
    }

    /// The shutdown observer, once.
    pub(super) fn take_observer(&mut self) -> Option<ShutdownObserver> {
        self.0.as_mut()?.observer.take()
    }

    /// The irqs that are bound, if there ever were any.
    pub(super) fn irqs(&self) -> Option<&Irqs> {
        self.0.as_ref().map(|parts| &parts.irqs)
    }

    /// The irqs that are bound, if there ever were any.
    pub(super) fn irqs_mut(&mut self) -> Option<&mut Irqs> {
        self.0.as_mut().map(|parts| &mut parts.irqs)
    }

    /// The irqs that are bound, to bind one more.
    pub(super) fn irqs_or_new(&mut self) -> &mut Irqs {
        &mut self.parts().irqs
    }

    /// The state behind stop tokens, if anybody has asked for one.
    pub(super) fn stop(&self) -> Option<Arc<StopState>> {
        self.0.as_ref()?.stop.clone()
    }

    /// The state behind stop tokens.
    pub(super) fn stop_or_new(&mut self, is_stopping: bool) -> Arc<StopState> {
        Arc::clone(self.parts().stop.get_or_insert_with(|| Arc::new(StopState::new(is_stopping))))
    }

    /// What those sleep on that wait until the dispatcher is idle, if there ever were any.
    pub(super) fn became_idle(&self) -> Option<&Condvar> {
        self.0.as_ref()?.became_idle.as_deref()
    }

    /// What those sleep on that wait until the dispatcher is idle.
    pub(super) fn became_idle_or_new(&mut self) -> Arc<Condvar> {
        Arc::clone(self.parts().became_idle.get_or_insert_with(|| Arc::new(Condvar::new())))
    }

    /// One more read was registered when there was something to read already.
    pub(super) fn count_late_read(&mut self) {
        self.parts().late_reads += 1;
    }

    /// A shutdown has begun while the driver is suspended, and what lies on the tray counts as parked: before these.
    pub(super) fn note_tray_is_parked(&mut self, parked: Vec<OpId>) {
        self.parts().tray_is_parked = Some(parked);
    }

    /// What [`note_tray_is_parked`](Seldom::note_tray_is_parked) has noted, once.
    pub(super) fn take_tray_is_parked(&mut self) -> Option<Vec<OpId>> {
        self.0.as_mut()?.tray_is_parked.take()
    }

    /// Reads that were registered when there was something to read already.
    pub(crate) fn late_reads(&self) -> u64 {
        self.0.as_ref().map_or(0, |parts| parts.late_reads)
    }
}
