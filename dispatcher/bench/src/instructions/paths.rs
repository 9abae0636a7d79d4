//! The hot paths whose instructions are counted.
//!
//! A path is a function that does something so many times on a runtime of its own, sees that it happened, and ends. The
//! threads never meet by chance: one waits while the other works, so that the same count comes out each time.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Job, LoopHandle, LoopManager};
use fuchsine_dispatcher::{
    Arena, Channel, Client as TypedClient, Dispatcher, DispatcherBuilder, DispatcherHandle, Incoming, Instant, Lane,
    Message, Protocol, Runtime, RuntimeBuilder,
};

/// A path and its name.
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// What one operation is.
    pub(crate) what: &'static str,
    /// Does so many operations.
    pub(crate) run: fn(u64),
}

/// All of them, in the order of the table.
pub(crate) const PATHS: &[Path] = &[
    Path { name: "self-post", what: "a callback posts the next one to its own dispatcher", run: self_post },
    Path { name: "outside-post", what: "a post from outside the pool, and its callback", run: outside_post },
    Path { name: "cross-post", what: "a round trip of posts between two dispatchers on one thread", run: cross_post },
    Path { name: "inline", what: "a round trip by channel between two idle drivers, inline", run: inline },
    Path { name: "standing", what: "the same with reads that stand", run: standing },
    Path { name: "hop", what: "the same where every call is deferred", run: hop },
    Path { name: "typed", what: "a call of a typed server, inline, and the value of its reply", run: typed },
    Path { name: "timer", what: "a far timer is armed and canceled", run: timer },
    Path { name: "wake", what: "a future wakes itself and is polled", run: wake },
    Path { name: "spawn", what: "a future is spawned, polled once and ends", run: spawn },
    Path { name: "offload", what: "an item of work, run by a lane, and its result", run: offload },
    Path { name: "arena", what: "an arena, 64 bytes of it written, and its end", run: arena },
    Path { name: "shutdown", what: "a post from outside that a shutdown cancels", run: shutdown },
    Path { name: "create", what: "a dispatcher with a name, made and shut down", run: create },
    Path { name: "job", what: "a job of a loop arms itself anew, an iteration each", run: job },
    Path {
        name: "async-post",
        what: "a callback posts the next one to its own loop, an iteration each",
        run: async_post,
    },
];

pub(super) fn runtime() -> RuntimeBuilder {
    RuntimeBuilder::new().threads(1)
}

pub(super) fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Waits for the message that ends a path, then for the end of the runtime.
pub(super) fn finish(runtime: &Runtime, ended: &Receiver<()>) {
    ended.recv().expect("every operation happened");
    assert_eq!(runtime.shutdown(Duration::from_secs(300)).ok(), Some(()), "the runtime ends");
    assert!(runtime.counters().add_up());
}

/// Keeps the one thread of a pool inside of a callback until the sender is used.
pub(super) fn hold(runtime: &Runtime) -> Sender<()> {
    let (release, released) = channel();
    let (tell, told) = channel();
    let holder = dispatcher(runtime, "holder").release();
    holder
        .post_task(move |_| {
            tell.send(()).expect("it is awaited");
            released.recv().expect("it is released");
        })
        .expect("accepted");
    told.recv().expect("the callback begins");
    release
}

struct Hopper {
    left: u64,
    own: DispatcherHandle,
    ended: Sender<()>,
}

fn self_post(count: u64) {
    fn next(mut hopper: Box<Hopper>) {
        if hopper.left == 0 {
            return hopper.ended.send(()).expect("it is awaited");
        }
        hopper.left -= 1;
        let own = hopper.own.clone();
        own.post_task(move |_| next(hopper)).expect("accepted");
    }
    let runtime = runtime().build().expect("the system has threads");
    let target = dispatcher(&runtime, "target");
    let (ended, end) = channel();
    let hopper = Box::new(Hopper { left: count, own: target.handle(), ended });
    target.post_task(move |_| next(hopper)).expect("accepted");
    finish(&runtime, &end);
    assert_eq!(target.counters().ran, count + 1);
}

