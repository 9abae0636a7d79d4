//! What is left of a run at one moment, in words that are the same whenever the run is: names instead of numbers, and no
//! thread.

use std::fmt::Write;

use super::ForegroundRuntime;
use crate::runtime::{DispatcherDump, DumpLimits, RuntimeDump, RuntimeInner};
use crate::sync::Arc;

impl ForegroundRuntime {
    /// What runs or waits at this moment, a line each, in words that are the same whenever the run is: for messages of
    /// tests, of which an exploration expects that. A [`dump`](crate::Runtime::dump) tells more.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::{DispatcherBuilder, testing::ForegroundRuntime};
    /// let runtime = ForegroundRuntime::new();
    /// let dispatcher = runtime.new_driver("clerk").new_dispatcher(DispatcherBuilder::new().name("desk")).unwrap();
    /// assert_eq!(runtime.pending(), "nothing\n");
    /// dispatcher.post_task(|_| ()).unwrap();
    /// assert!(runtime.pending().starts_with("clerk/desk, running:\n  queued: task of "));
    /// ```
    pub fn pending(&self) -> String {
        pending_of(self.inner())
    }
}

/// Everything that runs or waits, a line each.
pub(super) fn pending_of(runtime: &Arc<RuntimeInner>) -> String {
    let mut text = String::new();
    let dump = RuntimeDump::with_limits(runtime, DumpLimits::NONE);
    for dispatcher in dump.drivers.iter().flat_map(|driver| &driver.dispatchers).filter(|it| it.is_busy()) {
        // Writing to a string does not fail.
        let _ = describe(dispatcher, &mut text);
    }
    if text.is_empty() {
        text.push_str("nothing\n");
    }
    text
}

fn describe(dispatcher: &DispatcherDump, text: &mut String) -> std::fmt::Result {
    let DispatcherDump { name, driver, state, futures, running, pending, .. } = dispatcher;
    writeln!(text, "{driver}/{name}, {state}:")?;
    for running in running {
        write!(text, "  running: {}", running.what)?;
        if let Some(location) = running.posted_from {
            write!(text, " of {location} ({})", running.type_name)?;
        }
        let waits_for = running.waits_for.map_or_else(String::new, |what| format!(", waits for {what}"));
        writeln!(text, "{waits_for}")?;
    }
    for pending in pending {
        let how = if pending.is_ready { "queued" } else { "waiting" };
        writeln!(text, "  {how}: {} of {} ({})", pending.kind.as_str(), pending.posted_from, pending.type_name)?;
    }
    match futures {
        0 => Ok(()),
        count => writeln!(text, "  {count} futures"),
    }
}
