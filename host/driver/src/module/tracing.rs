//! Events of `tracing` in a module, as lines of the host's log.
//!
//! Events keep their level, target, message and fields. Spans are not recorded one by one: what a span says is put in
//! front of the events inside of it, as the field `span`, `outer{peer=…}:inner{id=…}`, which is what a host's log
//! would print of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, Metadata, Subscriber, dispatcher};

use crate::Level;
use crate::abi::{host_logs, log_to_host};

/// Makes the host's log what this image's events go to. A driver that has set up a subscriber of its own keeps it.
pub(super) fn forward() {
    // Somebody was faster: the image's own constructors, then.
    let _ = dispatcher::set_global_default(Dispatch::new(Forward::default()));
}

#[derive(Debug, Default)]
struct Forward {
    /// What was given last; the first is 1.
    last: AtomicU64,
    spans: Mutex<HashMap<u64, Span>>,
}

/// A span that somebody has a handle of.
#[derive(Debug)]
struct Span {
    metadata: &'static Metadata<'static>,
    /// ` key=value` of each field.
    fields: String,
    /// The one it is in, which it holds a handle of.
    parent: Option<u64>,
    handles: usize,
}

thread_local! {
    /// The spans that this thread is inside of, the innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The innermost span of this thread; none while the thread ends.
fn innermost() -> Option<u64> {
    ENTERED.try_with(|entered| entered.borrow().last().copied()).ok().flatten()
}

impl Forward {
    /// `outer{a=1}:inner{b=2}`, with the span of this number the last.
    fn describe(&self, innermost: u64) -> String {
        let spans = self.spans();
        let mut found = Vec::new();
        let mut next = Some(innermost);
        while let Some(span) = next.and_then(|id| spans.get(&id)) {
            found.push(match span.fields.trim_start() {
                "" => span.metadata.name().to_owned(),
                fields => format!("{}{{{fields}}}", span.metadata.name()),
            });
            next = span.parent;
        }
        found.reverse();
        found.join(":")
    }

    fn spans(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Span>> {
        // Nothing below panics with it half changed.
        self.spans.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Subscriber for Forward {
    // What the host wants may change, and asking it is cheap where the level alone decides.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        host_logs(level_of(metadata) as u32, metadata.target())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        // ORDERING: Relaxed; only the number is shared.
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if attributes.is_contextual() => innermost(),
            None => None,
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = Span { metadata: attributes.metadata(), fields: fields.joined(), parent, handles: 1 };
        let mut spans = self.spans();
        if let Some(parent) = parent.and_then(|parent| spans.get_mut(&parent)) {
            parent.handles += 1;
        }
        spans.insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        // Values are formatted with no lock held: their code may log.
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = self.spans().get_mut(&span.into_u64()) {
            span.fields.push_str(&fields.joined());
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = match event.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if event.is_contextual() => innermost(),
            None => None,
        };
        let span = span.map(|id| self.describe(id));
        let mut pairs: Vec<(&str, &str)> = Vec::with_capacity(fields.others.len() + 1);
        if let Some(span) = &span {
            pairs.push(("span", span));
        }
        pairs.extend(fields.others.iter().map(|(name, value)| (*name, value.as_str())));
        log_to_host(level_of(metadata) as u32, metadata.target(), &fields.message, &pairs);
    }

    fn enter(&self, span: &Id) {
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            if let Some(at) = entered.iter().rposition(|&id| id == span.into_u64()) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let (mut next, mut closed) = (Some(id.into_u64()), false);
        while let Some(id) = next {
            let Some(span) = spans.get_mut(&id) else { break };
            span.handles -= 1;
            if span.handles > 0 {
                break;
            }
            next = spans.remove(&id).and_then(|span| span.parent);
            closed = true;
        }
        closed
    }

    fn current_span(&self) -> Current {
        let span = innermost().and_then(|id| Some((Id::from_u64(id), self.spans().get(&id)?.metadata)));
        span.map_or_else(Current::none, |(id, metadata)| Current::new(id, metadata))
    }
}

/// The fields of an event or a span, as text.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    fn joined(&self) -> String {
        self.others.iter().fold(String::new(), |mut text, (name, value)| {
            // Writing into a string does not fail.
            let _ = write!(text, " {name}={value}");
            text
        })
    }

    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string());
    }
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing_core::Level::ERROR => Level::Error,
        tracing_core::Level::WARN => Level::Warn,
        tracing_core::Level::INFO => Level::Info,
        tracing_core::Level::DEBUG => Level::Debug,
        tracing_core::Level::TRACE => Level::Trace,
    }
}
