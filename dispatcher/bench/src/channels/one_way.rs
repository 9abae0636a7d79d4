//! One way: a driver writes 1,024 messages, the other one reads one a callback, as drivers of upstream do.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Message};
use tokio::sync::mpsc::unbounded_channel;

use super::fuchsine::{dispatcher, finish, runtime};
use super::{LARGE, SMALL, lines_are, write_lines};
use crate::peers::tokio_runtime;
use crate::sample::{Sample, Stopwatch, Took};
use crate::workload::{Run, Workload, scaled};

/// What the reader's dispatcher is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Runs inline while the writer writes.
    Synchronized,
    /// Runs inline too, and would do so while another of its callbacks runs.
    Unsynchronized,
    /// Allows sync calls, so each message takes a hop to another thread.
    AllowSyncCalls,
}

impl Reader {
    fn builder(self) -> DispatcherBuilder {
        match self {
            Reader::Synchronized => DispatcherBuilder::new(),
            Reader::Unsynchronized => DispatcherBuilder::new().unsynchronized(),
            Reader::AllowSyncCalls => DispatcherBuilder::new().allow_sync_calls(),
        }
    }
}

/// Messages of one burst of the workloads C3.
const BURST: u64 = 1_024;
const BURSTS: u64 = 500;

/// How many bursts. Of large messages fewer are enough: to make them takes longer than to send them.
fn how_many(size: usize) -> u64 {
    scaled(if size > SMALL { BURSTS / 25 } else { BURSTS })
}

struct Reading {
    end: Arc<Channel>,
    home: DispatcherHandle,
    seen: u64,
    wrong: u64,
    /// How many come before the writer is told.
    burst: u64,
    done: Sender<u64>,
}

/// How the reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One message for each registration, as drivers of upstream do.
    Anew,
    /// It is handed each message.
    Handed,
}

impl Reading {
    fn note(&mut self, message: &Message) {
        self.wrong += u64::from(!lines_are(message.bytes(), self.seen as u8));
        self.seen += 1;
        if self.seen.is_multiple_of(self.burst) {
            // The writer may have ended already, with what it wanted to know.
            let _ = self.done.send(self.wrong);
        }
    }
}

/// Is handed each message.
fn receive(mut reading: Reading) {
    let (end, home) = (Arc::clone(&reading.end), reading.home.clone());
    let registered = end.begin_receiving(&home, move |message| match message {
        Ok(message) => {
            reading.note(&message);
            ControlFlow::Continue(())
        }
        Err(_) => ControlFlow::Break(()),
    });
    registered.expect("the end is free and the dispatcher runs");
}

/// Reads one message and registers anew: for it, or for what is already there.
fn read_one(mut reading: Box<Reading>) {
    let (end, home) = (Arc::clone(&reading.end), reading.home.clone());
    let registered = end.begin_read(&home, move |outcome| {
        let Ok(message) = outcome.and_then(|()| reading.end.try_read().map_err(|error| error.status())) else {
            return;
        };
        reading.note(&message);
        read_one(reading);
    });
    // Refused only because the writer is gone or the dispatcher shuts down.
    drop(registered);
}

fn messages(first: u64, burst: u64, size: usize) -> Vec<Message> {
    (first..first + burst)
        .map(|nth| {
            let mut message = Message::with_len(size);
            write_lines(message.bytes_mut(), nth as u8);
            message
        })
        .collect()
}

/// Bursts of so many messages of so many bytes, each burst made before its time counts; one operation is a message.
pub(crate) fn bursts(reader: Reader, reads: Reads, burst: u64, bursts: u64, size: usize) -> Sample {
    let runtime = runtime(2);
    let writer = dispatcher(&runtime, "writer", DispatcherBuilder::new());
    let home = dispatcher(&runtime, "reader", reader.builder());
    let (near, far) = Channel::pair();
    let (done, read) = channel();
    let reading = Reading { end: Arc::new(far), home: home.clone(), seen: 0, wrong: 0, burst, done };
    match reads {
        Reads::Anew => read_one(Box::new(reading)),
        Reads::Handed => receive(reading),
    }
    let near = Arc::new(near);
    let mut total = Took::default();
    let mut wrong = Ok(0);
    for nth in 0..bursts {
        let (messages, near) = (messages(nth * burst, burst, size), Arc::clone(&near));
        let watch = Stopwatch::start();
        let write = move |_| messages.into_iter().for_each(|message| near.write(message).expect("it is read"));
        writer.post_task(write).expect("accepted");
        wrong = wrong.and_then(|_| read.recv());
        total += watch.took();
    }
    let ops = burst * bursts;
    let inlined = home.dump().inlined;
    let as_meant = if reader == Reader::AllowSyncCalls { inlined == 0 } else { inlined == ops };
    let sample = finish(&runtime, total.each(ops, wrong == Ok(0) && as_meant));
    if reads == Reads::Handed { sample.named("handed messages") } else { sample }
}

fn by_tokio(size: usize) -> Sample {
    let runtime = tokio_runtime(2);
    let (sender, mut receiver) = unbounded_channel::<Vec<u8>>();
    let (done, read) = channel();
    runtime.spawn(async move {
        let (mut seen, mut wrong) = (0_u64, 0_u64);
        while let Some(message) = receiver.recv().await {
            wrong += u64::from(!lines_are(&message, seen as u8));
            seen += 1;
            if seen.is_multiple_of(BURST) {
                done.send(wrong).expect("it is awaited");
            }
        }
    });
    let mut total = Took::default();
    let mut wrong = Ok(0);
    let bursts = how_many(size);
    for _ in 0..bursts {
        let mut messages: Vec<_> = (0..BURST).map(|_| vec![0; size]).collect();
        messages.iter_mut().zip(0_u64..).for_each(|(message, nth)| write_lines(message, nth as u8));
        let sender = sender.clone();
        let watch = Stopwatch::start();
        runtime.spawn(async move {
            messages.into_iter().for_each(|message| sender.send(message).expect("it is read"));
        });
        wrong = wrong.and_then(|_| read.recv());
        total += watch.took();
    }
    total.each(BURST * bursts, wrong == Ok(0))
}

/// The workloads and who does them.
pub(super) fn workloads() -> Vec<Workload> {
    let runs = |size, reader| {
        let ours = move || [Reads::Anew, Reads::Handed].map(|reads| bursts(reader, reads, BURST, how_many(size), size));
        vec![Run::new("fuchsine", move || ours().into()), Run::new("tokio-msg", move || vec![by_tokio(size)])]
    };
    let of = |size: &str, way: &str| format!("one way, 1,024 messages of {size} at once, {way}");
    vec![
        Workload::new("C3-inline-64", of("64 B", "inline"), runs(SMALL, Reader::Synchronized)),
        Workload::new("C3-inline-64k", of("64 KiB", "inline"), runs(LARGE, Reader::Synchronized)),
        Workload::new("C3-hop-64", of("64 B", "by a hop"), runs(SMALL, Reader::AllowSyncCalls)),
        Workload::new("C3-hop-64k", of("64 KiB", "by a hop"), runs(LARGE, Reader::AllowSyncCalls)),
    ]
}
