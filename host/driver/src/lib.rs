//! What a Fuchsine driver is written against: handles over a table of C functions.

pub mod abi;
pub mod block;
mod channel;
mod context;
mod dispatcher;
mod driver;
mod logger;
mod message;
pub mod net;
mod node;
mod offload;
mod slot;
mod status;
mod task;
mod time;

pub use abi::{ConfigKey, ConfigKind, DriverEntry};
pub use channel::{Channel, Read, WriteError};
pub use context::{ConfigError, DriverContext};
pub use dispatcher::{CreateError, Dispatcher, DispatcherOptions, PostError, SpawnError, TaskHandle, current};
pub use driver::{BindProperty, Driver, StartError, StopError};
pub use logger::{Level, Logger};
pub use message::{Arena, Handle, HandleKind, Message};
pub use net::BindError;
pub use node::{AddChildError, Child, ChildNode, Node};
pub use offload::{Lane, OffloadError, OffloadHandle, StopToken, blocking, offload};
pub use status::{Canceled, Status};
pub use task::{JoinError, JoinHandle, spawn};
pub use time::{Instant, Sleep, sleep, sleep_until, timeout};
