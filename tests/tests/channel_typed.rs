//! Goal: clients and servers exchange values as they are; a call has one answer; every value is dropped once.
//! Method: scenarios on every kind of runtime; where the order of steps is the point, on the foreground runtime.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::{
    CallError, Channel, Client, Dispatcher, DispatcherBuilder, Handle, Incoming, Instant, Limits, Message, Protocol,
    ReceiveError, Refused, Responder, Server, Status, Token, Txid, WriteError, current,
};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_pools};

/// A store of texts.
struct Store;

enum Request {
    Put(String),
    Get(usize),
    /// Never answered.
    Forget,
    /// Refused.
    Break,
}

#[derive(Debug, PartialEq)]
enum Reply {
    Place(usize),
    Text(String),
}

struct Changed(usize);

impl Protocol for Store {
    type Request = Request;
    type Reply = Reply;
    type Event = Changed;
}

/// Another protocol with plain types.
struct Numbers;

impl Protocol for Numbers {
    type Request = Counted;
    type Reply = Counted;
    type Event = Counted;
}

/// Counts its drops.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counted() -> (impl Fn() -> Counted, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&drops);
    (move || Counted(Arc::clone(&drops)), move || read.load(Ordering::Relaxed))
}

fn dispatcher(world: &World, name: &str) -> Dispatcher {
    world.driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Serves a store until the client closes; the last word goes to `log`.
#[track_caller]
fn serve(server: Server<Store>, home: &Dispatcher, log: &Log) {
    let (log, mut texts) = (log.clone(), Vec::new());
    let served = server.serve(home, move |incoming| match incoming {
        Ok(Incoming::OneWay(Request::Put(text))) => texts.push(text),
        Ok(Incoming::Call(Request::Put(text), responder)) => {
            texts.push(text);
            responder.reply(Reply::Place(texts.len() - 1)).expect("the client waits");
        }
        Ok(Incoming::Call(Request::Get(place), responder)) => {
            responder.reply(Reply::Text(texts[place].clone())).expect("the client waits");
        }
        Ok(Incoming::Call(Request::Break, responder)) => responder.refuse(Status::NotSupported).expect("it waits"),
        Ok(incoming) => drop(incoming),
        Err(status) => log.add(format!("{status:?}")),
    });
    served.map_err(Status::from).expect("it begins");
}

#[test]
fn a_thread_calls_a_server() {
    on_pools(|world| {
        let home = dispatcher(world, "store");
        let (client, server) = Client::<Store>::pair();
        let log = Log::new();
        serve(server, &home, &log);
        client.send(Request::Put("zero".to_owned())).expect("sent");
        for place in 1..50 {
            let reply = client.call(Request::Put(place.to_string()), Instant::INFINITE).expect("answered");
            assert_eq!(reply, Reply::Place(place));
        }
        let reply = client.clone().call(Request::Get(7), Instant::INFINITE).expect("answered");
        assert_eq!(reply, Reply::Text("7".to_owned()));
        drop(client);
        world.wait_until("the end", || !log.is_empty());
        assert_eq!(log.take(), ["PeerClosed"]);
    });
}

#[test]
fn futures_call_a_server_that_is_a_future() {
    on_every_pool(|world| {
        let (home, asking) = (dispatcher(world, "store"), dispatcher(world, "asking"));
        let (client, server) = Client::<Store>::pair();
        let serving = home
            .spawn(async move {
                let mut places = 0;
                loop {
                    match server.next().await {
                        Ok(Incoming::Call(Request::Put(_), responder)) => {
                            responder.reply(Reply::Place(places)).expect("the client waits");
                            server.send_event(Changed(places)).expect("the client is open");
                            places += 1;
                        }
                        Ok(_) => {}
                        Err(status) => return status,
                    }
                }
            })
            .expect("accepted");
        let asked = asking
            .spawn(async move {
                for place in 0..20 {
                    let deadline = current().expect("on a dispatcher").now() + common::HANG;
                    let reply = client.call_async(Request::Put(String::new()), deadline).await.expect("answered");
                    assert_eq!(reply, Reply::Place(place));
                    assert_eq!(client.next_event().await.expect("sent with it").0, place);
                }
            })
            .expect("accepted");
        world.wait_until("the answers", || asked.is_finished() && serving.is_finished());
    });
}

#[test]
fn a_callback_is_told_the_reply_the_refusal_and_the_forgotten_call() {
    in_the_foreground(|world| {
        let (home, asking) = (dispatcher(world, "store"), dispatcher(world, "asking"));
        let (client, server) = Client::<Store>::pair();
        let log = Log::new();
        serve(server, &home, &log);
        for request in [Request::Put("text".to_owned()), Request::Break, Request::Forget] {
            let log = log.clone();
            let _call = client
                .begin_call(&asking, request, Instant::INFINITE, move |reply| log.add(format!("{reply:?}")))
                .expect("sent");
        }
        world.settle();
        assert_eq!(log.take(), ["Ok(Place(0))", "Err(NotSupported)", "Err(Canceled)"]);
    });
}

/// Whatever becomes of a message, its value is dropped, once.
///
/// Shows D8.
#[test]
fn values_that_nobody_takes_are_dropped_once() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let (make, drops) = counted();
        // Never read.
        let (client, server) = Client::<Numbers>::pair();
        client.send(make()).expect("sent");
        server.send_event(make()).expect("sent");
        drop((client, server));
        assert_eq!(drops(), 2);
        // A late reply.
        let (client, server) = Client::<Numbers>::pair();
        let call = client.begin_call(&home, make(), Instant::INFINITE, |_| {}).expect("sent");
        let Ok(Incoming::Call(request, responder)) = server.try_next() else { panic!("that was sent") };
        drop(request);
        drop(call.cancel().expect("it waits"));
        responder.reply(make()).expect("taken, and dropped");
        assert_eq!(drops(), 4);
        // A reply whose handler is taken back.
        let call = client.begin_call(&home, make(), Instant::INFINITE, |_| {}).expect("sent");
        let Ok(Incoming::Call(request, responder)) = server.try_next() else { panic!("that was sent") };
        drop(request);
        responder.reply(make()).expect("it waits");
        drop(call.cancel().expect("it is queued"));
        assert_eq!(drops(), 6);
        // Refused: the value comes back.
        drop(server);
        let refused = client.send(make()).expect_err("nobody is there");
        assert_eq!((refused.status(), drops()), (Status::PeerClosed, 6));
        drop(refused.into_message());
        assert_eq!(drops(), 7);
        let refused = client.call(make(), Instant::INFINITE).expect_err("the thread that turns the crank may not wait");
        assert_eq!((refused.status(), drops()), (Status::BadState, 7));
        drop(refused.into_request());
        assert_eq!(drops(), 8);
        let refused = client.begin_call(&home, make(), Instant::INFINITE, |_| {}).expect_err("nobody is there");
        drop(refused.into_inner().0);
        assert_eq!(drops(), 9);
    });
}

