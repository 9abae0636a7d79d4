//! Goal: two drivers meet by a token, whoever comes first; a handler is told once; nothing that was given is lost unseen.
//! Method: scenarios on every kind of runtime; where the order of steps is the point, on the foreground runtime.

mod common;

use std::sync::{Arc, Mutex};

use common::Log;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Handle, Kind, Message, ReadError, Status, TaskHandle,
    Token, current,
};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_pools};

fn dispatcher(world: &World, name: &str) -> Dispatcher {
    world.driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Registers a handler that writes down what it is told, and where; it keeps the channel.
#[track_caller]
fn register(token: Token, home: &DispatcherHandle, log: &Log, kept: &Arc<Mutex<Vec<Channel>>>) -> TaskHandle {
    let (log, kept) = (log.clone(), Arc::clone(kept));
    token
        .register(home, move |outcome| {
            let place = current().map(|here| here.name().to_owned()).unwrap_or_default();
            let told = format!("{:?} on {place}", outcome.as_ref().map(drop));
            // First, as the test waits for the log.
            kept.lock().expect("no panic").extend(outcome);
            log.add(told);
        })
        .expect("registered")
}

#[track_caller]
fn assert_connected(near: &Channel, far: &Channel) {
    near.write(Message::from_bytes(b"hello")).expect("the other end is open");
    assert_eq!(far.try_read().expect("written").bytes(), b"hello");
}

/// Shows TT-1, CH-R91, CH-R92, CH-R94.
#[test]
fn a_handler_that_was_registered_first_gets_the_channel_on_its_dispatcher() {
    on_every_pool(|world| {
        let server = dispatcher(world, "server");
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let (log, kept) = (Log::new(), Arc::default());
        let _registered = register(for_server, &server, &log, &kept);
        world.settle();
        assert!(log.is_empty());
        for_client.transfer(far).expect("somebody waits");
        world.wait_until("the channel", || !log.is_empty());
        assert_eq!(log.take(), ["Ok(()) on server"]);
        assert_connected(&near, &kept.lock().expect("no panic")[0]);
    });
}

/// Either side may come first.
///
/// Shows CH-R92.
#[test]
fn a_channel_that_was_transferred_first_waits_for_the_handler() {
    on_every_pool(|world| {
        let server = dispatcher(world, "server");
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let (log, kept) = (Log::new(), Arc::default());
        for_client.transfer(far).expect("nobody is there yet");
        near.write(Message::new()).expect("the channel is open meanwhile");
        let _registered = register(for_server, &server, &log, &kept);
        world.wait_until("the channel", || !log.is_empty());
        assert_eq!(log.take(), ["Ok(()) on server"]);
        let kept = kept.lock().expect("no panic");
        assert!(kept[0].try_read().is_ok());
        assert_connected(&near, &kept[0]);
    });
}

/// Shows TT-3, TT-4, CH-R96.
#[test]
fn a_channel_is_received_without_a_handler_once_it_is_there() {
    let (for_server, for_client) = Token::pair();
    let (near, far) = Channel::pair();
    let refused = for_server.receive().expect_err("nothing is there yet");
    assert_eq!(refused.status(), Status::NotFound);
    for_client.transfer(far).expect("open");
    let received = refused.into_inner().receive().expect("transferred");
    assert_connected(&near, &received);

    let (for_server, for_client) = Token::pair();
    drop(for_client);
    assert_eq!(for_server.receive().expect_err("nothing will be").status(), Status::PeerClosed);
}

/// Many at once, registered and transferred in different orders.
///
/// Shows TT-6, CH-R97.
#[test]
fn a_thousand_tokens_find_their_own_channels() {
    const ALL: usize = 1024;
    on_every_pool(|world| {
        let server = dispatcher(world, "server");
        let got = Arc::new(Mutex::new(Vec::new()));
        let (servers, clients): (Vec<_>, Vec<_>) = (0..ALL).map(|_| Token::pair()).unzip();
        let mut servers: Vec<_> = servers.into_iter().map(Some).collect();
        let mut clients: Vec<_> = clients.into_iter().map(Some).collect();
        let mut near = Vec::new();
        let stride = |stride: usize| (0..stride).flat_map(move |from| (from..ALL).step_by(stride));
        for (to_register, to_transfer) in stride(5).zip(stride(3)) {
            let got = Arc::clone(&got);
            let token = servers[to_register].take().expect("once");
            let registered = token.register(&server, move |channel| {
                got.lock().expect("no panic").push((to_register, channel.expect("transferred")));
            });
            registered.map(drop).expect("it runs");
            let (kept, given) = Channel::pair();
            kept.write(Message::from_bytes(&to_transfer.to_le_bytes())).expect("open");
            near.push(kept);
            clients[to_transfer].take().expect("once").transfer(given).expect("open");
        }
        world.wait_until("all channels", || got.lock().expect("no panic").len() == ALL);
        for (number, channel) in got.lock().expect("no panic").drain(..) {
            assert_eq!(channel.try_read().expect("written").bytes(), number.to_le_bytes());
        }
    });
}

/// What was given comes back instead of being used up.
///
/// Shows TT-7, CH-R93.
#[test]
fn a_dispatcher_that_shut_down_refuses_the_registration_and_gives_everything_back() {
    in_the_foreground(|world| {
        let (over, server) = (dispatcher(world, "over"), dispatcher(world, "server"));
        over.shutdown_async();
        let (for_server, for_client) = Token::pair();
        let log = Log::new();
        let entry = log.clone();
        let refused =
            for_server.register(&over, move |outcome| entry.add(format!("{outcome:?}"))).expect_err("it shuts down");
        assert_eq!(refused.status(), Status::Unavailable);
        let (token, handler) = refused.into_inner();
        world.settle();
        assert!(log.is_empty());
        let _registered = token.register(&server, handler).expect("it is as good as before");
        drop(for_client);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled)"]);
    });
}

