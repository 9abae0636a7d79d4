//! [`Config`]: which of it is done, and where.

use std::time::Duration;

use fuchsine_driver::{ConfigKey, ConfigKind};
use serde::Deserialize;

/// Where in its life the driver misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Moment {
    /// In `start`.
    Start,
    /// In a callback that `start` has posted.
    Task,
    /// In a future that `start` has spawned.
    Future,
    /// In the work that `start` has offloaded.
    Work,
    /// In `prepare_stop`.
    PrepareStop,
    /// In a callback that is told `Canceled`.
    Canceled,
    /// In `stop`.
    Stop,
    /// When the value of the driver is dropped.
    Drop,
}

/// How a process ends that somebody ends from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Crash {
    /// `abort`, a signal.
    Abort,
    /// `exit(7)`, past everybody's destructors.
    Exit,
    /// A stack that has no end, which the guard page ends.
    Overflow,
    /// The signal of a wild pointer.
    Segfault,
}

/// The driver's table of the manifest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Where to listen; what is not done in a hook is done when somebody connects.
    pub(crate) trigger: Option<String>,
    pub(crate) panic: Option<Moment>,
    pub(crate) block: Option<Moment>,
    pub(crate) block_for: Option<u64>,
    pub(crate) fail: Option<Moment>,
    pub(crate) crash: Option<Crash>,
    pub(crate) leak: usize,
    pub(crate) leak_handles: bool,
    pub(crate) post_forever: bool,
    pub(crate) thread_locals: bool,
    pub(crate) threads: u32,
    pub(crate) close_everything: bool,
}

const MOMENTS: &str = "start, task, future, work, prepare_stop, canceled, stop or drop";

impl Config {
    pub(crate) const KEYS: &'static [ConfigKey] = &[
        ConfigKey::optional(
            "trigger",
            ConfigKind::Text,
            "",
            "HOST:PORT or unix:/path: whatever is not done in a hook waits for a client there",
        ),
        ConfigKey::optional(
            "panic",
            ConfigKind::Text,
            "",
            "panics in: start, task, future, work, prepare_stop, canceled, stop or drop",
        ),
        ConfigKey::optional("block", ConfigKind::Text, "", "blocks its thread in one of the same"),
        ConfigKey::optional("block_for", ConfigKind::Duration, "", "for how long; else for ever"),
        ConfigKey::optional("fail", ConfigKind::Text, "", "returns an error from: start, prepare_stop or stop"),
        ConfigKey::optional(
            "crash",
            ConfigKind::Text,
            "",
            "ends the process from a task: abort, exit, overflow or segfault",
        ),
        ConfigKey::optional("leak", ConfigKind::Size, "0", "memory that it never gives back, for each start"),
        ConfigKey::optional(
            "leak_handles",
            ConfigKind::Boolean,
            "false",
            "never gives back a dispatcher, a channel and a task",
        ),
        ConfigKey::optional(
            "post_forever",
            ConfigKind::Boolean,
            "false",
            "each callback posts the next, also when it is canceled",
        ),
        ConfigKey::optional(
            "thread_locals",
            ConfigKind::Boolean,
            "false",
            "leaves values with destructors on the host's threads",
        ),
        ConfigKey::optional("threads", ConfigKind::Integer, "0", "threads that it starts and leaves behind"),
        ConfigKey::optional(
            "close_everything",
            ConfigKind::Boolean,
            "false",
            "shuts its own dispatcher down while it runs",
        ),
    ];

    pub(crate) fn block_for(&self) -> Option<Duration> {
        self.block_for.map(Duration::from_millis)
    }

    /// What is wrong with it, if something is.
    pub(crate) fn mistake(&self) -> Option<String> {
        let can_fail = [None, Some(Moment::Start), Some(Moment::PrepareStop), Some(Moment::Stop)];
        (!can_fail.contains(&self.fail))
            .then(|| format!("`fail` is for hooks that return something; of {MOMENTS}: start, prepare_stop, stop"))
    }
}
