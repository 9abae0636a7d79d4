//! Workloads of serial queues, each written once for all peers.

mod fan_out;
mod idle;
mod pending;
mod request;
pub(crate) mod ring;
pub(crate) mod throughput;
mod wake_up;

use std::thread;
use std::time::Duration;

use crate::loops::with_libuv;
use crate::peers::{AsyncExecutor, Crossbeam, Desync, Fuchsine, Peer, Rayon, Tasks, TokioBoxed, TokioMessages};
use crate::workload::{Workload, by};

/// Lets threads and tasks start and go to sleep before time counts.
fn calm() {
    thread::sleep(Duration::from_millis(20));
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    let mut all = vec![
        Workload::new(
            "W1",
            "an outside thread posts empty callbacks to one synchronized dispatcher, until all ran",
            with_libuv(
                "W1",
                by!(P: Peer in [Fuchsine, TokioMessages, TokioBoxed, AsyncExecutor, Crossbeam, Desync] =>
                vec![throughput::from_outside::<P>(1)]),
            ),
        ),
        Workload::new(
            "W1b",
            "two producers on the pool's own threads post to one synchronized dispatcher, until all ran",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Desync] => throughput::from_the_pool::<P>()),
        ),
        Workload::new(
            "W2",
            "a callback posts the next one to its own dispatcher",
            by!(P: Peer in [Fuchsine, TokioMessages, TokioBoxed, AsyncExecutor, Crossbeam, Desync] =>
                vec![ring::round::<P>(ring::SELF_POST)]),
        ),
        Workload::new(
            "W3a",
            "round trip: two dispatchers post to each other, pool of 1",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Desync] => vec![ring::round::<P>(ring::PING_PONG_ON_ONE)]),
        ),
        Workload::new(
            "W3b",
            "round trip: two dispatchers post to each other, pool of 2",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Desync] =>
                vec![ring::round::<P>(ring::PING_PONG_ON_TWO)]),
        ),
        Workload::new(
            "W4-1k",
            "hop: 100 tokens go around a ring of 1,000 dispatchers, pool of 2",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Desync] => vec![ring::round::<P>(ring::of(1_000))]),
        ),
        Workload::new(
            "W4-10k",
            "hop: 100 tokens go around a ring of 10,000 dispatchers, pool of 2",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Desync] => vec![ring::round::<P>(ring::of(10_000))]),
        ),
    ];
    all.extend(request::workloads());
    all.extend([
        Workload::new(
            "W6",
            "one callback posts empty ones to an unsynchronized dispatcher, pool of 2",
            by!(P: Tasks in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Rayon] => fan_out::empty::<P>()),
        ),
        Workload::new(
            "W6-1us",
            "the same with a microsecond of arithmetic in each, and how much faster two threads are than one",
            by!(P: Tasks in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Rayon] => fan_out::with_work::<P>()),
        ),
        Workload::new(
            "W7",
            "an idle dispatcher: what it takes of memory, and the time to create it (crossbeam: a thread)",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Desync] => idle::many::<P>()),
        ),
        Workload::new(
            "W10",
            "stop with 1,000,000 pending on one dispatcher: ours and libuv's are told, those of others run or are dropped",
            with_libuv("W10", by!(P: Peer in [Fuchsine, TokioMessages, TokioBoxed, AsyncExecutor] =>
                vec![pending::stopped::<P>()])),
        ),
        Workload::new(
            "W11",
            "an idle pool of 2, an outside thread posts once a millisecond: from the post until it runs",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Desync] => wake_up::each_millisecond::<P>()),
        ),
    ]);
    all
}