/// Shows TT-10, CH-R94.
#[test]
fn a_registration_is_canceled_when_the_other_end_is_dropped() {
    on_every_pool(|world| {
        let server = dispatcher(world, "server");
        let (for_server, for_client) = Token::pair();
        let log = Log::new();
        let _registered = register(for_server, &server, &log, &Arc::default());
        drop(for_client);
        world.wait_until("the outcome", || !log.is_empty());
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled) on server"]);
    });
}

/// Once, whatever races.
///
/// Shows TT-9, CH-R99.
#[test]
fn a_registration_is_told_once_when_the_drop_of_the_other_end_races_with_the_shutdown() {
    on_pools(|world| {
        for round in 0..50 {
            let server = dispatcher(world, "server");
            let (for_server, for_client) = Token::pair();
            let (near, far) = Channel::pair();
            let log = Log::new();
            let _registered = register(for_server, &server, &log, &Arc::default());
            let dropping = std::thread::spawn(move || match round % 2 {
                0 => drop(for_client),
                _ => drop(for_client.transfer(far)),
            });
            server.shutdown_async();
            dropping.join().expect("no panic");
            world.wait_until("the outcome", || server.counters().pending == 0 && !log.is_empty());
            let told = log.take();
            assert_eq!(told.len(), 1, "{told:?}");
            if told[0].starts_with("Err") {
                assert!(near.is_peer_closed(), "a channel that nobody got is closed");
            }
        }
    });
}

/// Shows TT-12.
#[test]
fn a_channel_that_waits_is_closed_when_the_other_end_is_dropped() {
    let (for_server, for_client) = Token::pair();
    let (near, far) = Channel::pair();
    for_client.transfer(far).expect("open");
    assert_eq!(near.try_read().expect_err("nothing yet"), ReadError::ShouldWait);
    drop(for_server);
    assert_eq!(near.try_read().expect_err("nobody will come"), ReadError::PeerClosed);
}

