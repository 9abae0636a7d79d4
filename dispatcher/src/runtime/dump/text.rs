//! A dump as text, for people. The page `docs/src/how-to/read-a-dump.md` explains it line by line.

use std::fmt::{self, Display, Formatter, Write};

use super::{
    Counters, DispatcherDump, DriverDump, LaneDump, Named, PlaceDump, PoolDump, RunningDump, RuntimeDump, ThreadName,
};
use crate::runtime::shown::{Quoted, Shown};
use crate::site::Site;

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {}", self.id, Quoted(name)),
            None => write!(f, "{} (gone)", self.id),
        }
    }
}

impl Display for PlaceDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.dispatcher {
            Some(dispatcher) => write!(f, "dispatcher {dispatcher} of driver {}", self.driver),
            None => write!(f, "driver {}", self.driver),
        }
    }
}

impl Display for ThreadName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.name, self.os_id) {
            (Some(name), Some(os_id)) => write!(f, "{} ({os_id})", Shown(name)),
            (Some(name), None) => Shown(name).fmt(f),
            (None, Some(os_id)) => write!(f, "thread {os_id}"),
            (None, None) => write!(f, "{:?}", self.id),
        }
    }
}

/// "posted at line (type)", as far as known.
fn write_origin(f: &mut Formatter<'_>, at: Option<Site>, type_name: &str) -> fmt::Result {
    match at {
        Some(site) => write!(f, " posted at {site} ({type_name})"),
        None => Ok(()),
    }
}

impl Display for RunningDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "running on {} for {:?}: {}", self.thread, self.running_for, self.what)?;
        write_origin(f, self.posted_from, self.type_name)?;
        if let Some(what) = self.waits_for {
            write!(f, ", waits for {what}")?;
        }
        match &self.waits_on {
            Some(dispatcher) => write!(f, " from dispatcher {dispatcher}"),
            None => Ok(()),
        }
    }
}

impl DispatcherDump {
    fn write_head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, driver) = (Quoted(&self.name), Quoted(&self.driver));
        write!(f, "dispatcher {} {name} of driver {} {driver}: ", self.id, self.driver_id)?;
        f.write_str(if self.synchronized { "synchronized" } else { "unsynchronized" })?;
        if self.allows_sync_calls {
            f.write_str(", allows sync calls")?;
        }
        if self.no_thread_migration {
            f.write_str(", stays on one thread")?;
        }
        if !self.role.is_empty() {
            write!(f, ", role {}", Quoted(&self.role))?;
        }
        writeln!(f, ", {}", self.state)
    }

    fn write_numbers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Counters { accepted, ran, canceled, taken_back, pending, refused } = self.counters;
        writeln!(
            f,
            "  {accepted} accepted = {ran} ran + {canceled} canceled + {taken_back} taken back + {pending} pending; {refused} refused"
        )?;
        write!(f, "  {} posted, {} inline", self.posted, self.inlined)?;
        if self.late_reads > 0 {
            write!(f, ", {} read late", self.late_reads)?;
        }
        for (reason, count) in self.deferred.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {count} deferred ({})", reason.as_str())?;
        }
        writeln!(f)?;
        let futures = (self.futures > 0).then_some(("futures", self.futures));
        let queues = self.queues.iter().copied().filter(|(_, len)| *len > 0).chain(futures);
        let queues: Vec<_> = queues.map(|(name, len)| format!("{name} {len}")).collect();
        let queues = if queues.is_empty() { "nothing".to_owned() } else { queues.join(", ") };
        write!(f, "  holds {queues}; longest queue so far {}", self.longest_queue)?;
        if let Some(longest) = &self.longest_callback {
            write!(f, "; longest callback so far {:?}: {}", longest.ran_for, longest.what)?;
            write_origin(f, longest.posted_from, longest.type_name)?;
        }
        writeln!(f)
    }
}

