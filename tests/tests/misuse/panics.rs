//! A panic in a callback of any kind, and in what it drops, is the driver's alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, Client, DispatcherBound, DispatcherBuilder, DispatcherHandle, Instant, Interest, Lane, Limits, Message,
    Protocol, TaskScope, Token,
};
use fuchsine_tests::pools::in_the_foreground;

use super::things::Things;

/// Panics when it is dropped, unless the thread unwinds already.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in a drop");
        }
    }
}

struct Signals;

impl Protocol for Signals {
    type Request = ();
    type Reply = ();
    type Event = ();
}

fn panics() {
    panic!("in a callback");
}

/// Has a callback panic.
type Begin = fn(&Things);

/// Each kind of callback, as one that panics.
const KINDS: &[(&str, Begin)] = &[
    ("task", |t| t.target.post_task(|_| panics()).expect("it runs")),
    ("drop of a task", |t| {
        let held = PanicsOnDrop;
        t.target.post_task(move |_| drop(held)).expect("it runs");
    }),
    ("delayed task", |t| drop(t.target.post_after(Duration::ZERO, |_| panics()).expect("it runs"))),
    ("wait", |t| drop(t.target.begin_wait(&t.stream, Interest::WRITABLE, |_| panics()).expect("it can be waited for"))),
    ("work", |t| {
        // It is told as the outcome.
        let done = |outcome: Result<(), _>| assert!(outcome.is_ok());
        drop(t.target.offload(Lane::Fast, |_| panics(), done).expect("it runs"));
    }),
    ("result of work", |t| drop(t.target.offload(Lane::Fast, |_| (), |_| panics()).expect("it runs"))),
    ("drop of a result", |t| drop(t.target.offload(Lane::Fast, |_| PanicsOnDrop, |_| ()).expect("it runs"))),
    ("read", |t| {
        let (near, far) = Channel::pair();
        let far = Arc::new(far);
        let kept = Arc::clone(&far);
        far.begin_read(&t.target, move |_| {
            drop(kept);
            panics();
        })
        .expect("it is registered");
        near.write(Message::new()).expect("the peer is there");
    }),
    ("future", |t| drop(t.target.spawn(async { panics() }).expect("it runs"))),
    ("drop of a future", |t| {
        let held = PanicsOnDrop;
        let future = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        t.target.spawn(future).expect("it runs").cancel();
    }),
    ("waker", |t| {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panics();
            }
        }
        let waker = Waker::from(Arc::new(Panics));
        t.target.spawn(async move { waker.wake() }).map(drop).expect("it runs");
    }),
    ("irq", |t| {
        let (irq, trigger) = t.target.new_irq().expect("there is a descriptor");
        t.target.bind_irq(&irq, |_| panics()).map(drop).expect("it runs");
        trigger.trigger();
    }),
    ("drop of an irq's handler", |t| {
        let (irq, _trigger) = t.target.new_irq().expect("there is a descriptor");
        let held = PanicsOnDrop;
        let handler = move |_: Result<fuchsine_dispatcher::IrqEvent<'_>, fuchsine_dispatcher::Status>| {
            let _held = &held;
        };
        t.target.bind_irq(&irq, handler).map(drop).expect("it runs");
        t.target.shutdown_async();
    }),
    ("local future", |t| {
        let own = t.pinned.clone();
        t.pinned.post_task(move |_| drop(own.spawn_local(async { panics() }))).expect("it runs");
    }),
    ("reply", |t| {
        let (client, server) = Channel::pair();
        let call = client.begin_call(&t.target, Message::new(), Instant::INFINITE, |_| panics());
        drop(call.expect("it is sent"));
        let request = server.try_read().expect("it is there");
        server.write(request.recycle(0)).expect("somebody waits");
        t.wait_for(|| (client.queued_messages() == 0).then_some(()));
    }),
    ("wait for room", |t| t.near.begin_writable(&t.target, 0, |_| panics()).expect("nobody waits")),
    ("token", |t| {
        let (server, client) = Token::pair();
        server.register(&t.target, |_| panics()).map(drop).expect("it runs");
        client.transfer(Channel::pair().0).expect("somebody waits");
    }),
    ("suspend completer", |t| t.driver.suspend(|_| panics()).expect("the first time")),
    ("resume requester", |t| {
        t.driver.set_resume_requester(|_| panics());
        t.driver.register_wake_vector(&t.irq, Interest::READABLE).expect("an irq has an identity").keep();
        t.driver.suspend(|_| ()).expect("the first time");
        t.trigger.trigger();
    }),
    ("bound state", |t| {
        let bound = DispatcherBound::new(&t.target, || 1).expect("it runs");
        bound.async_call(|_| panics()).expect("it runs");
    }),
    ("making of bound state", |t| drop(DispatcherBound::new(&t.target, panics).expect("it runs"))),
    ("drop of bound state", |t| drop(DispatcherBound::new(&t.target, || PanicsOnDrop).expect("it runs"))),
    ("task of a scope", |t| {
        let scope = TaskScope::new(&t.target);
        scope.post(panics).expect("it runs");
        t.wait_for(|| scope.is_empty().then_some(()));
    }),
    ("server", |t| {
        let (client, server) = Client::<Signals>::pair();
        server.serve(&t.target, |_| panics()).expect("it runs");
        drop(client.send(()));
    }),
    ("events of a client", |t| {
        let (client, server) = Client::<Signals>::pair();
        client.on_events(&t.target, |_| panics()).expect("it runs");
        server.send_event(()).expect("the client is there");
    }),
    ("observer", |t| {
        *t.at_the_end.lock().expect("nobody panics here") = Some(Box::new(panics));
        t.target.shutdown_async();
    }),
    ("driver observer", |t| t.driver.shutdown(panics).expect("the first time")),
    ("canceled task", |t| {
        drop(t.target.post_after(Duration::from_secs(100_000), |_| panics()).expect("it runs"));
        t.target.shutdown_async();
    }),
    ("drop of a canceled task", |t| {
        let held = PanicsOnDrop;
        drop(t.target.post_after(Duration::from_secs(100_000), move |_| drop(held)).expect("it runs"));
        t.target.shutdown_async();
    }),
    ("drop of an unread value", |t| {
        let (near, far) = Channel::pair();
        near.write(Message::new().with(fuchsine_dispatcher::Handle::value(PanicsOnDrop))).expect("the peer is there");
        t.target.post_task(move |_| drop((near, far))).expect("it runs");
    }),
];