/// The original says that all is well and closes the channel; here it comes back.
///
/// Shows TT-13, CH-R95.
#[test]
fn a_transfer_to_nobody_gives_the_channel_back() {
    in_the_foreground(|world| {
        let server = dispatcher(world, "server");
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        drop(for_server);
        let refused = for_client.transfer(far).expect_err("nobody will come");
        assert_eq!(refused.status(), Status::PeerClosed);
        let (_token, far) = refused.into_inner();
        assert_connected(&near, &far);
        // The same when the registration has ended before.
        let (for_server, for_client) = Token::pair();
        let registered = register(for_server, &server, &Log::new(), &Arc::default());
        drop(registered.cancel().expect("it has not begun"));
        let refused = for_client.transfer(far).expect_err("it was taken back");
        assert_eq!(refused.status(), Status::PeerClosed);
        let (for_server, for_client) = Token::pair();
        let _registered = register(for_server, &server, &Log::new(), &Arc::default());
        server.shutdown_async();
        world.settle();
        let refused = for_client.transfer(refused.into_inner().1).expect_err("its dispatcher shut down");
        assert_eq!(refused.status(), Status::PeerClosed);
    });
}

/// Shows CH-R98.
#[test]
fn a_handler_runs_inside_of_a_transfer_by_the_rules_of_messages() {
    on_pools(|world| {
        let (server, client) = (dispatcher(world, "server"), dispatcher(world, "client"));
        let (for_server, for_client) = Token::pair();
        let log = Log::new();
        let _registered = register(for_server, &server, &log, &Arc::default());
        let (_near, far) = Channel::pair();
        let entry = log.clone();
        world.run_on(&client, move || {
            for_client.transfer(far).expect("somebody waits");
            entry.add("transferred");
        });
        assert_eq!(log.take(), ["Ok(()) on server", "transferred"]);

        // Not into the own driver.
        let other = client.owner().new_dispatcher(DispatcherBuilder::new().name("other")).expect("created");
        let (for_server, for_client) = Token::pair();
        let _registered = register(for_server, &other, &log, &Arc::default());
        let (_near, far) = Channel::pair();
        let entry = log.clone();
        world.run_on(&client, move || {
            for_client.transfer(far).expect("somebody waits");
            entry.add("transferred");
        });
        world.settle();
        let told = log.take();
        assert!(told.contains(&"Ok(()) on other".to_owned()), "{told:?}");
    });
}

/// Tokens are the last.
///
/// Shows CH-R71, CH-R99.
#[test]
fn a_shutdown_cancels_tokens_after_everything_else_and_keeps_a_channel_that_is_there() {
    in_the_foreground(|world| {
        let (log, kept) = (Log::new(), Arc::default());
        let entry = log.clone();
        let builder = DispatcherBuilder::new().name("server").shutdown_observer(move || entry.add("observer"));
        let server = world.driver("server").new_dispatcher(builder).expect("created");
        let (for_server, _open) = Token::pair();
        let _registered = register(for_server, &server, &log, &kept);
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let _registered = register(for_server, &server, &log, &kept);
        for_client.transfer(far).expect("somebody waits");
        let (end, _other) = Channel::pair();
        let entry = log.clone();
        end.begin_read(&server, move |outcome| entry.add(format!("read {outcome:?}"))).expect("registered");
        let entry = log.clone();
        let _timer = server
            .post_after(std::time::Duration::from_secs(1), move |outcome| entry.add(format!("timer {outcome:?}")))
            .expect("posted");
        server.shutdown_async();
        world.settle();
        let expected =
            ["Ok(()) on server", "read Err(Canceled)", "timer Err(Canceled)", "Err(Canceled) on server", "observer"];
        assert_eq!(log.take(), expected);
        assert_connected(&near, &kept.lock().expect("no panic")[0]);
    });
}

