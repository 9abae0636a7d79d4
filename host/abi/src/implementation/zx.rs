//! The few calls of the kernel that drivers make all the time: `zircon/syscalls.h`.

use std::ffi::c_char;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fuchsine_dispatcher::Token;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::handles::{self, Entry, Observable};
use super::objects::{Object, Watched};
use super::wait::boot_time;
use crate::status::{
    ALL, ZX_ERR_ACCESS_DENIED, ZX_ERR_BAD_HANDLE, ZX_ERR_BUFFER_TOO_SMALL, ZX_ERR_INVALID_ARGS, ZX_ERR_NO_RESOURCES,
    ZX_ERR_NOT_SUPPORTED, ZX_ERR_OUT_OF_RANGE, ZX_ERR_PEER_CLOSED, ZX_ERR_SHOULD_WAIT, ZX_ERR_TIMED_OUT,
    ZX_ERR_WRONG_TYPE, ZX_OK,
};
use crate::types::{ZX_HANDLE_INVALID, zx_handle_t, zx_rights_t, zx_signals_t, zx_status_t, zx_time_t};

/// The most bytes of one message of a channel, as in Zircon.
const MOST_BYTES: usize = 65_536;
/// The right to do whatever the handle that is duplicated may do.
const SAME_RIGHTS: zx_rights_t = 1 << 31;

/// Writes handles to where C wants them; those before are taken back if there is no room for one.
///
/// # Safety
/// Each place can be written.
unsafe fn give<const N: usize>(objects: [Arc<Object>; N], places: [*mut zx_handle_t; N]) -> zx_status_t {
    let mut made = Vec::new();
    for object in objects {
        match handles::insert(Entry::Object(object)) {
            Ok(handle) => made.push(handle),
            Err(status) => {
                for handle in made {
                    let _ = handles::remove(handle);
                }
                return status;
            }
        }
    }
    for (handle, place) in made.into_iter().zip(places) {
        // SAFETY: as this function.
        unsafe { *place = handle };
    }
    ZX_OK
}

/// # Safety
/// None needed.
pub(crate) unsafe fn zx_handle_close(handle: zx_handle_t) -> zx_status_t {
    if handle == ZX_HANDLE_INVALID {
        return ZX_OK;
    }
    match handles::get(handle).and_then(|_| handles::remove(handle)) {
        Ok(_object) => ZX_OK,
        Err(status) => status,
    }
}

/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn zx_handle_duplicate(
    handle: zx_handle_t,
    rights: zx_rights_t,
    out: *mut zx_handle_t,
) -> zx_status_t {
    if out.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    if rights != SAME_RIGHTS {
        return ZX_ERR_NOT_SUPPORTED;
    }
    match handles::get(handle) {
        // As in Zircon: a channel has one owner.
        Ok(object) if object.is_packets() => ZX_ERR_ACCESS_DENIED,
        // SAFETY: not null.
        Ok(object) => unsafe { give([object], [out]) },
        Err(status) => status,
    }
}

/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn zx_event_create(options: u32, out: *mut zx_handle_t) -> zx_status_t {
    if options != 0 || out.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: not null.
    unsafe { give([Object::event()], [out]) }
}

