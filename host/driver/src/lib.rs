//! What a Fuchsine driver is written against.
//!
//! A driver is a type that implements [`Driver`], and a constant [`DriverEntry`] that names it. A host makes an instance
//! of it for each node that it is bound to, and gives it a [`DriverContext`]: a [`Dispatcher`] where its callbacks and
//! futures run, its configuration, a [`Logger`], the [`Node`] it is bound to and the means to add children, sockets
//! ([`net`]), timers ([`sleep`]), and worker threads for what blocks ([`offload`](offload())). It needs no thread of its
//! own and no executor: `async` code runs on the dispatcher.
//!
//! The same source is linked into a host, or loaded as a module, or run in a process of its own: all it knows of the
//! host is a table of C functions, which the module [`abi`] describes.
//!
//! # A driver
//! ```
//! use fuchsine_driver::net::{Listener, Stream};
//! use fuchsine_driver::{ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, StartError, Status, spawn};
//!
//! pub const DRIVER: DriverEntry = DriverEntry::of::<Echo>();
//!
//! pub struct Echo;
//!
//! #[derive(serde::Deserialize)]
//! struct Config {
//!     listen: String,
//! }
//!
//! impl Driver for Echo {
//!     const NAME: &'static str = "echo";
//!     const CONFIG: &'static [ConfigKey] =
//!         &[ConfigKey::optional("listen", ConfigKind::Text, "127.0.0.1:0", "where clients connect")];
//!
//!     async fn start(cx: DriverContext) -> Result<Self, StartError> {
//!         let config: Config = cx.config()?;
//!         let listener = Listener::bind(&config.listen)?;
//!         cx.publish_address(&format!("tcp://{}", listener.local_address()))?;
//!         spawn(async move {
//!             while let Ok((stream, peer)) = listener.accept().await {
//!                 cx.logger().with("peer", peer).info("connected");
//!                 drop(spawn(echo(stream)));
//!             }
//!         })?;
//!         Ok(Echo)
//!     }
//! }
//!
//! async fn echo(stream: Stream) -> Result<(), Status> {
//!     let mut buffer = [0; 4096];
//!     loop {
//!         match stream.read(&mut buffer).await? {
//!             0 => return Ok(()),
//!             count => stream.write_all(&buffer[..count]).await?,
//!         }
//!     }
//! }
//! # assert_eq!(DRIVER.name(), "echo");
//! ```
//! When the host stops the driver, its dispatcher shuts down: both futures are dropped, and with them the sockets. There
//! is nothing else to do, so the driver has no stop hook.
//!
//! # What a driver may rely on
//! - Handles may be used from and dropped on any thread at any time; what they are asked for after the end of the driver
//!   is refused with [`Status::BadState`].
//! - A callback that was accepted ends in exactly one way, and one that was refused comes back inside the error.
//! - Dropping a future takes back whatever it had registered.
//! - A panic never leaves the driver: the host learns of it with its message, stops the driver, and the others do not
//!   notice.

pub mod abi;
pub mod block;
mod call;
mod channel;
mod context;
mod dispatcher;
mod driver;
mod irq;
mod logger;
mod message;
mod module;
pub mod net;
mod node;
mod offload;
mod power;
mod slot;
mod status;
mod task;
#[cfg(test)]
mod tests;
mod time;
mod token;

pub use abi::{ConfigKey, ConfigKind, DriverEntry};
pub use call::{Call, CallError, Txid};
pub use channel::{Channel, Read, WriteError};
pub use context::{ConfigError, DriverContext};
pub use dispatcher::{CreateError, Dispatcher, DispatcherOptions, PostError, SpawnError, TaskHandle, current};
pub use driver::{BindProperty, Driver, StartError, StopError};
pub use irq::{Irq, IrqBinding, IrqEvent, IrqTrigger};
pub use logger::{Level, Logger};
pub use message::{Arena, Handle, HandleKind, Message};
pub use net::BindError;
pub use node::{AddChildError, Child, ChildNode, Node, Parent};
pub use offload::{Lane, OffloadError, OffloadHandle, StopToken, blocking, offload};
pub use power::{WakeObject, WakeVector};
pub use status::{Canceled, Status};
pub use task::{JoinError, JoinHandle, spawn};
pub use time::{Instant, Sleep, sleep, sleep_until, timeout};
pub use token::Token;
