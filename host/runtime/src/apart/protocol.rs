//! What host and child say to each other: one JSON text in one message, with the ends of channels that it is about.
//!
//! Both ends are the same program. What comes from a child is checked all the same where it is used: names and properties as
//! those of any driver, a text that makes no sense ends the session.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::process::Sandbox;

/// What a child is told on its command line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// How the process is called.
    pub(super) title: String,
    /// The most that the host may want to log, as `tracing` writes it.
    pub(super) level: String,
    /// Of its pool, if the manifest says how many the host has.
    pub(super) threads: Option<usize>,
    /// What it may do, which it sees to itself before anything else.
    pub(super) sandbox: Option<Sandbox>,
}

/// What a child is told on its control channel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToProcess {
    /// Run this driver; its session comes with it.
    Run(Run),
    /// A request: what do all dispatchers do and hold? The reply is a [`Dumped`].
    Dump,
}

/// A dump of a child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Dumped {
    pub(crate) text: String,
    pub(crate) json: String,
}

/// One driver, on one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// In the manifest.
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) module: Option<PathBuf>,
    pub(super) config: String,
    pub(super) node: String,
    pub(super) properties: Vec<(String, String)>,
    /// Whether a panic ends the process.
    pub(super) aborts: bool,
}

/// What a driver is told in its session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToDriver {
    /// A request: stop. The reply comes when nothing of it is left.
    Stop,
    /// Somebody has connected to a service of this child: the end comes with it.
    Accept { node: String, service: String },
}

/// What a driver says in its session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToHost {
    Started,
    StartFailed {
        message: String,
    },
    Failed {
        message: String,
    },
    Panicked {
        message: String,
    },
    Finished,
    Address {
        address: String,
    },
    /// A request: it connects to a service of its node. The other end comes with it.
    Connect {
        service: String,
    },
    /// A request: it has a child.
    AddChild {
        node: String,
        name: String,
        properties: Vec<(String, String)>,
        services: Vec<String>,
    },
    /// A request: its child is to go. The reply comes when it has gone, and who was bound to it.
    RemoveChild {
        node: String,
    },
}

/// The reply to any request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reply {
    /// What went wrong.
    pub(super) error: Option<String>,
    /// The status of a connection.
    #[serde(default)]
    pub(super) status: i32,
}

/// A line of the log of a child: one packet of a socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LogRecord {
    /// As `tracing` writes it.
    pub(super) level: String,
    /// `None`: it is of the process itself.
    pub(super) driver: Option<String>,
    pub(super) target: String,
    pub(super) message: String,
    pub(super) fields: Vec<(String, String)>,
}

/// As bytes.
pub(super) fn encode(what: &impl Serialize) -> Vec<u8> {
    // Structs of texts and numbers, all of which have a form in JSON.
    serde_json::to_vec(what).unwrap_or_default()
}

/// From bytes.
///
/// # Errors
/// What about them makes no sense.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("a message makes no sense: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let told = ToHost::AddChild {
            node: "/a/b".into(),
            name: "b".into(),
            properties: vec![("protocol".into(), "block".into())],
            services: vec!["block".into()],
        };
        let heard: ToHost = decode(&encode(&told)).unwrap();
        assert_eq!(format!("{heard:?}"), format!("{told:?}"));
        assert!(decode::<ToHost>(b"{\"Unknown\":1}").unwrap_err().contains("makes no sense"));
        assert!(decode::<ToDriver>(b"\xff").is_err());
    }
}
