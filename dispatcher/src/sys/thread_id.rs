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

/// Whether a thread of this process sleeps at this moment; `None` where the system does not tell.
#[cfg(any(feature = "testing", all(test, shuttle)))]
pub(crate) fn is_asleep(thread: u32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The name in parentheses may be anything.
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    Some(state == 'S')
}
