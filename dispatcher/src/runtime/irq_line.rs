//! [`Irq`]: what can be bound to a dispatcher and triggered from anywhere.

use std::fmt;
use std::io;

use super::flavour::SourceIdentity;
use super::handle::DispatcherHandle;
use super::irq::{IrqEvent, IrqHandle, Line};
use crate::event_loop::source::{SourceId, sealed};
use crate::event_loop::{EventTarget, Reactor, Source, WaitError, WaitId, WaitRefused, Waitable};
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::probe::{self, Note};
use crate::sys::Interest;
use crate::sys::event_count::EventCount;
use crate::sys::sim;

/// An interrupt: a source that can be triggered again and again, and that one handler at a time is bound to. Clones
/// name the same irq.
///
/// It can also be waited for once, by [`begin_wait`](DispatcherHandle::begin_wait), while nobody is bound; that leaves
/// its count as it is.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder};
/// use std::time::Duration;
///
/// let runtime = RuntimeBuilder::new().build()?;
/// let dispatcher = runtime.new_driver("button").new_dispatcher(DispatcherBuilder::new())?;
/// let (irq, trigger) = dispatcher.new_irq()?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// dispatcher.bind_irq(&irq, move |outcome| match outcome {
///     Ok(event) => {
///         let _ = sender.send(event.count());
///         event.ack();
///     }
///     Err(status) => println!("no more of it: {status}"),
/// })?;
/// trigger.trigger();
/// assert_eq!(receiver.recv()?, 1);
/// runtime.shutdown(Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Irq {
    line: Arc<IrqLine>,
}

struct IrqLine {
    source: LineSource,
    identity: Option<SourceIdentity>,
    is_bound: AtomicBool,
}

enum LineSource {
    Kernel(Arc<EventCount>),
    Simulated(sim::Event),
    /// With what it is waited on by, which stays the same for as long as it is not given away. Whoever arms it again need not
    /// ask it, which is code of others.
    Other(Box<dyn Waitable + Send + Sync>, SourceId),
}

impl Irq {
    fn of(source: LineSource, location: Site) -> Irq {
        let identity = match &source {
            LineSource::Other(source, _) => source.identity().and_then(SourceIdentity::from_bits),
            LineSource::Kernel(_) | LineSource::Simulated(_) => None,
        };
        let identity = identity.or_else(SourceIdentity::fresh);
        let line = Arc::new(IrqLine { source, identity, is_bound: AtomicBool::new(false) });
        probe::note(|| Note::Made { what: "irq", id: Arc::as_ptr(&line).addr() as u64, location });
        Irq { line }
    }

    /// An irq over a descriptor of the operating system, and what triggers it.
    ///
    /// # Errors
    /// What the system says when it gives no further descriptor.
    #[track_caller]
    pub fn new() -> io::Result<(Irq, IrqTrigger)> {
        Irq::kernel(Site::caller())
    }

    fn kernel(site: Site) -> io::Result<(Irq, IrqTrigger)> {
        let counter = Arc::new(EventCount::new()?);
        Ok((Irq::of(LineSource::Kernel(Arc::clone(&counter)), site), IrqTrigger(TriggerOf::Kernel(counter))))
    }

    fn simulated(site: Site) -> (Irq, IrqTrigger) {
        let event = sim::Event::new();
        (Irq::of(LineSource::Simulated(event.clone()), site), IrqTrigger(TriggerOf::Simulated(event)))
    }

    /// An irq over something of one's own that becomes readable, such as an eventfd that a device signals. It counts as
    /// triggered as long as it is readable when the last trigger is acknowledged, so the handler reads first. It is
    /// asked for its descriptor here, and not again.
    #[track_caller]
    pub fn over(source: impl Waitable + Send + Sync + 'static) -> Irq {
        Irq::over_from(Site::caller(), source)
    }

    /// As [`over`](Self::over), for a caller that says where the irq is made.
    pub fn over_from(site: Site, source: impl Waitable + Send + Sync + 'static) -> Irq {
        let id = SourceId::from(source.as_source());
        Irq::of(LineSource::Other(Box::new(source), id), site)
    }

    fn claim(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release of `release`; what the last handler did is seen by the next one.
        !self.line.is_bound.swap(true, Ordering::Acquire)
    }
}

impl Drop for IrqLine {
    fn drop(&mut self) {
        probe::note(|| Note::Gone { what: "irq", id: (&raw const *self).addr() as u64 });
    }
}

impl IrqLine {
    fn as_source(&self) -> Source<'_> {
        match &self.source {
            LineSource::Kernel(counter) => counter.as_source(),
            LineSource::Simulated(event) => event.as_source(),
            LineSource::Other(source, _) => source.as_source(),
        }
    }
}

