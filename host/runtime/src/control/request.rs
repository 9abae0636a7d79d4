//! What may be asked, and how a line becomes a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::PROTOCOL;

/// How long a request that waits does so, unless it says.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What a host can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Who the host is.
    Hello {},
    /// The drivers of the manifest.
    Ps {},
    /// The nodes.
    Tree {},
    /// What dispatchers do and hold.
    Dump {
        /// Those of one driver only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
        /// How it is written.
        #[serde(default)]
        format: DumpFormat,
    },
    /// Stop a driver, or what is on a node.
    Stop {
        /// The name of the driver, or the path of the node.
        target: String,
        /// How long to wait for it; 0: not at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Start a driver that was stopped.
    Start {
        /// As of `Stop`.
        target: String,
        /// As of `Stop`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Stop a driver and start it again.
    Restart {
        /// As of `Stop`.
        target: String,
        /// As of `Stop`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Run one more driver.
    Load(Load),
    /// Run a driver no more.
    Unload {
        /// Its name.
        name: String,
        /// As of `Stop`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Why a node has the driver that it has.
    Explain {
        /// The path of the node.
        node: String,
    },
    /// Offer a node anew.
    Rematch {
        /// The path of the node.
        node: String,
    },
    /// The last log lines, and those that come.
    Logs {
        /// Whether to wait for further ones.
        #[serde(default)]
        follow: bool,
        /// Those about one driver only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
        /// How many of those that there are; all of them unless it is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<usize>,
    },
    /// Wait until the host, or a driver, is in a state.
    Wait {
        /// The state.
        #[serde(rename = "for")]
        state: WaitFor,
        /// The driver; the host unless it is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
        /// For how long; 30 seconds unless it is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Read the manifest again.
    Reload {},
}

/// One more driver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// What it is to be called; its own name unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The driver; the only one of the module unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The file of the module, with its whole path; one that is found unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Configuration: `KEY=VALUE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// How long to wait until it runs; 0: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// How a dump is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DumpFormat {
    /// For people.
    #[default]
    Text,
    /// As a JSON object.
    Json,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitFor {
    /// Of the host: every driver has started. Of a driver: it runs.
    Running,
    /// Of the host: no driver is left. Of a driver: nothing of it is left, whatever the reason.
    Stopped,
    /// Of a driver only: it failed for good.
    Failed,
}

/// How a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// For programs.
    pub(super) kind: &'static str,
    /// For people.
    pub(super) message: String,
    /// Whether whoever talks like that is not talked to any more.
    pub(super) is_last: bool,
}

impl Refusal {
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), is_last: false }
    }

    pub(super) fn last(kind: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { is_last: true, ..Refusal::new(kind, message) }
    }
}

/// A line as a request, with what its sender calls it.
pub(super) fn parse(line: &[u8]) -> (Value, Result<Request, Refusal>) {
    let shape = "a request is one JSON object in one line, such as {\"version\":1,\"command\":\"ps\"}";
    let mut object: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return (Value::Null, Err(Refusal::last("bad-request", format!("this is no object; {shape}")))),
        Err(error) => {
            return (Value::Null, Err(Refusal::last("bad-request", format!("this is no JSON ({error}); {shape}"))));
        }
    };
    let id = object.remove("id").unwrap_or(Value::Null);
    match object.remove("version") {
        Some(version) if version == PROTOCOL => {}
        Some(version) => {
            let message = format!("this host speaks version {PROTOCOL} of the protocol, and this is version {version}");
            return (id, Err(Refusal::new("version", message)));
        }
        None => return (id, Err(Refusal::new("version", format!("the `version` is missing; {shape}")))),
    }
    let request = serde_json::from_value(Value::Object(object));
    (id, request.map_err(|error| Refusal::new("bad-request", error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Value, Refusal) {
        let (id, request) = parse(line.as_bytes());
        (id, request.expect_err(line))
    }

    #[test]
    fn a_request_is_an_object_with_its_version_and_keeps_its_id() {
        let (id, request) = parse(br#"{"version":1,"id":"x7","command":"stop","target":"nbd"}"#);
        assert_eq!((id, request), (Value::from("x7"), Ok(Request::Stop { target: "nbd".into(), wait_ms: None })));
        let (_, request) = parse(br#"{"version":1,"command":"load","module":"/m.so","set":["a=1"]}"#);
        let load = Load { module: Some("/m.so".into()), set: vec!["a=1".into()], ..Load::default() };
        assert_eq!(request, Ok(Request::Load(load)));
    }

    #[test]
    fn what_is_no_request_is_refused_for_good_and_what_is_a_wrong_one_is_not() {
        for line in ["", "ps", "[1]", "\"ps\"", "{\"version\":1", "\u{0}\u{1}"] {
            assert!(refused(line).1.is_last, "{line}");
        }
        for (line, kind, part) in [
            (r#"{"version":2,"id":3,"command":"ps"}"#, "version", "and this is version 2"),
            (r#"{"command":"ps","id":3}"#, "version", "is missing"),
            (r#"{"version":1,"id":3}"#, "bad-request", "command"),
            (r#"{"version":1,"id":3,"command":"pz"}"#, "bad-request", "expected one of `hello`, `ps`"),
            (r#"{"version":1,"id":3,"command":"ps","all":true}"#, "bad-request", "all"),
            (r#"{"version":1,"id":3,"command":"stop"}"#, "bad-request", "target"),
            (r#"{"version":1,"id":3,"command":"wait","for":"ever"}"#, "bad-request", "ever"),
        ] {
            let (id, refusal) = refused(line);
            assert_eq!((id, refusal.kind, refusal.is_last), (Value::from(3), kind, false), "{line}");
            assert!(refusal.message.contains(part), "{line}: {}", refusal.message);
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let line = format!("{{\"version\":1,\"command\":{}", "[".repeat(10_000));
        assert!(refused(&line).1.is_last);
    }

    #[test]
    fn a_request_is_written_as_it_is_read() {
        let request = Request::Wait { state: WaitFor::Stopped, driver: Some("nbd".into()), timeout_ms: None };
        let mut value = serde_json::to_value(&request).unwrap();
        value["version"] = PROTOCOL.into();
        assert_eq!(parse(value.to_string().as_bytes()).1, Ok(request));
    }
}
