//! Goal: many calls at once, from many threads and against everything that ends one: each has one outcome, its own.
//! Method: pools, and choices by a seed that is printed.

mod call_support;
mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use call_support::{bytes, hang, on, reply_to, value};
use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Handle, Message, Status};
use fuchsine_tests::pools::on_pools;
use fuchsine_tests::random::Random;

/// Replies, deadlines, cancels and closes against each other and against the shutdown, chosen by a seed: each call that
/// was accepted is told once or taken back, with an outcome that fits, and nothing of it stays behind.
#[test]
fn each_call_ends_once_whatever_is_done_to_it() {
    const CHANNELS: u64 = 150;
    const CALLS: usize = 4;
    let mut random = Random::from_environment();
    let seed = random.next_u64();
    on_pools(|world| {
        let mut random = Random::new(seed);
        let home = on(world, "home", DispatcherBuilder::new());
        let serving = on(world, "serving", DispatcherBuilder::new().unsynchronized());
        let told = Arc::new(Mutex::new(Vec::new()));
        let (mut accepted, mut taken_back) = (0, 0);
        let held = Arc::new(());
        for round in 0..CHANNELS {
            if round == CHANNELS * 2 / 3 {
                home.shutdown_async();
            }
            let (client, server) = Channel::pair();
            let mut calls = Vec::new();
            for _ in 0..CALLS {
                let deadline = match random.below(3) {
                    0 => world.runtime().now() + Duration::from_micros(random.below(200) as u64),
                    _ => hang(world),
                };
                let telling = Arc::clone(&told);
                let begun =
                    client.begin_call(&home, bytes(round), deadline, move |outcome: Result<Message, Status>| {
                        telling.lock().expect("no panic").push(outcome.map(|reply| value(&reply)));
                    });
                match begun {
                    Ok(call) => calls.push(call),
                    Err(refused) => assert_eq!(refused.status(), Status::Unavailable),
                }
            }
            accepted += calls.len() as u64;
            let (replies, carried) = (random.below(CALLS + 1), Arc::clone(&held));
            let posted = serving.post_task(move |_| {
                for _ in 0..replies {
                    let Ok(request) = server.try_read() else { break };
                    let reply = reply_to(request, round).with(Handle::value(Arc::clone(&carried)));
                    // The client may have closed.
                    let _ = server.write(reply);
                }
            });
            assert!(posted.is_ok());
            if random.below(2) == 0 {
                taken_back += calls.drain(..).filter(|call| call.cancel().is_ok()).count() as u64;
            }
            if random.below(2) == 0 {
                // Every reply has gone, and the server with it.
                world.wait_until("the server", || client.is_peer_closed());
                assert_eq!(client.queued_messages(), 0, "no reply has become a message");
            }
        }
        world.shutdown();
        let (counters, told) = (home.counters(), told.lock().expect("no panic"));
        assert_eq!((counters.accepted, counters.taken_back, counters.pending), (accepted, taken_back, 0));
        assert_eq!(told.len() as u64, accepted - taken_back);
        let fits = |outcome: &Result<u64, Status>| {
            matches!(outcome, Ok(_) | Err(Status::TimedOut | Status::PeerClosed | Status::Canceled))
        };
        assert!(told.iter().all(fits), "{told:?}");
        assert!(told.iter().any(Result::is_ok), "some were answered");
        assert_eq!(Arc::strong_count(&held), 1, "no reply is left");
    });
}

/// Callers on many threads, a server that answers in another order, and a close in the middle.
#[test]
fn each_of_many_calls_ends_once_with_its_own_reply() {
    const CALLERS: u64 = 6;
    const CALLS: u64 = 50;
    const ANSWERED: u64 = 200;
    on_pools(|world| {
        let server = on(world, "server", DispatcherBuilder::new());
        let (client, far) = Channel::pair();
        let client = Arc::new(client);
        answer_in_pairs(Arc::new(far), server.handle(), Vec::new(), ANSWERED);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (client, deadline) = (Arc::clone(&client), hang(world));
                std::thread::spawn(move || {
                    let outcomes = (0..CALLS).map(|call| {
                        let number = caller << 32 | call;
                        (number, client.call(bytes(number), deadline))
                    });
                    let mut answered = 0;
                    for (number, outcome) in outcomes {
                        match outcome {
                            Ok(reply) => assert_eq!(value(&reply), number + 1),
                            Err(error) => {
                                assert_eq!(error.status(), Status::PeerClosed);
                                continue;
                            }
                        }
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        let answered: u64 = callers.into_iter().map(|caller| caller.join().expect("its own replies")).sum();
        assert_eq!(answered, ANSWERED);
        assert_eq!(client.queued_messages(), 0);
    });
}

/// Holds every request until another has come and answers the newer one first; closes after `left` answers, an even number.
fn answer_in_pairs(end: Arc<Channel>, home: DispatcherHandle, mut held: Vec<Message>, mut left: u64) {
    let (own, again) = (Arc::clone(&end), home.clone());
    let _ = end.begin_read(&home, move |outcome| {
        while left > 0
            && let Ok(request) = own.try_read()
        {
            held.push(request);
            if held.len() == 2 {
                for request in held.drain(..).rev() {
                    let number = value(&request);
                    own.write(reply_to(request, number + 1)).expect("the client is open");
                    left -= 1;
                }
            }
        }
        if outcome.is_ok() && left > 0 {
            answer_in_pairs(own, again, held, left);
        }
    });
}
