//! Who blocks out of sight of this crate, on a channel of the standard library, a lock of its own, or in the kernel.

use std::fmt;

use crate::runtime::{DispatcherDump, DumpLimits, Kind, RunningDump, RuntimeDump, RuntimeInner};
use crate::sync::Arc;
use crate::sync::probe::Actor;

/// Those that the crank went on without, and that have not come back. Displays as a line each.
pub(super) struct OutOfSight {
    lines: Vec<String>,
}

impl OutOfSight {
    /// Those of a runtime. `since` says at which step the callback of a dispatcher began that runs, if that is known.
    pub(super) fn of(runtime: &Arc<RuntimeInner>, since: &dyn Fn(u64) -> Option<u64>) -> Self {
        let outside: Vec<_> = runtime.pools().iter().flat_map(|pool| pool.batons().outside()).collect();
        if outside.is_empty() {
            return OutOfSight { lines: Vec::new() };
        }
        let dump = RuntimeDump::with_limits(runtime, DumpLimits::NONE);
        let all = || dump.drivers.iter().flat_map(|driver| &driver.dispatchers);
        let lines = outside.into_iter().map(|(actor, label)| match (actor, label) {
            (Some(Actor::Dispatcher(id)), _) => {
                let found = all().find(|one| one.id == id);
                found.map_or_else(|| "a dispatcher that is gone".to_owned(), |one| line(one, since(id)))
            }
            (Some(Actor::Driver(id)), _) => {
                let found = dump.drivers.iter().find(|driver| driver.id == id);
                format!("an observer of driver {}", found.map_or("that is gone", |driver| &driver.name))
            }
            (_, Some("work of a lane")) => {
                let offloads = all().flat_map(|one| one.pending.iter().map(move |pending| (one, pending)));
                let offloads = offloads.filter(|(_, pending)| pending.kind == Kind::Offload && !pending.is_ready);
                let offloads =
                    offloads.map(|(one, pending)| format!("{}/{}: {}", one.driver, one.name, pending.posted_from));
                format!("work of a lane, of one of: {}", offloads.collect::<Vec<_>>().join(", "))
            }
            (_, label) => label.unwrap_or("a callback").to_owned(),
        });
        OutOfSight { lines: lines.collect() }
    }

    /// Whether there is nobody.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

fn line(dispatcher: &DispatcherDump, since: Option<u64>) -> String {
    let DispatcherDump { driver, name, running, .. } = dispatcher;
    let since = since.map_or_else(String::new, |step| format!(", since step {step}"));
    let blocking = running.iter().filter(|running| running.waits_for.is_none());
    let what = blocking.map(|RunningDump { what, posted_from, type_name, .. }| match posted_from {
        Some(at) => format!("the {what} of {at} ({type_name})"),
        None => format!("the {what}"),
    });
    format!("{driver}/{name}: {}{since}", what.collect::<Vec<_>>().join(", or "))
}

impl fmt::Display for OutOfSight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
