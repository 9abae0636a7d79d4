//! A span around each callback, for whoever listens to them: the level of `tracing` has to be `TRACE`.
//!
//! Nothing of it is on the way of a callback otherwise but one look at that level.

use super::callback_queue::{Callback, Outcome, Then};
use super::dispatcher::DispatcherInner;

/// Calls a callback of the dispatcher, inside of a span if somebody listens.
#[inline]
pub(super) fn invoke(dispatcher: &DispatcherInner, callback: &mut Callback, outcome: &Outcome) -> Then {
    if tracing::enabled!(tracing::Level::TRACE) {
        invoke_in_span(dispatcher, callback, outcome)
    } else {
        callback.invoke(outcome)
    }
}

#[cold]
#[inline(never)]
fn invoke_in_span(dispatcher: &DispatcherInner, callback: &mut Callback, outcome: &Outcome) -> Then {
    let (driver, name) = (dispatcher.owner().name(), &*dispatcher.options().name);
    let site = dispatcher.lock().site_here();
    let what = site.and_then(|site| site.type_name()).unwrap_or_else(|| callback.type_name());
    let posted_at = site.map(tracing::field::display);
    let span = tracing::trace_span!("callback", driver, dispatcher = name, what, posted_at, ?outcome);
    let _entered = span.enter();
    callback.invoke(outcome)
}
