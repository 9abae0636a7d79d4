//! What tests of calls share: dispatchers, and messages that are one number.

use crate::common::HANG;
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Instant, Message};
use fuchsine_tests::pools::World;

/// A dispatcher with a driver of its own.
pub(crate) fn on(world: &World, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    world.driver(name).new_dispatcher(builder.name(name)).expect("created")
}

pub(crate) fn bytes(value: u64) -> Message {
    Message::from_bytes(&value.to_le_bytes())
}

pub(crate) fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes().try_into().expect("eight bytes"))
}

/// A deadline that only a hang reaches.
pub(crate) fn hang(world: &World) -> Instant {
    world.runtime().now() + HANG
}

/// The reply to a request, in its arena.
pub(crate) fn reply_to(request: Message, value: u64) -> Message {
    let mut reply = request.recycle(8);
    reply.bytes_mut().copy_from_slice(&value.to_le_bytes());
    reply
}
