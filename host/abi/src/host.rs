//! What a host calls that has this package linked in, so that modules in C work on its runtime.

use fuchsine_dispatcher::{Runtime, Status};

use crate::implementation::env;
use crate::table::{OWN, Table};

/// Makes the runtime of a host the environment of all C modules of this process, for good, and returns the table for
/// [`fuchsine_abi_attach`](crate::fuchsine_abi_attach) of the library that a module brings along. Modules can neither start
/// an environment nor end this one.
///
/// # Errors
/// [`Status::BadState`] when there is an environment already.
pub fn bind(runtime: &Runtime) -> Result<&'static Table, Status> {
    env::host(runtime)?;
    Ok(&OWN)
}
