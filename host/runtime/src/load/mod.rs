//! The driver interface on the host's side: the table of C functions over the runtime.
//!
//! Every driver talks through this table, the statically linked ones too. `table` names the functions, the other files
//! implement them, `hooks` calls into drivers, `module` loads those that are not linked in.
//!
//! # What the pointers are
//! | C | here | made by | given back by |
//! |---|---|---|---|
//! | `RawDispatcher` | a raw `DispatcherHandle` | `dispatcher_create`, `dispatcher_current`, `context_dispatcher` | `dispatcher_release` |
//! | `RawContext` | `Arc<Instance>` | the host, at the start of an instance | `context_release` |
//! | `RawTask`, `RawJoin`, `RawOffload`, `RawWait`, `RawSocket`, `RawChild`, `RawChannel`, `RawToken`, `RawIrq`, `RawIrqTrigger`, `RawIrqBinding`, `RawWakeVector` | a box | the function that has it as an out parameter | the release or close function |
//! | `RawArena` | a raw `Arena` | `arena_create`, `channel_read` | `arena_release` |
//!
//! # Invariants
//! - A pointer that a driver holds stays valid until the driver gives it back: each is `Arc::into_raw` or
//!   `Box::into_raw`, and is turned back by its release function only. [`lend`] borrows what is behind one.
//! - Nothing unwinds out of a table function: what runs a driver's code in one (a destructor, mostly) does so inside of
//!   [`contain`].
//! - A struct that a driver passes to be called later is moved out only when the function returns success; on a refusal
//!   its owner is forgotten, so that the driver still has it.

#![allow(unsafe_code, reason = "implements a table of C functions; the head of the module states what it relies on")]

mod c_driver;
mod calls;
mod channels;
mod context;
mod dispatchers;
mod futures;
mod hooks;
mod irqs;
mod module;
mod nodes;
mod power;
mod site;
mod sockets;
mod table;
mod tokens;

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use fuchsine_dispatcher::{DispatcherHandle, Status};
use fuchsine_driver::abi::{OK, Panic, RawDispatcher};

pub(crate) use channels::taken_from;
pub(crate) use context::instance_of;
pub(crate) use fuchsine_driver::abi::host::HookFailure;
pub(crate) use hooks::{Value, destroy, prepare_stop, start, stop};
pub use module::{FoundModule, Module, ModuleError, ModulePath, ModuleProblem, Writers};
pub(crate) use module::{Missed, flush, ran_as, runs_as};
pub(crate) use nodes::{Acceptor, connect_below, connect_end};
use site::site;

/// What a table function returns.
type Answer = Result<(), Status>;

fn raw(answer: Answer) -> i32 {
    match answer {
        Ok(()) => OK,
        Err(status) => status.as_raw(),
    }
}

/// Borrows what a pointer that a driver holds leads to.
///
/// # Safety
/// `pointer` came from `Arc::into_raw` or `Box::into_raw` of a `T`, and the driver holds it for the duration of `'a`.
unsafe fn lend<'a, T, R>(pointer: *const R) -> &'a T {
    // SAFETY: the caller vouches for the pointer.
    unsafe { &*pointer.cast::<T>() }
}

/// As [`lend`], for a dispatcher handle.
///
/// # Safety
/// The driver holds `pointer` for the duration of `'a`.
unsafe fn dispatcher<'a>(pointer: *const RawDispatcher) -> LentDispatcher<'a> {
    // SAFETY: every `RawDispatcher` is a raw handle; the caller vouches for the rest, and the reference stays its own.
    LentDispatcher(ManuallyDrop::new(unsafe { take_dispatcher(pointer) }), PhantomData)
}

/// A handle that a driver has lent.
struct LentDispatcher<'a>(ManuallyDrop<DispatcherHandle>, PhantomData<&'a RawDispatcher>);

impl Deref for LentDispatcher<'_> {
    type Target = DispatcherHandle;

    fn deref(&self) -> &DispatcherHandle {
        &self.0
    }
}

/// A handle that a driver gives up.
///
/// # Safety
/// `pointer` is not null, came from [`own_dispatcher`], and its holder gives the reference up.
unsafe fn take_dispatcher(pointer: *const RawDispatcher) -> DispatcherHandle {
    // SAFETY: the caller says that it is not null.
    let raw = unsafe { NonNull::new_unchecked(pointer.cast_mut()) };
    // SAFETY: the caller vouches for it.
    unsafe { DispatcherHandle::from_raw(raw.cast()) }
}

/// A handle as a pointer that is owned by a driver.
fn own_dispatcher(handle: DispatcherHandle) -> *const RawDispatcher {
    handle.into_raw().as_ptr().cast_const().cast()
}

/// A value as a pointer that is owned by a driver.
fn own<T, R>(value: T) -> *mut R {
    Box::into_raw(Box::new(value)).cast()
}

/// Takes back what [`own`] gave out, and drops it.
///
/// # Safety
/// `pointer` is null or came from `own::<T, R>`, and its holder gives it up.
unsafe fn disown<T, R>(pointer: *mut R) {
    if !pointer.is_null() {
        // SAFETY: the caller vouches for the pointer.
        drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
    }
}

/// Runs code that may run a destructor of a driver, on behalf of `dispatcher`. A panic of it goes no further here: it
/// is raised again in a callback of that dispatcher, where the runtime reports it and applies its policy.
pub(crate) fn contain(dispatcher: &DispatcherHandle, code: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else { return };
    if let Err(refused) = dispatcher.post_task(move |_| resume_unwind(payload)) {
        // It shuts down already, so there is nothing left that the policy could do to its driver.
        tracing::error!(dispatcher = dispatcher.name(), "a closure panicked while it was dropped");
        // The closure that came back holds the payload, whose own destructor may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(refused)));
    }
}

/// As [`contain`], on behalf of whatever runs on this thread.
fn contain_here(code: impl FnOnce()) {
    match fuchsine_dispatcher::current() {
        Some(current) => contain(&current, code),
        None => {
            if catch_unwind(AssertUnwindSafe(code)).is_err() {
                tracing::error!("a destructor of a driver panicked outside of its dispatchers");
            }
        }
    }
}

/// Raises a panic that a driver has reported on this side; null is none.
///
/// # Safety
/// `panic` is null, or a report that the caller owns and gives up.
unsafe fn raise(panic: *mut Panic) {
    if panic.is_null() {
        return;
    }
    // SAFETY: a report is valid until it is freed, below.
    let (message, free) = unsafe { ((*panic).message.to_text(), (*panic).free) };
    // SAFETY: the report is given up; its message was copied.
    unsafe { free(panic) };
    if !std::thread::panicking() {
        resume_unwind(Box::new(message));
    }
}
