//! What is done at each place: every public function of the dispatchers, channels and futures, with arguments that make
//! sense and with ones that do not.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use fuchsine_dispatcher::testing::{ForegroundRuntime, refuse_threads_after, set_default_dispatcher};
use fuchsine_dispatcher::{
    Arena, Channel, DispatcherBuilder, Driver, DumpLimits, Handle, Instant, Interest, Irq, Lane, Limits, Message,
    RuntimeBuilder, Scheduling, Status, SynchronizationChecker, Token, blocking, current, current_driver, ready, sleep,
    sleep_until, timeout,
};

use super::things::Things;

/// What an operation answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Status(Status),
}

impl<T> From<Result<T, Status>> for Answer {
    fn from(result: Result<T, Status>) -> Answer {
        result.map_or_else(Answer::Status, |_| Answer::Done)
    }
}

/// How it is called.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// It says what it was answered.
    Answers(fn(&Things) -> Answer),
    /// There is nothing to say.
    Silent(fn(&Things)),
}

impl Call {
    pub(crate) fn make(self, things: &Things) -> Answer {
        match self {
            Call::Answers(call) => call(things),
            Call::Silent(call) => {
                call(things);
                Answer::Done
            }
        }
    }
}

/// One of many.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    /// Whether it is refused when the target has gone.
    pub(crate) needs_running: bool,
    /// A part of the sentence with which it may panic.
    pub(crate) may_panic: Option<&'static str>,
}

/// An operation that works on things that have gone too.
pub(crate) const fn any(name: &'static str, call: fn(&Things) -> Answer) -> Operation {
    Operation { name, call: Call::Answers(call), needs_running: false, may_panic: None }
}

/// One without an answer.
pub(crate) const fn silent(name: &'static str, call: fn(&Things)) -> Operation {
    Operation { name, call: Call::Silent(call), needs_running: false, may_panic: None }
}

/// One that needs a dispatcher that runs.
pub(crate) const fn running(name: &'static str, call: fn(&Things) -> Answer) -> Operation {
    Operation { needs_running: true, ..any(name, call) }
}

pub(crate) fn status<T, E: Into<Status>>(result: Result<T, E>) -> Answer {
    result.map(drop).map_err(Into::into).into()
}

pub(crate) fn once<F: Future>(future: F) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Looks at something and lets it go.
pub(crate) fn done<T>(_: T) {}

pub(crate) const SHORT: Duration = Duration::from_millis(1);

