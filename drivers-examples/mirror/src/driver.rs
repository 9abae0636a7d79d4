//! The driver: what it declares, how it starts, how it looks for legs, and how it stops.

use std::sync::Arc;

use fuchsine_driver::block::{BlockClient, BlockInfo, BlockServer};
use fuchsine_driver::{
    Channel, Child, ChildNode, ConfigKey, ConfigKind, Driver, DriverContext, Instant, StartError, Status, StopError,
    sleep,
};

use crate::array::{Array, chance};
use crate::config::Config;
use crate::label::{self, LABEL_LEN, Label, RESERVED, Verdict};
use crate::sync::bring_up;

/// One block device on several others.
#[derive(Debug)]
pub struct Mirror {
    array: Arc<Array>,
    _child: Child,
}

/// A leg that has answered what it is.
struct Found {
    at: usize,
    client: BlockClient,
    info: BlockInfo,
    label: Option<Label>,
}

impl Driver for Mirror {
    const NAME: &'static str = "mirror";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "one block device on several others, which survives the loss of all but one";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::optional("legs", ConfigKind::TextList, "left, right", "the names of the parents that are mirrored"),
        ConfigKey::optional("wait", ConfigKind::Duration, "2s", "how long a start waits for legs that are not there"),
        ConfigKey::optional("look", ConfigKind::Duration, "500ms", "how often legs are looked for that are away"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        config.check().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let found = find_all(&cx, &config).await?;
        let array = assemble(&cx, &config.legs, found).await?;
        let (looking, look) = (Arc::clone(&array), config.look());
        cx.dispatcher().spawn(async move {
            while sleep(look).await.is_ok() && !looking.state.lock().is_closed {
                looking.look_after_legs().await;
                for (at, name) in looking.away() {
                    return_of(&looking, at, &name).await;
                }
            }
        })?;
        let (served, told) = (Arc::clone(&array), cx.clone());
        let accept = move |channel| serve(&served, &told, channel);
        let child = cx.add_child(ChildNode::new("disk").property("protocol", "block").service("block", accept))?;
        Ok(Self { array, _child: child })
    }

    /// All drivers bound to the child have stopped by now, as children stop first.
    async fn prepare_stop(&self) -> Result<(), StopError> {
        if let Err(status) = self.array.close().await {
            // The legs may be gone already: nobody holds parents that are optional.
            let log = self.array.cx.logger();
            log.warn(format_args!("the mirror could not be closed in order, and the next start copies: {status}"));
        }
        Ok(())
    }
}

/// Serves a client that has connected.
fn serve(array: &Arc<Array>, cx: &DriverContext, channel: Channel) {
    let Ok(server) = BlockServer::new(channel, array.info) else { return };
    let (array, dispatcher) = (Arc::clone(array), cx.dispatcher());
    let serving = async move {
        while let Ok(request) = server.next().await {
            // Refused: the driver is being stopped. The request is dropped with its future, which answers it.
            let _ = dispatcher.spawn(Arc::clone(&array).serve(request));
        }
    };
    let _ = cx.dispatcher().spawn(serving);
}

/// Connects to the legs, and waits a while for those that are not there.
async fn find_all(cx: &DriverContext, config: &Config) -> Result<Vec<Found>, StartError> {
    let deadline = Instant::now() + config.wait();
    let mut found: Vec<Found> = Vec::new();
    loop {
        for (at, name) in config.legs.iter().enumerate() {
            if found.iter().any(|leg| leg.at == at) {
                continue;
            }
            match find(cx, at, name).await {
                Ok(leg) => found.push(leg),
                Err(Status::NotFound | Status::Unavailable | Status::PeerClosed) => {}
                Err(Status::Canceled) => return Err(Status::Canceled.into()),
                Err(status) => cx.logger().warn(format_args!("the leg `{name}` does not work: {status}")),
            }
        }
        found.sort_by_key(|leg| leg.at);
        if found.len() == config.legs.len() || Instant::now() >= deadline {
            break;
        }
        sleep(config.look().min(config.wait() / 20)).await?;
    }
    let missing: Vec<&String> = config
        .legs
        .iter()
        .enumerate()
        .filter(|(at, _)| !found.iter().any(|leg| leg.at == *at))
        .map(|(_, n)| n)
        .collect();
    if found.is_empty() {
        let what = format_args!("none of the legs {missing:?} is there: name parents of these names in the manifest");
        return Err(StartError::new(Status::NotFound, what));
    }
    for name in missing {
        cx.logger().warn(format_args!("the leg `{name}` is not there; the mirror begins without it"));
    }
    Ok(found)
}

