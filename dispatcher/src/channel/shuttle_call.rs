//! Models of calls and of waits for room on real dispatchers and the real pool: replies against closes, shutdowns, and
//! callers that give up.
//!
//! What each checks in the end: a caller has one outcome, one that fits; no reply has become a message; the end is idle
//! again; the counters add up. Where nothing but the reply can end a call, the model waits for it, so that a lost notice
//! shows as a deadlock.
//!
//! Run as the other models (`shuttle_channel`). Not covered: deadlines (a modelled wait never times out; a call that is
//! taken back stands for one), weak memory.

use std::time::Duration;

use super::shuttle_channel::explore;
use super::{Channel, Limits, Message};
use crate::runtime::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder};
use crate::status::Status;
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::time::Instant;

/// The outcomes that callers were told.
#[derive(Default)]
struct Told {
    outcomes: Mutex<Vec<Result<(), Status>>>,
    news: Condvar,
}

impl Told {
    fn tell(&self, outcome: Result<(), Status>) {
        self.outcomes.lock().push(outcome);
        self.news.notify_all();
    }

    fn wait_for(&self, times: usize) -> Vec<Result<(), Status>> {
        let mut outcomes = self.outcomes.lock();
        while outcomes.len() < times {
            self.news.wait(&mut outcomes);
        }
        outcomes.clone()
    }
}

struct Bench {
    runtime: Runtime,
    home: Dispatcher,
    client: Channel,
    server: Channel,
    told: Arc<Told>,
}

fn set_up(builder: DispatcherBuilder, limits: Limits) -> Bench {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
    let home = runtime.new_driver("home").new_dispatcher(builder).expect("the driver is new");
    let (client, server) = Channel::pair_with(limits);
    Bench { runtime, home, client, server, told: Arc::default() }
}

fn conclude(runtime: &Runtime) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
    assert_eq!(counters.pending, 0);
}

/// Answers one request if there is one.
fn answer(server: &Channel) {
    if let Ok(request) = server.try_read() {
        // The caller may have closed its end.
        let _ = server.write(request);
    }
}

#[test]
fn shuttle_a_call_has_one_outcome_when_its_reply_races_with_the_close_and_the_shutdown() {
    explore(|| {
        let Bench { runtime, home, client, server, told } = set_up(DispatcherBuilder::new(), Limits::default());
        let telling = Arc::clone(&told);
        let handler = move |outcome: Result<Message, Status>| telling.tell(outcome.map(drop));
        let _call = client.begin_call(&home, Message::new(), Instant::INFINITE, handler).expect("it runs");
        let answering = thread::spawn("answering", move || {
            answer(&server);
            drop(server);
        })
        .expect("a thread");
        home.shutdown_async();
        answering.join().expect("it ends");
        conclude(&runtime);
        let outcomes = told.outcomes.lock().clone();
        assert!(matches!(outcomes[..], [Ok(()) | Err(Status::Canceled | Status::PeerClosed)]), "{outcomes:?}");
        assert_eq!(client.queued_messages(), 0);
        assert!(client.pair.is_idle(client.side));
    });
}

#[test]
fn shuttle_a_call_that_is_taken_back_while_its_reply_comes_has_one_end() {
    explore(|| {
        let Bench { runtime, home, client, server, told } = set_up(DispatcherBuilder::new(), Limits::default());
        let telling = Arc::clone(&told);
        let handler = move |outcome: Result<Message, Status>| telling.tell(outcome.map(drop));
        let call = client.begin_call(&home, Message::new(), Instant::INFINITE, handler).expect("it runs");
        let answering = thread::spawn("answering", move || answer(&server)).expect("a thread");
        let taken_back = usize::from(call.cancel().is_ok());
        answering.join().expect("it ends");
        assert!(told.wait_for(1 - taken_back).iter().all(Result::is_ok));
        conclude(&runtime);
        assert_eq!(told.outcomes.lock().len(), 1 - taken_back);
        assert_eq!(client.queued_messages(), 0);
        assert!(client.pair.is_idle(client.side));
    });
}