/// All operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    // Posting.
    running("post_task", |t| status(t.target.post_task(|_| ()))),
    running("post_cancelable", |t| status(t.target.post_cancelable(|_| ()).map(|handle| done(handle.cancel())))),
    running("post_after", |t| status(t.target.post_after(SHORT, |_| ()))),
    running("post_at", |t| status(t.target.post_at(Instant::ZERO, |_| ()))),
    running("post_at, never", |t| status(t.target.post_at(Instant::INFINITE, |_| ()))),
    running("post_after, beyond all measure", |t| status(t.target.post_after(Duration::MAX, |_| ()))),
    any("post_task to another", |t| status(t.other.post_task(|_| ()))),
    running("begin_wait", |t| status(t.target.begin_wait(&t.stream, Interest::WRITABLE, |_| ()))),
    running("offload", |t| status(t.target.offload(Lane::Slow, |_| (), |_| ()))),
    running("spawn", |t| status(t.target.spawn(async {}))),
    any("spawn_local", |t| status(t.target.spawn_local(async {}).map_err(|refused| refused.into_status()))),
    any("spawn_local on another", |t| status(t.pinned.spawn_local(async {}).map_err(|refused| refused.status()))),
    any("spawn_local where it may be", |t| {
        let own = t.pinned.clone();
        status(t.pinned.post_task(move |_| done(own.spawn_local(std::future::pending::<()>()))))
    }),
    // Irqs.
    running("bind_irq", |t| match t.target.new_irq() {
        Ok((irq, trigger)) => {
            trigger.trigger();
            status(t.target.bind_irq(&irq, |outcome| done(outcome.map(|event| (event.count(), event.readiness())))))
        }
        Err(_) => Answer::Done,
    }),
    any("bind_irq twice", |t| status(t.target.bind_irq(&t.irq, |_| ()).map_err(|refused| refused.status()))),
    any("bind_irq over a stream", |t| {
        let irq = Irq::over(t.stream.try_clone().expect("there is a descriptor"));
        status(t.other.bind_irq(&irq, |outcome| done(outcome.map(|event| event.ack()))).map(|handle| handle.unbind()))
    }),
    any("ack", |t| status(t.bound.ack())),
    silent("trigger", |t| t.trigger.trigger()),
    any("trigger and ack", |t| {
        t.trigger.trigger();
        status(t.bound.ack())
    }),
    any("unbind", |t| status(t.bound.unbind().map(|unbound| unbound.is_running()))),
    any("unbind twice", |t| {
        done(t.bound.unbind());
        status(t.bound.unbind())
    }),
    silent("a new irq that nobody binds", |_| {
        if let Ok((irq, trigger)) = Irq::new() {
            trigger.trigger();
            done((irq, trigger));
        }
    }),
    // Taking back.
    any("cancel a task", |t| status(t.task.cancel())),
    any("cancel a task twice", |t| {
        let _ = t.task.cancel();
        status(t.task.cancel())
    }),
    any("cancel a wait", |t| status(t.wait.cancel())),
    any("cancel work", |t| status(t.work.cancel())),
    silent("cancel a future", |t| {
        let join = t.join.lock().map_or(None, |mut join| join.take());
        if let Some(join) = join {
            done((join.is_finished(), join.cancel()));
        }
    }),
    silent("poll a join handle", |t| {
        if let Some(join) = t.join.lock().expect("nobody panics here").as_mut() {
            let _ = Pin::new(join).poll(&mut Context::from_waker(Waker::noop()));
        }
    }),
    // Looking.
    silent("look at a dispatcher", |t| {
        let d = &t.target;
        done((d.name().len(), d.id().as_raw(), d.owner(), d.is_synchronized(), d.allows_sync_calls(), d.state()));
        done((d.scheduler_role().len(), d.is_current(), d.now(), d.counters().add_up(), d.sim_net(), d.clone()));
        done((d.state().as_str(), d.state().accepts(), format!("{d:?}")));
    }),
    silent("dump a dispatcher", |t| done((t.target.dump().to_string(), t.target.dump().is_busy()))),
    silent("dump as JSON", |t| {
        let dump = t.target.dump();
        done((dump.to_json(), dump.requests(), dump.queued("no such queue"), t.driver.dump().to_json()));
        done((t.runtime.dump().to_json(), t.runtime.dump_with(DumpLimits::default()).to_json()));
    }),
    silent("dump a driver", |t| done(t.driver.dump().to_string())),
    silent("dump a runtime", |t| done((t.runtime.dump().to_string(), t.runtime.dump().stuck()))),
    silent("look at a driver", |t| {
        let d = &t.driver;
        done((d.name().len(), d.id().as_raw(), d.is_shut_down(), d.dispatchers(), d.counters(), d.panics()));
    }),
    silent("look at a runtime", |t| {
        done((t.runtime.now(), t.runtime.counters(), t.runtime.thread_count(), t.runtime.sim_net()));
    }),
    silent("look at a role", |t| {
        let role = t.runtime.role("new");
        done((role.name().len(), role.thread_limit(), role.thread_count(), role.sync_call_dispatchers()));
        done((role.added(), role.retired(), role.no_sync_calls(), role.scheduling(), role.scheduling_report()));
    }),
    any("set_thread_limit", |t| status(t.runtime.role("new").set_thread_limit(30))),
    any("set_thread_limit to too little", |t| status(t.runtime.role("").set_thread_limit(0))),
    any("set_no_sync_calls", |t| status(t.runtime.role("new").set_no_sync_calls(false))),
    any("set_no_sync_calls of the default role", |t| {
        let role = t.runtime.role("");
        let set = role.set_no_sync_calls(true);
        // For whatever comes after.
        done(role.set_no_sync_calls(false));
        status(set)
    }),
    silent("set_scheduling", |t| t.runtime.role("new").set_scheduling(Scheduling::Fifo { priority: -1 })),
    silent("allow_scheduler_role", |t| t.driver.allow_scheduler_role("new")),
    any("seal_allow_sync_calls", |t| status(t.target.seal_allow_sync_calls())),
    silent("current", |_| done((current(), current_driver()))),
    any("upgrade", |t| status(t.weak.upgrade().map(|handle| handle.downgrade()))),
    // Making.
    running("new_dispatcher", |t| status(t.driver.new_dispatcher(DispatcherBuilder::new()))),
    running("new_dispatcher of a new role", |t| {
        status(
            t.driver
                .new_dispatcher(DispatcherBuilder::new().name("new").scheduler_role("new"))
                .map(|new| new.release()),
        )
    }),
    running("new_dispatcher that is pinned", |t| {
        let builder = DispatcherBuilder::new().no_thread_migration();
        status(t.driver.new_dispatcher(builder).map(|new| new.allows_thread_migration()))
    }),
    running("new_dispatcher that is pinned and may block", |t| {
        status(t.driver.new_dispatcher(DispatcherBuilder::new().no_thread_migration().allow_sync_calls()))
    }),
    running("new_dispatcher of both kinds", |t| {
        status(t.driver.new_dispatcher(DispatcherBuilder::new().unsynchronized().allow_sync_calls()))
    }),
    any("build", |_| status(DispatcherBuilder::new().shutdown_observer(|| ()).build())),
    silent("new_driver", |t| done(t.runtime.new_driver("new"))),
    any("build a runtime", |_| {
        let built = RuntimeBuilder::new().name("inner").threads(1).thread_limit(1).batch(1).inline_depth(0).build();
        status(built.map(|runtime| runtime.shutdown_async()))
    }),
    any("build a runtime with every choice about threads", |_| {
        let builder = RuntimeBuilder::new().threads(1).dynamic_threads().enforce_allowed_roles();
        let built = refuse_threads_after(9, || builder.retire_threads_after(Duration::MAX).build());
        status(built.map(|runtime| runtime.shutdown_async()))
    }),
    any("build a runtime of nothing", |_| status(RuntimeBuilder::new().threads(0).build())),
    any("build a runtime of too much", |_| status(RuntimeBuilder::new().threads(usize::MAX).build())),
    silent("observe_panics", |t| t.runtime.observe_panics(|_| ())),
    silent("panic_observer", |_| {
        let policy = fuchsine_dispatcher::PanicPolicy::Continue;
        done(RuntimeBuilder::new().panic_policy(policy).panic_observer(|_| ()));
    }),
    silent("enter", |t| t.driver.enter(|| t.other_driver.enter(|| ()))),
    any("register_entry", |t| {
        t.driver.register_entry();
        t.other_driver.register_entry();
        let exits = (Driver::register_exit(), Driver::register_exit());
        status(exits.0.and(exits.1))
    }),
    any("register_exit", |_| status(Driver::register_exit())),
    // Ending.
    silent("shutdown_async of a dispatcher", |t| t.target.shutdown_async()),
    any("shutdown of a driver", |t| {
        let first = t.driver.shutdown(|| ());
        done(t.driver.shutdown(|| ()).map_err(|refused| (refused.into_observer())()));
        status(first)
    }),
    any("observe_shutdown", |t| status(t.driver.observe_shutdown(|| ()))),
    silent("shutdown_async of a runtime", |t| t.runtime.shutdown_async()),
    any("shutdown of a runtime", |t| status(t.runtime.shutdown(SHORT))),
    any("shutdown of a runtime at once", |t| status(t.runtime.shutdown(Duration::ZERO))),
    silent("drop the owner", |t| done(t.owner.lock().map(|mut owner| owner.take()))),
    silent("release the owner", |t| {
        let owner = t.owner.lock().map_or(None, |mut owner| owner.take());
        done(owner.map(|owner| (owner.handle(), owner.release())));
    }),
    silent("look at a stop token", |t| {
        done((t.stop.is_stopping(), t.stop.as_fd().is_ok(), t.target.stop_token()));
    }),
    silent("wait for a stop", |t| done(t.stop.wait_timeout(SHORT))),
    any("blocking", |_| match blocking(|| ()) {
        Ok(()) => Answer::Done,
        Err(refused) => {
            let status = refused.status();
            (refused.into_inner())();
            Answer::Status(status)
        }
    }),
    // Channels.
    any("write", |t| status(t.near.write(Message::from_bytes(b"!")))),
    any("write to nobody", |t| status(t.closed.write(Message::new()).map_err(|error| error.into_status()))),
    any("write an end of itself", |t| {
        let (one, two) = Channel::pair();
        done(one.write(Message::new().with(two)).map_err(|error| error.into_message()));
        status(t.near.write(Message::new().with(Channel::pair().0)))
    }),
    any("try_read", |t| status(t.far.try_read())),
    any("try_read of nobody", |t| status(t.closed.try_read())),
    running("begin_read", |t| {
        let read = t.far.begin_read(&t.target, |_| ());
        let again = t.far.begin_read(&t.target, |_| ()).map_err(|error| error.into_inner());
        done((again, t.far.cancel_read()));
        status(read)
    }),
    running("begin_standing_read", |t| {
        let read = t.far.begin_standing_read(&t.target, |_| ControlFlow::Continue(()));
        let again =
            t.far.begin_standing_read(&t.target, |_| ControlFlow::Break(())).map_err(|error| error.into_inner());
        done((again.is_err(), t.far.cancel_read()));
        status(read.map_err(|error| error.into_status()))
    }),
    running("begin_receiving", |t| {
        let read = t.far.begin_receiving(&t.target, |_| ControlFlow::Continue(()));
        let again = t.far.begin_receiving(&t.target, |_| ControlFlow::Break(())).map_err(|error| error.into_inner());
        done((again.is_err(), t.far.cancel_read()));
        status(read.map_err(|error| error.into_status()))
    }),
    any("begin_read of nobody", |t| status(t.closed.begin_read(&t.other, |_| ()).map_err(|error| error.into_status()))),
    any("cancel_read", |t| status(t.far.cancel_read())),
    silent("read", |t| once(t.far.read())),
    silent("close with a read", |t| {
        let (near, far) = Channel::pair();
        done((near.begin_read(&t.target, |_| ()), near, far));
    }),
    silent("send an end with a read", |t| {
        let (near, far) = Channel::pair();
        let read = far.begin_read(&t.target, |_| ());
        done((t.near.write(Message::new().with(far)), near.write(Message::new()), read));
    }),
    silent("look at a channel", |t| {
        done((t.near.queued_messages(), t.near.queued_bytes(), t.near.peer_queued_messages()));
        done((t.near.peer_queued_bytes(), t.near.is_peer_closed(), format!("{:?}", t.near)));
        done((t.near.limits().max_messages(), t.near.limits().max_bytes()));
    }),
    silent("pair_with", |_| {
        let (near, _far) = Channel::pair_with(Limits::default().messages(0).bytes(0));
        done((near.write(Message::with_len(10)), near.write(Message::with_len(10))));
    }),
    silent("allocate", |t| {
        done((t.arena.message(0), t.arena.allocate(1_000_000), t.arena.tag(), t.arena.contains(b"elsewhere")));
        done((Arena::with_tag(*b"abcd"), Arena::with_capacity(0), Arena::new().into_buffer(3)));
        done((t.arena.contains_raw(std::ptr::null(), 0), t.arena.clone().try_reset()));
    }),
    any("allocate beyond all measure", |t| {
        done((Arena::try_with_capacity(usize::MAX), t.arena.allocate_raw(usize::MAX, 8)));
        done((t.arena.allocate_raw(8, 0), t.arena.allocate_raw(8, 3), t.arena.allocate_raw(0, 1 << 40)));
        let mut buffer = t.arena.allocate(3);
        buffer.truncate(100);
        buffer.truncate(1);
        done((buffer.len(), buffer.arena().tag()));
        status(t.arena.try_allocate(usize::MAX))
    }),
    silent("messages", |t| {
        let mut message = Message::from_parts(Some(t.arena.allocate(8)), vec![Handle::value(7_u8)]);
        message.push(Handle::value("text"));
        message.bytes_mut().fill(1);
        message.truncate(100);
        done((message.len(), message.is_empty(), message.arena().is_some(), message.handles().len()));
        done((message.bytes().len(), Message::with_len(0)));
        let wrong = message.take_handles().remove(0).into_channel();
        done(wrong.map_err(|handle| handle.into_fd().map_err(|handle| handle.into_value::<String>())));
        done(message.recycle(1 << 20).into_parts());
    }),
    // Calls, and waits for room.
    any("call without an answer", |t| {
        status(t.near.call(Message::from_bytes(b"?"), t.target.now() + SHORT).map_err(|error| error.status()))
    }),
    any("call of nobody", |t| {
        let refused = t.closed.call(Message::new(), Instant::INFINITE).map_err(|error| error.into_request());
        if refused.is_ok() { Answer::Done } else { Answer::Status(Status::PeerClosed) }
    }),
    silent("call with an end of itself", |_| {
        let (one, two) = Channel::pair();
        done(one.call(Message::new().with(two), Instant::INFINITE));
    }),
    running("begin_call", |t| {
        let (client, server) = Channel::pair();
        let begun = client.begin_call(&t.target, Message::new(), Instant::ZERO, |_| ());
        let request = server.try_read();
        done(request.map(|request| (request.txid().map(|txid| txid.as_raw()), server.write(request.recycle(1)))));
        status(begun.map(|handle| handle.cancel()).map_err(|refused| refused.status()))
    }),
    silent("call_async", |t| once(t.near.call_async(Message::new(), Instant::ZERO))),
    silent("a reply to nothing", |t| {
        let (client, server) = Channel::pair();
        done(client.begin_call(&t.target, Message::new(), Instant::INFINITE, |_| ()));
        if let Ok(request) = server.try_read()
            && let Some(txid) = request.txid()
        {
            // To the wrong end, to the right one, and once more.
            done(client.write(Message::new().in_reply_to(txid)));
            done(t.near.write(Message::new().in_reply_to(txid)));
            done((server.write(Message::new().in_reply_to(txid)), server.write(Message::new().in_reply_to(txid))));
        }
    }),
    running("begin_writable", |t| {
        let waiting = t.near.begin_writable(&t.target, usize::MAX, |_| ());
        let again = t.near.begin_writable(&t.target, 0, |_| ());
        done((again.is_ok(), t.near.cancel_writable(), t.near.cancel_writable()));
        status(waiting.map_err(|refused| refused.status()))
    }),
    silent("writable", |t| once(t.near.writable(usize::MAX))),
    // Tokens.
    running("register", |t| {
        let (server, client) = Token::pair();
        let registered = server.register(&t.target, |_| ()).map_err(|refused| refused.status());
        done(client.transfer(Channel::pair().0));
        status(registered)
    }),
    any("transfer first", |t| {
        let (server, client) = Token::pair();
        let sent = client.transfer(Channel::pair().0);
        done(server.register(&t.other, |_| ()));
        status(sent.map_err(|refused| refused.status()))
    }),
    any("transfer to nobody", |_| {
        status(
            Token::pair()
                .0
                .transfer(Channel::pair().0)
                .map_err(|refused| refused.into_inner())
                .map_err(|_| Status::PeerClosed),
        )
    }),
    any("receive", |_| {
        let (server, client) = Token::pair();
        done(client.receive());
        status(server.receive().map_err(|refused| refused.status()))
    }),
    silent("drop of a token that is registered", |t| {
        let (server, client) = Token::pair();
        done((server.register(&t.target, |_| ()), client));
    }),
    // Waiting, and asking where one is.
    any("wait_until_idle of a dispatcher", |t| status(t.target.wait_until_idle(SHORT))),
    any("wait_until_idle of a runtime", |t| status(t.runtime.wait_until_idle(SHORT))),
    any("wait_until_destroyed of a driver", |t| status(t.driver.wait_until_destroyed(SHORT))),
    any("wait_until_destroyed of a runtime", |t| status(t.runtime.wait_until_destroyed(Duration::ZERO))),
    any("shutdown_drivers", |t| status(t.runtime.shutdown_drivers(SHORT))),
    silent("ask what a dispatcher has to do", |t| done((t.target.is_idle(), t.target.has_queued_tasks()))),
    silent("ask for the driver of a thread", |t| {
        done((t.runtime.driver_on_thread(std::thread::current().id()), t.runtime.driver_on_os_thread(0)));
    }),
    any("sequence_id", |t| {
        let id = t.target.sequence_id();
        if let Ok(id) = &id {
            done((t.target.check_sequence_id(*id), t.other.check_sequence_id(*id)));
        }
        status(id.map_err(Status::from))
    }),
    Operation {
        may_panic: Some("belongs to"),
        ..any("check", |t| {
            let checker = SynchronizationChecker::new("a thing", &t.target);
            done(SynchronizationChecker::of_current("another thing"));
            if let Ok(checker) = &checker {
                done(checker.is_in_place());
                checker.check();
            }
            status(checker.map_err(Status::from))
        })
    },
    // Futures.
    silent("sleep", |_| once(sleep(SHORT))),
    silent("sleep for ever", |_| once(sleep(Duration::MAX))),
    silent("sleep_until", |_| once(sleep_until(Instant::ZERO))),
    silent("timeout", |_| once(timeout(SHORT, std::future::pending::<()>()))),
    silent("ready", |t| once(ready(&t.stream, Interest::READABLE))),
    // The kit: a runtime inside of whatever this is.
    silent("a foreground runtime that is quit", |_| {
        let runtime = ForegroundRuntime::new();
        let quit = runtime.quit_handle();
        quit.quit();
        done((runtime.run(Instant::ZERO), runtime.run_one_until(Instant::ZERO), runtime.reset_quit()));
        runtime.quit();
        done((runtime.reset_quit(), runtime.reset_quit()));
        runtime.set_patience(Duration::ZERO);
        runtime.set_hang_limit(Duration::from_secs(20));
        done(runtime.block_on(async { 1 }));
        done(runtime.block_on(std::future::pending::<()>()));
        done(runtime.run_until_stalled(&mut std::future::ready(1)));
        done(runtime.run_blocking(|| blocking(|| ()).is_ok()));
    }),
    any("set_default_dispatcher", |t| {
        let set = set_default_dispatcher(Some(&t.target));
        done((current(), current_driver(), set_default_dispatcher(None)));
        set.into()
    }),
    silent("a foreground runtime", |_| {
        let runtime = ForegroundRuntime::with(RuntimeBuilder::new()).expect("there is nothing to refuse");
        let driver = runtime.new_driver("inner");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("it is made");
        dispatcher.post_task(|_| ()).expect("it runs");
        runtime.run_once();
        runtime.run_until_idle();
        runtime.run_until(Instant::ZERO);
        runtime.advance(SHORT);
        runtime.run_until_condition(|| false);
        runtime.shutdown_driver(&driver);
        done((runtime.shutdown(), ForegroundRuntime::with_real_descriptors(RuntimeBuilder::new())));
    }),
];