impl Display for DispatcherDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_numbers(f)?;
        for running in &self.running {
            writeln!(f, "  {running}")?;
        }
        for pending in &self.pending {
            let state = if pending.is_ready { "queued" } else { "waiting" };
            write!(f, "  {state} for {:?}: {}", pending.age, pending.kind.as_str())?;
            write_origin(f, Some(pending.posted_from), pending.type_name)?;
            match &pending.posted_by {
                Some(place) => writeln!(f, " by {place}")?,
                None => writeln!(f)?,
            }
        }
        if self.pending_not_listed > 0 {
            writeln!(f, "  and {} more", self.pending_not_listed)?;
        }
        if self.waiting_for_idle > 0 {
            writeln!(f, "  {} threads wait until it is idle", self.waiting_for_idle)?;
        }
        Ok(())
    }
}

impl DriverDump {
    fn write_head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "driver {} {}: {}{}, {} threads inside, {} panics",
            self.id,
            Quoted(&self.name),
            self.state,
            if self.is_suspended { ", suspended" } else { "" },
            self.threads,
            self.panics
        )?;
        match &self.observing {
            Some(observing) => {
                writeln!(f, "  running on {} for {:?}: driver observer", observing.thread, observing.running_for)
            }
            None => Ok(()),
        }
    }
}

impl Display for DriverDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.dispatchers.iter().try_for_each(|dispatcher| dispatcher.fmt(f))?;
        if self.dispatchers_not_listed > 0 {
            writeln!(f, "  and {} more dispatchers", self.dispatchers_not_listed)?;
        }
        Ok(())
    }
}

impl Display for PoolDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pool of role {}: {} base threads, {} added, limit {}",
            Quoted(&self.role),
            self.base,
            self.extra,
            self.limit
        )?;
        if self.added > 0 {
            write!(f, "; {} added so far, {} retired", self.added, self.retired)?;
        }
        match self.reserved {
            0 => writeln!(f)?,
            reserved => writeln!(f, "; {reserved} dispatchers allow sync calls")?,
        }
        for thread in &self.threads {
            let kind = if thread.is_base { "base" } else { "added" };
            match &thread.runs {
                Some(place) => writeln!(f, "  {}, {kind}: in {place}", thread.thread)?,
                None => writeln!(f, "  {}, {kind}: in no callback", thread.thread)?,
            }
        }
        if self.threads_not_listed > 0 {
            writeln!(f, "  and {} more threads", self.threads_not_listed)?;
        }
        for LaneDump { lane, workers, idle, limit, waiting, started } in
            self.lanes.iter().filter(|lane| lane.started > 0 || lane.waiting > 0)
        {
            writeln!(
                f,
                "  lane {lane}: {workers} workers of {limit}, {idle} of them idle, {waiting} waiting, {started} started so far"
            )?;
        }
        Ok(())
    }
}

impl Display for RuntimeDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "runtime {}: {} threads", Quoted(&self.name), self.threads)?;
        if let Some(place) = &self.made_in {
            writeln!(f, "dump made in {place}")?;
        }
        self.pools.iter().try_for_each(|pool| pool.fmt(f))?;
        self.drivers.iter().try_for_each(|driver| driver.fmt(f))?;
        if self.drivers_not_listed > 0 {
            writeln!(f, "and {} more drivers", self.drivers_not_listed)?;
        }
        Ok(())
    }
}

impl RuntimeDump {
    /// Only what keeps a shutdown from ending, as text: the observers of drivers that run, the dispatchers on which
    /// something runs or waits, and the threads that are inside of something.
    pub fn stuck(&self) -> String {
        let mut text = String::new();
        for driver in &self.drivers {
            let head = Head(driver);
            if driver.observing.is_some() {
                // A string takes everything.
                let _ = write!(text, "{head}");
            }
            for dispatcher in driver.dispatchers.iter().filter(|dispatcher| dispatcher.is_busy()) {
                let _ = write!(text, "{dispatcher}");
            }
        }
        for (role, thread, place) in self.busy_threads() {
            let of_role = if role.is_empty() { String::new() } else { format!(" of role {}", Quoted(role)) };
            let _ = writeln!(text, "thread {}{of_role}: in {place}", thread.thread);
        }
        if text.is_empty() { "  nothing that runs or waits\n".to_owned() } else { text }
    }
}

/// The first lines of a driver alone.
struct Head<'a>(&'a DriverDump);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write_head(f)
    }
}