#[test]
fn a_panic_in_a_callback_of_any_kind_leaves_the_runtime_whole() {
    for (name, begin) in KINDS {
        let things = Things::new();
        let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counting = Arc::clone(&told);
        things.runtime.observe_panics(move |_| {
            counting.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            // The observer's own panic harms nobody either.
            panics();
        });
        begin(&things);
        let seen = things.wait_for(|| (told.load(std::sync::atomic::Ordering::SeqCst) > 0).then_some(()));
        assert!(seen.is_some(), "{name}: nobody was told of the panic");
        things.works_or_is_over();
        let others = [&things.other, &things.pinned, &things.blocking];
        assert!(others.iter().all(|other| other.post_task(|_| ()).is_ok()), "{name}: another driver noticed");
        let made = things.other_driver.new_dispatcher(DispatcherBuilder::new());
        assert!(made.is_ok(), "{name}: another driver noticed");
        things.end();
    }
}

/// Ends what a future waits for; what comes back is kept for so long.
type Wake = Box<dyn FnOnce() -> Option<Channel> + Send>;

/// Something that a future of the first dispatcher waits for, and that the second one brings about.
type Await = fn(&DispatcherHandle) -> (Pin<Box<dyn Future<Output = ()> + Send>>, Wake);

const AWAITED: &[(&str, Await)] = &[
    ("message", |_| {
        let (near, far) = Channel::pair();
        let write = move || {
            far.write(Message::new()).expect("the peer is there");
            Some(far)
        };
        (Box::pin(async move { drop(near.read().await) }), Box::new(write))
    }),
    ("close", |_| {
        let (near, far) = Channel::pair();
        let close = move || {
            drop(far);
            None
        };
        (Box::pin(async move { drop(near.read().await) }), Box::new(close))
    }),
    ("reply", |_| {
        let (near, far) = Channel::pair();
        let reply = move || {
            let request = far.try_read().expect("it was sent");
            far.write(request.recycle(0)).expect("somebody waits");
            Some(far)
        };
        (Box::pin(async move { drop(near.call_async(Message::new(), Instant::INFINITE).await) }), Box::new(reply))
    }),
    ("room", |_| {
        let (near, far) = Channel::pair_with(Limits::default().messages(1));
        near.write(Message::new()).expect("there is room");
        let read = move || {
            far.try_read().map(drop).expect("it was written");
            Some(far)
        };
        (Box::pin(async move { assert!(near.writable(1).await.is_ok()) }), Box::new(read))
    }),
    ("result of a call to bound state", |home| {
        let bound = DispatcherBound::new(home, || 1).expect("it runs");
        let call = bound.call_for(|value| *value).expect("it runs");
        let release = move || {
            drop(bound);
            None
        };
        (Box::pin(async move { drop(call.await) }), Box::new(release))
    }),
];

/// A waker is code of whoever waits: its panic is no matter of whoever wakes, such as the driver that writes a message.
#[test]
fn a_waker_that_panics_is_not_blamed_on_who_wakes() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panics();
        }
    }
    in_the_foreground(|world| {
        for (name, make) in AWAITED {
            let (waits, wakes) = (world.driver("waits"), world.driver("wakes"));
            let home = waits.new_dispatcher(DispatcherBuilder::new()).expect("it is made");
            let other = wakes.new_dispatcher(DispatcherBuilder::new()).expect("it is made");
            // So that what it has to do comes after the poll.
            wakes.suspend(|_| ()).expect("the first time");
            let (mut future, wake) = make(&other);
            let mut woken_badly = Some(Waker::from(Arc::new(Panics)));
            let badly_polled = std::future::poll_fn(move |_| {
                if let Some(waker) = woken_badly.take() {
                    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                }
                Poll::<()>::Pending
            });
            home.spawn(badly_polled).map(drop).expect("it runs");
            world.settle();
            let kept = Arc::new(Mutex::new(None));
            let keep = Arc::clone(&kept);
            other.post_task(move |_| *keep.lock().expect("nobody panics here") = wake()).expect("it runs");
            assert!(wakes.resume());
            world.settle();
            assert_eq!((wakes.panics(), waits.panics()), (0, 0), "{name}");
            assert_eq!(other.counters().pending, 0, "{name}");
            world.run_on(&other, || ());
        }
    });
}
