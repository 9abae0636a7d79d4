//! Goal: an exchange of requests and replies that uses its memory again asks the allocator for nothing, and large messages
//! come in the memory of those before them.
//! Method: the same exchange with few and with many rounds allocates equally often. All of it is done by one thread, whose
//! allocations are counted; of large messages, the pages that it touches for the first time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Message, Runtime};

const LEN: usize = 64;

#[track_caller]
fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Answers every message, in its own memory.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let again = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&home, move |outcome| {
        let (end, home) = again;
        while let Ok(request) = end.try_read() {
            // A client that has gone needs no answer.
            let _ = end.write(request.recycle(LEN));
        }
        if outcome.is_ok() {
            serve(end, home);
        }
    });
    // Refused when the client has gone, which ends it.
    drop(registered);
}

/// How often the thread allocates while a client asks so many times, each time answered inline.
fn inline_exchange(rounds: u32) -> u64 {
    let runtime = ForegroundRuntime::new();
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let (sender, counted) = channel();
    let asking = move |_| {
        let mut message = Message::with_len(LEN);
        let allocations = allocation_counter::measure(|| {
            for _ in 0..rounds {
                near.write(std::mem::take(&mut message)).expect("the server is there");
                message = near.try_read().expect("it has answered").recycle(LEN);
            }
        });
        sender.send(allocations.count_total).expect("the test waits");
    };
    client.post_task(asking).expect("accepted");
    runtime.run_until_idle();
    counted.recv().expect("it was counted")
}

/// The same where both sides are futures, polled in turn by hand: waking is their executor's business.
fn exchange_of_futures(rounds: u32) -> u64 {
    let (near, far) = Channel::pair();
    let mut serving = pin!(async move {
        while let Ok(request) = far.read().await {
            if far.write(request.recycle(LEN)).is_err() {
                break;
            }
        }
    });
    let mut asking = pin!(async move {
        let mut message = Message::with_len(LEN);
        for _ in 0..rounds {
            near.write(message).expect("the server is there");
            message = near.read().await.expect("an answer").recycle(LEN);
        }
    });
    let mut cx = Context::from_waker(Waker::noop());
    let counted = allocation_counter::measure(|| {
        while asking.as_mut().poll(&mut cx).is_pending() {
            assert!(serving.as_mut().poll(&mut cx).is_pending(), "the client has not gone");
        }
    });
    counted.count_total
}

/// Shows CH-R1, CH-R84, D5.
#[test]
fn an_exchange_that_is_answered_inline_allocates_nothing_however_long_it_is() {
    // The first run pays for what is made once a thread.
    inline_exchange(5);
    assert_eq!(inline_exchange(10), inline_exchange(2_000));
}

#[test]
fn an_exchange_of_futures_allocates_nothing_however_long_it_is() {
    exchange_of_futures(5);
    assert_eq!(exchange_of_futures(10), exchange_of_futures(2_000));
}

/// A number of this thread's line in the system's table of threads, counted from 0 behind the name.
fn number_of_thread(index: usize) -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/stat").expect("the system tells");
    let behind_name = line.rsplit(')').next().expect("there is a name");
    behind_name.split_whitespace().nth(index).and_then(|number| number.parse().ok()).expect("a number")
}

/// How many pages the thread touches for the first time while it sends so many large messages one after the other, as a
/// device that is read in large pieces does.
fn pages_of_large_messages(count: usize) -> u64 {
    const MINOR_FAULTS: usize = 7;
    const LARGE: usize = 64 * 1024;
    let (near, far) = Channel::pair();
    let before = number_of_thread(MINOR_FAULTS);
    for round in 0..count {
        let mut message = Message::with_len(LARGE);
        assert!(message.bytes().iter().all(|&byte| byte == 0), "whose memory it was is not to be seen");
        message.bytes_mut().fill(round as u8 | 1);
        near.write(message).expect("the peer is there");
        assert_eq!(far.try_read().expect("a message").len(), LARGE);
    }
    number_of_thread(MINOR_FAULTS) - before
}

/// Shows CH-R84.
#[test]
fn large_messages_come_in_the_memory_of_those_before_them() {
    pages_of_large_messages(5);
    let touched = pages_of_large_messages(500);
    assert!(touched < 500, "{touched} new pages for 500 messages of 16 pages");
}

/// How many KiB of memory the process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("it tells this");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn the_memory_of_a_burst_of_large_messages_goes_back() {
    let before = resident();
    let mut burst: Vec<Message> = (0..2_000).map(|_| Message::with_len(64 * 1024)).collect();
    burst.iter_mut().for_each(|message| message.bytes_mut().fill(1));
    assert!(resident() > before + 120_000, "it was touched");
    drop(burst);
    let after = resident();
    assert!(after < before + 16_000, "{before} KiB before, {after} after");
}