/// Posts so many callbacks while the pool is held; the last one tells. Each counts those that ran.
pub(super) fn post_many(target: &DispatcherHandle, count: u64) -> (Arc<AtomicU64>, Receiver<()>) {
    let seen = Arc::new(AtomicU64::new(0));
    let (ended, end) = channel();
    for _ in 0..count {
        let seen = Arc::clone(&seen);
        target
            .post_task(move |outcome| {
                seen.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
            })
            .expect("accepted");
    }
    target.post_task(move |_| ended.send(()).expect("it is awaited")).expect("accepted");
    (seen, end)
}

fn outside_post(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let target = dispatcher(&runtime, "target");
    let release = hold(&runtime);
    let (seen, end) = post_many(&target, count);
    release.send(()).expect("it is held");
    finish(&runtime, &end);
    assert_eq!(seen.load(Ordering::Relaxed), count);
}

fn shutdown(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let target = dispatcher(&runtime, "target");
    let release = hold(&runtime);
    let (seen, end) = post_many(&target, count);
    target.shutdown_async();
    release.send(()).expect("it is held");
    finish(&runtime, &end);
    assert_eq!((seen.load(Ordering::Relaxed), target.counters().canceled), (0, count + 1));
}

struct Ball {
    left: u64,
    here: DispatcherHandle,
    there: DispatcherHandle,
    ended: Sender<()>,
}

fn cross_post(count: u64) {
    fn strike(mut ball: Box<Ball>) {
        if ball.left == 0 {
            return ball.ended.send(()).expect("it is awaited");
        }
        ball.left -= 1;
        let Ball { here, there, .. } = &mut *ball;
        std::mem::swap(here, there);
        let next = ball.here.clone();
        next.post_task(move |_| strike(ball)).expect("accepted");
    }
    let runtime = runtime().build().expect("the system has threads");
    let (near, far) = (dispatcher(&runtime, "near"), dispatcher(&runtime, "far"));
    let (ended, end) = channel();
    let ball = Box::new(Ball { left: count * 2, here: near.handle(), there: far.handle(), ended });
    near.post_task(move |_| strike(ball)).expect("accepted");
    finish(&runtime, &end);
    assert_eq!(near.counters().ran + far.counters().ran, count * 2 + 1);
}

/// Sends each message back in the memory that it came in.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    // Refused only because the client is gone or the dispatcher shuts down.
    let _ = end.begin_read(&handle, move |outcome| {
        if outcome.is_err() {
            return;
        }
        while let Ok(message) = reader.try_read() {
            reader.write(message).expect("the client listens");
        }
        serve(reader, home);
    });
}

struct Client {
    end: Arc<Channel>,
    home: DispatcherHandle,
    left: u64,
    ended: Sender<()>,
}

fn ask(mut client: Box<Client>, message: Message) {
    let (end, home) = (Arc::clone(&client.end), client.home.clone());
    let writer = Arc::clone(&end);
    end.begin_read(&home, move |outcome| {
        assert_eq!(outcome, Ok(()), "the server answers");
        let message = client.end.try_read().expect("a reply is there");
        client.left -= 1;
        if client.left == 0 {
            return client.ended.send(()).expect("it is awaited");
        }
        ask(client, message);
    })
    .expect("registered");
    writer.write(message).expect("the server listens");
}

fn round_trips(runtime: &Runtime, count: u64) -> Dispatcher {
    let (client, server) = (dispatcher(runtime, "client"), dispatcher(runtime, "server"));
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let (ended, end) = channel();
    let asking = Box::new(Client { end: Arc::new(near), home: client.handle(), left: count, ended });
    client.post_task(move |_| ask(asking, Message::from_bytes(&[1; 64]))).expect("accepted");
    end.recv().expect("every operation happened");
    server
}

fn inline(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let server = round_trips(&runtime, count);
    assert!(server.dump().inlined >= count, "the server was called inline");
    runtime.shutdown(Duration::from_secs(300)).expect("the runtime ends");
}

