//! What a host calls that has this package linked in, so that modules in C work on its runtime.

use fuchsine_dispatcher::{Channel, DispatcherHandle, Runtime, Status};

use crate::implementation::{Face, channel, env, faces};
use crate::table::{OWN, Table};
use crate::types::{fdf_dispatcher_t, fdf_handle_t};

/// Makes the runtime of a host the environment of all C modules of this process, for good, and returns the table for
/// [`fuchsine_abi_attach`](crate::fuchsine_abi_attach) of the library that a module brings along. Modules can neither start
/// an environment nor end this one. A driver works on the runtime that it is a driver of; where a function is about the
/// environment as such, and a process has several hosts, it is about the one that was bound last.
///
/// # Errors
/// [`Status::BadState`] when there is an environment that is not a host's.
pub fn bind(runtime: &Runtime) -> Result<&'static Table, Status> {
    env::host(runtime)?;
    Ok(&OWN)
}

/// What C calls a dispatcher of the host, as `fdf_dispatcher_get_current_dispatcher` would in its callbacks. The pointer is
/// not owned by C and dies with the dispatcher. `None` before [`bind`], and for a dispatcher that has shut down.
pub fn dispatcher(handle: &DispatcherHandle) -> Option<*mut fdf_dispatcher_t> {
    faces::face_of(handle).or_else(|| faces::adopt(handle)).map(Face::as_fdf)
}

/// The table alone, for a library that is attached before there is a host.
pub fn table() -> &'static Table {
    &OWN
}

/// A handle by which C has an end of a channel, such as the one that a driver is given at its start. It belongs to C.
///
/// # Errors
/// [`Status::NoResources`] when C has 65,536 handles already; the end is closed then.
pub fn give(end: Channel) -> Result<fdf_handle_t, Status> {
    channel::receive(end).map_err(|_| Status::NoResources)
}

/// Takes an end of a channel back from C; the handle ends.
///
/// # Errors
/// [`Status::BadHandle`] when the handle names no end, or one that C waits on or uses at this moment.
pub fn take(handle: fdf_handle_t) -> Result<Channel, Status> {
    channel::give_away(handle).map_err(|_| Status::BadHandle)
}
