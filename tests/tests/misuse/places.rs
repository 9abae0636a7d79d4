//! Where an operation is made.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherState, Interest, Lane, Message, RuntimeBuilder, Token,
};
use fuchsine_tests::pools::HANG_LIMIT;

use super::things::{Body, Things};

/// A place.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// Has the body run there, now or later.
    pub(crate) go: fn(&Arc<Things>, Body),
}

/// All places.
pub(crate) const PLACES: &[Place] = &[
    Place { name: "outside", go: |_, body| body() },
    Place { name: "entered", go: |things, body| things.driver.enter(body) },
    Place { name: "own callback", go: |things, body| post(&things.target, body) },
    Place { name: "other's callback", go: |things, body| post(&things.other, body) },
    Place { name: "callback that may block", go: |things, body| post(&things.blocking, body) },
    Place { name: "foreign callback", go: foreign_callback },
    Place { name: "inline callback", go: inline_callback },
    Place { name: "pinned callback", go: |things, body| post(&things.pinned, body) },
    Place { name: "handler of an irq", go: handler_of_an_irq },
    Place { name: "handler of a token", go: handler_of_a_token },
    Place { name: "completer", go: completer },
    Place { name: "resume requester", go: resume_requester },
    Place { name: "lane", go: lane },
    Place { name: "result of work", go: result_of_work },
    Place { name: "future", go: future },
    Place { name: "waker", go: waker },
    Place { name: "canceled callback", go: canceled_callback },
    Place { name: "end of an irq", go: end_of_an_irq },
    Place { name: "observer", go: observer },
    Place { name: "driver observer", go: driver_observer },
    Place { name: "drop in context", go: drop_in_context },
    Place { name: "drop of a future", go: drop_of_a_future },
    Place { name: "panic observer", go: panic_observer },
    Place { name: "unwinding", go: unwinding },
    Place { name: "end of a thread", go: end_of_a_thread },
    Place { name: "after the dispatcher", go: after_the_dispatcher },
    Place { name: "after the driver", go: after_the_driver },
    Place { name: "after the runtime", go: after_the_runtime },
];

/// Runs its body when it is dropped.
struct OnDrop(Option<Body>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(body) = self.0.take() {
            body();
        }
    }
}

fn post(dispatcher: &fuchsine_dispatcher::DispatcherHandle, body: Body) {
    dispatcher.post_task(move |_| body()).expect("it runs");
}

fn foreign_callback(_: &Arc<Things>, body: Body) {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("threads");
    let dispatcher = runtime.new_driver("foreign").new_dispatcher(DispatcherBuilder::new()).expect("it is made");
    post(&dispatcher, body);
    // It waits for nobody, and ends when the body has.
    let _ = dispatcher.release();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let last = runtime.new_driver("last").new_dispatcher(DispatcherBuilder::new()).expect("it is made");
    post(&last, Box::new(move || drop(sender)));
    let _ = receiver.recv_timeout(HANG_LIMIT);
    runtime.shutdown(HANG_LIMIT).expect("it ends");
}

fn inline_callback(things: &Arc<Things>, body: Body) {
    let (near, far) = Channel::pair();
    far.begin_read(&things.target, move |_| body()).expect("it is registered");
    post(&things.other, Box::new(move || drop((near.write(Message::new()), far))));
}

/// Runs its body at the first call.
fn once(body: Body) -> impl Fn() + Send + Sync {
    let body = Mutex::new(Some(body));
    move || {
        let body = body.lock().expect("nobody panics here").take();
        if let Some(body) = body {
            body();
        }
    }
}

fn handler_of_an_irq(things: &Arc<Things>, body: Body) {
    let (irq, trigger) = things.target.new_irq().expect("there is a descriptor");
    let run = once(body);
    let bound = things.target.bind_irq(&irq, move |outcome| {
        if let Ok(event) = outcome {
            run();
            event.ack();
        }
    });
    drop(bound.expect("it runs"));
    trigger.trigger();
}

fn end_of_an_irq(things: &Arc<Things>, body: Body) {
    let (irq, _trigger) = things.target.new_irq().expect("there is a descriptor");
    let run = once(body);
    let bound = things.target.bind_irq(&irq, move |outcome| {
        if outcome.is_err() {
            run();
        }
    });
    drop(bound.expect("it runs"));
    things.target.shutdown_async();
}

