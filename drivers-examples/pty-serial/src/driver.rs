//! The driver `pty-serial`: what it declares, how it starts and how it stops.

use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::{
    Child, ChildNode, ConfigKey, ConfigKind, Driver, DriverContext, Lane, StartError, Status, StopError, StopToken,
    timeout,
};

use crate::config::Config;
use crate::link::Link;
use crate::port::{ClientEnd, Port};
use crate::pty::Pty;

/// How long a stop waits for a terminal to take what is to be shown.
const GRACE: Duration = Duration::from_millis(200);

/// A serial port on a pseudo terminal.
#[derive(Debug)]
pub struct PtySerial {
    port: Arc<Port>,
    link: Option<Link>,
    _child: Child,
}

impl Driver for PtySerial {
    const NAME: &'static str = "pty-serial";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "a serial port on a pseudo terminal";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::optional("link", ConfigKind::Path, "", "a symbolic link to the terminal, made at start"),
        ConfigKey::optional(
            "mode",
            ConfigKind::Text,
            "canonical",
            "`canonical`: lines that can be corrected; or `raw`",
        ),
        ConfigKey::optional("echo", ConfigKind::Boolean, "true", "whether what is typed is shown"),
        ConfigKey::optional(
            "baud",
            ConfigKind::Integer,
            "0",
            "bits a second, ten for each byte; 0: as fast as it goes",
        ),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        config.check().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let wanted = config.link();
        let opened = move |_stop: &StopToken| -> Result<(Pty, Option<Link>), StartError> {
            let pty = Pty::open().map_err(|error| StartError::from(error).context("no terminal can be had"))?;
            let link = wanted.map(|path| Link::make(&path, pty.path())).transpose();
            Ok((pty, link.map_err(|error| StartError::new(error.status(), error))?))
        };
        let (pty, link) = cx.dispatcher().offload_async(Lane::Slow, opened).await??;
        let name = link.as_ref().map_or(pty.path(), Link::path).display().to_string();
        cx.logger().with("terminal", pty.path().display()).info(format_args!("the port is {name}"));
        cx.publish_address(&format!("pty://{name}"))?;
        let port = Arc::new(Port::new(pty, &config));
        for direction in [true, false] {
            let (port, cx) = (Arc::clone(&port), cx.clone());
            cx.dispatcher().spawn(async move {
                let ended = if direction { port.read().await } else { port.write().await };
                match ended {
                    Ok(()) | Err(Status::Canceled) => {}
                    Err(status) => cx.fail(status, format_args!("the terminal failed: {status}")),
                }
            })?;
        }
        let (served, told) = (Arc::clone(&port), cx.clone());
        let accept = move |channel| attach(&served, &told, channel);
        let child = cx.add_child(ChildNode::new("port").property("protocol", "serial").service("serial", accept))?;
        Ok(Self { port, link, _child: child })
    }

    /// What clients have sent is shown, if somebody takes it.
    async fn prepare_stop(&self) -> Result<(), StopError> {
        // After that the terminal is gone, with what it has not taken.
        let _ = timeout(GRACE, self.port.shown()).await;
        Ok(())
    }

    async fn stop(self) -> Result<(), StopError> {
        let Some(link) = self.link else { return Ok(()) };
        link.remove()
            .map_err(|error| StopError::from(error).context(format_args!("the link {} stays", link.path().display())))
    }
}

/// Serves a client that has connected, or closes its channel if the port has one.
fn attach(port: &Arc<Port>, cx: &DriverContext, channel: fuchsine_driver::Channel) {
    let channel = Arc::new(channel);
    if !port.attach(&channel) {
        cx.logger().warn("a second client was refused: the port has one");
        return;
    }
    let (port, log) = (Arc::clone(port), cx.logger());
    let serving = async move {
        if let ClientEnd::Rule(what) = port.serve(&channel).await {
            log.warn(format_args!("a client was closed, as it broke the protocol: {what}"));
        }
    };
    // Refused: the driver is being stopped, and the channel is closed with the future.
    let _ = cx.dispatcher().spawn(serving);
}
