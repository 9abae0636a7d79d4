//! What is said to each request.

use std::ops::Deref;
use std::time::{Duration, Instant};

use fuchsine_dispatcher::RuntimeDump;
use serde_json::{Value, json};

use super::request::{DumpFormat, Load, PATIENCE, Refusal, Request, WaitFor};
use super::server::Serving;
use crate::apart::Dumped;
use crate::host::{DriverInfo, DriverState, HostState, NodeInfo, Target};
use crate::supervisor::{Explanation, Offer, OfferVerdict, OperateError};

/// How long a wait goes on without a look at whether anybody is still there.
const SLICE: Duration = Duration::from_millis(100);

/// How long the processes of drivers have to tell what they do, all together.
const DUMP_PATIENCE: Duration = Duration::from_secs(1);

type Answer = Result<Value, Refusal>;

/// A request of one client. What takes long ends when that client has gone.
pub(super) struct Asked<'a> {
    pub(super) serving: &'a Serving,
    pub(super) has_gone: &'a dyn Fn() -> bool,
}

impl Deref for Asked<'_> {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        self.serving
    }
}

impl Asked<'_> {
    /// The answer to all requests but `Logs`, which has many.
    pub(super) fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Hello {} => Ok(self.hello()),
            Request::Ps {} => Ok(self.ps()),
            Request::Tree {} => Ok(json!({ "nodes": self.host.nodes().iter().map(node).collect::<Vec<_>>() })),
            Request::Dump { driver, format } => self.dump(driver.as_deref(), format),
            Request::Stop { target, wait_ms } => self.stop(&target, patience(wait_ms)),
            Request::Start { target, wait_ms } => {
                self.host.start_driver(target.as_str()).map_err(refusal)?;
                self.started(&target, patience(wait_ms))
            }
            Request::Restart { target, wait_ms } => self.restart(&target, patience(wait_ms)),
            Request::Load(load) => self.load(&load),
            Request::Unload { name, wait_ms } => {
                let instances = self.host.instances_of(&Target::Driver(name.clone()));
                self.host.remove_driver(&name).map_err(refusal)?;
                self.gone(&name, &instances, patience(wait_ms))
            }
            Request::Explain { node } => match self.host.explain(&node) {
                Some(explanation) => Ok(explained(&explanation)),
                None => Err(refusal(OperateError::NoNode(node))),
            },
            Request::Rematch { node } => {
                self.host.rematch(&node).map_err(refusal)?;
                Ok(json!({}))
            }
            Request::Wait { state, driver, timeout_ms } => {
                let patience = timeout_ms.map_or(PATIENCE, Duration::from_millis);
                match driver {
                    Some(driver) => self.wait_driver(&driver, state, patience),
                    None => self.wait_host(state, patience),
                }
            }
            Request::Reload {} => {
                let changes = self.reload.as_ref().ok_or_else(|| unable("read its manifest again"))?;
                let changes = changes().map_err(|message| Refusal::new("config-invalid", message))?;
                let changes = changes
                    .iter()
                    .map(|one| json!({ "name": one.name, "change": one.kind.to_string(), "text": one.to_string() }));
                Ok(json!({ "changes": changes.collect::<Vec<_>>() }))
            }
            Request::Logs { .. } => Err(unable("tell its log")),
        }
    }

    fn hello(&self) -> Value {
        json!({
            "program": "fuchsine",
            "release": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "state": state_name(self.host.state()),
            "addresses": self.host.live_addresses(),
        })
    }

    fn ps(&self) -> Value {
        let drivers: Vec<_> = self.host.drivers().iter().map(driver).collect();
        json!({ "host": self.hello(), "drivers": drivers })
    }

    fn dump(&self, driver: Option<&str>, format: DumpFormat) -> Answer {
        let mut dump = self.host.dump();
        if let Some(name) = driver {
            if !self.host.drivers().iter().any(|driver| driver.name() == name) {
                return Err(refusal(OperateError::NoDriver(name.to_owned())));
            }
            keep_driver(&mut dump, name);
        }
        let wanted = self.host.drivers().into_iter().filter(|one| driver.is_none_or(|name| one.name() == name));
        let mut processes: Vec<u32> = wanted.flat_map(|one| one.process_ids().to_vec()).collect();
        processes.sort_unstable();
        processes.dedup();
        let processes = self.host.shared().processes().dumps(&processes, DUMP_PATIENCE);
        Ok(match format {
            DumpFormat::Text => {
                let text = processes.iter().fold(dump.to_string(), |text, (pid, dumped)| match dumped {
                    Some(dumped) => format!("{text}\nprocess {pid}:\n{}", dumped.text),
                    None => format!("{text}\nprocess {pid} does not answer\n"),
                });
                json!({ "text": text })
            }
            DumpFormat::Json => {
                let parse = |text: &str| serde_json::from_str::<Value>(text);
                let mut value = parse(&dump.to_json()).map_err(|error| Refusal::new("failed", error.to_string()))?;
                if !processes.is_empty() {
                    let of_one = |(pid, dumped): &(u32, Option<Dumped>)| {
                        let dump = dumped.as_ref().and_then(|dumped| parse(&dumped.json).ok());
                        json!({ "process_id": pid, "dump": dump })
                    };
                    value["processes"] = processes.iter().map(of_one).collect();
                }
                json!({ "dump": value })
            }
        })
    }

    fn stop(&self, target: &str, patience: Duration) -> Answer {
        let instances = self.host.instances_of(&target.into());
        self.host.stop_driver(target).map_err(refusal)?;
        self.gone(target, &instances, patience)
    }

    fn restart(&self, target: &str, patience: Duration) -> Answer {
        let began = Instant::now();
        let instances = self.host.instances_of(&target.into());
        self.host.restart_driver(target).map_err(refusal)?;
        self.gone(target, &instances, patience)?;
        self.started(target, patience.saturating_sub(began.elapsed()))
    }

    fn load(&self, load: &Load) -> Answer {
        let plan = self.load.as_ref().ok_or_else(|| unable("load drivers"))?;
        let planned = plan(load).map_err(|error| Refusal::new("config-invalid", error.render()))?;
        let name = planned.name().to_owned();
        self.host.add_driver(planned).map_err(refusal)?;
        self.started(&name, patience(load.wait_ms))
    }

    /// Waits until these are gone.
    fn gone(&self, target: &str, instances: &[crate::life_cycle::InstanceId], patience: Duration) -> Answer {
        if !self.within(patience, |slice| self.host.wait_gone(instances, slice)) && !patience.is_zero() {
            let message = format!("`{target}` has not stopped in time, and is still stopping");
            return Err(Refusal::new("timed-out", message));
        }
        Ok(self.state_of(target))
    }

    /// Waits until a driver runs, or does not for a reason that more waiting would not change.
    fn started(&self, target: &str, patience: Duration) -> Answer {
        let settled = |slice: Duration| match Target::from(target) {
            Target::Driver(name) => {
                let going = [DriverState::Starting, DriverState::Stopping];
                let over: Vec<_> = DriverState::ALL.into_iter().filter(|state| !going.contains(state)).collect();
                self.host.wait_driver(&name, &over, slice).is_some()
            }
            Target::Node(path) => self.host.wait_settled(&path, slice),
        };
        if !self.within(patience, settled) && !patience.is_zero() {
            return Err(Refusal::new(
                "timed-out",
                format!("`{target}` has not started in time, and is still starting"),
            ));
        }
        let found = self.host.drivers().into_iter().find(|driver| driver.name() == target);
        match found {
            Some(found) if found.state() == DriverState::Failed => {
                Err(Refusal::new("failed", format!("`{target}` {}", found.failure().unwrap_or("failed"))))
            }
            _ => Ok(self.state_of(target)),
        }
    }

    fn state_of(&self, target: &str) -> Value {
        match Target::from(target) {
            Target::Driver(name) => {
                let found = self.host.drivers().into_iter().find(|driver| driver.name() == name);
                let state = found.as_ref().map_or("unloaded", |found| found.state().as_str());
                json!({ "target": target, "state": state, "nodes": found.as_ref().map(on_nodes) })
            }
            Target::Node(path) => {
                let found = self.host.nodes().into_iter().find(|node| node.path() == path);
                let state = found.as_ref().map_or("it is gone", |found| found.state());
                json!({ "target": target, "state": state })
            }
        }
    }

    fn wait_driver(&self, name: &str, wanted: WaitFor, patience: Duration) -> Answer {
        use DriverState::{Done, Failed, Held, Running, Unbound};
        if !self.host.drivers().iter().any(|driver| driver.name() == name) {
            return Err(refusal(OperateError::NoDriver(name.to_owned())));
        }
        // A driver that failed for good will not run by being waited for.
        let states: &[DriverState] = match wanted {
            WaitFor::Running => &[Running, Failed],
            WaitFor::Stopped => &[Held, Done, Failed, Unbound],
            WaitFor::Failed => &[Failed],
        };
        let mut reached = None;
        let in_time = self.within(patience, |slice| {
            reached = self.host.wait_driver(name, states, slice);
            reached.is_some() || !self.host.drivers().iter().any(|driver| driver.name() == name)
        });
        match (wanted, reached) {
            (WaitFor::Running, Some(Failed)) => Err(Refusal::new("failed", format!("`{name}` has failed"))),
            (WaitFor::Stopped, None) if in_time => Ok(json!({ "target": name, "state": "unloaded" })),
            (_, Some(state)) => Ok(json!({ "target": name, "state": state.as_str() })),
            (_, None) if in_time => Err(refusal(OperateError::NoDriver(name.to_owned()))),
            (_, None) => Err(Refusal::new("timed-out", format!("the time is up, and `{name}` is not there"))),
        }
    }

    fn wait_host(&self, wanted: WaitFor, patience: Duration) -> Answer {
        let is_reached = |state: HostState| match wanted {
            WaitFor::Running => state != HostState::Starting,
            WaitFor::Stopped => state == HostState::Stopped,
            WaitFor::Failed => true,
        };
        if wanted == WaitFor::Failed {
            return Err(Refusal::new("bad-request", "to wait for a failure, say of which driver"));
        }
        let in_time = self.within(patience, |slice| self.host.wait_state(is_reached, slice));
        let state = self.host.state();
        match (in_time, wanted, state) {
            (false, ..) => {
                let waiting: Vec<_> = self.host.drivers();
                let waiting = waiting.iter().filter(|driver| driver.state() != DriverState::Running);
                let waiting: Vec<_> =
                    waiting.map(|driver| format!("{} ({})", driver.name(), driver.state().as_str())).collect();
                let message = format!("the time is up, and the host is {}; {}", state_name(state), waiting.join(", "));
                Err(Refusal::new("timed-out", message.trim_end_matches("; ").to_owned()))
            }
            (true, WaitFor::Running, HostState::Stopping | HostState::Stopped) => {
                Err(Refusal::new("failed", "the host stops"))
            }
            _ => Ok(json!({ "state": state_name(state) })),
        }
    }

    /// Waits by slices, until it has come, the time is up, the client has gone or the server ends. Gives whether it has come.
    fn within(&self, patience: Duration, mut wait: impl FnMut(Duration) -> bool) -> bool {
        // What is longer than a day is for ever.
        let until = Instant::now() + patience.min(Duration::from_secs(86_400 * 365));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if wait(left.min(SLICE)) {
                return true;
            }
            if left.is_zero() || self.is_ending() || (self.has_gone)() {
                return false;
            }
        }
    }
}

