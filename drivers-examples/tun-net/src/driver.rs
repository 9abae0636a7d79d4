//! The driver: what it declares, how it starts, what it does all the time, and how it stops.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fuchsine_driver::net::{Interest, ready};
use fuchsine_driver::{
    ConfigKey, ConfigKind, Driver, DriverContext, Instant, Lane, StartError, Status, StopError, StopToken, timeout,
};
use smoltcp::wire::IpAddress;

use crate::config::{Config, Settings};
use crate::stack::{Next, Stack};
use crate::tun::Tun;

/// An end of the network on a TUN interface.
pub struct TunNet {
    cx: DriverContext,
    end: Arc<End>,
}

/// The interface and the stack on it. Only the default dispatcher looks at the stack, so its lock is never waited for.
struct End {
    tun: Tun,
    stack: Mutex<Stack>,
}

impl End {
    fn stack(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TunNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunNet").field("cx", &self.cx).finish_non_exhaustive()
    }
}

impl Driver for TunNet {
    const NAME: &'static str = "tun-net";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "an end of the network on a TUN interface: answers pings, echoes TCP";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::optional("interface", ConfigKind::Text, "fuchsine0", "the interface; made if there is none"),
        ConfigKey::optional(
            "addresses",
            ConfigKind::TextList,
            "10.77.0.2/24, fd77::2/64",
            "the driver's addresses, up to 4, each with the length of its network",
        ),
        ConfigKey::optional("echo_port", ConfigKind::Integer, "7", "the TCP port that echoes"),
        ConfigKey::optional("connections", ConfigKind::Integer, "16", "how many connections there may be, up to 1024"),
        ConfigKey::optional("mtu", ConfigKind::Integer, "1500", "the longest packet that is sent, 1280 to 9000"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        let settings = config.settings().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let name = settings.interface.clone();
        let held = cx.dispatcher().offload_async(Lane::Slow, move |_stop: &StopToken| Tun::hold(&name)).await?;
        let tun = held.map_err(|error| StartError::new(error.status(), error))?;
        let stack = Stack::new(&settings, &tun, RandomState::new().hash_one(Instant::now().as_nanos()), now());
        let end = Arc::new(End { tun, stack: Mutex::new(stack) });
        publish(&cx, &settings)?;
        cx.logger().info(format_args!("holds the interface {}", settings.interface));
        let (running, told) = (Arc::clone(&end), cx.clone());
        cx.dispatcher().spawn(async move {
            if let Err(status) = run(&running, &told, &settings.interface).await {
                told.fail(status, format_args!("cannot wait for packets of {}: {status}", settings.interface));
            }
        })?;
        Ok(Self { cx, end })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        let mut stack = self.end.stack();
        let (connections, lost) = (stack.connections(), stack.lost());
        stack.reset(&self.end.tun, now());
        self.cx.logger().with("reset", connections).with("lost_packets", lost).debug("every peer was told of the end");
        Ok(())
    }
}

fn publish(cx: &DriverContext, settings: &Settings) -> Result<(), Status> {
    for address in &settings.addresses {
        cx.publish_address(&match address.address() {
            IpAddress::Ipv4(address) => format!("tcp://{address}:{}", settings.echo_port),
            IpAddress::Ipv6(address) => format!("tcp://[{address}]:{}", settings.echo_port),
        })?;
    }
    Ok(())
}

/// Takes packets as they come, and lets the stack do what it does after a while. Ends with the interface.
async fn run(end: &End, cx: &DriverContext, name: &str) -> Result<(), Status> {
    loop {
        let next = end.stack().turn(&end.tun, now());
        match next {
            Err(error) => {
                cx.fail(Status::IoNotPresent, format_args!("the interface {name} is gone: {error}"));
                return Ok(());
            }
            Ok(Next::Again) => give_way().await,
            Ok(Next::Wait(None)) => drop(ready(&end.tun, Interest::READABLE).await?),
            Ok(Next::Wait(Some(delay))) => {
                let delay = Duration::from_micros(delay.total_micros());
                match timeout(delay, ready(&end.tun, Interest::READABLE)).await {
                    Ok(readable) => drop(readable?),
                    Err(Status::TimedOut) => {}
                    Err(status) => return Err(status),
                }
            }
        }
    }
}

/// The time, as the stack counts it.
fn now() -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros((Instant::now().as_nanos() / 1000) as i64)
}

/// Goes on after whatever else waits for its turn.
async fn give_way() {
    let mut gave = false;
    poll_fn(move |cx| {
        if gave {
            return Poll::Ready(());
        }
        gave = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
