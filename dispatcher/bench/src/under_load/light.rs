//! Light components: a timer of 10 ms, and each time a post of which it is noted how long it takes.

use std::time::{Duration, Instant};

use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::{Block, Blocking, EVERY, Load};
use crate::latency::Latencies;
use crate::peers::{Fuchsine, Peer, TokioMessages};

/// A peer with timers, and with a way to say that one blocks.
pub(super) trait Light: Peer {
    /// A queue for what blocks.
    fn blocking_queue(&self, how: Blocking) -> Self::Queue<Block<Self>>;

    /// Runs what blocks, on the thread it is called on.
    fn block(how: Blocking, body: impl FnOnce());

    /// Starts a light one, which posts for the first time after so long.
    fn light(&self, first: Duration, load: &'static Load);
}

impl Light for Fuchsine {
    fn blocking_queue(&self, how: Blocking) -> DispatcherHandle {
        let builder = DispatcherBuilder::new();
        self.dispatcher(if how == Blocking::Declared { builder.allow_sync_calls() } else { builder })
    }

    fn block(_how: Blocking, body: impl FnOnce()) {
        body();
    }

    fn light(&self, first: Duration, load: &'static Load) {
        let home = self.dispatcher(DispatcherBuilder::new());
        let late = Latencies::with_capacity(load.posts as usize);
        tick(Box::new(Ticking { home, late, load }), first);
    }
}

struct Ticking {
    home: DispatcherHandle,
    late: Latencies,
    load: &'static Load,
}

fn tick(ticking: Box<Ticking>, after: Duration) {
    let home = ticking.home.clone();
    let armed = home.post_after(after, move |_| {
        let home = ticking.home.clone();
        let posted = Instant::now();
        let run = move |_| note(ticking, posted);
        home.post_task(run).expect("accepted");
    });
    assert!(armed.is_ok(), "accepted");
}

fn note(mut ticking: Box<Ticking>, posted: Instant) {
    ticking.late.add(posted.elapsed());
    if ticking.late.len() as u64 == ticking.load.posts {
        ticking.load.end(ticking.late);
    } else {
        tick(ticking, EVERY);
    }
}

impl Light for TokioMessages {
    fn blocking_queue(&self, _how: Blocking) -> Self::Queue<Block<Self>> {
        self.queue()
    }

    fn block(how: Blocking, body: impl FnOnce()) {
        match how {
            Blocking::Declared => block_in_place(body),
            Blocking::Undeclared => body(),
        }
    }

    fn light(&self, first: Duration, load: &'static Load) {
        let (sender, mut receiver) = unbounded_channel::<Instant>();
        self.spawn(async move {
            let mut late = Latencies::with_capacity(load.posts as usize);
            while let Some(posted) = receiver.recv().await {
                late.add(posted.elapsed());
            }
            load.end(late);
        });
        self.spawn(async move {
            let mut after = first;
            for _ in 0..load.posts {
                sleep(after).await;
                sender.send(Instant::now()).expect("the other task receives");
                after = EVERY;
            }
        });
    }
}
