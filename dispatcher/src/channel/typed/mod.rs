//! Clients and servers: a protocol is three Rust types, and its values move from one driver to another as they are.
//!
//! A client sends requests, with or without waiting for the reply; a server replies and sends events by itself. Nothing is
//! serialised: a value travels as a handle of a message, and is dropped wherever its message is, read or not. That works
//! between drivers of one image; whoever reads a value of another image, or of another protocol, is told
//! [`Status::WrongType`](crate::Status::WrongType), and the value is dropped by the code that it came with. Protocols that
//! cross images are bytes with a published layout.
//!
//! | file | noun |
//! |---|---|
//! | `client` | the side that asks |
//! | `server` | the side that answers; requests, responders |
//! | `envelope` | a value in a message, and out of it |
//! | `listen` | one handler for whatever comes, until it ends |

mod client;
mod envelope;
mod listen;
mod server;
#[cfg(all(test, not(any(loom, shuttle))))]
mod typed_tests;

pub use client::Client;
pub use envelope::ReceiveError;
pub use server::{Incoming, Responder, Server};

use super::{Limits, Message};
use crate::status::Status;

/// What a client and a server say to each other. It is implemented by a type that stands for the protocol and is nothing
/// else.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{Client, Incoming, Protocol, Status};
///
/// /// A thermometer.
/// struct Thermometer;
///
/// enum Request {
///     Read,
///     SetAlarm { above: f64 },
/// }
///
/// struct Alarm(f64);
///
/// impl Protocol for Thermometer {
///     type Request = Request;
///     type Reply = f64;
///     type Event = Alarm;
/// }
///
/// let (client, server) = Client::<Thermometer>::pair();
/// client.send(Request::SetAlarm { above: 20.0 })?;
/// match server.try_next()? {
///     Incoming::OneWay(Request::SetAlarm { above }) => server.send_event(Alarm(above + 1.5))?,
///     _ => unreachable!("that was sent"),
/// }
/// assert_eq!(client.try_event()?.0, 21.5);
/// # Ok::<(), Status>(())
/// ```
pub trait Protocol: 'static {
    /// What a client sends.
    type Request: Send + 'static;
    /// What a server answers to a call.
    type Reply: Send + 'static;
    /// What a server sends by itself.
    type Event: Send + 'static;
}

// For futures, which stand in a layer above.

/// The message of a request.
pub(crate) fn sealed_request<P: Protocol>(request: P::Request) -> Message {
    envelope::seal(envelope::Request::<P>(request))
}

/// The request of a message that was not sent.
pub(crate) fn request_of<P: Protocol>(message: Message) -> P::Request {
    envelope::unseal::<envelope::Request<P>>(message).0
}

/// The request in a message that came.
pub(crate) fn take_request<P: Protocol>(server: &Server<P>, message: Message) -> Result<Incoming<P>, Status> {
    server.take(message).map_err(Status::from)
}

/// The reply in the answer to a call.
pub(crate) fn take_reply<P: Protocol>(message: Message) -> Result<P::Reply, Status> {
    envelope::open::<envelope::Answer<P>>(message).0?.0
}

/// The event in a message that came.
pub(crate) fn take_event<P: Protocol>(message: Message) -> Result<P::Event, Status> {
    Ok(envelope::open::<envelope::Event<P>>(message).0?.0)
}

/// A connected client and server.
fn pair<P: Protocol>(limits: Limits) -> (Client<P>, Server<P>) {
    let (near, far) = super::Channel::pair_with(limits);
    (Client::from_channel(near), Server::from_channel(far))
}