#[test]
fn shuttle_blocked_calls_of_both_ends_at_once_get_their_own_replies() {
    explore(|| {
        let Bench { runtime, client, server, .. } = set_up(DispatcherBuilder::new(), Limits::default());
        let (client, server) = (Arc::new(client), Arc::new(server));
        let far = Arc::clone(&server);
        let other = thread::spawn("server", move || {
            let reply = far.call(Message::from_bytes(b"s"), Instant::INFINITE).expect("answered");
            assert_eq!(reply.bytes(), b"s");
        })
        .expect("a thread");
        let near = Arc::clone(&client);
        let calling = thread::spawn("client", move || {
            let reply = near.call(Message::from_bytes(b"c"), Instant::INFINITE).expect("answered");
            assert_eq!(reply.bytes(), b"c");
        })
        .expect("a thread");
        for end in [&server, &client] {
            while end.queued_messages() == 0 {
                thread::yield_now();
            }
            answer(end);
        }
        other.join().expect("it ends");
        calling.join().expect("it ends");
        conclude(&runtime);
        assert_eq!((client.queued_messages(), server.queued_messages()), (0, 0));
    });
}

#[test]
fn shuttle_a_blocked_call_ends_with_the_reply_the_close_or_the_shutdown() {
    explore(|| {
        let builder = DispatcherBuilder::new().allow_sync_calls();
        let Bench { runtime, home, client, server, told } = set_up(builder, Limits::default());
        let telling = Arc::clone(&told);
        home.post_task(move |_| {
            let outcome = client.call(Message::new(), Instant::INFINITE);
            assert_eq!(client.queued_messages(), 0);
            assert!(client.pair.is_idle(client.side));
            telling.tell(outcome.map(drop).map_err(Status::from));
        })
        .expect("it runs");
        let answering = thread::spawn("answering", move || {
            answer(&server);
            drop(server);
        })
        .expect("a thread");
        home.shutdown_async();
        answering.join().expect("it ends");
        let outcomes = told.wait_for(1);
        assert!(matches!(outcomes[..], [Ok(()) | Err(Status::Canceled | Status::PeerClosed)]), "{outcomes:?}");
        conclude(&runtime);
    });
}

#[test]
fn shuttle_a_future_that_calls_ends_however_it_races() {
    explore(|| {
        let Bench { runtime, home, client, server, told } = set_up(DispatcherBuilder::new(), Limits::default());
        let client = Arc::new(client);
        let (own, telling) = (Arc::clone(&client), Arc::clone(&told));
        let calling = home
            .spawn(async move {
                let outcome = own.call_async(Message::new(), Instant::INFINITE).await;
                telling.tell(outcome.map(drop).map_err(Status::from));
            })
            .expect("it runs");
        let answering = thread::spawn("answering", move || {
            answer(&server);
            drop(server);
        })
        .expect("a thread");
        calling.cancel();
        answering.join().expect("it ends");
        conclude(&runtime);
        assert!(told.outcomes.lock().len() <= 1);
        assert_eq!((client.queued_messages(), Arc::strong_count(&client)), (0, 1));
        assert!(client.pair.is_idle(client.side));
    });
}

#[test]
fn shuttle_a_writer_that_waits_for_room_is_told_of_it() {
    explore(|| {
        let Bench { runtime, home, client, server, told } =
            set_up(DispatcherBuilder::new(), Limits::default().messages(1));
        client.write(Message::new()).expect("the queue is empty");
        let reading = thread::spawn("reading", move || {
            drop(server.try_read());
            server
        })
        .expect("a thread");
        let telling = Arc::clone(&told);
        client.begin_writable(&home, 0, move |outcome| telling.tell(outcome)).expect("it runs");
        assert_eq!(told.wait_for(1), [Ok(())]);
        client.write(Message::new()).expect("there is room");
        let server = reading.join().expect("it ends");
        // Full again; what ends the wait is the room, the close, or the shutdown.
        let telling = Arc::clone(&told);
        client.begin_writable(&home, 0, move |outcome| telling.tell(outcome)).expect("it runs");
        let closing = thread::spawn("closing", move || {
            drop(server.try_read());
            drop(server);
        })
        .expect("a thread");
        home.shutdown_async();
        closing.join().expect("it ends");
        conclude(&runtime);
        let outcomes = told.outcomes.lock().clone();
        assert_eq!(outcomes.len(), 2, "{outcomes:?}");
        assert!(matches!(outcomes[1], Ok(()) | Err(Status::Canceled | Status::PeerClosed)), "{outcomes:?}");
        assert!(client.pair.is_idle(client.side));
    });
}