#[test]
fn another_protocol_is_the_wrong_type() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let (near, far) = Channel::pair();
        let (client, server) = (Client::<Numbers>::from_channel(near), Server::<Store>::from_channel(far));
        let (make, drops) = counted();
        client.send(make()).expect("sent");
        let Err(error @ ReceiveError::WrongType { expected, found }) = server.try_next() else {
            panic!("not a store's")
        };
        assert!(expected.contains("Store") && found.contains("Numbers"), "{error}");
        assert_eq!((error.status(), drops()), (Status::WrongType, 1));
        // A call is told so, too.
        let log = Log::new();
        let entry = log.clone();
        let _call = client
            .begin_call(&home, make(), Instant::INFINITE, move |reply| entry.add(format!("{:?}", reply.map(drop))))
            .expect("sent");
        assert_eq!(server.try_next().map(drop).map_err(ReceiveError::status), Err(Status::WrongType));
        world.settle();
        assert_eq!(log.take(), ["Err(WrongType)"]);
        assert_eq!(drops(), 2);
        // Bytes, and more than a value.
        client.channel().write(Message::from_bytes(b"plain")).expect("sent");
        let too_much = Message::new().with(Handle::value(1)).with(Handle::value(2));
        client.channel().write(too_much).expect("sent");
        for found in ["bytes", "other handles"] {
            let Err(ReceiveError::WrongType { found: what, .. }) = server.try_next() else { panic!("no request") };
            assert_eq!(what, found);
        }
        assert_eq!(server.try_next().map(drop), Err(ReceiveError::ShouldWait));
    });
}

