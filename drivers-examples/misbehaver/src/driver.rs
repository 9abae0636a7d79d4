//! The driver: hooks that do what the configuration says.

use fuchsine_driver::net::Listener;
use fuchsine_driver::{ConfigKey, Driver, DriverContext, Lane, StartError, Status, StopError, spawn};

use crate::config::{Config, Moment};
use crate::deeds;

/// Does what drivers must not.
#[derive(Debug)]
pub struct Misbehaver {
    config: Config,
}

impl Driver for Misbehaver {
    const NAME: &'static str = "misbehaver";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "does what drivers must not, one flag each";
    const CONFIG: &'static [ConfigKey] = Config::KEYS;

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        if let Some(mistake) = config.mistake() {
            return Err(StartError::new(Status::InvalidArgs, mistake));
        }
        let _span = tracing::info_span!("start", node = %cx.node().name()).entered();
        tracing::info!(flags = ?config, "starts");
        match &config.trigger {
            None => begin(&cx, &config)?,
            Some(address) => {
                let listener = Listener::bind(address)?;
                let (cx, config) = (cx.clone(), config.clone());
                drop(spawn(async move {
                    if listener.accept().await.is_err() {
                        return;
                    }
                    if let Err(error) = begin(&cx, &config) {
                        return cx.fail(error.status(), error);
                    }
                    tracing::info!("is triggered");
                })?);
            }
        }
        deeds::misbehave(&config, Moment::Start);
        if config.fail == Some(Moment::Start) {
            return Err(StartError::new(Status::Io, "it was told to fail"));
        }
        Ok(Misbehaver { config })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        deeds::misbehave(&self.config, Moment::PrepareStop);
        fail(&self.config, Moment::PrepareStop)
    }

    async fn stop(self) -> Result<(), StopError> {
        deeds::misbehave(&self.config, Moment::Stop);
        fail(&self.config, Moment::Stop)
    }
}

impl Drop for Misbehaver {
    fn drop(&mut self) {
        deeds::misbehave(&self.config, Moment::Drop);
    }
}

fn fail(config: &Config, now: Moment) -> Result<(), StopError> {
    match config.fail == Some(now) {
        true => Err(StopError::new(Status::Io, "it was told to fail")),
        false => Ok(()),
    }
}

/// What is done outside of the hooks.
fn begin(cx: &DriverContext, config: &Config) -> Result<(), StartError> {
    let dispatcher = cx.dispatcher();
    if config.leak > 0 {
        deeds::leak(config.leak);
    }
    if config.leak_handles {
        deeds::leak_handles(&dispatcher);
    }
    if config.thread_locals {
        deeds::leave_value_behind();
    }
    deeds::leave_threads_behind(config.threads);
    let crash = config.crash;
    let flags = config.clone();
    dispatcher.post_task(move |_| {
        if let Some(how) = crash {
            deeds::crash(how);
        }
        deeds::misbehave(&flags, Moment::Task);
    })?;
    let flags = config.clone();
    // Due after the end of the world: it is canceled.
    let far = std::time::Duration::from_secs(365 * 24 * 3600);
    let handle = dispatcher.post_after(far, move |_| deeds::misbehave(&flags, Moment::Canceled))?;
    drop(handle);
    if config.panic == Some(Moment::Future) || config.block == Some(Moment::Future) {
        let flags = config.clone();
        drop(spawn(async move { deeds::misbehave(&flags, Moment::Future) })?);
    }
    if config.panic == Some(Moment::Work) || config.block == Some(Moment::Work) {
        let flags = config.clone();
        let work = move |_: &_| deeds::misbehave(&flags, Moment::Work);
        drop(dispatcher.offload(Lane::Slow, work, |_| {})?);
    }
    if config.post_forever {
        deeds::post_forever(&dispatcher);
    }
    if config.close_everything {
        dispatcher.shutdown();
    }
    Ok(())
}
