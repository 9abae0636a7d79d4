//! Handles as raw words, for whoever lends them to code that knows no Rust types.
//!
//! # Invariants
//! - A raw handle is what `Arc::into_raw` gave for its dispatcher, with the lowest bit set if it is of the always-on view;
//!   it stands for one reference, which `from_raw` takes back. The dispatcher is aligned to more than one byte.

#![allow(unsafe_code, reason = "a reference as a word; the invariant above is kept by this file alone")]

use std::ffi::c_void;
use std::ptr::NonNull;

use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::handle::DispatcherHandle;
use crate::sync::Arc;

const ALWAYS_ON: usize = 1;
const _: () = assert!(align_of::<DispatcherInner>() > ALWAYS_ON);

impl DispatcherHandle {
    /// The handle as one word that keeps what it kept, until [`from_raw`](DispatcherHandle::from_raw) takes it back. For
    /// hosts, which hand it to drivers of any language. Nothing is allocated.
    pub fn into_raw(self) -> NonNull<c_void> {
        let tag = if self.flavour().is_always_on() { ALWAYS_ON } else { 0 };
        let inner = Arc::into_raw(self.into_inner()).cast_mut().cast();
        // SAFETY: what an `Arc` points to is at no null address.
        unsafe { NonNull::new_unchecked(inner) }.map_addr(|address| address | tag)
    }

    /// The handle that was made [raw](DispatcherHandle::into_raw).
    ///
    /// # Safety
    /// `raw` came from `into_raw` and is not used again. (To borrow one, do not drop what this gives, with the help of
    /// `ManuallyDrop`.)
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        let is_always_on = raw.addr().get() & ALWAYS_ON != 0;
        let inner = raw.as_ptr().map_addr(|address| address & !ALWAYS_ON);
        // SAFETY: by the invariant it is what `Arc::into_raw` gave, and the caller gives the reference up.
        let inner = unsafe { Arc::from_raw(inner.cast::<DispatcherInner>().cast_const()) };
        let regular = DispatcherHandle::from_inner(inner);
        if is_always_on { regular.into_flavour(Flavour::ALWAYS_ON) } else { regular }
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::{DispatcherBuilder, DispatcherHandle, RuntimeBuilder};
    use std::mem::ManuallyDrop;

    #[test]
    fn a_raw_handle_is_the_same_handle_and_keeps_its_dispatcher() {
        let runtime = RuntimeBuilder::new().build().expect("there are threads");
        let driver = runtime.new_driver("driver");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("one")).expect("created");
        let weak = dispatcher.downgrade();
        let raw = [dispatcher.handle().into_raw(), dispatcher.always_on().into_raw()];
        assert_ne!(raw[0], raw[1]);
        for (raw, is_always_on) in raw.into_iter().zip([false, true]) {
            // SAFETY: it came from `into_raw`, and is borrowed.
            let lent = ManuallyDrop::new(unsafe { DispatcherHandle::from_raw(raw) });
            assert_eq!((lent.name(), lent.id(), lent.is_always_on()), ("one", dispatcher.id(), is_always_on));
        }
        dispatcher.shutdown_async();
        drop(dispatcher);
        runtime.shutdown(std::time::Duration::from_secs(60)).expect("nothing runs");
        drop((driver, runtime));
        assert!(weak.upgrade().is_ok(), "the raw handles keep it");
        for raw in raw {
            // SAFETY: it came from `into_raw`, and is given up.
            drop(unsafe { DispatcherHandle::from_raw(raw) });
        }
        assert!(weak.upgrade().is_err(), "nothing keeps it any more");
    }
}
