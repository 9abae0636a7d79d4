//! What an outside thread waits for: tasks, an event, an irq, a message. The same of an event loop for comparison.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use fuchsine_dispatcher::event_loop::{LoopManager, RunningLoops};
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherHandle, Interest, Irq, IrqEvent, IrqTrigger, Message, Runtime, Status,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::{LONG, ours, repeat};
use crate::channels::fuchsine::{dispatcher, finish, runtime};
use crate::sample::Sample;
use crate::workload::{Run, Workload};

/// The size of the message that is read.
const MESSAGE: usize = 4_096;

fn started() -> (Runtime, DispatcherHandle) {
    let runtime = runtime(2);
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    (runtime, target)
}

fn one_loop() -> RunningLoops {
    let manager = LoopManager::builder().loops(1).handle_signals(false).build();
    manager.and_then(LoopManager::spawn).expect("the loop runs")
}

/// Posts so many, the last of which tells.
fn batch(tasks: u32, done: &Sender<()>, told: &Receiver<()>, post: impl Fn(Option<Sender<()>>)) -> bool {
    (1..tasks).for_each(|_| post(None));
    post(Some(done.clone()));
    told.recv().is_ok()
}

fn tell(done: Option<Sender<()>>) {
    done.into_iter().for_each(|done| done.send(()).expect("it is awaited"));
}

fn tasks(tasks: u32) -> Sample {
    let (runtime, target) = started();
    let (done, told) = channel();
    let post = |done| target.post_task(move |_| tell(done)).expect("accepted");
    let sample = repeat(LONG, || batch(tasks, &done, &told, post));
    finish(&runtime, sample)
}

fn tasks_of_a_loop(tasks: u32) -> Sample {
    let loops = one_loop();
    let event_loop = loops.handle().event_loop(0).expect("there is one");
    let (done, told) = channel();
    let post = |done| event_loop.async_run(move |_| tell(done)).expect("the loop runs");
    let sample = repeat(LONG, || batch(tasks, &done, &told, post));
    loops.handle().shutdown();
    let panics = loops.join().panics();
    sample.if_also(panics == 0)
}

fn event() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("the kernel gives an event counter"))
}

fn signal(event: &OwnedFd) {
    rustix::io::write(event, &1_u64.to_ne_bytes()).expect("the counter has room");
}

/// Whether it was signaled, and it no longer is.
fn clear(event: &OwnedFd) -> bool {
    rustix::io::read(event, &mut [0; 8]) == Ok(8)
}

fn wait() -> Sample {
    let (runtime, target) = started();
    let (done, told) = channel();
    let event = event();
    let sample = repeat(LONG, || {
        let (own, done) = (Arc::clone(&event), done.clone());
        let ready = move |ready: Result<_, Status>| done.send(ready.is_ok() && clear(&own)).expect("it is awaited");
        let waits = target.begin_wait(&*event, Interest::READABLE, ready).is_ok();
        signal(&event);
        waits && told.recv() == Ok(true)
    });
    finish(&runtime, sample)
}

fn wait_of_a_loop() -> Sample {
    let loops = one_loop();
    let event_loop = loops.handle().event_loop(0).expect("there is one");
    let (done, told) = channel();
    let event = event();
    let sample = repeat(LONG, || {
        let (waited, own, done) = (Arc::clone(&event), Arc::clone(&event), done.clone());
        let begin = move |event_loop: &fuchsine_dispatcher::event_loop::EventLoop| {
            let ready = move |_: &_, _| done.send(clear(&own)).expect("it is awaited");
            event_loop.wait_once(&*waited, Interest::READABLE, ready).expect("it can be waited on").detach();
        };
        event_loop.async_run(begin).expect("the loop runs");
        signal(&event);
        told.recv() == Ok(true)
    });
    loops.handle().shutdown();
    let panics = loops.join().panics();
    sample.if_also(panics == 0)
}

fn irq() -> Sample {
    let (runtime, target) = started();
    let (done, told) = channel();
    let (irq, trigger): (Irq, IrqTrigger) = Irq::new().expect("the system has descriptors");
    let handler = move |event: Result<IrqEvent<'_>, Status>| {
        if let Ok(event) = event {
            done.send(event.count()).expect("it is awaited");
            event.ack();
        }
    };
    let bound = target.bind_irq(&irq, handler).expect("bound");
    let sample = repeat(LONG, || {
        trigger.trigger();
        told.recv() == Ok(1)
    });
    let unbound = bound.unbind().is_ok();
    finish(&runtime, sample.if_also(unbound))
}

fn channel_read() -> Sample {
    let (runtime, target) = started();
    let (done, told) = channel();
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let mut message = Some(Message::with_len(MESSAGE));
    let sample = repeat(LONG, || {
        let (reader, done) = (Arc::clone(&far), done.clone());
        let read = move |_| done.send(reader.try_read().expect("it was written")).expect("it is awaited");
        let registered = far.begin_read(&target, read).is_ok();
        near.write(message.take().expect("it came back")).expect("the other end is here");
        message = told.recv().ok();
        registered && message.as_ref().is_some_and(|message| message.len() == MESSAGE)
    });
    finish(&runtime, sample)
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for many in [1, 10, 100] {
        let name = format!("Dispatcher/Runtime/Task/Threads/{many}tasks");
        let what = format!("an outside thread posts {many} tasks and waits for the last");
        let runs = vec![
            Run::new("fuchsine", move || vec![tasks(many)]),
            Run::new("fuchsine-loop", move || vec![tasks_of_a_loop(many)]),
        ];
        all.push(Workload::new(name, what, runs));
    }
    let runs = vec![Run::new("fuchsine", || vec![wait()]), Run::new("fuchsine-loop", || vec![wait_of_a_loop()])];
    let what = "an outside thread begins a wait on an event, signals it, and waits for the callback";
    all.push(Workload::new("Dispatcher/Runtime/Wait/Threads", what, runs));
    all.push(ours(
        "Dispatcher/Runtime/Irq/Threads",
        "an outside thread triggers an irq and waits for its handler",
        irq,
    ));
    let what = "an outside thread registers a read, writes 4 KiB and waits for the callback";
    all.push(ours("Dispatcher/Runtime/ChannelRead/Threads", what, channel_read));
    all
}
