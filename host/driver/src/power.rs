//! Suspend and resume: a driver that has nothing to do stands still, and loses nothing.

use crate::abi::{SocketObject, WakeVectorObject, here};
use crate::dispatcher::PostError;
use crate::net::{Interest, Listener, Stream};
use crate::{Canceled, DriverContext, Irq, Status};

impl DriverContext {
    /// Suspends the driver: its callbacks are parked until [`resume`](Self::resume), and `f` is called when none executes
    /// any more. What comes in meanwhile is accepted, and parked behind them. What was accepted by an
    /// [always-on view](crate::Dispatcher::always_on) runs as ever. A driver that is stopped is resumed first.
    ///
    /// `f` is called once, inside of the driver and outside of its dispatchers: with `Ok` when all is quiet, with
    /// `Err(Canceled)` when the driver was resumed first. Work on lanes is not waited for, and neither are drivers below:
    /// what they write to a driver that is suspended waits.
    ///
    /// # Errors
    /// `AlreadyExists`: it is suspended. `BadState`: it is stopping. The closure is inside the error.
    ///
    /// # Thread requirements
    /// Any thread, callbacks included: one that suspends its own driver is one of those that are waited for.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{DriverContext, Irq, Status, WakeVector};
    ///
    /// /// Stands still until somebody presses the button.
    /// fn sleep_until(button: &Irq, cx: &DriverContext) -> Result<WakeVector, Status> {
    ///     let vector = cx.add_wake_vector(button)?;
    ///     let waking = cx.clone();
    ///     cx.on_resume_request(move || drop(waking.resume()))?;
    ///     cx.suspend(|_| ())?;
    ///     Ok(vector)
    /// }
    /// ```
    #[track_caller]
    pub fn suspend<F>(&self, f: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.object().suspend(here::<F>(), f).map_err(PostError::new)
    }

    /// Resumes the driver: what wake vectors told runs first, then what was parked, in its order, then timers whose time
    /// has come. False, and nothing happens, if it is not suspended.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn resume(&self) -> bool {
        self.object().resume()
    }

    /// Whether the driver is suspended, or about to be.
    pub fn is_suspended(&self) -> bool {
        self.object().is_suspended()
    }

    /// Has `f` called whenever a [wake vector](Self::add_wake_vector) is triggered while the driver is suspended, in place of
    /// the one before; at once, if that has happened already. It usually calls [`resume`](Self::resume).
    ///
    /// It is called inside of the driver and outside of its dispatchers, never before this returns, and kept until the
    /// driver has stopped.
    ///
    /// # Errors
    /// `NotSupported` by a host that suspends nobody.
    #[track_caller]
    pub fn on_resume_request(&self, f: impl Fn() + Send + Sync + 'static) -> Result<(), Status> {
        self.object().set_resume_requester(here::<DriverContext>(), f)
    }

    /// Takes what [`on_resume_request`](Self::on_resume_request) has set away. A call that is under way on another thread
    /// is not waited for.
    pub fn clear_resume_request(&self) {
        self.object().clear_resume_requester();
    }

    /// Makes an irq, a listener or a stream a wake vector: when the irq is triggered, or the socket has something to accept
    /// or to read and somebody waits for that, while the driver is suspended, what
    /// [`on_resume_request`](Self::on_resume_request) has set is called, and the handler of the irq, or the callback of the
    /// wait, is the first to run after the resume. That lasts until the answer is dropped; it does not keep a socket open.
    ///
    /// # Errors
    /// `BadState`: the driver is suspended, or stopping.
    pub fn add_wake_vector(&self, source: &impl WakeObject) -> Result<WakeVector, Status> {
        source.register(self)
    }
}

/// What can be a [wake vector](DriverContext::add_wake_vector): an [`Irq`], a [`Listener`], a [`Stream`].
pub trait WakeObject: sealed::Register {}

impl<T: sealed::Register> WakeObject for T {}

mod sealed {
    use super::{DriverContext, Status, WakeVector};

    pub trait Register {
        /// Has the host take it for a wake vector of this driver.
        fn register(&self, cx: &DriverContext) -> Result<WakeVector, Status>;
    }
}

impl sealed::Register for Irq {
    fn register(&self, cx: &DriverContext) -> Result<WakeVector, Status> {
        cx.object().add_wake_vector(self.object()).map(|object| WakeVector { _object: object })
    }
}

impl sealed::Register for Listener {
    fn register(&self, cx: &DriverContext) -> Result<WakeVector, Status> {
        over_socket(cx, self.object())
    }
}

impl sealed::Register for Stream {
    fn register(&self, cx: &DriverContext) -> Result<WakeVector, Status> {
        over_socket(cx, self.object())
    }
}

fn over_socket(cx: &DriverContext, socket: &SocketObject) -> Result<WakeVector, Status> {
    let added = cx.object().add_socket_wake_vector(socket, Interest::READABLE.to_raw());
    added.map(|object| WakeVector { _object: object })
}

/// A registered wake vector. Dropping it takes the registration back.
#[derive(Debug)]
#[must_use = "dropping it takes the registration back"]
pub struct WakeVector {
    _object: WakeVectorObject,
}
