//! The one table that all exported functions go through.
//!
//! # Invariants
//! - `TABLE` is null until the first call or until a host attaches, then points to a complete table that lives as long as
//!   the process, and never changes again.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::exports::arena::ArenaFunctions;
use crate::exports::channel::ChannelFunctions;
use crate::exports::dispatcher::DispatcherFunctions;
use crate::exports::dispatcher::power::DispatcherPowerFunctions;
use crate::exports::env::EnvFunctions;
use crate::exports::env::power::EnvPowerFunctions;
use crate::exports::env::roles::RoleFunctions;
use crate::exports::testing::TestingFunctions;
use crate::exports::token::TokenFunctions;
use crate::exports::zx::ZxFunctions;
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_SUPPORTED, ZX_OK};
use crate::types::zx_status_t;

/// Changes when a group changes in any other way than by a new one at the end of the table.
pub const TABLE_VERSION: u32 = 1;

/// Every function that C can call. A host's table and that of a module's library may be of different releases: groups
/// are only ever added at the end, so a table is good for a library if it has the same version and at least its size.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// [`TABLE_VERSION`] of whoever made the table.
    pub version: u32,
    /// The size of the table in bytes.
    pub size: u32,
    /// `lib/fdf/env.h`
    pub env: EnvFunctions,
    /// `lib/fdf/env.h`: roles
    pub roles: RoleFunctions,
    /// `lib/fdf/env.h`: suspend and resume
    pub env_power: EnvPowerFunctions,
    /// `lib/fdf/dispatcher.h`
    pub dispatcher: DispatcherFunctions,
    /// `lib/fdf/dispatcher.h`: suspend and resume
    pub dispatcher_power: DispatcherPowerFunctions,
    /// `lib/fdf/testing.h`
    pub testing: TestingFunctions,
    /// `zircon/syscalls.h`
    pub zx: ZxFunctions,
    /// `lib/fdf/arena.h`
    pub arena: ArenaFunctions,
    /// `lib/fdf/channel.h`, `handle.h`
    pub channel: ChannelFunctions,
    /// `lib/fdf/token.h`
    pub token: TokenFunctions,
}

/// The table of this copy of the library.
pub static OWN: Table = Table {
    version: TABLE_VERSION,
    size: size_of::<Table>() as u32,
    env: EnvFunctions::OWN,
    roles: RoleFunctions::OWN,
    env_power: EnvPowerFunctions::OWN,
    dispatcher: DispatcherFunctions::OWN,
    dispatcher_power: DispatcherPowerFunctions::OWN,
    testing: TestingFunctions::OWN,
    zx: ZxFunctions::OWN,
    arena: ArenaFunctions::OWN,
    channel: ChannelFunctions::OWN,
    token: TokenFunctions::OWN,
};

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// The table that is in force.
pub(crate) fn table() -> &'static Table {
    // ORDERING: Acquire, pairs with the Release in `install`; the table is seen as it was filled in.
    let table = TABLE.load(Ordering::Acquire);
    let table = if table.is_null() { install(&OWN) } else { table };
    // SAFETY: by the invariant it is complete and lives as long as the process.
    unsafe { &*table }
}

/// Puts a table in force unless there is one. The one that is then.
#[cold]
fn install(table: &'static Table) -> *const Table {
    let wanted = ptr::from_ref(table).cast_mut();
    // ORDERING: Release, pairs with the Acquire in `table`; Acquire for the table that somebody else has put there.
    match TABLE.compare_exchange(ptr::null_mut(), wanted, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => wanted,
        Err(there) => there,
    }
}

/// Makes a table of a host the one of this copy of the library. A host calls it in the library that a module brought
/// along, before it calls into the module. Repeating it changes nothing.
///
/// `ZX_ERR_INVALID_ARGS`: no table. `ZX_ERR_NOT_SUPPORTED`: the table is of another version, or of an older release than
/// this library; the message on standard error names both. `ZX_ERR_BAD_STATE`: the library has been used before.
///
/// # Safety
/// `table` is null, or points to a [`Table`] that is complete up to the size that it states and lives as long as the
/// process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuchsine_abi_attach(table: *const Table) -> zx_status_t {
    if table.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: every table begins with these two words, by the contract of this function.
    let (version, size) = unsafe { ((*table).version, (*table).size) };
    if version != TABLE_VERSION || (size as usize) < size_of::<Table>() {
        eprintln!(
            "libfuchsine: the host offers table version {version} of {size} bytes, this library needs version \
             {TABLE_VERSION} of at least {} bytes: use the library of the host's release",
            size_of::<Table>()
        );
        return ZX_ERR_NOT_SUPPORTED;
    }
    // SAFETY: complete and as long-lived as the process, by the contract of this function.
    match ptr::eq(install(unsafe { &*table }), table) {
        true => ZX_OK,
        false => ZX_ERR_BAD_STATE,
    }
}