fn patience(wait_ms: Option<u64>) -> Duration {
    wait_ms.map_or(PATIENCE, Duration::from_millis)
}

fn unable(to: &str) -> Refusal {
    Refusal::new("unsupported", format!("this host cannot {to}"))
}

fn refusal(error: OperateError) -> Refusal {
    let kind = match error {
        OperateError::NoDriver(_) | OperateError::NoNode(_) | OperateError::NotBound(_) => "not-found",
        OperateError::Exists(_) | OperateError::Part(..) => "conflict",
        OperateError::Stopping | OperateError::NotBegun => "not-running",
    };
    Refusal::new(kind, error.to_string())
}

fn state_name(state: HostState) -> &'static str {
    match state {
        HostState::Starting => "starting",
        HostState::Running => "running",
        HostState::Stopping => "stopping",
        HostState::Stopped => "stopped",
    }
}

/// What belongs to one driver: also what it ends on, and the bridges to its process.
fn keep_driver(dump: &mut RuntimeDump, name: &str) {
    let ends_on = format!("{name} (stop)");
    let process = format!("{name} (process ");
    let is_of_it = |found: &str| found == name || found == ends_on || found.starts_with(&process);
    dump.drivers.retain(|driver| is_of_it(&driver.name));
}

fn on_nodes(info: &DriverInfo) -> Value {
    let running = info.instances().iter().map(|(path, phase)| json!({ "path": path, "phase": phase.as_str() }));
    running.collect()
}

