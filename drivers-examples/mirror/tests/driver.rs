//! Goal: what was answered is there as long as one leg is, whatever is lost when; and a leg that was away is never read from
//! before it has everything.
//! Method: the harness, with legs in memory that the test loses, spoils and brings back, and with a fake child as the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use fuchsine_driver::block::{BlockInfo, BlockRequest, BlockServer, Flags, HEADER_LEN, Op, ReplyHeader, RequestHeader};
use fuchsine_driver::{Channel, DriverEntry, Status, spawn};
use fuchsine_testing::{
    ForegroundRuntime, Harness, HarnessBuilder, Peer, Place, Problem, Target, explore, shutdown_at_every_step,
};
use parking_lot::Mutex;

static DRIVER: DriverEntry = fuchsine_mirror::DRIVER;

const RESERVED: usize = 64 << 10;
/// What is left of a leg for the mirror: more than one piece of a copy.
const SIZE: usize = 300 << 10;

/// A block device in memory that can be lost.
struct Leg {
    bytes: Mutex<Vec<u8>>,
    is_there: AtomicBool,
    fails_writes: AtomicBool,
    /// Whether it does what is under way last in, first out, as a device may.
    reverses: AtomicBool,
    /// Requests that wait for `release`, if there are to be some.
    held: Mutex<Option<Vec<BlockRequest>>>,
    /// Reads of what clients of the mirror see.
    reads: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

impl Leg {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; size]),
            is_there: AtomicBool::new(true),
            fails_writes: AtomicBool::new(false),
            reverses: AtomicBool::new(false),
            held: Mutex::new(None),
            reads: AtomicUsize::new(0),
            waiting: Mutex::default(),
        })
    }

    fn lose(&self) {
        self.is_there.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.waiting.lock()).into_iter().for_each(Waker::wake);
    }

    fn bring_back(&self) {
        self.is_there.store(true, Ordering::SeqCst);
    }

    /// Does what was held, last in, first out.
    fn release(&self) {
        let held = self.held.lock().as_mut().map(std::mem::take).unwrap_or_default();
        held.into_iter().rev().for_each(|request| self.handle(request));
    }

    fn contents(&self) -> Vec<u8> {
        self.bytes.lock()[..SIZE].to_vec()
    }

    /// The generation and the condition (0: closed, 1: open, 2: being copied to) of its label.
    fn label(&self) -> (u64, u8) {
        let bytes = self.bytes.lock();
        let label = &bytes[bytes.len() - RESERVED..];
        (u64::from_le_bytes(label[24..32].try_into().unwrap()), label[12])
    }

    fn serve(self: &Arc<Self>, channel: Channel) {
        let info = BlockInfo::new(self.bytes.lock().len() as u64, 512);
        let (leg, server) = (Arc::clone(self), BlockServer::new(channel, info).unwrap());
        let _ = spawn(async move {
            std::future::poll_fn(|cx| {
                leg.waiting.lock().push(cx.waker().clone());
                let mut requests = Vec::new();
                let end = loop {
                    if !leg.is_there.load(Ordering::SeqCst) {
                        return Poll::Ready(());
                    }
                    match server.poll_next(cx) {
                        Poll::Pending => break Poll::Pending,
                        Poll::Ready(Ok(request)) if leg.held.lock().is_some() => {
                            leg.held.lock().get_or_insert_default().push(request);
                        }
                        Poll::Ready(Ok(request)) if leg.reverses.load(Ordering::SeqCst) => requests.push(request),
                        Poll::Ready(Ok(request)) => leg.handle(request),
                        Poll::Ready(Err(_)) => break Poll::Ready(()),
                    }
                };
                requests.into_iter().rev().for_each(|request| leg.handle(request));
                end
            })
            .await;
        });
    }

    fn handle(&self, mut request: BlockRequest) {
        let mut bytes = self.bytes.lock();
        let (at, length) = (request.offset() as usize, request.length() as usize);
        let outcome = match request.op() {
            Op::Read => {
                self.reads.fetch_add(usize::from(at < SIZE), Ordering::SeqCst);
                request.data_mut().copy_from_slice(&bytes[at..at + length]);
                Ok(())
            }
            _ if request.op().changes() && self.fails_writes.load(Ordering::SeqCst) => Err(Status::Io),
            Op::Write => {
                bytes[at..at + length].copy_from_slice(request.data());
                Ok(())
            }
            Op::Trim | Op::WriteZeroes => {
                bytes[at..at + length].fill(0);
                Ok(())
            }
            _ => Ok(()),
        };
        drop(bytes);
        request.reply(outcome);
    }
}