async fn find(cx: &DriverContext, at: usize, name: &str) -> Result<Found, Status> {
    let channel = cx.node().parent(name).connect("block").await?;
    let client = BlockClient::new(channel, &cx.dispatcher())?;
    let info = client.info().await?;
    let label = match info.size.checked_sub(RESERVED) {
        Some(label_at) => {
            let length = info.block_size.max(LABEL_LEN as u32);
            Label::decode(client.read(label_at, length).await?.data())
        }
        None => None,
    };
    Ok(Found { at, client, info, label })
}

/// Makes a mirror of the legs that were found.
async fn assemble(cx: &DriverContext, names: &[String], found: Vec<Found>) -> Result<Arc<Array>, StartError> {
    let labels: Vec<Option<Label>> = found.iter().map(|leg| leg.label).collect();
    let verdicts = label::judge(&labels).map_err(|error| StartError::new(Status::IoDataIntegrity, error))?;
    let source = verdicts.iter().position(|verdict| *verdict == Verdict::Good).unwrap_or_default();
    let taken = || found.iter().zip(&verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Good | Verdict::Copy));
    let block_size = taken().map(|(leg, _)| leg.info.block_size).max().unwrap_or(512);
    let smallest = taken().map(|(leg, _)| leg.info.size).min().unwrap_or_default();
    let size = labels[source].map_or_else(
        || smallest.saturating_sub(RESERVED) / u64::from(block_size) * u64::from(block_size),
        |label| label.size,
    );
    if size == 0 {
        let what = format_args!("a leg has {smallest} bytes: the mirror takes {RESERVED} of each for itself");
        return Err(StartError::new(Status::InvalidArgs, what));
    }
    let mut info = BlockInfo::new(size, block_size);
    info.max_transfer = taken().map(|(leg, _)| leg.info.max_transfer).min().unwrap_or(info.max_transfer);
    info.durable = taken().all(|(leg, _)| leg.info.durable);
    info.trims = taken().any(|(leg, _)| leg.info.trims);
    let newest = labels.iter().flatten().map(|label| label.generation).max().unwrap_or_default();
    let mirror = labels[source].map_or_else(chance, |label| label.mirror);
    let array = Arc::new(Array::new(cx.clone(), info, mirror, newest + 1, names));
    let mut copied = Vec::new();
    for (leg, verdict) in found.into_iter().zip(verdicts) {
        let name = &names[leg.at];
        let refused = match verdict {
            Verdict::Foreign => Some("it belongs to another mirror"),
            Verdict::Diverged => Some("it was used without the others, and has changes that they have not"),
            Verdict::Good | Verdict::Copy => unfit(&leg.info, &array.info),
        };
        match refused {
            Some(why) if verdict == Verdict::Good => {
                let what = format_args!("the leg `{name}`, which has the contents, cannot be used: {why}");
                return Err(StartError::new(Status::InvalidArgs, what));
            }
            Some(why) => {
                cx.logger().error(format_args!("the leg `{name}` is left alone: {why}"));
                array.refuse(leg.at, leg.client);
            }
            None => {
                let attached = array.attach(leg.at, leg.client, leg.info.size - RESERVED, verdict == Verdict::Good);
                copied.extend((verdict == Verdict::Copy).then_some(attached));
            }
        }
    }
    let recorded = array.record().await;
    recorded
        .map_err(|status| StartError::new(status, "no leg could be labeled").context("the mirror cannot be opened"))?;
    for leg in copied {
        cx.dispatcher().spawn(bring_up(Arc::clone(&array), leg))?;
    }
    Ok(array)
}

/// Why a leg cannot be one of this mirror.
fn unfit(leg: &BlockInfo, mirror: &BlockInfo) -> Option<&'static str> {
    if leg.read_only {
        Some("it cannot be changed")
    } else if leg.size < mirror.size + RESERVED {
        Some("it is too small")
    } else if leg.block_size > mirror.block_size || leg.max_transfer < mirror.max_transfer {
        Some("its blocks are too big, or its transfers too small")
    } else {
        None
    }
}

/// Takes a leg back that was away, if it is there again.
async fn return_of(array: &Arc<Array>, at: usize, name: &str) {
    let Ok(leg) = find(&array.cx, at, name).await else { return };
    let refused = unfit(&leg.info, &array.info).or_else(|| leg.label.and_then(|label| array.may_return(&label).err()));
    if let Some(why) = refused {
        array.cx.logger().error(format_args!("the leg `{name}` is left alone: {why}"));
        array.refuse(at, leg.client);
        return;
    }
    let attached = array.attach(at, leg.client, leg.info.size - RESERVED, false);
    let copying = bring_up(Arc::clone(array), attached);
    // Refused: the driver is being stopped.
    let _ = array.cx.dispatcher().spawn(copying);
}
