//! A dump as JSON, for programs. `docs/src/how-to/read-a-dump.md` has the schema.
//!
//! What is written is plain: objects, arrays, text, whole numbers, booleans and `null`. So it is written by hand, and the
//! package needs no serializer for a thing that is done rarely.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::{
    Counters, DispatcherDump, DriverDump, LaneDump, LongestDump, Named, ObservingDump, PendingDump, PlaceDump,
    PoolDump, RunningDump, RuntimeDump, ThreadDump, ThreadName,
};
use crate::site::Site;

/// The version of the schema. It grows when a field goes or changes its meaning; new fields do not change it.
const VERSION: u32 = 1;

/// What can be written.
trait ToJson {
    fn write(&self, out: &mut String);
}

/// The fields of one object, in their order.
struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

fn object(out: &mut String, fields: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    fields(&mut Object { out, is_empty: true });
    out.push('}');
}

impl Object<'_> {
    fn field(&mut self, name: &str, value: impl ToJson) -> &mut Self {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        name.write(self.out);
        self.out.push(':');
        value.write(self.out);
        self
    }
}

impl ToJson for str {
    fn write(&self, out: &mut String) {
        out.push('"');
        for c in self.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => write_display(out, format_args!("\\u{:04x}", u32::from(c))),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn write_display(out: &mut String, value: impl Display) {
    // A string takes everything.
    let _ = write!(out, "{value}");
}

macro_rules! as_displayed {
    ($($number:ty),*) => { $(impl ToJson for $number {
        fn write(&self, out: &mut String) {
            write_display(out, self);
        }
    })* };
}

as_displayed!(bool, u32, u64, usize);

impl ToJson for Duration {
    /// In nanoseconds.
    fn write(&self, out: &mut String) {
        write_display(out, self.as_nanos());
    }
}

impl ToJson for Site {
    fn write(&self, out: &mut String) {
        self.to_string().as_str().write(out);
    }
}

impl ToJson for String {
    fn write(&self, out: &mut String) {
        self.as_str().write(out);
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn write(&self, out: &mut String) {
        T::write(self, out);
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn write(&self, out: &mut String) {
        out.push('[');
        for (nth, value) in self.iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            value.write(out);
        }
        out.push(']');
    }
}

/// Numbers by name.
struct Numbers<I>(I);

impl<'a, N: ToJson, I: Iterator<Item = (&'a str, N)> + Clone> ToJson for Numbers<I> {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            for (name, number) in self.0.clone() {
                object.field(name, number);
            }
        });
    }
}

impl ToJson for Counters {
    fn write(&self, out: &mut String) {
        let Counters { accepted, ran, canceled, taken_back, pending, refused } = *self;
        object(out, |object| {
            object.field("accepted", accepted).field("ran", ran).field("canceled", canceled);
            object.field("taken_back", taken_back).field("pending", pending).field("refused", refused);
        });
    }
}

impl ToJson for Named {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("id", self.id).field("name", &self.name);
        });
    }
}

impl ToJson for PlaceDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("driver", &self.driver).field("dispatcher", &self.dispatcher);
        });
    }
}

impl ToJson for ThreadName {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("name", &self.name).field("os_id", self.os_id);
        });
    }
}

impl ToJson for ThreadDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("name", &self.thread.name).field("os_id", self.thread.os_id);
            object.field("is_base", self.is_base).field("runs", &self.runs);
        });
    }
}

impl ToJson for LaneDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("lane", self.lane).field("workers", self.workers).field("idle", self.idle);
            object.field("limit", self.limit).field("waiting", self.waiting).field("started", self.started);
        });
    }
}

impl ToJson for PoolDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("role", &self.role).field("base", self.base).field("extra", self.extra);
            object.field("reserved", self.reserved).field("limit", self.limit);
            object.field("added", self.added).field("retired", self.retired);
            object.field("threads", &self.threads).field("threads_not_listed", self.threads_not_listed);
            object.field("lanes", &self.lanes);
        });
    }
}

impl ToJson for RunningDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("thread", &self.thread).field("what", self.what).field("type", self.type_name);
            object.field("posted_at", self.posted_from).field("running_ns", self.running_for);
            object.field("waits_for", self.waits_for).field("waits_on", &self.waits_on);
        });
    }
}

impl ToJson for PendingDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("kind", self.kind.as_str()).field("queue", self.queue).field("is_ready", self.is_ready);
            object.field("type", self.type_name).field("posted_at", self.posted_from);
            object.field("posted_by", &self.posted_by).field("age_ns", self.age);
        });
    }
}

impl ToJson for LongestDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("what", self.what).field("type", self.type_name);
            object.field("posted_at", self.posted_from).field("ran_ns", self.ran_for);
        });
    }
}

impl ToJson for ObservingDump {
    fn write(&self, out: &mut String) {
        object(out, |object| {
            object.field("thread", &self.thread).field("running_ns", self.running_for);
        });
    }
}

impl DispatcherDump {
    fn write_fields(&self, object: &mut Object<'_>) {
        let deferred = self.deferred.iter().map(|(reason, count)| (reason.as_str(), *count));
        object.field("id", self.id).field("name", &self.name);
        object.field("driver", Named { id: self.driver_id, name: Some(self.driver.clone()) });
        object.field("role", &self.role).field("synchronized", self.synchronized);
        object.field("allows_sync_calls", self.allows_sync_calls);
        object.field("no_thread_migration", self.no_thread_migration);
        object.field("state", self.state.as_str()).field("counters", self.counters);
        object.field("futures", self.futures).field("queues", Numbers(self.queues.iter().copied()));
        object.field("longest_queue", self.longest_queue).field("longest_callback", &self.longest_callback);
        object.field("posted", self.posted).field("late_reads", self.late_reads).field("inlined", self.inlined);
        object.field("deferred", Numbers(deferred)).field("running", &self.running);
        object.field("pending", &self.pending).field("pending_not_listed", self.pending_not_listed);
        object.field("waiting_for_idle", self.waiting_for_idle);
    }

    /// The dump as a JSON object, in one line. Its schema is in the book, on the page "Read a dump".
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        object(&mut out, |object| {
            self.write_fields(object.field("version", VERSION));
        });
        out
    }
}

impl ToJson for DispatcherDump {
    fn write(&self, out: &mut String) {
        object(out, |object| self.write_fields(object));
    }
}

impl DriverDump {
    fn write_fields(&self, object: &mut Object<'_>) {
        object.field("id", self.id).field("name", &self.name).field("state", self.state.as_str());
        object.field("counters", self.counters).field("panics", self.panics).field("threads", self.threads);
        object.field("is_suspended", self.is_suspended);
        object.field("observing", &self.observing).field("dispatchers", &self.dispatchers);
        object.field("dispatchers_not_listed", self.dispatchers_not_listed);
    }

    /// The dump as a JSON object, in one line. Its schema is in the book, on the page "Read a dump".
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        object(&mut out, |object| {
            self.write_fields(object.field("version", VERSION));
        });
        out
    }
}

impl ToJson for DriverDump {
    fn write(&self, out: &mut String) {
        object(out, |object| self.write_fields(object));
    }
}

impl RuntimeDump {
    /// The dump as a JSON object, in one line. Its schema is in the book, on the page "Read a dump".
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        object(&mut out, |object| {
            object.field("version", VERSION).field("runtime", &self.name).field("at_ns", self.at.as_nanos());
            object.field("made_in", &self.made_in).field("threads", self.threads).field("pools", &self.pools);
            object.field("counters", self.counters).field("drivers", &self.drivers);
            object.field("drivers_not_listed", self.drivers_not_listed);
        });
        out
    }
}