/// Round trips with reads that stand: each request but the first is sent by the handler of the reply before.
fn standing(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    let (near, far) = (Arc::new(near), Arc::new(far));
    let reader = Arc::clone(&far);
    far.begin_standing_read(&server.handle(), move |_| {
        while let Ok(message) = reader.try_read() {
            reader.write(message).expect("the client listens");
        }
        ControlFlow::Continue(())
    })
    .expect("registered");
    let (ended, end) = channel();
    let (writer, mut left) = (Arc::clone(&near), count);
    near.begin_standing_read(&client.handle(), move |outcome| {
        assert_eq!(outcome, Ok(()), "the server answers");
        let message = writer.try_read().expect("a reply is there");
        left -= 1;
        if left == 0 {
            ended.send(()).expect("it is awaited");
            return ControlFlow::Break(());
        }
        writer.write(message).expect("the server listens");
        ControlFlow::Continue(())
    })
    .expect("registered");
    client
        .post_task(move |_| near.write(Message::from_bytes(&[1; 64])).expect("the server listens"))
        .expect("accepted");
    end.recv().expect("every operation happened");
    assert!(server.dump().inlined >= count, "the server was called inline");
    runtime.shutdown(Duration::from_secs(300)).expect("the runtime ends");
}

fn hop(count: u64) {
    let runtime = runtime().inline_depth(0).build().expect("the system has threads");
    let server = round_trips(&runtime, count);
    assert_eq!(server.dump().inlined, 0, "the server was called in its turns");
    runtime.shutdown(Duration::from_secs(300)).expect("the runtime ends");
}

struct Doubling;

impl Protocol for Doubling {
    type Request = u64;
    type Reply = u64;
    type Event = ();
}

struct Asker {
    client: TypedClient<Doubling>,
    home: DispatcherHandle,
    left: u64,
    ended: Sender<()>,
}

fn ask_typed(mut asker: Box<Asker>) {
    if asker.left == 0 {
        return asker.ended.send(()).expect("it is awaited");
    }
    let (client, home, number) = (asker.client.clone(), asker.home.clone(), asker.left);
    asker.left -= 1;
    let told = move |reply| {
        assert_eq!(reply, Ok(number * 2), "the server doubles");
        ask_typed(asker);
    };
    let _begun = client.begin_call(&home, number, Instant::INFINITE, told).expect("the server listens");
}

