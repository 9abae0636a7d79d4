//! The operating system's number of a thread: what debuggers, signals and crash reports call it.

/// The number of the calling thread; `None` where the system has none that others would know it by.
pub(crate) fn current() -> Option<u32> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok()
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        None
    }
}