/// A server goes on after something that is none of its requests.
#[test]
fn a_service_outlives_what_it_does_not_understand() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "store");
        let (client, server) = Client::<Store>::pair();
        let log = Log::new();
        serve(server, &home, &log);
        client.channel().write(Message::from_bytes(b"plain")).expect("sent");
        let entry = log.clone();
        let _call = client
            .begin_call(&home, Request::Put(String::new()), Instant::INFINITE, move |reply| {
                entry.add(format!("{reply:?}"));
            })
            .expect("sent");
        world.settle();
        assert_eq!(log.take(), ["WrongType", "Ok(Place(0))"]);
    });
}

#[test]
fn a_service_ends_with_the_shutdown_of_its_dispatcher_and_its_open_calls_with_it() {
    in_the_foreground(|world| {
        let (home, asking) = (dispatcher(world, "store"), dispatcher(world, "asking"));
        let (client, server) = Client::<Store>::pair();
        let log = Log::new();
        let (entry, kept) = (log.clone(), Mutex::new(Vec::<Responder<Store>>::new()));
        let served = server.serve(&home, move |incoming| match incoming {
            Ok(Incoming::Call(_, responder)) => kept.lock().expect("no panic").push(responder),
            Ok(Incoming::OneWay(_)) => {}
            Err(status) => entry.add(format!("server {status:?}")),
        });
        served.map_err(Status::from).expect("it begins");
        let entry = log.clone();
        let _call = client
            .begin_call(&asking, Request::Forget, Instant::INFINITE, move |reply| entry.add(format!("{reply:?}")))
            .expect("sent");
        world.settle();
        assert!(log.is_empty());
        home.shutdown_async();
        world.settle();
        assert_eq!(log.take(), ["server Canceled", "Err(Canceled)"]);
        assert!(client.channel().is_peer_closed());
        let refused = Client::<Store>::pair().1.serve(&home, |_| {}).expect_err("it has shut down");
        assert_eq!(refused.status(), Status::Unavailable);
    });
}

/// A shutdown that begins while the handler runs is told to it as its last call, with its dispatcher current, and once. So it
/// is to a handler that the read would not call any more.
#[test]
fn a_service_whose_dispatcher_shuts_down_while_it_is_called_is_told_so_at_last() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "store");
        let (client, server) = Client::<Store>::pair();
        let log = Log::new();
        let (entry, own) = (log.clone(), home.handle());
        let served = server.serve(&home, move |incoming| match incoming {
            Ok(_) => {
                entry.add("request");
                own.shutdown_async();
            }
            Err(status) => {
                assert_eq!(current().map(|it| it.id()), Some(own.id()), "its dispatcher is current");
                entry.add(format!("{status:?}"));
            }
        });
        served.map_err(Status::from).expect("it begins");
        client.send(Request::Get(1)).expect("sent");
        world.settle();
        assert_eq!(log.take(), ["request", "Canceled"]);
        assert!(client.channel().is_peer_closed(), "it has let go of its end");
        assert_eq!(client.send(Request::Get(2)).map_err(|error| error.status()), Err(Status::PeerClosed));
    });
}

/// A handler that panics ends the service, and is called no more, not even when its dispatcher shuts down in that very call.
#[test]
fn a_service_that_panics_ends_without_another_call() {
    in_the_foreground(|world| {
        for shuts_down in [false, true] {
            let home = dispatcher(world, "store");
            let (client, server) = Client::<Store>::pair();
            let log = Log::new();
            let (entry, own) = (log.clone(), home.handle());
            let served = server.serve(&home, move |incoming| {
                entry.add(format!("{:?}", incoming.as_ref().err()));
                if shuts_down {
                    own.shutdown_async();
                }
                panic!("on purpose");
            });
            served.map_err(Status::from).expect("it begins");
            for place in 0..3 {
                // It may have closed already.
                let _ = client.send(Request::Get(place));
            }
            world.settle();
            assert_eq!(log.take(), ["None"]);
            assert!(client.channel().is_peer_closed());
        }
    });
}

