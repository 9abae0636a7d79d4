//! Suspend and resume over the table.
//!
//! # Invariants
//! - As in `objects`. The data of a requester is the box of its closure, shared by its calls and given back once, by `drop`.

use std::ffi::c_void;
use std::ptr;

use super::attach::table;
use super::calls::ResumeRequester;
use super::closure::{caught, give_callback};
use super::irq::IrqObject;
use super::objects::{CastMut, ContextObject, DispatcherObject, object};
use super::site::CallSite;
use super::socket::SocketObject;
use super::types::{Panic, RawWakeVector};
use crate::{Canceled, Status};

object! {
    /// A registration of a wake vector.
    WakeVectorObject: RawWakeVector as *mut RawWakeVector, wake_vector_release
}

impl DispatcherObject {
    /// The always-on view.
    pub(crate) fn always_on(&self) -> Self {
        // SAFETY: the object is alive; the result carries a reference for us.
        unsafe { Self::from_owned((table().dispatcher_always_on)(self.raw())) }
    }
}

impl ContextObject {
    /// Suspends the driver; `f` learns how that ended.
    pub(crate) fn suspend<F>(&self, site: &'static CallSite, f: F) -> Result<(), (F, Status)>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_callback(site, f, |callback| unsafe { (table().context_suspend)(self.raw(), callback) })
    }

    pub(crate) fn resume(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { (table().context_resume)(self.raw()) != 0 }
    }

    pub(crate) fn is_suspended(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { (table().context_is_suspended)(self.raw()) != 0 }
    }

    /// Has `f` called when somebody should resume the driver.
    pub(crate) fn set_resume_requester<F>(&self, site: &'static CallSite, f: F) -> Result<(), Status>
    where
        F: Fn() + Send + Sync + 'static,
    {
        let data = Box::into_raw(Box::new(f));
        let mut requester = ResumeRequester { data: data.cast(), site, call: request::<F>, drop: drop_requester::<F> };
        // SAFETY: all pointers are valid for the call; the requester is moved out only on success.
        let set = unsafe { (table().context_set_resume_requester)(self.raw(), &raw mut requester) };
        Status::result_of(set).inspect_err(|_| {
            // SAFETY: it was refused, so the box is still ours.
            drop(unsafe { Box::from_raw(data) });
        })
    }

    pub(crate) fn clear_resume_requester(&self) {
        // SAFETY: the object is alive; null takes the requester away, which never fails.
        let _ = unsafe { (table().context_set_resume_requester)(self.raw(), ptr::null_mut()) };
    }

    pub(crate) fn add_wake_vector(&self, irq: &IrqObject) -> Result<WakeVectorObject, Status> {
        let mut vector = ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let added = unsafe { (table().context_add_wake_vector)(self.raw(), irq.raw(), &raw mut vector) };
        Status::result_of(added)?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { WakeVectorObject::from_owned(vector) })
    }

    pub(crate) fn add_socket_wake_vector(
        &self,
        socket: &SocketObject,
        interest: u32,
    ) -> Result<WakeVectorObject, Status> {
        let mut vector = ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let added =
            unsafe { (table().context_add_socket_wake_vector)(self.raw(), socket.raw(), interest, &raw mut vector) };
        Status::result_of(added)?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { WakeVectorObject::from_owned(vector) })
    }
}

unsafe extern "C" fn request<F: Fn()>(data: *mut c_void) -> *mut Panic {
    // SAFETY: `set_resume_requester::<F>` has made the box, and `drop` has not been called yet.
    let f = unsafe { &*data.cast::<F>() };
    caught(f)
}

unsafe extern "C" fn drop_requester<F>(data: *mut c_void) -> *mut Panic {
    // SAFETY: `set_resume_requester::<F>` has made the box, and `drop` is called once, last.
    let f = unsafe { Box::from_raw(data.cast::<F>()) };
    caught(|| drop(f))
}
