//! The small C types that everything else is made of: opaque objects, strings, sinks, panics, versions.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The version of this interface. A host and a driver work together only when theirs are equal: it changes when a
/// struct or a function changes its meaning or its place.
pub const ABI_VERSION: u32 = 1;

/// Counts additions at the end of [`Table`](super::Table) or [`DriverEntry`](super::DriverEntry). A driver needs a
/// host whose table is at least as large as the one it was built with.
pub const ABI_REVISION: u32 = 3;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    /// A driver instance as its host knows it. Reference counted ([`Table::context_retain`](super::Table)); a
    /// reference that outlives the driver answers `BadState`.
    RawContext;
    /// A dispatcher handle. Reference counted. It does not keep the dispatcher running.
    RawDispatcher;
    /// The right to cancel one posted task. Owned by one holder.
    RawTask;
    /// The right to cancel one spawned future. Owned by one holder.
    RawJoin;
    /// The right to cancel one offloaded piece of work. Owned by one holder.
    RawOffload;
    /// Tells work that it should come to an end. Borrowed, valid while the work runs.
    RawStopToken;
    /// One end of a channel. Owned by one holder; any thread may use it.
    RawChannel;
    /// Memory for messages. Reference counted.
    RawArena;
    /// A listening or connected stream socket, or a simulated one. Owned by one holder; any thread may use it.
    RawSocket;
    /// The right to cancel one wait for readiness. Owned by one holder.
    RawWait;
    /// A child node that a driver added. Owned by one holder.
    RawChild;
    /// One end of a token, by which two drivers are given a channel. Owned by one holder; any thread may use it.
    RawToken;
    /// A source that triggers again and again. Owned by one holder; any thread may use it.
    RawIrq;
    /// What triggers an irq. Owned by one holder; any thread may use it.
    RawIrqTrigger;
    /// The right to acknowledge the triggers of a bound irq, and to unbind it. Owned by one holder; any thread may use it.
    RawIrqBinding;
    /// A registration of an irq as a reason to resume a suspended driver. Owned by one holder.
    RawWakeVector;
}

/// What a closure is carried as: the address of its storage, or the closure itself when it fits into a pointer.
/// Whoever carries it moves it as it is and never looks inside. In C: `void*`.
pub type Data = MaybeUninit<*mut c_void>;

/// A string that is borrowed for the duration of a call: UTF-8, not terminated. `ptr` may be null only if `len` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Str {
    /// The first byte.
    pub ptr: *const u8,
    /// How many bytes.
    pub len: usize,
}

impl Str {
    /// The empty string.
    pub const EMPTY: Str = Str::new("");

    /// Borrows `text`; the caller keeps it alive for as long as the result is used.
    pub const fn new(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() }
    }

    /// Copies the text, with replacement characters where it is not UTF-8.
    ///
    /// # Safety
    /// `ptr` and `len` must describe readable memory (or `len` is 0).
    pub unsafe fn to_text(self) -> String {
        if self.len == 0 {
            return String::new();
        }
        // SAFETY: the caller vouches for the range, and `len` is not 0, so `ptr` is not null.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr, self.len) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Borrows the text for as long as the caller can vouch for, empty when it is not UTF-8.
    ///
    /// # Safety
    /// `ptr` and `len` must describe memory that stays readable and unchanged for `'a` (or `len` is 0).
    pub unsafe fn as_text<'a>(self) -> &'a str {
        if self.len == 0 {
            return "";
        }
        // SAFETY: the caller vouches for the range and the lifetime, and `len` is not 0.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr, self.len) };
        std::str::from_utf8(bytes).unwrap_or("")
    }
}

/// Bytes that are borrowed for the duration of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// The first byte; may be null only if `len` is 0.
    pub ptr: *const u8,
    /// How many bytes.
    pub len: usize,
}

/// Where a string that the callee owns is delivered. The callee calls `put` at most once, before it returns, on the
/// same thread. A null `put` declines the string.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TextSink {
    /// Passed to `put`.
    pub data: *mut c_void,
    /// Takes the text; it must copy what it wants to keep.
    pub put: Option<unsafe extern "C" fn(data: *mut c_void, text: Str)>,
}

/// Where a list of key and value is delivered: `put` is called once a pair, before the callee returns, same thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PropertySink {
    /// Passed to `put`.
    pub data: *mut c_void,
    /// Takes one pair; it must copy what it wants to keep.
    pub put: unsafe extern "C" fn(data: *mut c_void, key: Str, value: Str),
}

/// A key and a value: a node property, or a field of a log line.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Property {
    /// The key.
    pub key: Str,
    /// The value.
    pub value: Str,
}

/// A panic that was caught on the driver's side of the boundary, on its way to the host.
///
/// Every function that runs driver code returns null, or one of these; the receiver reads it and calls `free`.
/// C drivers return null.
#[repr(C)]
#[derive(Debug)]
pub struct Panic {
    /// What the panic said. Valid until `free`.
    pub message: Str,
    /// Frees the report. It does not run user code.
    pub free: unsafe extern "C" fn(*mut Panic),
}

/// The head of [`Table`](super::Table) and of [`DriverEntry`](super::DriverEntry).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`ABI_VERSION`] of whoever built the struct.
    pub version: u32,
    /// [`ABI_REVISION`] of whoever built the struct.
    pub revision: u32,
    /// The size of the whole struct in bytes, header included.
    pub size: usize,
}

impl Header {
    /// The header of a struct of type `T` that was built with this version of the crate.
    pub const fn of<T>() -> Header {
        Header { version: ABI_VERSION, revision: ABI_REVISION, size: size_of::<T>() }
    }

    /// Whether a struct with this header can be used as the `T` of this build.
    ///
    /// # Errors
    /// A sentence that names both versions and says which side is to be built anew.
    pub fn check<T>(&self, theirs: &str, ours: &str) -> Result<(), String> {
        let own = Header::of::<T>();
        if self.version != own.version {
            return Err(format!(
                "the {theirs} speaks version {} of the driver interface and the {ours} version {}; build both with the \
                 same release of fuchsine-driver",
                self.version, own.version
            ));
        }
        if self.size < own.size {
            return Err(format!(
                "the {theirs} offers revision {} of the driver interface ({} bytes) and the {ours} needs revision {} \
                 ({} bytes); build the {theirs} with a newer fuchsine-driver",
                self.revision, self.size, own.revision, own.size
            ));
        }
        Ok(())
    }
}

/// The status of success; every other status is negative and has a name in [`Status`](crate::Status).
pub const OK: i32 = 0;
