//! Irqs: sources that trigger again and again, with one handler each.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use crate::abi::{BindingObject, IrqObject, TriggerObject, here};
use crate::dispatcher::PostError;
use crate::net::Readiness;
use crate::{Dispatcher, Status};

/// A source that triggers again and again. One handler at a time is [bound](Self::bind) to it.
///
/// # Examples
/// ```no_run
/// use fuchsine_driver::{Dispatcher, Irq, Status};
///
/// fn listen(home: &Dispatcher) -> Result<(), Status> {
///     let (irq, trigger) = Irq::new(home)?;
///     irq.bind(home, |outcome| match outcome {
///         Ok(event) => {
///             println!("pressed {} times", event.count());
///             event.ack();
///         }
///         Err(status) => println!("no more of it: {status}"),
///     })?;
///     trigger.trigger();
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Irq {
    object: IrqObject,
}

impl Irq {
    /// A new irq of the sort that `dispatcher` can wait for (a simulated one in a test in virtual time), and what triggers
    /// it.
    ///
    /// # Errors
    /// `NoResources`: no descriptor is left.
    #[track_caller]
    pub fn new(dispatcher: &Dispatcher) -> Result<(Irq, IrqTrigger), Status> {
        let (object, trigger) = IrqObject::new(here::<Irq>(), dispatcher.object())?;
        Ok((Irq { object }, IrqTrigger { object: trigger }))
    }

    /// An irq over a descriptor that becomes readable, such as an eventfd that a device signals. It counts as triggered for
    /// as long as it is readable when the last trigger is acknowledged, so the handler reads first.
    ///
    /// # Errors
    /// `BadState` in an image that no host has attached. The descriptor is inside the error.
    #[track_caller]
    pub fn over(fd: OwnedFd) -> Result<Irq, PostError<OwnedFd>> {
        IrqObject::over(here::<Irq>(), fd).map(|object| Irq { object }).map_err(PostError::new)
    }

    /// Binds `f`: it is called on `dispatcher` once for each trigger until it is unbound, and once with `Canceled` when the
    /// dispatcher shuts down first. Triggers from before count. Calls of `f` never overlap.
    ///
    /// `f` acknowledges each trigger, by [`IrqEvent::ack`] or later by [`IrqBinding::ack`]; those that come meanwhile are
    /// delivered together afterwards.
    ///
    /// # Errors
    /// `AlreadyExists`: the irq is bound. `BadState`: the dispatcher is shutting down. `NotSupported`: its descriptor
    /// cannot be polled here (a real one in a test in virtual time, a regular file). The closure is inside the error.
    #[track_caller]
    pub fn bind<F>(&self, dispatcher: &Dispatcher, f: F) -> Result<IrqBinding, PostError<F>>
    where
        F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
    {
        let bound = self.object.bind(here::<F>(), dispatcher.object(), f);
        bound.map(|object| IrqBinding { object }).map_err(PostError::new)
    }

    pub(crate) fn object(&self) -> &IrqObject {
        &self.object
    }
}

/// Triggers an [`Irq`].
#[derive(Debug)]
pub struct IrqTrigger {
    object: TriggerObject,
}

impl IrqTrigger {
    /// Triggers the irq. If nobody is bound, or the last trigger is not acknowledged, it is kept, and counted.
    ///
    /// # Thread requirements
    /// Any thread. Never calls the handler before it returns.
    pub fn trigger(&self) {
        self.object.trigger();
    }
}

/// A trigger, as the handler sees it.
#[derive(Debug)]
pub struct IrqEvent<'a> {
    count: u64,
    readiness: Readiness,
    acknowledged: &'a Cell<bool>,
}

impl<'a> IrqEvent<'a> {
    pub(crate) fn new(count: u64, ready: u32, acknowledged: &'a Cell<bool>) -> Self {
        IrqEvent { count, readiness: Readiness::from_raw(ready), acknowledged }
    }

    /// How often the irq was triggered since the last delivery, at least 1. Always 1 for an irq [over](Irq::over) a
    /// descriptor, which counts by itself.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What the source of the irq is ready for.
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Acknowledges the trigger: the next one is delivered when the handler has returned. Without it the irq stays silent
    /// until [`IrqBinding::ack`].
    pub fn ack(self) {
        self.acknowledged.set(true);
    }
}

/// A bound irq. Dropping it changes nothing: the irq stays bound.
#[derive(Debug)]
pub struct IrqBinding {
    object: BindingObject,
}

impl IrqBinding {
    /// Acknowledges the last trigger from outside of the handler.
    ///
    /// # Errors
    /// `BadState`: there is nothing to acknowledge. `NotFound`: the irq is not bound any more.
    pub fn ack(&self) -> Result<(), Status> {
        self.object.ack()
    }

    /// Ends the binding: no call of the handler begins any more, and it is not told of a shutdown either. The answer is
    /// whether a call is running, on another thread or further out on this one, which is not waited for; the handler is
    /// dropped here, or when that call returns.
    ///
    /// # Errors
    /// `NotFound`: it was unbound before, or the handler was told of the end.
    pub fn unbind(&self) -> Result<bool, Status> {
        self.object.unbind()
    }
}