fn handler_of_a_token(things: &Arc<Things>, body: Body) {
    let (server, client) = Token::pair();
    drop(server.register(&things.target, move |_| body()).expect("it runs"));
    client.transfer(Channel::pair().0).expect("somebody waits");
}

fn completer(things: &Arc<Things>, body: Body) {
    let driver = things.driver.clone();
    let suspended = things.driver.suspend(move |_| {
        body();
        driver.resume();
    });
    suspended.expect("the first");
}

fn resume_requester(things: &Arc<Things>, body: Body) {
    let (irq, trigger) = things.target.new_irq().expect("there is a descriptor");
    things.driver.register_wake_vector(&irq, Interest::READABLE).expect("it runs").keep();
    drop(things.target.bind_irq(&irq, |_| ()).expect("it runs"));
    let run = once(body);
    things.driver.set_resume_requester(move |driver| {
        run();
        driver.resume();
    });
    things.driver.suspend(move |_| trigger.trigger()).expect("the first");
}

fn lane(things: &Arc<Things>, body: Body) {
    drop(things.target.offload(Lane::Fast, move |_| body(), |_| ()).expect("it runs"));
}

fn result_of_work(things: &Arc<Things>, body: Body) {
    drop(things.target.offload(Lane::Fast, |_| (), move |_| body()).expect("it runs"));
}

fn future(things: &Arc<Things>, body: Body) {
    drop(things.target.spawn(async move { body() }).expect("it runs"));
}

fn waker(things: &Arc<Things>, body: Body) {
    struct Runs(Mutex<Option<Body>>);
    impl Wake for Runs {
        fn wake(self: Arc<Self>) {
            let body = self.0.lock().expect("nobody panics here").take();
            if let Some(body) = body {
                body();
            }
        }
    }
    let (gate, go) = std::sync::mpsc::channel::<()>();
    let mut join = things
        .target
        .spawn(async move {
            let _ = go.recv();
        })
        .expect("it runs");
    let waker = Waker::from(Arc::new(Runs(Mutex::new(Some(body)))));
    assert!(Pin::new(&mut join).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(gate);
    // Kept until it is woken: dropping it lets the future run on.
    things.wait_for(|| join.is_finished().then_some(()));
}

fn canceled_callback(things: &Arc<Things>, body: Body) {
    drop(things.target.post_after(Duration::from_secs(100_000), move |_| body()).expect("it runs"));
    things.target.shutdown_async();
}

fn observer(things: &Arc<Things>, body: Body) {
    *things.at_the_end.lock().expect("nobody panics here") = Some(body);
    things.target.shutdown_async();
}

fn driver_observer(things: &Arc<Things>, body: Body) {
    things.driver.shutdown(body).expect("the first time");
}

fn drop_in_context(things: &Arc<Things>, body: Body) {
    let guard = OnDrop(Some(body));
    post(&things.target, Box::new(move || drop(guard)));
}

fn drop_of_a_future(things: &Arc<Things>, body: Body) {
    let guard = OnDrop(Some(body));
    let join = things.target.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    join.expect("it runs").cancel();
}

fn panic_observer(things: &Arc<Things>, body: Body) {
    let run = once(body);
    things.runtime.observe_panics(move |_| run());
    post(&things.target, Box::new(|| panic!("for its observer")));
}

fn unwinding(things: &Arc<Things>, body: Body) {
    let guard = OnDrop(Some(body));
    post(
        &things.target,
        Box::new(move || {
            let _guard = guard;
            panic!("to unwind");
        }),
    );
}

fn end_of_a_thread(_: &Arc<Things>, body: Body) {
    thread_local! {
        static LAST: RefCell<OnDrop> = const { RefCell::new(OnDrop(None)) };
    }
    let thread = std::thread::spawn(move || LAST.with(|last| last.borrow_mut().0 = Some(body)));
    thread.join().expect("it ends");
}

fn after_the_dispatcher(things: &Arc<Things>, body: Body) {
    things.target.shutdown_async();
    things.wait_for(|| (things.target.state() == DispatcherState::Destroyed).then_some(()));
    body();
}

fn after_the_driver(things: &Arc<Things>, body: Body) {
    let (sender, receiver) = std::sync::mpsc::channel();
    things
        .driver
        .shutdown(move || {
            let _ = sender.send(());
        })
        .expect("the first time");
    receiver.recv_timeout(HANG_LIMIT).expect("it ends");
    body();
}

fn after_the_runtime(things: &Arc<Things>, body: Body) {
    things.runtime.shutdown(HANG_LIMIT).expect("it ends");
    body();
}
