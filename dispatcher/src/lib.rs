//! Event loops, dispatchers, channels and futures: everything in Fuchsine that runs callbacks.
//!
//! Modules stand in layers, each of which names its own layer and those below: `status`, `time`, `sync` and `sys` (L0),
//! `event_loop` (L1), `pool` (L2), `runtime` (L3), `channel` (L4), `executor` (L5), `testing` (L6).

#[cfg(panic = "abort")]
compile_error!("Fuchsine promises that a panic of one driver leaves the others alone: build with panic = \"unwind\"");

mod channel;
pub mod event_loop;
#[cfg(not(loom))]
mod executor;
mod pool;
#[cfg(not(loom))]
mod runtime;
mod site;
mod status;
mod sync;
mod sys;
#[cfg(all(feature = "testing", not(any(loom, shuttle))))]
pub mod testing;
mod time;

#[cfg(not(loom))]
pub use channel::{
    Arena, Buffer, CallError, Channel, Client, Handle, Incoming, Limits, Message, Protocol, ReadError, ReceiveError,
    Refused, Responder, Server, Token, Txid, Value, WriteError,
};
#[cfg(not(any(loom, shuttle)))]
pub use event_loop::{Lane, WaitError, WaitRefused, Waitable};
#[cfg(not(loom))]
pub use executor::{
    BoundCall, Call, ChannelRead, DispatcherBound, Elapsed, JoinError, JoinHandle, Sleep, SpawnError, TaskScope,
    Timeout, TypedCall, Writable, sleep, sleep_until, timeout,
};
#[cfg(not(any(loom, shuttle)))]
pub use executor::{Ready, ready};
#[cfg(not(loom))]
pub use runtime::{
    BlockingError, CancelError, Counters, CreateError, Dispatcher, DispatcherBuilder, DispatcherDump, DispatcherHandle,
    DispatcherId, DispatcherState, Driver, DriverDump, DriverId, IrqEvent, IrqHandle, Kind, OffloadError,
    OffloadHandle, PanicPolicy, PanicReport, PendingDump, PostError, Reason, Role, RunningDump, Runtime,
    RuntimeBuilder, RuntimeDump, RuntimeError, SchedulingReport, SequenceError, SequenceId, ShutdownDriverError,
    ShutdownError, StopToken, SuspendError, SynchronizationChecker, TakenBack, TaskHandle, Unbound, WaitUntilError,
    WeakDispatcher, blocking, current, current_driver,
};
#[cfg(not(loom))]
pub use runtime::{
    DriverState, DumpLimits, LaneDump, LongestDump, Named, ObservingDump, PlaceDump, PoolDump, ThreadDump, ThreadName,
};
#[cfg(not(any(loom, shuttle)))]
pub use runtime::{Irq, IrqTrigger, WaitHandle, WakeSource, WakeVector, WakeVectorError};
pub use site::{CallSite, Site};
pub use status::{Canceled, Status};
#[cfg(not(any(loom, shuttle)))]
pub use sync::own_threads;
pub use sys::{Interest, Readiness, Scheduling};
pub use time::Instant;