/// An end that cannot be given away, as in a message.
///
/// Shows TT-17.
#[test]
fn an_end_with_a_read_cannot_be_transferred() {
    in_the_foreground(|world| {
        let server = dispatcher(world, "server");
        let (_for_server, for_client) = Token::pair();
        let (_near, far) = Channel::pair();
        far.begin_read(&server, |_| {}).expect("registered");
        let refused = for_client.transfer(far).expect_err("a read is registered");
        assert_eq!(refused.status(), Status::InvalidArgs);
        let (token, far) = refused.into_inner();
        drop(far.cancel_read().expect("it has not begun"));
        token.transfer(far).expect("free");
    });
}

#[test]
fn two_ends_that_want_the_same_are_told_so() {
    in_the_foreground(|world| {
        let server = dispatcher(world, "server");
        let (left, right) = Token::pair();
        let log = Log::new();
        let _registered = register(left, &server, &log, &Arc::default());
        assert_eq!(
            right
                .receive()
                .map_err(|refused| {
                    let status = refused.status();
                    let right = refused.into_inner();
                    let both =
                        right.register(&server, |_: Result<Channel, Status>| {}).expect_err("the other waits too");
                    (status, both.status())
                })
                .expect_err("the other waits too"),
            (Status::BadState, Status::BadState)
        );
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled) on server"], "nobody is left who could transfer");

        let (left, right) = Token::pair();
        let ((_a, one), (_b, two)) = (Channel::pair(), Channel::pair());
        left.transfer(one).expect("open");
        assert_eq!(right.transfer(two).expect_err("the other has transferred too").status(), Status::BadState);
    });
}

/// A handler that runs inside of a transfer may do everything with tokens, its own dispatcher's others included.
///
/// Shows W15.
#[test]
fn a_handler_uses_tokens_in_the_middle_of_a_transfer() {
    on_pools(|world| {
        let (server, client) = (dispatcher(world, "server"), dispatcher(world, "client"));
        let log = Log::new();
        let (for_server, for_client) = Token::pair();
        let (next_server, next_client) = Token::pair();
        let (dropped_server, dropped_client) = Token::pair();
        let _registered = register(dropped_server, &server, &log, &Arc::default());
        let (entry, home) = (log.clone(), server.handle());
        let _registered = for_server
            .register(&server, move |channel| {
                let channel = channel.expect("transferred");
                entry.add("met");
                drop(dropped_client);
                let again = entry.clone();
                let next = next_server.register(&home, move |next| again.add(format!("next {}", next.is_ok())));
                next.map(drop).expect("it runs");
                next_client.transfer(channel).expect("somebody waits");
            })
            .expect("registered");
        let (_near, far) = Channel::pair();
        world.run_on(&client, move || for_client.transfer(far).expect("somebody waits"));
        world.wait_until("all three", || world.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["met", "Err(Canceled) on server", "next true"]);
    });
}

#[test]
fn a_registration_that_is_taken_back_is_never_told() {
    in_the_foreground(|world| {
        let server = dispatcher(world, "server");
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let log = Log::new();
        let registered = register(for_server, &server, &log, &Arc::default());
        for_client.transfer(far).expect("somebody waits");
        drop(registered.cancel().expect("its call is queued"));
        world.settle();
        assert!(log.is_empty());
        assert!(near.is_peer_closed(), "nobody will have the channel");
        assert_eq!(registered.cancel().expect_err("it has ended").status(), Status::NotFound);
    });
}

#[test]
fn a_token_travels_in_a_message_and_is_listed_while_it_waits() {
    in_the_foreground(|world| {
        let server = dispatcher(world, "server");
        let (writer, reader) = Channel::pair();
        let (for_server, for_client) = Token::pair();
        writer.write(Message::new().with(Handle::value(for_client))).expect("open");
        let log = Log::new();
        let _registered = register(for_server, &server, &log, &Arc::default());
        assert_eq!(server.dump().pending[0].kind, Kind::Token);
        drop(reader);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled) on server"], "it went with the message");
    });
}