impl sealed::Sealed for Irq {}

impl Waitable for Irq {
    fn as_source(&self) -> Source<'_> {
        self.line.as_source()
    }

    fn identity(&self) -> Option<u64> {
        self.line.identity.map(SourceIdentity::to_bits)
    }
}

impl Line for IrqLine {
    fn arm(&self, reactor: &Reactor, target: Arc<dyn EventTarget>, key: u64) -> Result<WaitId, WaitRefused> {
        let source = match &self.source {
            LineSource::Other(_, id) => id.clone(),
            LineSource::Kernel(_) | LineSource::Simulated(_) => SourceId::from(self.as_source()),
        };
        reactor.begin_wait_on(source, Interest::READABLE, target, key)
    }

    fn take(&self) -> u64 {
        match &self.source {
            LineSource::Kernel(counter) => counter.take(),
            LineSource::Simulated(event) => event.take().unwrap_or(0),
            LineSource::Other(..) => 1,
        }
    }

    fn identity(&self) -> Option<SourceIdentity> {
        self.identity
    }

    fn release(&self) {
        // ORDERING: Release, pairs with the Acquire of `claim`.
        self.is_bound.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Irq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Irq").field("is_bound", &self.line.is_bound.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
enum TriggerOf {
    Kernel(Arc<EventCount>),
    Simulated(sim::Event),
}

/// Triggers an [`Irq`]. Clones trigger the same one.
#[derive(Debug, Clone)]
pub struct IrqTrigger(TriggerOf);

impl IrqTrigger {
    /// Triggers the irq. If nobody is bound, or the last trigger is not acknowledged, it is kept, and counted.
    ///
    /// # Thread requirements
    /// Any thread. Never calls the handler before it returns.
    pub fn trigger(&self) {
        match &self.0 {
            TriggerOf::Kernel(counter) => counter.signal(),
            TriggerOf::Simulated(event) => event.signal(),
        }
    }
}

impl DispatcherHandle {
    /// A new irq of the sort that this dispatcher can wait for, real or simulated, and what triggers it.
    ///
    /// # Errors
    /// What the system says when it gives no further descriptor.
    #[track_caller]
    pub fn new_irq(&self) -> io::Result<(Irq, IrqTrigger)> {
        self.new_irq_from(Site::caller())
    }

    /// As [`new_irq`](Self::new_irq), for a caller that says where the irq is made.
    ///
    /// # Errors
    /// As [`new_irq`](Self::new_irq).
    pub fn new_irq_from(&self, site: Site) -> io::Result<(Irq, IrqTrigger)> {
        if self.inner().owner().runtime().is_simulated() { Ok(Irq::simulated(site)) } else { Irq::kernel(site) }
    }

    /// Binds `handler` to an irq: it is called once for each trigger, with [`IrqEvent`], until it is unbound; and once
    /// with [`Status::Canceled`] when the dispatcher shuts down first. Triggers from before count.
    ///
    /// The handler acknowledges each trigger, by [`IrqEvent::ack`] or later by [`IrqHandle::ack`]; those that come
    /// meanwhile are delivered together afterwards. Calls of one handler never overlap, on an unsynchronized dispatcher
    /// neither. (Fuchsia: R92 to R98; there an unsynchronized dispatcher takes no irqs, and triggers may be lost.)
    ///
    /// # Errors
    /// [`WaitError`] with the handler: [`Status::BadState`] when the dispatcher shuts down or has shut down;
    /// [`Status::AlreadyExists`] when the irq is bound; [`Status::NotSupported`] when its source cannot be polled here;
    /// else what the system said.
    ///
    /// # Thread requirements
    /// Any thread.
    #[track_caller]
    pub fn bind_irq<F>(&self, irq: &Irq, handler: F) -> Result<IrqHandle, WaitError<F>>
    where
        F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
    {
        self.bind_irq_from(Site::caller(), irq, handler)
    }

    /// As [`bind_irq`](Self::bind_irq), for a caller that says where the binding comes from.
    ///
    /// # Errors
    /// As [`bind_irq`](Self::bind_irq).
    pub fn bind_irq_from<F>(&self, location: Site, irq: &Irq, handler: F) -> Result<IrqHandle, WaitError<F>>
    where
        F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
    {
        if !irq.claim() {
            self.inner().count_refusal();
            return Err(WaitError::new(WaitRefused::AlreadyBound, handler));
        }
        let line: Arc<dyn Line> = Arc::clone(&irq.line) as Arc<dyn Line>;
        self.inner().bind_irq(line, handler, location).map_err(|(refused, handler)| {
            irq.line.release();
            WaitError::new(refused.unwrap_or(WaitRefused::Closed), handler)
        })
    }
}
