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
    let stat = read(thread, "stat")?;
    // The name in parentheses may be anything.
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    Some(state == 'S')
}

/// Whether a thread of this process sleeps, and not only until some time has passed: somebody else has what it waits for.
/// `None` where the system does not tell whether it sleeps.
#[cfg(any(feature = "testing", all(test, shuttle)))]
pub(crate) fn waits_for_others(thread: u32) -> Option<bool> {
    if !is_asleep(thread)? {
        return Some(false);
    }
    // Not every system tells in which call.
    let call = read(thread, "syscall").and_then(|text| text.split_whitespace().next()?.parse().ok());
    Some(!call.is_some_and(is_a_sleep))
}

/// How often a thread of this process has had a processor; `None` where the system does not tell.
#[cfg(any(feature = "testing", all(test, shuttle)))]
pub(crate) fn runs(thread: u32) -> Option<u64> {
    read(thread, "schedstat")?.split_whitespace().nth(2)?.parse().ok()
}

/// The calls that end by themselves.
#[cfg(any(feature = "testing", all(test, shuttle)))]
fn is_a_sleep(call: libc::c_long) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].contains(&call)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = call;
        false
    }
}

/// How much time a thread of this process has had of a processor; `None` where the system does not tell.
#[cfg(feature = "testing")]
pub(crate) fn processor_time(thread: u32) -> Option<std::time::Duration> {
    let nanos = read(thread, "schedstat")?.split_whitespace().next()?.parse().ok()?;
    Some(std::time::Duration::from_nanos(nanos))
}

#[cfg(any(feature = "testing", all(test, shuttle)))]
fn read(thread: u32, what: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/{what}")).ok()
}