/// Who takes the read of a client's events back has ended them: their handler is dropped where that happens, and not called.
#[test]
fn events_that_are_taken_back_are_told_no_end() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let (client, server) = Client::<Store>::pair();
        let (log, held) = (Log::new(), Arc::new(()));
        let (entry, hold) = (log.clone(), Arc::clone(&held));
        let heard = client.on_events(&home, move |event| {
            let _held = &hold;
            entry.add(format!("{:?}", event.map(|event| event.0)));
        });
        heard.map_err(Status::from).expect("it begins");
        server.send_event(Changed(1)).expect("sent");
        world.settle();
        drop(client.channel().cancel_read().expect("it waits"));
        assert_eq!(Arc::strong_count(&held), 1, "the handler is gone");
        home.shutdown_async();
        world.settle();
        assert_eq!(log.take(), ["Ok(1)"]);
    });
}

/// What waits for requests or events is listed with the line that asked for it.
#[test]
fn a_dump_names_the_line_that_serves() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "store");
        let (client, server) = Client::<Store>::pair();
        let lines = [line!() + 1, line!() + 2];
        server.serve(&home, |_| {}).map_err(Status::from).expect("it begins");
        client.on_events(&home, |_| {}).map_err(Status::from).expect("it begins");
        let listed: Vec<_> =
            home.dump().pending.iter().map(|it| (it.posted_from.file(), it.posted_from.line())).collect();
        assert_eq!(listed, lines.map(|line| (file!(), line)));
    });
}

/// Promise 7 within one callback: a service takes so many requests at once, then others have their turn.
#[test]
fn a_flood_of_requests_leaves_the_dispatcher_to_others_in_between() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "store");
        let (client, server) = Client::<Store>::pair();
        for place in 0..40 {
            client.send(Request::Get(place)).expect("sent");
        }
        let log = Log::new();
        let entry = log.clone();
        let served = server.serve(&home, move |incoming| {
            entry.add(incoming.map_or_else(|status| status.to_string(), |_| "request".to_owned()));
        });
        served.map_err(Status::from).expect("it begins");
        let entry = log.clone();
        home.post_task(move |_| entry.add("task")).expect("it runs");
        world.settle();
        let lines = log.take();
        assert_eq!((lines.len(), lines.iter().position(|line| line == "task")), (41, Some(16)));
    });
}

#[test]
fn what_is_public_can_be_sent_and_shared() {
    fn both<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    fn lent<T: Send + Sync>(_: T) {}
    both::<(Client<Numbers>, Server<Numbers>, Responder<Numbers>, Token, Txid, ReceiveError)>();
    both::<(Refused<()>, CallError<()>, WriteError<()>)>();
    both::<Incoming<Numbers>>();
    // Of what is only `Send`, nothing more is asked.
    sent::<Incoming<OnlySend>>();
    both::<(Client<OnlySend>, Server<OnlySend>, Responder<OnlySend>)>();
    let (client, _server) = Client::<Numbers>::pair();
    let (make, _) = counted();
    lent(client.channel().writable(1));
    lent(client.channel().call_async(Message::new(), Instant::INFINITE));
    lent(client.call_async(make(), Instant::INFINITE));
}

/// Values that are sent and not shared.
struct OnlySend;

impl Protocol for OnlySend {
    type Request = std::cell::Cell<u8>;
    type Reply = std::cell::Cell<u8>;
    type Event = std::cell::Cell<u8>;
}

#[test]
fn events_are_heard_until_the_last_client_is_dropped_or_the_server_closes() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let log = Log::new();
        let hear = |client: &Client<Store>| {
            let log = log.clone();
            let heard = client.on_events(&home, move |event| log.add(format!("{:?}", event.map(|event| event.0))));
            heard.map_err(Status::from).expect("it begins");
        };
        let (client, server) = Client::<Store>::pair();
        hear(&client);
        for place in 0..40 {
            server.send_event(Changed(place)).expect("sent");
        }
        world.settle();
        let heard = log.take();
        assert!(heard.iter().enumerate().all(|(place, line)| *line == format!("Ok({place})")) && heard.len() == 40);
        let refused = client.on_events(&home, |_| {}).expect_err("somebody listens");
        assert_eq!(refused.status(), Status::BadState);
        drop(client);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled)"]);
        assert!(server.channel().is_peer_closed());

        let (client, server) = Client::<Store>::pair();
        hear(&client);
        server.send_event(Changed(1)).expect("sent");
        drop(server);
        world.settle();
        assert_eq!(log.take(), ["Ok(1)", "Err(PeerClosed)"]);
        drop(client);
    });
}