/// # Safety
/// Both out pointers are null or can be written.
pub(crate) unsafe fn zx_eventpair_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t {
    if options != 0 || out0.is_null() || out1.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    let (one, other) = Object::event_pair();
    // SAFETY: not null.
    unsafe { give([one, other], [out0, out1]) }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn zx_object_signal(handle: zx_handle_t, clear_mask: u32, set_mask: u32) -> zx_status_t {
    match handles::get(handle) {
        Ok(object) if object.signal(clear_mask, set_mask) => ZX_OK,
        Ok(_) => ZX_ERR_INVALID_ARGS,
        Err(status) => status,
    }
}

/// # Safety
/// `observed` is null or can be written.
pub(crate) unsafe fn zx_object_wait_one(
    handle: zx_handle_t,
    signals: zx_signals_t,
    deadline: zx_time_t,
    observed: *mut zx_signals_t,
) -> zx_status_t {
    let object = match handles::get(handle) {
        Ok(object) => object,
        Err(status) => return status,
    };
    let watched = match object.watched(signals) {
        Ok(watched) => watched,
        Err(status) => return status,
    };
    let mut pause = Duration::ZERO;
    let status = loop {
        if object.signals() & signals != 0 {
            break ZX_OK;
        }
        let left = deadline.saturating_sub(monotonic());
        if left <= 0 {
            break ZX_ERR_TIMED_OUT;
        }
        let left = Duration::from_nanos(left.cast_unsigned());
        // Ready, but for nothing that is waited for: not again and again without a pause.
        std::thread::sleep(pause.min(left));
        if wait_for_any(&watched, left) {
            pause = (pause * 2).clamp(Duration::from_micros(50), Duration::from_millis(20));
        }
    };
    if !observed.is_null() {
        // SAFETY: not null.
        unsafe { *observed = object.signals() };
    }
    status
}

/// Sleeps until one is ready; false if the time is up first.
fn wait_for_any(watched: &[Watched], left: Duration) -> bool {
    let asked = |watched: &Watched| {
        let mut asked = PollFlags::empty();
        asked.set(PollFlags::IN, watched.interest.is_readable());
        asked.set(PollFlags::OUT, watched.interest.is_writable());
        asked
    };
    let mut polled: Vec<_> = watched.iter().map(|watched| PollFd::new(&watched.fd, asked(watched))).collect();
    let limit = rustix::event::Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
}

fn monotonic() -> zx_time_t {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// # Safety
/// None needed.
pub(crate) unsafe fn zx_clock_get_monotonic() -> zx_time_t {
    monotonic()
}

/// # Safety
/// None needed.
pub(crate) unsafe fn zx_clock_get_boot() -> zx_time_t {
    boot_time()
}

/// Each with a zero at its end, so that C can have it.
static NAMES: std::sync::LazyLock<Vec<(zx_status_t, std::ffi::CString)>> = std::sync::LazyLock::new(|| {
    ALL.iter().filter_map(|&(name, code)| Some((code, std::ffi::CString::new(name).ok()?))).collect()
});

/// # Safety
/// None needed.
pub(crate) unsafe fn zx_status_get_string(status: zx_status_t) -> *const c_char {
    let found = NAMES.iter().find(|(code, _)| *code == status);
    found.map_or(c"(UNKNOWN)".as_ptr(), |(_, name)| name.as_ptr())
}

/// # Safety
/// Both out pointers are null or can be written.
pub(crate) unsafe fn zx_channel_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t {
    if options != 0 || out0.is_null() || out1.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) {
        // SAFETY: not null.
        Ok((one, other)) => unsafe {
            let (near, far) = Token::pair();
            give([Object::packets(one, near), Object::packets(other, far)], [out0, out1])
        },
        Err(_) => ZX_ERR_NO_RESOURCES,
    }
}

/// # Safety
/// The bytes can be read as far as their number says.
pub(crate) unsafe fn zx_channel_write(
    handle: zx_handle_t,
    options: u32,
    bytes: *const u8,
    num_bytes: u32,
    handles: *const zx_handle_t,
    num_handles: u32,
) -> zx_status_t {
    let (object, len) = match handles::get(handle) {
        Ok(object) => (object, num_bytes as usize),
        Err(status) => return status,
    };
    let Some(fd) = object.as_fd().filter(|_| object.is_packets()) else { return ZX_ERR_WRONG_TYPE };
    if options != 0 || bytes.is_null() && len > 0 || handles.is_null() && num_handles > 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    if len > MOST_BYTES {
        return ZX_ERR_OUT_OF_RANGE;
    }
    if num_handles > 0 {
        return ZX_ERR_NOT_SUPPORTED;
    }
    let mut packet = Vec::with_capacity(len + 1);
    packet.push(0);
    if len > 0 {
        // SAFETY: readable, by the contract of this function.
        packet.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, len) });
    }
    match send(fd, &packet, SendFlags::NOSIGNAL) {
        Ok(_) => ZX_OK,
        Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => ZX_ERR_PEER_CLOSED,
        Err(rustix::io::Errno::AGAIN) => ZX_ERR_SHOULD_WAIT,
        Err(_) => ZX_ERR_NO_RESOURCES,
    }
}

/// # Safety
/// The buffers can be written as far as their numbers say; the out pointers are null or can be written.
#[allow(clippy::too_many_arguments, reason = "they are those of the header")]
pub(crate) unsafe fn zx_channel_read(
    handle: zx_handle_t,
    options: u32,
    bytes: *mut u8,
    handles: *mut zx_handle_t,
    num_bytes: u32,
    num_handles: u32,
    actual_bytes: *mut u32,
    actual_handles: *mut u32,
) -> zx_status_t {
    let _ = (handles, num_handles);
    let object = match handles::get(handle) {
        Ok(object) => object,
        Err(status) => return status,
    };
    let Some(fd) = object.as_fd().filter(|_| object.is_packets()) else { return ZX_ERR_WRONG_TYPE };
    if options != 0 || bytes.is_null() && num_bytes > 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    let mut packet = vec![0; MOST_BYTES + 1];
    let peeked = match recv(fd, &mut packet[..], RecvFlags::PEEK) {
        Ok((0, _)) => return ZX_ERR_PEER_CLOSED,
        Ok((len, _)) => len - 1,
        Err(rustix::io::Errno::AGAIN) => return ZX_ERR_SHOULD_WAIT,
        Err(rustix::io::Errno::CONNRESET) => return ZX_ERR_PEER_CLOSED,
        Err(_) => return ZX_ERR_BAD_HANDLE,
    };
    for (place, count) in [(actual_bytes, peeked as u32), (actual_handles, 0)] {
        if !place.is_null() {
            // SAFETY: not null.
            unsafe { *place = count };
        }
    }
    if peeked > num_bytes as usize {
        return ZX_ERR_BUFFER_TOO_SMALL;
    }
    if recv(fd, &mut packet[..], RecvFlags::empty()).is_err() {
        // Somebody else has read it meanwhile.
        return ZX_ERR_SHOULD_WAIT;
    }
    if peeked > 0 {
        // SAFETY: there is room for so many, by the look above.
        unsafe { bytes.copy_from_nonoverlapping(packet[1..].as_ptr(), peeked) };
    }
    ZX_OK
}

/// # Safety
/// `fd` is a descriptor that belongs to the caller, or none at all; `out` is null or can be written.
pub(crate) unsafe fn fuchsine_handle_from_fd(fd: i32, out: *mut zx_handle_t) -> zx_status_t {
    // SAFETY: a question about a number.
    if out.is_null() || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: it is open, and the caller gives it up.
    let object = Object::descriptor(unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: not null.
    unsafe { give([object], [out]) }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fuchsine_handle_dup_fd(handle: zx_handle_t) -> i32 {
    let object = handles::get(handle).ok();
    let copy = object.as_ref().and_then(|object| object.as_fd()).and_then(|fd| fd.try_clone_to_owned().ok());
    copy.map_or(-1, IntoRawFd::into_raw_fd)
}
