//! More of what is done at each place: roles and threads, suspend and resume, state that belongs to a dispatcher, scopes,
//! typed channels.

use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, Client, DispatcherBound, DispatcherBuilder, Handle, Incoming, Instant, Interest, Limits, Message,
    Protocol, RuntimeBuilder, Scheduling, Server, Status, TaskScope, WakeSource,
};

use super::operations::{Answer, Operation, SHORT, any, done, once, running, silent, status};

/// Numbers both ways.
struct Numbers;

impl Protocol for Numbers {
    type Request = u32;
    type Reply = u32;
    type Event = u32;
}

/// The operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    // Roles and threads.
    silent("look at a role", |t| {
        for role in [t.runtime.role(""), t.runtime.role("nobody's")] {
            done((role.name().len(), role.thread_limit(), role.thread_count(), role.sync_call_dispatchers()));
            done((role.added(), role.retired(), role.no_sync_calls(), role.scheduling(), role.scheduling_report()));
        }
    }),
    any("set_thread_limit", |t| status(t.runtime.role("").set_thread_limit(100))),
    any("set_thread_limit below what runs", |t| status(t.runtime.role("").set_thread_limit(0))),
    any("set_thread_limit beyond all measure", |t| status(t.runtime.role("new").set_thread_limit(usize::MAX))),
    any("set_no_sync_calls", |t| {
        done(t.runtime.role("new").set_no_sync_calls(true));
        status(t.runtime.role("").set_no_sync_calls(true))
    }),
    silent("set_scheduling", |t| t.runtime.role("new").set_scheduling(Scheduling::Normal { nice: 1000 })),
    any("seal_allow_sync_calls", |t| status(t.target.seal_allow_sync_calls())),
    any("seal_allow_sync_calls of another", |t| status(t.blocking.seal_allow_sync_calls())),
    any("a runtime that enforces its roles", |_| {
        let runtime =
            RuntimeBuilder::new().threads(1).enforce_allowed_roles().dynamic_threads().retire_threads_after(SHORT);
        let runtime = match runtime.build() {
            Ok(runtime) => runtime,
            Err(error) => return Answer::Status(error.status()),
        };
        let driver = runtime.new_driver("new");
        let refused = driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("new"));
        driver.allow_scheduler_role("new");
        done(driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("new").allow_sync_calls()));
        runtime.shutdown_async();
        status(refused)
    }),
    // Suspend and resume.
    any("suspend", |t| {
        let first = t.driver.suspend(|_| ());
        let again = t.driver.suspend(|_| ()).map_err(|refused| (refused.status(), refused.into_completer()));
        done((again.is_ok(), t.driver.is_suspended()));
        status(first.map_err(|refused| refused.into_status()))
    }),
    any("suspend, work and resume", |t| {
        let suspended = t.driver.suspend(|_| ());
        done((t.target.post_task(|_| ()), t.target.always_on().post_task(|_| ())));
        done((t.driver.resume(), t.driver.resume()));
        status(suspended.map_err(|refused| refused.status()))
    }),
    any("suspend and shut down", |t| {
        done(t.driver.suspend(|_| ()));
        done((t.target.post_task(|_| ()), t.driver.shutdown(|| ())));
        status(t.driver.suspend(|_| ()).map_err(|refused| refused.status()))
    }),
    silent("resume of what runs", |t| done(t.driver.resume())),
    silent("resume requester", |t| {
        t.driver.set_resume_requester(|driver| done(driver.resume()));
        t.driver.set_resume_requester(|_| ());
        t.driver.clear_resume_requester();
    }),
    any("wake vectors", |t| {
        let stream = t.stream.try_clone().expect("there is a descriptor");
        let source = WakeSource::over(stream);
        done(t.driver.register_wake_vector(&t.stream, Interest::READABLE).err());
        done(t.driver.unregister_wake_vector(&source, Interest::READABLE));
        let vector = t.driver.register_wake_vector(&source, Interest::READABLE);
        done(t.driver.register_wake_vector(&t.irq, Interest::READABLE).map(|vector| vector.keep()));
        done(t.driver.unregister_wake_vector(&t.irq, Interest::READABLE));
        status(vector.map_err(Status::from))
    }),
    running("always_on", |t| {
        let always_on = t.target.always_on();
        done((always_on.always_on().is_always_on(), always_on.name().len(), always_on.dump(), always_on == t.target));
        status(always_on.post_after(SHORT, |_| ()))
    }),
    // State of a dispatcher.
    running("bound state", |t| {
        let bound = match DispatcherBound::new(&t.target, || 7) {
            Ok(bound) => bound,
            Err(refused) => return Answer::Status(refused.status()),
        };
        done((bound.async_call(|number| *number += 1), bound.dispatcher().id()));
        status(bound.call_for(|number| *number).map(|mut reply| reply.try_take()))
    }),
    any("bound state that may not move", |t| {
        done(DispatcherBound::<std::rc::Rc<u8>>::new_local(&t.target, || std::rc::Rc::new(1)).is_ok());
        status(DispatcherBound::<std::rc::Rc<u8>>::new_local(&t.pinned, || std::rc::Rc::new(1)))
    }),
    running("scope", |t| {
        let scope = TaskScope::new(&t.target);
        let posted = scope.post(|| ());
        done((scope.post_after(SHORT, || ()), scope.post_at(Instant::INFINITE, || ()), scope.len(), scope.is_empty()));
        done((scope.spawn(std::future::pending()), scope.spawn_local(std::future::pending()), scope.dispatcher().id()));
        status(posted)
    }),
    // Typed channels.
    running("serve", |t| {
        let (client, server) = Client::<Numbers>::pair();
        let served = server.serve(&t.target, |incoming| match incoming {
            Ok(Incoming::Call(_, responder)) => done(responder.refuse(Status::NotFound)),
            other => done(other.map(|incoming| incoming.into_request())),
        });
        done((client.send(1), client.begin_call(&t.target, 2, Instant::INFINITE, |_| ()).is_ok()));
        status(served.map_err(|refused| refused.status()))
    }),
    silent("a typed call that is served by hand", |t| {
        let (client, server) = Client::<Numbers>::pair();
        done((client.call(1, Instant::ZERO), client.begin_call(&t.target, 2, Instant::INFINITE, |_| ()).is_ok()));
        while let Ok(incoming) = server.try_next() {
            match incoming {
                Incoming::Call(number, responder) => done(responder.reply(number)),
                other => done(other.into_request()),
            }
        }
        done((server.send_event(3), client.try_event(), client.try_event()));
        done(client.on_events(&t.target, |_| ()).is_ok());
        once(client.next_event());
        done((client.channel().queued_messages(), client.clone().into_channel().is_ok()));
        done((server.channel().queued_messages(), server.into_channel().is_ok()));
        let (client, server) = Client::<Numbers>::pair_with(Limits::default().messages(0).bytes(0));
        done((client.send(1), client.send(2), server.try_next().is_ok(), server.send_event(3), client.try_event()));
    }),
    silent("a typed channel that carries something else", |t| {
        let (near, far) = Channel::pair();
        let server = Server::<Numbers>::from_channel(far);
        done(near.write(Message::from_bytes(b"no number").with(Handle::value("neither"))));
        done(server.try_next().map_err(|error| error.status()));
        done(near.write(Message::new()));
        done(server.serve(&t.target, |_| ()).is_ok());
        let client = Client::<Numbers>::from_channel(near);
        done((client.send(1), client.into_channel().is_ok()));
    }),
    silent("wait for a while on a typed client", |t| {
        let (client, _server) = Client::<Numbers>::pair();
        done(client.call(1, t.target.now() + Duration::from_micros(1)));
        once(client.call_async(1, Instant::ZERO));
    }),
];