fn pair() -> [Arc<Leg>; 2] {
    [Leg::new(SIZE + RESERVED), Leg::new(SIZE + RESERVED)]
}

fn mirror(legs: &[Arc<Leg>; 2]) -> HarnessBuilder {
    let [left, right] = legs.clone();
    Harness::builder(&DRIVER)
        .config("wait = \"100ms\"\nlook = \"20ms\"")
        .children([("protocol", "block")])
        .serve("left/block", move |channel| left.serve(channel))
        .serve("right/block", move |channel| right.serve(channel))
}

fn in_each_place(test: impl Fn(Place<'_>)) {
    test(Place::Foreground(&ForegroundRuntime::new()));
    test(Place::Threads);
}

fn ask(peer: &Peer<'_>, id: u64, op: Op, offset: usize, length: usize, data: &[u8]) -> bool {
    let header = RequestHeader { id, op, flags: Flags::NONE, offset: offset as u64, length: length as u32 }.encode();
    peer.send(&[&header, data].concat())
}

fn answer(peer: &Peer<'_>) -> Option<(u64, Result<(), Status>, Vec<u8>)> {
    let bytes = peer.receive_bytes()?;
    let header = ReplyHeader::decode(&bytes).expect("an answer");
    Some((header.id, header.status, bytes[HEADER_LEN..].to_vec()))
}

#[track_caller]
fn done(peer: &Peer<'_>, op: Op, offset: usize, length: usize, data: &[u8]) -> Result<Vec<u8>, Status> {
    assert!(ask(peer, 1, op, offset, length, data));
    let (_, status, bytes) = answer(peer).expect("an answer");
    status.map(|()| bytes)
}

fn write(peer: &Peer<'_>, offset: usize, byte: u8) -> Result<(), Status> {
    done(peer, Op::Write, offset, 1024, &[byte; 1024]).map(drop)
}

fn read(peer: &Peer<'_>, offset: usize) -> Result<u8, Status> {
    let bytes = done(peer, Op::Read, offset, 1024, &[])?;
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a write is whole");
    Ok(bytes[0])
}

fn said(harness: &Harness<'_>, what: &str) -> usize {
    harness.lines().iter().filter(|line| line.contains(what)).count()
}

#[track_caller]
fn until_said(harness: &Harness<'_>, what: &str, times: usize) {
    assert!(harness.run_until(|| said(harness, what) >= times), "{what} x{times}: {:?}", harness.lines());
}

#[test]
fn what_is_written_is_on_both_legs_and_is_read_from_either() {
    in_each_place(|place| {
        let legs = pair();
        let harness = mirror(&legs).start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        let info = BlockInfo::decode(&done(&client, Op::Info, 0, 0, &[]).unwrap()).unwrap();
        assert_eq!((info.size as usize, info.block_size), (SIZE, 512));
        until_said(&harness, "`right` has everything", 1);
        write(&client, 4096, 7).unwrap();
        write(&client, SIZE - 1024, 8).unwrap();
        done(&client, Op::WriteZeroes, 4096, 512, &[]).unwrap();
        done(&client, Op::Flush, 0, 0, &[]).unwrap();
        let before = legs.each_ref().map(|leg| leg.reads.load(Ordering::SeqCst));
        for _ in 0..10 {
            assert_eq!(read(&client, SIZE - 1024), Ok(8));
        }
        for (leg, before) in legs.iter().zip(before) {
            assert_eq!(leg.reads.load(Ordering::SeqCst) - before, 5);
        }
        drop(client);
        harness.stop().unwrap();
        assert!(legs[0].contents() == legs[1].contents());
        assert_eq!(legs[0].contents()[4608], 7);
        assert_eq!(legs.each_ref().map(|leg| leg.label().1), [0, 0], "closed in order");
        // So the next one copies nothing.
        let harness = mirror(&legs).start(place).unwrap();
        assert_eq!(said(&harness, "is copied to"), 0);
        harness.stop().unwrap();
    });
}

#[test]
fn either_leg_is_lost_and_comes_back_and_nothing_that_was_answered_is_missing() {
    in_each_place(|place| {
        for lost in [0, 1] {
            let (legs, stays) = (pair(), 1 - lost);
            let harness = mirror(&legs).start(place).unwrap();
            let client = harness.connect_child("disk", "block").unwrap();
            until_said(&harness, "`right` has everything", 1);
            write(&client, 0, 1).unwrap();
            let (generation, _) = legs[stays].label();
            legs[lost].lose();
            for at in 1..20 {
                write(&client, at * 1024, at as u8).unwrap();
                if at == 1 {
                    assert_eq!(legs[stays].label(), (generation + 1, 1), "known before the first answer");
                }
                assert_eq!(read(&client, at * 1024), Ok(at as u8));
            }
            assert_eq!(said(&harness, "is lost"), 1);
            assert_eq!(legs[lost].contents()[1024], 0);
            legs[lost].bring_back();
            let copied = if lost == 1 { 2 } else { 1 };
            until_said(&harness, &format!("`{}` has everything", ["left", "right"][lost]), copied);
            assert!(legs[0].contents() == legs[1].contents());
            legs[stays].lose();
            for at in 1..20 {
                assert_eq!(read(&client, at * 1024), Ok(at as u8), "from the one that was away");
            }
            write(&client, 0, 9).unwrap();
            legs[lost].lose();
            assert_eq!(write(&client, 0, 10), Err(Status::Io));
            assert_eq!(read(&client, 0), Err(Status::Io));
            drop(client);
            let _ = harness.stop();
            assert_eq!(legs[lost].contents()[0], 9);
        }
    });
}

#[test]
fn a_leg_that_fails_a_write_is_out_and_one_that_all_fail_is_an_error_of_the_request() {
    in_each_place(|place| {
        let legs = pair();
        let harness = mirror(&legs).start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        until_said(&harness, "`right` has everything", 1);
        legs[0].fails_writes.store(true, Ordering::SeqCst);
        write(&client, 0, 5).unwrap();
        assert_eq!(said(&harness, "the leg `left` is lost"), 1);
        for _ in 0..4 {
            assert_eq!(read(&client, 0), Ok(5), "never from the one that missed it");
        }
        legs[1].fails_writes.store(true, Ordering::SeqCst);
        assert_eq!(write(&client, 0, 6), Err(Status::Io));
        assert_eq!(read(&client, 0), Ok(5), "nobody has missed what nobody did");
        drop(client);
        let _ = harness.stop();
    });
}

#[test]
fn a_mirror_that_is_started_anew_knows_which_leg_was_away() {
    in_each_place(|place| {
        let legs = pair();
        let harness = mirror(&legs).start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        until_said(&harness, "`right` has everything", 1);
        write(&client, 0, 1).unwrap();
        legs[0].lose();
        write(&client, 0, 2).unwrap();
        drop(client);
        harness.stop().unwrap();
        // The first leg is there again, with what it had.
        legs[0].bring_back();
        let harness = mirror(&legs).start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        for _ in 0..4 {
            assert_eq!(read(&client, 0), Ok(2));
        }
        until_said(&harness, "`left` has everything", 1);
        assert_eq!(legs[0].contents()[0], 2);
        drop(client);
        harness.stop().unwrap();
        // One is away: the other is used alone.
        legs[1].lose();
        let harness = mirror(&legs).start(place).unwrap();
        assert_eq!(said(&harness, "`right` is not there"), 1);
        harness.stop().unwrap();
    });
}

#[test]
fn legs_that_were_used_one_without_the_other_are_not_put_together() {
    let legs = pair();
    let alone = |at: usize| {
        legs[1 - at].lose();
        let runtime = ForegroundRuntime::new();
        let harness = mirror(&legs).start(&runtime).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        write(&client, 0, at as u8 + 1).unwrap();
        drop(client);
        harness.stop().unwrap();
        legs[1 - at].bring_back();
    };
    let runtime = ForegroundRuntime::new();
    let harness = mirror(&legs).start(&runtime).unwrap();
    until_said(&harness, "`right` has everything", 1);
    harness.stop().unwrap();
    alone(0);
    alone(1);
    let runtime = ForegroundRuntime::new();
    let harness = mirror(&legs).start(&runtime).unwrap();
    assert_eq!(said(&harness, "the leg `right` is left alone: it was used without the others"), 1);
    harness.stop().unwrap();
    assert_eq!([legs[0].contents()[0], legs[1].contents()[0]], [1, 2], "neither was changed by the other");
}

#[test]
fn what_cannot_be_a_mirror_is_told_why() {
    let runtime = ForegroundRuntime::new();
    let refused = |legs: &[Arc<Leg>; 2]| match mirror(legs).start(&runtime).map(|_| ()) {
        Err(Problem::NotStarted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let legs = pair();
    legs.iter().for_each(|leg| leg.lose());
    assert!(refused(&legs).contains("none of the legs [\"left\", \"right\"] is there"));
    let small = [Leg::new(RESERVED), Leg::new(RESERVED)];
    assert!(refused(&small).contains("the mirror takes 65536 of each"));
}

/// Two clients write to the same places at once.
fn overlapping(runtime: &ForegroundRuntime) {
    let legs = pair();
    let harness = mirror(&legs).start(runtime).unwrap();
    // The two would do them in different orders, if they had them at once.
    legs[1].reverses.store(true, Ordering::SeqCst);
    let clients = [1, 2].map(|_| harness.connect_child("disk", "block").unwrap());
    for round in 0..4 {
        for (number, client) in clients.iter().enumerate() {
            let byte = (round * 2 + number) as u8;
            assert!(ask(client, round as u64, Op::Write, 512 * number, 1024, &[byte; 1024]));
        }
    }
    harness.settle();
    for client in &clients {
        assert_eq!((0..4).filter_map(|_| answer(client)).filter(|(_, status, _)| status.is_ok()).count(), 4);
    }
    until_said(&harness, "`right` has everything", 1);
    drop(clients);
    harness.stop().unwrap();
    assert!(legs[0].contents() == legs[1].contents(), "legs never differ");
}

#[test]
fn writes_that_overlap_leave_the_legs_alike_in_any_order() {
    explore(60, overlapping);
}

#[test]
fn a_write_beside_the_copy_of_its_place_is_not_lost() {
    let legs = pair();
    let runtime = ForegroundRuntime::new();
    let harness = mirror(&legs).start(&runtime).unwrap();
    let client = harness.connect_child("disk", "block").unwrap();
    until_said(&harness, "`right` has everything", 1);
    legs[1].lose();
    write(&client, 0, 1).unwrap();
    *legs[1].held.lock() = Some(Vec::new());
    legs[1].bring_back();
    // The label is read and written; then the first piece is on its way to the leg, with what was there before.
    let holds_a_piece = || {
        harness.advance(Duration::from_millis(25));
        let held = legs[1].held.lock();
        held.iter().flatten().any(|request| request.op() == Op::Write && request.offset() == 0)
    };
    for _ in 0..10 {
        if holds_a_piece() {
            break;
        }
        legs[1].release();
    }
    assert!(holds_a_piece());
    assert!(ask(&client, 9, Op::Write, 0, 1024, &[9; 1024]));
    harness.settle();
    for _ in 0..20 {
        legs[1].release();
        harness.settle();
    }
    assert_eq!(answer(&client).map(|(id, status, _)| (id, status)), Some((9, Ok(()))));
    until_said(&harness, "`right` has everything", 2);
    *legs[1].held.lock() = None;
    assert_eq!(legs[1].contents()[0], 9);
    assert!(legs[0].contents() == legs[1].contents());
    drop(client);
    harness.stop().unwrap();
}

/// A client at work while a leg is lost and comes back; what was answered is on a leg that the labels lead to.
fn a_leg_is_lost_at_work(runtime: &ForegroundRuntime) {
    let legs = pair();
    let Ok(harness) = mirror(&legs).start(runtime) else {
        assert!(runtime.was_injected());
        return;
    };
    runtime.on_injection(harness.stopper());
    let mut answered = [0u8; 4];
    if let Ok(client) = harness.connect_child("disk", "block") {
        for step in 1..=6u8 {
            match step {
                3 => legs[0].lose(),
                5 => {
                    legs[0].bring_back();
                    harness.advance(Duration::from_millis(25));
                }
                _ => {}
            }
            let place = usize::from(step % 4);
            if ask(&client, u64::from(step), Op::Write, place * 1024, 1024, &[step; 1024])
                && matches!(answer(&client), Some((_, Ok(()), _)))
            {
                answered[place] = step;
            }
        }
    }
    let stopped = harness.stop();
    assert!(stopped.is_ok() || runtime.was_injected(), "{stopped:?}");
    let source = legs.iter().filter(|leg| leg.label().1 != 2).max_by_key(|leg| (leg.label().0, leg.label().1 == 0));
    let contents = source.expect("one leg at least has everything").contents();
    for (place, step) in answered.into_iter().enumerate() {
        let found = contents[place * 1024];
        assert!(found >= step, "place {place}: {found} is older than {step}, which was answered");
    }
}

#[test]
fn a_stop_at_any_step_keeps_what_was_answered() {
    let injected = shutdown_at_every_step(a_leg_is_lost_at_work, Target::custom("the stop of the host"));
    assert!(injected.injections > 50, "{injected:?}");
}

#[test]
fn an_end_of_the_driver_at_any_step_keeps_what_was_answered() {
    shutdown_at_every_step(a_leg_is_lost_at_work, Target::driver("mirror"));
}