fn driver(info: &DriverInfo) -> Value {
    let counters = info.counters();
    json!({
        "name": info.name(),
        "driver": info.driver(),
        "release": info.version(),
        "module": info.module().map(|path| path.to_string_lossy()),
        "state": info.state().as_str(),
        "nodes": on_nodes(info),
        "left": info.left(),
        "process": info.process(),
        "process_ids": info.process_ids(),
        "failure": info.failure(),
        "accepted": counters.accepted,
        "ran": counters.ran,
        "canceled": counters.canceled,
        "pending": counters.pending,
    })
}

fn properties(all: &crate::node::Properties) -> Value {
    all.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<serde_json::Map<_, _>>().into()
}

fn node(info: &NodeInfo) -> Value {
    json!({
        "path": info.path(),
        "properties": properties(info.properties()),
        "services": info.services(),
        "driver": info.driver(),
        "phase": info.phase().map(crate::Phase::as_str),
        "state": info.state(),
        "process_id": info.process(),
    })
}

fn explained(explanation: &Explanation) -> Value {
    let offer = |offer: &Offer| {
        let verdict = match &offer.verdict {
            OfferVerdict::Taken => "taken",
            OfferVerdict::Matches(_) => "matches",
            OfferVerdict::Differs(_) => "differs",
            OfferVerdict::OwnNode => "own-node",
        };
        json!({ "driver": offer.driver, "parent": offer.parent, "verdict": verdict, "text": offer.to_string() })
    };
    json!({
        "node": explanation.node,
        "state": explanation.state,
        "driver": explanation.driver,
        "properties": properties(&explanation.properties),
        "offers": explanation.offers.iter().map(offer).collect::<Vec<_>>(),
        "text": explanation.to_string(),
    })
}
