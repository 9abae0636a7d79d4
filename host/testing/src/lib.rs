//! Tests of drivers: a harness for one driver, and the testing kit of the dispatcher package.
//!
//! A [`Harness`] starts a driver on a node of a fake parent: with the properties, services and configuration that a test
//! gives it, with fake children on the nodes that it adds, and with clients at the addresses that it publishes. The test
//! drives it from the outside, in a [`Place`]: on a foreground runtime, in virtual time and with simulated sockets, or on
//! threads.
//!
//! On a foreground runtime the kit takes over: [`explore`] runs a test under many orders of events, and
//! [`shutdown_at_every_step`] stops the driver at each step of it.
//!
//! # A test
//! ```
//! use fuchsine_driver::{Driver, DriverContext, DriverEntry, Message, StartError, Status, spawn};
//! use fuchsine_testing::{ForegroundRuntime, Harness, Place};
//!
//! /// Sends every message of its parent back.
//! struct Echo;
//!
//! impl Driver for Echo {
//!     const NAME: &'static str = "echo";
//!
//!     async fn start(cx: DriverContext) -> Result<Self, StartError> {
//!         let channel = cx.node().connect("line").await?;
//!         spawn(async move {
//!             while let Ok(message) = channel.read().await {
//!                 channel.write(message)?;
//!             }
//!             Ok::<(), Status>(())
//!         })?;
//!         Ok(Echo)
//!     }
//! }
//!
//! static ECHO: DriverEntry = DriverEntry::of::<Echo>();
//!
//! fn what_is_said_comes_back(place: Place<'_>) {
//!     let harness = Harness::builder(&ECHO).service("line").start(place).unwrap();
//!     let line = harness.accept("line").expect("it connects");
//!     line.send(b"hello");
//!     line.expect(b"hello");
//!     harness.stop().unwrap();
//!     line.expect_closed();
//! }
//!
//! what_is_said_comes_back(Place::Foreground(&ForegroundRuntime::new()));
//! what_is_said_comes_back(Place::Threads);
//! ```

mod builder;
mod fakes;
mod harness;
mod hub;
mod peer;
mod place;
mod problem;
mod socket;

pub use builder::HarnessBuilder;
pub use fuchsine_dispatcher::testing::*;
pub use fuchsine_host::{DriverSummary, NodeInfo, Phase};
pub use harness::Harness;
pub use peer::{Peer, Received};
pub use place::Place;
pub use problem::Problem;
pub use socket::Socket;