/// Calls of a typed server, whose handler is called for each of them and not registered by its user.
fn typed(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let (home, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (client, end) = TypedClient::<Doubling>::pair();
    end.serve(&server.handle(), |incoming| {
        if let Ok(Incoming::Call(number, responder)) = incoming {
            responder.reply(number * 2).expect("the client waits");
        }
    })
    .expect("registered");
    let (ended, end) = channel();
    let asker = Box::new(Asker { client, home: home.handle(), left: count, ended });
    home.post_task(move |_| ask_typed(asker)).expect("accepted");
    end.recv().expect("every operation happened");
    assert!(server.dump().inlined >= count, "the server was called inline");
    runtime.shutdown(Duration::from_secs(300)).expect("the runtime ends");
}

/// Runs `body` in a callback of a runtime with one thread.
pub(super) fn in_a_callback(body: impl FnOnce(&DispatcherHandle, Sender<()>) + Send + 'static) {
    let runtime = runtime().build().expect("the system has threads");
    let target = dispatcher(&runtime, "target");
    let (own, (ended, end)) = (target.handle(), channel());
    target.post_task(move |_| body(&own, ended)).expect("accepted");
    finish(&runtime, &end);
}

fn timer(count: u64) {
    in_a_callback(move |own, ended| {
        for _ in 0..count {
            let timer = own.post_after(Duration::from_secs(3600), |_| ()).expect("accepted");
            timer.cancel().expect("it is far");
        }
        ended.send(()).expect("it is awaited");
    });
}

struct WakeItself {
    left: u64,
    ended: Sender<()>,
}

impl Future for WakeItself {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            self.ended.send(()).expect("it is awaited");
            return Poll::Ready(());
        }
        self.left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn wake(count: u64) {
    in_a_callback(move |own, ended| {
        let _detached = own.spawn(WakeItself { left: count, ended }).expect("spawned");
    });
}

fn spawn(count: u64) {
    in_a_callback(move |own, ended| {
        for _ in 0..count {
            let _detached = own.spawn(std::future::ready(())).expect("spawned");
        }
        let _detached = own.spawn(async move { ended.send(()).expect("it is awaited") }).expect("spawned");
    });
}

/// The callback stays until all items have run, so that the workers never wait for one and the pool never for a result.
fn offload(count: u64) {
    in_a_callback(move |own, ended| {
        // As many as there may be workers: they are held until every item waits.
        let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let held: Vec<_> = (0..workers)
            .map(|_| {
                let (hold, released) = channel::<()>();
                let wait = move |_: &_| {
                    let _ = released.recv();
                };
                own.offload(Lane::Fast, wait, |_| ()).map_err(|_| "refused").expect("accepted");
                hold
            })
            .collect();
        let left = Arc::new(AtomicU64::new(count));
        let (all_ran, wait_for_all) = channel();
        for _ in 0..count {
            let (left, all_ran) = (Arc::clone(&left), all_ran.clone());
            let work = move |_: &_| {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    all_ran.send(()).expect("it is awaited");
                }
            };
            own.offload(Lane::Fast, work, |_| ()).map_err(|_| "refused").expect("accepted");
        }
        drop(held);
        wait_for_all.recv().expect("every item ran");
        own.post_task(move |_| ended.send(()).expect("it is awaited")).expect("accepted");
    });
}

fn arena(count: u64) {
    for _ in 0..count {
        let mut buffer = Arena::new().into_buffer(64);
        buffer.fill(1);
        assert_eq!(std::hint::black_box(&buffer)[63], 1);
    }
}

fn create(count: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let driver = runtime.new_driver("driver");
    let release = hold(&runtime);
    let all: Vec<_> = (0..count)
        .map(|_| driver.new_dispatcher(DispatcherBuilder::new().name("one of many")).expect("created"))
        .collect();
    drop(all);
    let (ended, end) = channel();
    let last = dispatcher(&runtime, "last");
    last.post_task(move |_| ended.send(()).expect("it is awaited")).expect("accepted");
    release.send(()).expect("it is held");
    finish(&runtime, &end);
}

/// Runs a loop of its own until `body` has it end.
fn on_a_loop(body: impl FnOnce(&EventLoop) + Send + 'static) {
    let manager = LoopManager::builder().loops(1).handle_signals(false).setup(0, body);
    let summary = manager.build().and_then(LoopManager::run).expect("the loop runs");
    assert_eq!(summary.panics(), 0);
}

fn stop(event_loop: &EventLoop) {
    event_loop.manager().expect("a manager runs it").shutdown();
}

fn job(count: u64) {
    on_a_loop(move |event_loop| {
        let own: Rc<RefCell<Option<Job>>> = Rc::default();
        let again = Rc::clone(&own);
        let mut left = count;
        let job = event_loop.job(move |event_loop| {
            if left == 0 {
                again.borrow_mut().take();
                return stop(event_loop);
            }
            left -= 1;
            if let Some(job) = &*again.borrow() {
                job.arm().expect("it has just run");
            }
        });
        job.arm().expect("it is new");
        *own.borrow_mut() = Some(job);
    });
}

fn async_post(count: u64) {
    fn next(event_loop: &EventLoop, own: LoopHandle, left: u64) {
        if left == 0 {
            return stop(event_loop);
        }
        let handle = own.clone();
        own.async_run(move |event_loop| next(event_loop, handle, left - 1)).expect("the loop runs");
    }
    on_a_loop(move |event_loop| next(event_loop, event_loop.handle(), count));
}
