//! Table functions: the driver instance, its log and its node's facts.
//!
//! # Invariants
//! - See `load`. A `RawContext` is an `Arc<Instance>`.

use std::slice;
use std::sync::Arc;

use fuchsine_dispatcher::Status;
use fuchsine_driver::DriverContext;
use fuchsine_driver::abi::host::context_as_raw;
use fuchsine_driver::abi::{Property, PropertySink, RawContext, RawDispatcher, Str, TextSink};
use tracing::Level;

use super::{contain_here, own_dispatcher, raw};
use crate::host::Instance;
use crate::log::{self, Origin};

/// # Safety
/// The caller of the table function holds `pointer` for `'a`.
unsafe fn instance<'a>(pointer: *const RawContext) -> &'a Instance {
    // SAFETY: every `RawContext` is an `Arc<Instance>`; the caller vouches for the rest.
    unsafe { super::lend(pointer) }
}

/// The instance of a driver of this image.
pub(crate) fn instance_of(cx: &DriverContext) -> Arc<Instance> {
    let pointer = context_as_raw(cx).cast::<Instance>();
    // SAFETY: every `RawContext` is an `Arc<Instance>`, of which `cx` holds a reference.
    unsafe { Arc::increment_strong_count(pointer) };
    // SAFETY: the reference that was added is this one.
    unsafe { Arc::from_raw(pointer) }
}

pub(super) unsafe extern "C" fn retain(pointer: *const RawContext) {
    // SAFETY: the caller holds a reference.
    unsafe { Arc::increment_strong_count(pointer.cast::<Instance>()) };
}

pub(super) unsafe extern "C" fn release(pointer: *const RawContext) {
    if !pointer.is_null() {
        // SAFETY: the caller gives its reference up.
        unsafe { Arc::decrement_strong_count(pointer.cast::<Instance>()) };
    }
}

pub(super) unsafe extern "C" fn dispatcher(pointer: *const RawContext) -> *const RawDispatcher {
    // SAFETY: the caller holds the context.
    let instance = unsafe { instance(pointer) };
    // A driver gets a context only after its default dispatcher was made.
    instance.default.get().cloned().map_or(std::ptr::null(), own_dispatcher)
}

pub(super) unsafe extern "C" fn name(pointer: *const RawContext, sink: TextSink) {
    // SAFETY: the caller holds the context; the sink is delivered to once.
    unsafe { sink.deliver(&instance(pointer).name) };
}

pub(super) unsafe extern "C" fn config(pointer: *const RawContext, sink: TextSink) {
    // SAFETY: the caller holds the context; the sink is delivered to once.
    unsafe { sink.deliver(&instance(pointer).config) };
}

pub(super) unsafe extern "C" fn fail(pointer: *const RawContext, status: i32, message: Str) {
    // SAFETY: the caller holds the context, and lends the message for the call.
    let (instance, message) = unsafe { (instance(pointer), message.to_text()) };
    let Some(host) = instance.host.upgrade() else { return };
    if status == fuchsine_driver::abi::OK {
        return host.finished(instance.id);
    }
    let reason = match (message.is_empty(), Status::result_of(status)) {
        (true, Err(status)) => status.to_string(),
        (true, Ok(())) => "no reason given".to_owned(),
        (false, _) => message,
    };
    host.ended(instance.id, reason);
}

pub(super) unsafe extern "C" fn publish_address(pointer: *const RawContext, address: Str) -> i32 {
    // SAFETY: the caller holds the context, and lends the address for the call.
    let (instance, address) = unsafe { (instance(pointer), address.to_text()) };
    // The ready line separates addresses by spaces.
    if address.is_empty() || address.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Status::InvalidArgs.as_raw();
    }
    let published = instance.host.upgrade().ok_or(Status::BadState);
    raw(published.and_then(|host| host.publish_address(instance.id, &address)))
}

pub(super) fn level(number: u32) -> Level {
    match number {
        0 | 1 => Level::ERROR,
        2 => Level::WARN,
        3 => Level::INFO,
        4 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// A line that a driver logs, as its own.
pub(super) struct Line {
    level: Level,
    target: String,
    message: String,
    fields: Vec<(String, String)>,
}

impl Line {
    /// # Safety
    /// The strings are readable.
    pub(super) unsafe fn read(number: u32, target: Str, message: Str, fields: &[Property]) -> Line {
        // SAFETY: the caller vouches for the strings.
        let (target, message) = unsafe { (target.to_text(), message.to_text()) };
        // SAFETY: as above.
        let fields = fields.iter().map(|field| unsafe { (field.key.to_text(), field.value.to_text()) }).collect();
        Line { level: level(number), target, message, fields }
    }

    /// Writes it as a line of this instance.
    pub(super) fn write(&self, instance: &Instance) {
        let fields: Vec<(&str, &str)> = self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let origin = Origin { driver: &instance.name, target: &self.target };
        let host = instance.host.upgrade();
        if let Some(observer) = host.as_ref().and_then(|host| host.log_observer()) {
            contain_here(|| log::tell(observer, origin, self.level, &self.message, &fields));
        }
        log::write(origin, self.level, &self.message, &fields);
    }

    /// Writes it as a line of a driver that has no instance here.
    pub(super) fn write_as(&self, driver: &str) {
        let fields: Vec<(&str, &str)> = self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        log::write(Origin { driver, target: &self.target }, self.level, &self.message, &fields);
    }
}

pub(super) unsafe extern "C" fn log(
    pointer: *const RawContext,
    number: u32,
    target: Str,
    message: Str,
    fields: *const Property,
    count: usize,
) {
    // SAFETY: the caller holds the context.
    let instance = unsafe { instance(pointer) };
    let is_observed = instance.host.upgrade().is_some_and(|host| host.log_observer().is_some());
    if !is_observed && level(number) > tracing::level_filters::LevelFilter::current() {
        return;
    }
    let fields = match count {
        0 => &[][..],
        // SAFETY: the caller lends an array of this length for the call.
        _ => unsafe { slice::from_raw_parts(fields, count) },
    };
    // SAFETY: the caller lends the strings for the call.
    unsafe { Line::read(number, target, message, fields) }.write(instance);
}

pub(super) unsafe extern "C" fn log_enabled(pointer: *const RawContext, number: u32, target: Str) -> u32 {
    // SAFETY: the caller holds the context, and lends the target for the call.
    let (instance, target) = unsafe { (instance(pointer), target.to_text()) };
    let is_observed = instance.host.upgrade().is_some_and(|host| host.log_observer().is_some());
    u32::from(is_observed || log::is_enabled(Origin { driver: &instance.name, target: &target }, level(number)))
}

pub(super) unsafe extern "C" fn node_name(pointer: *const RawContext, sink: TextSink) {
    // SAFETY: the caller holds the context; the sink is delivered to once.
    unsafe { sink.deliver(&instance(pointer).node_name) };
}

pub(super) unsafe extern "C" fn node_properties(pointer: *const RawContext, sink: PropertySink) {
    // SAFETY: the caller holds the context.
    let instance = unsafe { instance(pointer) };
    for (key, value) in instance.properties.iter() {
        // SAFETY: the sink is valid for the call.
        unsafe { sink.deliver(key, value) };
    }
}