/// An introduction carries the end of another protocol, or none.
struct Introductions;

impl Protocol for Introductions {
    type Request = Option<Client<Store>>;
    type Reply = Option<Server<Numbers>>;
    type Event = ();
}

/// Shows RW-1, RW-2, RW-3.
#[test]
fn values_carry_typed_ends_both_ways_or_none() {
    in_the_foreground(|world| {
        let (home, store) = (dispatcher(world, "home"), dispatcher(world, "store"));
        let (client, server) = Client::<Introductions>::pair();
        let (storing, stored) = Client::<Store>::pair();
        let (numbers, log) = (Arc::new(Mutex::new(Vec::new())), Log::new());
        serve(stored, &store, &log);
        for request in [Some(storing), None] {
            let numbers = Arc::clone(&numbers);
            let _call = client
                .begin_call(&home, request, Instant::INFINITE, move |reply| {
                    numbers.lock().expect("no panic").push(reply.expect("answered"));
                })
                .expect("sent");
        }
        let (making, made) = Client::<Numbers>::pair();
        let mut made = Some(made);
        for expected in [true, false] {
            let Ok(Incoming::Call(request, responder)) = server.try_next() else { panic!("that was sent") };
            assert_eq!(request.is_some(), expected);
            if let Some(store) = request {
                store.send(Request::Put("hello".to_owned())).expect("the store serves");
            }
            responder.reply(made.take()).expect("the client waits");
        }
        world.settle();
        assert_eq!(log.take(), ["PeerClosed"], "the store's client is gone");
        let (make, drops) = counted();
        making.send(make()).expect("sent");
        let numbers = std::mem::take(&mut *numbers.lock().expect("no panic"));
        let [Some(numbers), None] = &numbers[..] else { panic!("one end and none") };
        drop(numbers.try_next().expect("sent"));
        assert_eq!(drops(), 1);
    });
}

#[test]
fn ends_travel_when_nobody_else_holds_them() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let (client, server) = Client::<Numbers>::pair();
        let (make, drops) = counted();
        let _call = client.begin_call(&home, make(), Instant::INFINITE, |_| {}).expect("sent");
        let incoming = server.try_next().expect("sent");
        let server = server.into_channel().expect_err("a call is not answered");
        drop(incoming);
        let end = server.into_channel().expect("nobody else holds it");
        world.settle();
        let clone = client.clone();
        let client = client.into_channel().expect_err("there is a clone");
        drop(clone);
        let near = client.into_channel().expect("it is the last");
        let (client, server) = (Client::<Numbers>::from_channel(near), Server::<Numbers>::from_channel(end));
        client.send(make()).expect("sent");
        drop(server.try_next().expect("sent").into_request());
        assert_eq!(drops(), 2);
    });
}

#[test]
fn limits_are_those_of_the_channel() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "home");
        let (client, server) = Client::<Numbers>::pair_with(Limits::default().messages(1));
        let (make, _) = counted();
        client.send(make()).expect("sent");
        assert_eq!(client.send(make()).expect_err("full").status(), Status::ShouldWait);
        let log = Log::new();
        let entry = log.clone();
        client
            .channel()
            .begin_writable(&home, 0, move |outcome| entry.add(format!("{outcome:?}")))
            .expect("registered");
        drop(server.try_next());
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
    });
}

#[test]
fn a_deadline_passes_on_the_virtual_clock() {
    in_the_foreground(|world| {
        let asking = dispatcher(world, "asking");
        let (client, server) = Client::<Store>::pair();
        let soon = world.runtime().now() + Duration::from_millis(3);
        let log = Log::new();
        let entry = log.clone();
        let asked = asking
            .spawn(async move {
                let error = client.call_async(Request::Forget, soon).await.expect_err("nobody answers");
                entry.add(format!("{:?} {}", error.status(), error.into_request().is_none()));
            })
            .expect("accepted");
        world.wait_until("the deadline", || asked.is_finished());
        assert_eq!(log.take(), ["TimedOut true"]);
        assert_eq!(world.runtime().now(), soon);
        let Ok(Incoming::Call(_, responder)) = server.try_next() else { panic!("it was sent") };
        assert_eq!(responder.reply(Reply::Place(0)).expect_err("the client is gone").status(), Status::PeerClosed);
    });
}
