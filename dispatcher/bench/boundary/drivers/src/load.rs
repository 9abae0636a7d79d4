//! [`Load`]: posts to itself, or calls `echo`, many times.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use fuchsine_driver::{
    BindProperty, ConfigKey, ConfigKind, Dispatcher, Driver, DriverContext, Message, StartError, Status,
};
use serde::Deserialize;

use crate::took::{Stopwatch, Took};

/// Bytes of a call's message.
const PAYLOAD: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    work: Work,
    operations: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// A callback posts the next one to its own dispatcher.
    Post,
    /// A message to the other driver, handled and answered within the write.
    Inline,
}

/// Does its work within its start, and publishes what that took.
#[derive(Debug)]
pub struct Load;

impl Driver for Load {
    const NAME: &'static str = "load";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "posts, or calls another driver, many times, for the boundary bench";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::required("work", ConfigKind::Text, "post or inline"),
        ConfigKey::required("operations", ConfigKind::Integer, "how many"),
    ];
    const BIND: &'static [BindProperty] = &[BindProperty::new("protocol", "echo")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        // Once for what is made at the first time, and once that counts.
        work(&cx, config.work, config.operations / 10).await?;
        let took = work(&cx, config.work, config.operations).await?;
        cx.publish_address(&took.to_string())?;
        Ok(Self)
    }
}

async fn work(cx: &DriverContext, work: Work, operations: u64) -> Result<Took, StartError> {
    match work {
        Work::Post => Ok(post(&cx.dispatcher(), operations).await),
        Work::Inline => call(cx, operations).await,
    }
}

/// What a chain of posts knows, and who waits for its end.
#[derive(Debug, Default)]
struct Chain {
    ran: AtomicU64,
    ended: Mutex<Option<Option<Waker>>>,
}

async fn post(on: &Dispatcher, operations: u64) -> Took {
    let chain = Arc::new(Chain::default());
    let watch = Stopwatch::start();
    link(on, operations, &chain);
    poll_fn(|cx| {
        let mut ended = chain.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match &*ended {
            Some(None) => Poll::Ready(()),
            _ => {
                *ended = Some(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    })
    .await;
    watch.stop(operations, chain.ran.load(Ordering::Relaxed))
}

fn link(on: &Dispatcher, left: u64, chain: &Arc<Chain>) {
    if left == 0 {
        let waiting = chain.ended.lock().unwrap_or_else(PoisonError::into_inner).replace(None);
        waiting.flatten().into_iter().for_each(Waker::wake);
        return;
    }
    let (next, own) = (on.clone(), Arc::clone(chain));
    // Refused or canceled: the driver is being stopped, and nobody waits any more.
    let _ = on.post_task(move |told| {
        if told.is_ok() {
            // One dispatcher, so one at a time: no count is lost unless two overlap.
            own.ran.store(own.ran.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            link(&next, left - 1, &own);
        }
    });
}

async fn call(cx: &DriverContext, operations: u64) -> Result<Took, StartError> {
    let channel = cx.node().connect("echo").await?;
    // The first one may come before the other driver waits for it.
    channel.write(Message::from_bytes(&[0; PAYLOAD])?).map_err(|refused| refused.into_status())?;
    let mut message = channel.read().await?;
    let mut seen = 0;
    let watch = Stopwatch::start();
    for _ in 0..operations {
        let before = message.bytes()[0];
        channel.write(message).map_err(|refused| refused.into_status())?;
        // It is there already, since the other driver was called inline; if not, the operation was another one.
        message = match channel.try_read() {
            Ok(message) => {
                seen += u64::from(message.bytes()[0] == before.wrapping_add(1));
                message
            }
            Err(Status::ShouldWait) => channel.read().await?,
            Err(status) => return Err(status.into()),
        };
    }
    Ok(watch.stop(operations, seen))
}
