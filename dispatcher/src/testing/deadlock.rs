//! Who waits for whom: callbacks that sleep in blocking calls, and circles of them, which never end by themselves.

use std::collections::HashMap;
use std::fmt;

use super::ForegroundRuntime;
use crate::runtime::{DispatcherDump, DumpLimits, RunningDump, Runtime, RuntimeDump};

/// The callbacks of a runtime that sleep in blocking calls at one moment. Displays as a line each, and a line for each
/// circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    lines: Vec<String>,
    circles: Vec<String>,
}

impl Waits {
    /// Whether no callback sleeps in a blocking call.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether some of them wait for each other, so that none goes on unless a deadline passes or one of them is shut
    /// down.
    pub fn is_deadlock(&self) -> bool {
        !self.circles.is_empty()
    }

    /// Those of the runtime.
    pub(super) fn of(runtime: &Runtime) -> Self {
        Self::in_dump(&runtime.dump_with(DumpLimits::NONE))
    }

    pub(super) fn in_dump(dump: &RuntimeDump) -> Self {
        let dispatchers: Vec<_> = dump.drivers.iter().flat_map(|driver| &driver.dispatchers).collect();
        let named: HashMap<u64, &DispatcherDump> = dispatchers.iter().map(|one| (one.id, *one)).collect();
        let mut waits = Waits { lines: Vec::new(), circles: Vec::new() };
        let mut next: HashMap<u64, u64> = HashMap::new();
        for dispatcher in &dispatchers {
            for running in dispatcher.running.iter().filter(|running| running.waits_for.is_some()) {
                waits.lines.push(line(dispatcher, running, &named));
                if let Some(on) = &running.waits_on {
                    next.entry(dispatcher.id).or_insert(on.id);
                }
            }
        }
        let mut seen: Vec<u64> = Vec::new();
        for dispatcher in &dispatchers {
            if let Some(circle) = circle_from(dispatcher.id, &next).filter(|circle| !seen.contains(&circle[0])) {
                let names: Vec<_> = circle.iter().chain(&circle[..1]).map(|id| name_of(*id, &named)).collect();
                waits.circles.push(names.join(" -> "));
                seen.extend(circle);
            }
        }
        waits
    }
}

/// Those who wait for each other in a circle, from `start` on, if it is one of them.
fn circle_from(start: u64, next: &HashMap<u64, u64>) -> Option<Vec<u64>> {
    let mut circle = vec![start];
    let mut at = *next.get(&start)?;
    while at != start {
        // Whoever leads into a circle is no part of it.
        if circle.contains(&at) {
            return None;
        }
        circle.push(at);
        at = *next.get(&at)?;
    }
    Some(circle)
}

fn name_of(id: u64, named: &HashMap<u64, &DispatcherDump>) -> String {
    match named.get(&id) {
        Some(DispatcherDump { name, driver, .. }) => format!("{driver}/{name}"),
        None => "a dispatcher that is gone".to_owned(),
    }
}

fn line(dispatcher: &DispatcherDump, running: &RunningDump, named: &HashMap<u64, &DispatcherDump>) -> String {
    let who = name_of(dispatcher.id, named);
    let what = running.waits_for.unwrap_or_default();
    let whom = running.waits_on.as_ref().map_or_else(String::new, |on| format!(" from {}", name_of(on.id, named)));
    let at = running.posted_from.map_or_else(String::new, |at| format!(" of {at} ({})", running.type_name));
    format!("{who} waits for {what}{whom}, in the {}{at}", running.what)
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for circle in &self.circles {
            writeln!(f, "deadlock: {circle}")?;
        }
        Ok(())
    }
}

impl ForegroundRuntime {
    /// Which callbacks sleep in blocking calls at this moment, and whom they wait for. When
    /// [`run_until_idle`](ForegroundRuntime::run_until_idle) has returned, nothing that is left to do ends their waits but
    /// a timer, or what the test does next.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::testing::ForegroundRuntime;
    /// use fuchsine_dispatcher::{Channel, DispatcherBuilder, Instant, Message};
    ///
    /// let runtime = ForegroundRuntime::new();
    /// let clerk = runtime.new_driver("clerk").new_dispatcher(DispatcherBuilder::new().name("desk").allow_sync_calls())?;
    /// let (ours, theirs) = Channel::pair();
    /// clerk.post_task(move |_| drop(ours.call(Message::from_bytes(b"open?"), Instant::INFINITE)))?;
    /// runtime.run_until_idle();
    /// assert!(runtime.waits().to_string().starts_with("clerk/desk waits for a reply, in the task of "));
    /// assert!(!runtime.waits().is_deadlock());
    ///
    /// drop(theirs);
    /// runtime.run_until_idle();
    /// assert!(runtime.waits().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waits(&self) -> Waits {
        Waits::of(self)
    }
}
