//! The driver: what it declares, how it starts and how it stops.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fuchsine_driver::net::Listener;
use fuchsine_driver::{
    BindProperty, ConfigKey, ConfigKind, Driver, DriverContext, JoinHandle, StartError, Status, StopError, timeout,
};

use crate::config::Config;
use crate::device::Device;
use crate::protocol::Export;
use crate::seats::Seats;
use crate::server::{Refusals, Server};
use crate::session::Limits;
use crate::session::budget::Budget;
use crate::uri::uri;

/// Requests that one connection may have under way.
const MAX_REQUESTS: usize = 128;

/// The biggest piece in which data goes to and from the device.
const PIECE: u32 = 256 << 10;

/// The biggest piece of a trim or of zeroes: about a millisecond of writing zeroes, which others may have to wait for.
const RANGE_PIECE: u32 = 4 << 20;

/// How long the stop waits for connections, which have a shorter time of grace themselves.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// The NBD server of one block node.
#[derive(Debug)]
pub struct Nbd {
    server: Arc<Server>,
    /// One task a listener; taken by the stop.
    accepting: Mutex<Vec<JoinHandle<()>>>,
}

impl Driver for Nbd {
    const NAME: &'static str = "nbd";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "serves a block node to clients of the NBD protocol";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::optional(
            "listen",
            ConfigKind::TextList,
            "127.0.0.1:10809",
            "where to listen: HOST:PORT (port 0: any free one) or unix:/path, or a list of them",
        ),
        ConfigKey::optional("export", ConfigKind::Text, "", "name of the export; that of the node when left out"),
        ConfigKey::optional("max_connections", ConfigKind::Integer, "1024", "connections beyond this are refused"),
        ConfigKey::optional(
            "handshake_timeout_ms",
            ConfigKind::Integer,
            "10000",
            "a connection that has not chosen an export by then is closed; 0: never",
        ),
        ConfigKey::optional(
            "idle_timeout_ms",
            ConfigKind::Integer,
            "3600000",
            "a connection without a request for so long is closed; 0: never",
        ),
        ConfigKey::optional(
            "stall_timeout_ms",
            ConfigKind::Integer,
            "30000",
            "a client that stops in the middle of a request, or does not read its replies, for so long is closed; 0: never",
        ),
        ConfigKey::optional(
            "buffer_size",
            ConfigKind::Size,
            "64MiB",
            "data that all connections together may hold, beyond 128 KiB for each",
        ),
    ];
    const BIND: &'static [BindProperty] = &[BindProperty::new("protocol", "block")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        config.check().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let node = cx.node();
        let name = config.export.clone().unwrap_or_else(|| node.name());
        if !Export::is_valid_name(&name) {
            let text = "the name of the export is too long or has a NUL in it: NBD allows 4096 bytes; set `export`";
            return Err(StartError::new(Status::InvalidArgs, text));
        }
        let unreachable =
            |status| StartError::new(status, format!("the block device cannot be asked what it is: {status}"));
        let info = Device::new(node.connect("block").await.map_err(unreachable)?).info().await.map_err(unreachable)?;
        let piece = PIECE.min(info.max_transfer);
        let server = Arc::new(Server {
            node,
            log: cx.logger(),
            export: Arc::new(Export { name, size: info.size, block_size: info.block_size, read_only: info.read_only }),
            limits: Limits { requests: MAX_REQUESTS, piece, range: RANGE_PIECE },
            budget: Arc::new(Budget::new(config.buffer_size)),
            timeouts: config.timeouts(),
            seats: Arc::new(Seats::new(config.max_connections)),
            max_connections: config.max_connections,
            next_number: AtomicU64::new(1),
            refusals: Mutex::new(Refusals::default()),
            context: cx.clone(),
        });
        // All addresses are bound before the first connection is let in: a start that fails has served nobody.
        let listeners: Vec<Listener> =
            config.listen.iter().map(|address| Listener::bind(address)).collect::<Result<_, _>>()?;
        let mut accepting = Vec::new();
        for listener in listeners {
            cx.publish_address(&uri(listener.local_address(), &server.export.name))?;
            accepting.push(cx.dispatcher().spawn(server.clone().accept(listener))?);
        }
        Ok(Self { server, accepting: Mutex::new(accepting) })
    }

    /// Listeners first, so that nobody comes while others are asked to leave; then the connections, which finish what is
    /// under way within their time of grace.
    async fn prepare_stop(&self) -> Result<(), StopError> {
        let accepting = std::mem::take(&mut *self.accepting.lock().unwrap_or_else(PoisonError::into_inner));
        for task in accepting {
            task.cancel();
            // Its end is the closing of the listener; that it was canceled is what was asked for.
            let _ = task.await;
        }
        self.server.seats.stop();
        self.server.tell_last_refusals();
        if timeout(STOP_LIMIT, self.server.seats.empty()).await.is_err() {
            let left = self.server.seats.taken();
            self.server.log.warn(format_args!("{left} connections did not end in time and are cut"));
        }
        Ok(())
    }
}
