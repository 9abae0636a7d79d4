//! Which table this image talks through.
//!
//! # Invariants
//! - The reference is set once, from a pointer that the host promises to keep valid for ever, after its header was
//!   checked; it is never replaced. So [`table`] hands out a plain `&'static Table`.
//! - Every safe handle type is made from a pointer that came from that same table, so its functions fit.

use std::sync::OnceLock;

use super::table::Table;

static TABLE: OnceLock<&'static Table> = OnceLock::new();

/// Makes `table` the one that this image uses. Called by the start hook of every instance; all but the first call only
/// compare.
///
/// # Errors
/// A sentence: the table is of another version or too small, or this image is attached to another table.
///
/// # Safety
/// `table` points to a table that stays valid for ever.
pub unsafe fn attach(table: *const Table) -> Result<(), String> {
    // SAFETY: the caller vouches for the pointer. The header is the first field in every version of the table.
    let header = unsafe { (*table).header };
    header.check::<Table>("host", "driver")?;
    // SAFETY: the caller vouches for the pointer, and the table has at least the fields that this build knows.
    let table: &'static Table = unsafe { &*table };
    if std::ptr::eq(*TABLE.get_or_init(|| table), table) {
        return Ok(());
    }
    Err(String::from(
        "this image is in use by another host already; a process has one host, or one copy of the driver each",
    ))
}

/// The table, once the image is attached.
pub(crate) fn try_table() -> Option<&'static Table> {
    TABLE.get().copied()
}

/// The table, for a handle whose existence shows that the image is attached.
///
/// # Panics
/// If the image is not attached, which a handle rules out.
pub(crate) fn table() -> &'static Table {
    try_table().expect("handles exist only after a host has attached its table")
}
