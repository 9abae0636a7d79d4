//! The program of a child process: it takes drivers from its control channel until that is closed.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Message, Runtime, RuntimeBuilder};

use super::far_log;
use super::protocol::{Dumped, Setup, ToProcess, decode, encode};
use super::session;
use crate::process::{Sandbox, adopt, bridge, close_inherited};
use crate::registry::Registry;

/// How long threads have to end that stand in nobody's way.
const GRACE: Duration = Duration::from_millis(500);

/// What all sessions of a process share.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) runtime: Runtime,
    /// Where bridges and sessions are.
    pub(super) dispatcher: DispatcherHandle,
    pub(super) registry: Registry,
}

/// Runs drivers for the host that has started this process, which says by the last argument what it wants (`setup`). Returns
/// when that host has no driver here any more; the program is to end then.
///
/// A program that hosts drivers offers this as a hidden subcommand, and names it by
/// [`HostBuilder::driver_process`](crate::HostBuilder::driver_process). It is to be called before any other thread is there.
/// Everything that the drivers log goes to the host; so does what this process writes on its standard output and error.
///
/// # Errors
/// This process was not started by a host, or what the system said.
pub fn run_driver_process(registry: &Registry, setup: &str) -> io::Result<()> {
    close_inherited()?;
    let setup: Setup = decode(setup.as_bytes()).map_err(|error| {
        io::Error::other(format!("this is started by a host only, which says what it is for: {error}"))
    })?;
    // Before there is a second thread, and before any code of a driver is here.
    let missing = match setup.sandbox.as_ref().map(Sandbox::apply) {
        Some(applied) => applied.map_err(|error| io::Error::other(format!("its sandbox cannot be put on: {error}")))?,
        None => Vec::new(),
    };
    let socket = adopt()?;
    // The log is where the standard output would be, which is the standard error from here on.
    let log = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    far_log::start(log, &setup.level);
    for missing in missing {
        tracing::warn!("its sandbox is not whole: {missing}");
    }
    let builder = RuntimeBuilder::new().name("fuchsine");
    let runtime = setup.threads.into_iter().fold(builder, RuntimeBuilder::threads).build();
    let runtime = runtime.map_err(|error| io::Error::other(error.to_string()))?;
    let owner = runtime.new_driver("sessions");
    let dispatcher = owner.new_dispatcher(DispatcherBuilder::new().name("sessions"));
    let dispatcher = dispatcher.map_err(|error| io::Error::other(error.to_string()))?.release();
    let home = Home { runtime, dispatcher, registry: registry.clone() };
    let (control, far) = Channel::pair();
    bridge(&home.dispatcher, far, socket).map_err(|status| io::Error::other(status.to_string()))?;
    let (ended, end) = mpsc::channel::<()>();
    let hearing = home.clone();
    let heard = home.dispatcher.spawn(async move {
        hear(&hearing, control).await;
        drop(ended);
    });
    let _running = heard.map_err(|error| io::Error::other(error.status().to_string()))?;
    // It is never sent to.
    let _ = end.recv();
    // A thread that does not end goes with the process.
    let _ = home.runtime.shutdown(GRACE);
    Ok(())
}

async fn hear(home: &Home, control: Channel) {
    while let Ok(mut message) = control.read().await {
        let txid = message.txid();
        let session = message.take_handles().pop().and_then(|handle| handle.into_channel().ok());
        match (decode(message.bytes()), session) {
            (Ok(ToProcess::Run(run)), Some(channel)) => session::begin(home, run, Arc::new(channel)),
            (Ok(ToProcess::Dump), _) => {
                let dump = home.runtime.dump();
                let dumped = Dumped { text: dump.to_string(), json: dump.to_json() };
                // Nobody waits for it any more if the host is gone.
                let _ = control.write(Message::from_bytes(&encode(&dumped)).in_reply_to(txid));
            }
            (Ok(ToProcess::Run(_)), None) => tracing::error!("a driver came without its session"),
            (Err(error), _) => tracing::error!("{error}"),
        }
    }
}
