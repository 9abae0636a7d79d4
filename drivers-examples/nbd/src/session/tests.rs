//! Goal: a session answers every request exactly once and right, in whatever pieces bytes come and go and in whatever
//! order the device answers, and holds no more than its limits.
//! Method: a model device (an array), a client that parses the replies, and a scheduler that picks the next event.

use std::collections::HashMap;

use proptest::prelude::*;

use super::budget::{RESERVE, SHARE};
use super::*;
use crate::protocol::Violation;
use crate::protocol::constants::{
    CMD_DISC, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES,
    SIMPLE_REPLY_MAGIC,
};
use crate::protocol::request::{REPLY_LEN, Request};

const AREA: usize = 128 << 10;
const AREAS: usize = 12;
const LIMITS: Limits = Limits { requests: 4, piece: 16 << 10, range: 32 << 10 };

/// What the device holds before anything is written: bytes that tell their place.
fn initial() -> Vec<u8> {
    (0..AREA * AREAS).map(|at| (at / 512) as u8 ^ at as u8).collect()
}

/// The bytes of the write with this cookie.
fn pattern(cookie: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (cookie as u8).wrapping_mul(31).wrapping_add((at / 7) as u8)).collect()
}

struct World {
    session: Session<Vec<u8>>,
    budget: Arc<Budget>,
    device: Vec<u8>,
    asked: Vec<DeviceRequest<Vec<u8>>>,
    /// Bytes from the client that were not fed yet.
    to_feed: Vec<u8>,
    sent: Vec<u8>,
    /// Answered by the device with this error, if set.
    device_error: Option<NbdError>,
}

impl World {
    fn new(limits: Limits, pool: usize) -> Self {
        let device = initial();
        let export = Export { name: "disk".into(), size: device.len() as u64, block_size: 512, read_only: false };
        let budget = Arc::new(Budget::new(pool));
        let session = Session::new(Arc::new(export), limits, &budget);
        Self { session, budget, device, asked: Vec::new(), to_feed: Vec::new(), sent: Vec::new(), device_error: None }
    }

    fn send(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> &mut Self {
        self.to_feed.extend_from_slice(&Request { flags, command, cookie, offset, length }.encode());
        if command == CMD_WRITE {
            self.to_feed.extend_from_slice(&pattern(cookie, length as usize));
        }
        self
    }

    /// Gives the session up to `most` bytes, through the direct way if it offers one and `direct` is set.
    fn feed(&mut self, most: usize, direct: bool) -> Result<(), Violation> {
        let most = most.min(self.to_feed.len());
        let taken = match self.session.direct() {
            Some(room) if direct => {
                let taken = room.len().min(most);
                room[..taken].copy_from_slice(&self.to_feed[..taken]);
                self.session.received(taken);
                taken
            }
            _ => {
                let mut input = &self.to_feed[..most];
                self.session.feed(&mut input)?;
                most - input.len()
            }
        };
        self.to_feed.drain(..taken);
        self.take_requests();
        Ok(())
    }

    fn take_requests(&mut self) {
        self.asked.extend(std::iter::from_fn(|| self.session.next_request()));
    }

    /// Lets the device answer the request at this place.
    fn answer(&mut self, place: usize) -> Result<(), DeviceFault> {
        let request = self.asked.remove(place);
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        let mut data = None;
        if self.device_error.is_none() {
            match request.operation {
                Operation::Read => data = Some(self.device[range].to_vec()),
                Operation::Write { .. } => self.device[range].copy_from_slice(&request.data.expect("data of a write")),
                Operation::Trim { .. } | Operation::WriteZeroes { .. } => self.device[range].fill(0),
                Operation::Flush => {}
            }
        }
        let outcome = self.device_error.map_or(Ok(()), Err);
        let result = self.session.complete(request.id, outcome, data);
        self.take_requests();
        result
    }

    fn take_output(&mut self, most: usize) {
        let shown: Vec<u8> = self
            .session
            .with_slices(|slices| slices.iter().flat_map(|slice| slice.iter().copied()).take(most).collect());
        self.session.advance(shown.len());
        self.sent.extend_from_slice(&shown);
        self.take_requests();
    }

    /// Does all there is to do, in order.
    fn settle(&mut self) -> Result<(), DeviceFault> {
        loop {
            let before = (self.to_feed.len(), self.asked.len(), self.sent.len());
            self.feed(usize::MAX, false).expect("the script keeps to the protocol");
            while !self.asked.is_empty() {
                self.answer(0)?;
            }
            self.take_output(usize::MAX);
            if before == (self.to_feed.len(), self.asked.len(), self.sent.len()) {
                return Ok(());
            }
        }
    }

    /// The replies so far, in order: cookie, error, data. `lengths` has the length of each read.
    fn replies(&self, lengths: &HashMap<u64, usize>) -> Vec<(u64, u32, Vec<u8>)> {
        let (mut rest, mut found) = (&self.sent[..], Vec::new());
        while !rest.is_empty() {
            let (head, after) = rest.split_at(REPLY_LEN);
            assert_eq!(head[..4], SIMPLE_REPLY_MAGIC.to_be_bytes(), "the client lost its place");
            let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
            let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
            let length = if error == 0 { lengths.get(&cookie).copied().unwrap_or(0) } else { 0 };
            let (data, after) = after.split_at(length);
            found.push((cookie, error, data.to_vec()));
            rest = after;
        }
        found
    }

    /// Cookies and errors, for scripts without reads that succeed.
    fn outcomes(&self) -> Vec<(u64, u32)> {
        self.replies(&HashMap::new()).into_iter().map(|(cookie, error, _)| (cookie, error)).collect()
    }

    fn check_limits(&self, limits: Limits) {
        assert!(self.session.request_count() <= limits.requests);
        let asked: usize = self.asked.iter().map(|request| request.data.as_ref().map_or(0, Vec::len)).sum();
        assert!(asked <= SHARE as usize, "the device holds {asked} bytes of one connection");
    }
}

#[test]
fn replies_go_out_in_the_order_in_which_the_device_answers() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, 512).send(CMD_READ, 0, 2, 4096, 1024).send(CMD_FLUSH, 0, 3, 0, 0);
    world.feed(usize::MAX, false).unwrap();
    world.answer(2).unwrap();
    world.answer(1).unwrap();
    world.answer(0).unwrap();
    world.take_output(usize::MAX);
    let replies = world.replies(&HashMap::from([(1, 512), (2, 1024)]));
    let initial = initial();
    assert_eq!(replies[0], (3, 0, vec![]));
    assert_eq!(replies[1], (2, 0, initial[4096..5120].to_vec()));
    assert_eq!(replies[2], (1, 0, initial[..512].to_vec()));
}

#[test]
fn flags_reach_the_device_with_every_piece() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_WRITE, CMD_FLAG_FUA, 1, 0, 40 << 10);
    world.send(CMD_WRITE_ZEROES, CMD_FLAG_NO_HOLE, 2, 64 << 10, 512);
    world.feed(usize::MAX, false).unwrap();
    let asked: Vec<_> = world.asked.iter().map(|request| (request.operation, request.offset, request.length)).collect();
    let write = Operation::Write { fua: true };
    assert_eq!(asked[..3], [(write, 0, 16 << 10), (write, 16 << 10, 16 << 10), (write, 32 << 10, 8 << 10)]);
    assert_eq!(asked[3], (Operation::WriteZeroes { fua: false, keep: true }, 64 << 10, 512));
    world.settle().unwrap();
    assert_eq!(world.outcomes(), [(1, 0), (2, 0)]);
}

#[test]
fn a_refused_write_is_answered_after_its_data_and_the_next_request_is_found() {
    let mut world = World::new(LIMITS, 0);
    let end = (AREA * AREAS) as u64;
    world.send(CMD_WRITE, 0, 1, end, 100 << 10).send(99, 0, 2, 0, 0).send(CMD_TRIM, 0, 3, 0, 512);
    world.feed(28, false).unwrap();
    world.take_output(usize::MAX);
    assert!(world.sent.is_empty(), "the error must wait for the data that it is about");
    world.settle().unwrap();
    assert_eq!(world.outcomes(), [(1, NbdError::NoSpace as u32), (2, NbdError::Invalid as u32), (3, 0)]);
}

#[test]
fn a_client_that_does_not_read_stalls_itself_at_the_limit_of_requests() {
    let mut world = World::new(LIMITS, 1 << 20);
    (0..10).for_each(|cookie| {
        world.send(CMD_READ, 0, cookie, 0, 512);
    });
    world.feed(usize::MAX, false).unwrap();
    while !world.asked.is_empty() {
        world.answer(0).unwrap();
    }
    world.feed(usize::MAX, false).unwrap();
    assert_eq!(world.session.request_count(), LIMITS.requests);
    assert!(!world.session.wants_input());
    assert_eq!(world.session.waits_for(), WaitsFor::Reader);
    assert_eq!(world.to_feed.len(), 5 * 28, "one head is kept, the others stay in the socket");
    world.take_output(REPLY_LEN + 512);
    world.feed(0, false).unwrap();
    assert_eq!(world.asked.len(), 1, "one reply out makes room for one request");
    world.settle().unwrap();
    let lengths = (0..10).map(|cookie| (cookie, 512)).collect();
    assert_eq!(world.replies(&lengths).len(), 10);
}

#[test]
fn a_long_read_that_is_not_taken_is_fetched_ahead_no_more_than_the_reserve() {
    let limits = Limits { requests: 16, piece: 256 << 10, range: 1 << 20 };
    let mut world = World::new(limits, 0);
    world.send(CMD_READ, 0, 1, 0, (2 * AREA) as u32).send(CMD_FLUSH, 0, 2, 0, 0);
    world.feed(usize::MAX, false).unwrap();
    let mut fetched = 0;
    while !world.asked.is_empty() {
        fetched += world.asked[0].length;
        world.answer(0).unwrap();
    }
    assert_eq!(fetched, RESERVE, "with an empty pool only the reserve is fetched ahead");
    world.settle().unwrap();
    let lengths = HashMap::from([(1, 2 * AREA)]);
    let replies = world.replies(&lengths);
    assert_eq!(replies.len(), 2);
    assert!(replies[0] == (1, 0, initial()[..2 * AREA].to_vec()));
    assert_eq!(replies[1].0, 2, "the flush waits behind the reply that had begun");
}

#[test]
fn an_error_of_the_device_before_a_long_reply_begins_is_an_ordinary_error() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.device_error = Some(NbdError::Io);
    world.send(CMD_READ, 0, 1, 0, AREA as u32).send(CMD_WRITE, 0, 2, 0, AREA as u32).send(
        CMD_TRIM,
        0,
        3,
        0,
        AREA as u32,
    );
    world.settle().unwrap();
    let mut outcomes = world.outcomes();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(1, 5), (2, 5), (3, 5)]);
    assert_eq!(world.session.request_count(), 0);
    assert_eq!(world.budget.left(), 1 << 20);
}

#[test]
fn an_error_in_the_middle_of_a_long_reply_ends_the_connection() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, AREA as u32);
    world.feed(usize::MAX, false).unwrap();
    world.answer(0).unwrap();
    world.device_error = Some(NbdError::Io);
    assert_eq!(world.answer(0), Err(DeviceFault::MidReply(NbdError::Io)));
}

#[test]
fn answers_that_were_not_asked_for_change_nothing() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, 512);
    world.feed(usize::MAX, false).unwrap();
    let id = world.asked[0].id;
    assert_eq!(world.session.complete(77, Ok(()), Some(vec![1; 512])), Err(DeviceFault::UnknownId(77)));
    world.answer(0).unwrap();
    assert_eq!(world.session.complete(id, Ok(()), None), Err(DeviceFault::UnknownId(id)));
    world.settle().unwrap();
    assert_eq!(world.replies(&HashMap::from([(1, 512)])).len(), 1);
}

#[test]
fn a_read_that_succeeds_without_its_data_is_an_error() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, 1024).send(CMD_READ, 0, 2, 0, 1024);
    world.feed(usize::MAX, false).unwrap();
    let ids: Vec<u64> = world.asked.drain(..).map(|request| request.id).collect();
    world.session.complete(ids[0], Ok(()), Some(vec![0; 512])).unwrap();
    world.session.complete(ids[1], Ok(()), None).unwrap();
    world.take_output(usize::MAX);
    assert_eq!(world.outcomes(), [(1, 5), (2, 5)]);
}

#[test]
fn a_disconnect_waits_for_what_is_under_way_and_drops_what_follows() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_FLUSH, 0, 1, 0, 0).send(CMD_DISC, 0, 2, 0, 0).send(CMD_FLUSH, 0, 3, 0, 0);
    world.feed(usize::MAX, false).unwrap();
    assert!(!world.session.wants_input() && !world.session.is_finished());
    world.settle().unwrap();
    assert!(world.session.is_finished());
    assert_eq!(world.outcomes(), [(1, 0)]);
}

#[test]
fn at_a_stop_every_request_is_answered_or_told_of_the_shutdown() {
    let mut world = World::new(Limits { requests: 16, ..LIMITS }, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, 512);
    world.send(CMD_READ, 0, 2, 0, AREA as u32);
    world.send(CMD_READ, 0, 3, AREA as u64, AREA as u32);
    world.send(CMD_TRIM, 0, 4, 0, AREA as u32);
    world.send(CMD_WRITE, 0, 5, 0, AREA as u32);
    world.feed(world.to_feed.len() - 1000, false).unwrap();
    assert!(world.session.end_input(), "the write has not arrived in full");
    world.session.cut_short();
    world.to_feed.clear();
    world.settle().unwrap();
    assert!(world.session.is_finished());
    let mut outcomes = world.replies(&HashMap::from([(1, 512)]));
    outcomes.sort_unstable();
    let errors: Vec<_> = outcomes.iter().map(|(cookie, error, _)| (*cookie, *error)).collect();
    assert_eq!(errors, [(1, 0), (2, 108), (3, 108), (4, 108), (5, 108)]);
    assert_eq!(world.budget.left(), 1 << 20);
}

#[test]
fn when_the_device_goes_every_request_is_told() {
    let mut world = World::new(Limits { requests: 16, ..LIMITS }, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, 512).send(CMD_READ, 0, 2, 0, AREA as u32).send(CMD_WRITE, 0, 3, 0, 20 << 10);
    world.send(CMD_TRIM, 0, 4, 0, AREA as u32).send(CMD_WRITE, 0, 5, 0, AREA as u32);
    world.feed(world.to_feed.len() - 1000, false).unwrap();
    world.session.device_gone().unwrap();
    world.asked.clear();
    world.take_requests();
    assert!(world.asked.is_empty(), "a gone device is asked nothing");
    world.take_output(usize::MAX);
    assert!(world.session.is_finished());
    let mut outcomes = world.outcomes();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(1, 108), (2, 108), (3, 108), (4, 108), (5, 108)]);
    assert_eq!(world.budget.left(), 1 << 20);
}

#[test]
fn an_idle_session_holds_nothing() {
    let mut world = World::new(LIMITS, 1 << 20);
    world.send(CMD_READ, 0, 1, 0, AREA as u32).send(CMD_WRITE, 0, 2, 0, AREA as u32);
    world.settle().unwrap();
    world.session.shrink_if_idle();
    assert_eq!(world.session.waits_for(), WaitsFor::NextRequest);
    assert_eq!(world.budget.left(), 1 << 20);
    world.send(CMD_FLUSH, 0, 3, 0, 0).settle().unwrap();
    assert_eq!(world.session.request_count(), 0);
}

/// One request of the random test; each works on an area of its own, so that its outcome does not hang on the order.
#[derive(Debug, Clone, Copy)]
struct Op {
    command: u16,
    start: u64,
    length: u32,
}

fn op() -> impl Strategy<Value = Op> {
    let command = prop_oneof![
        3 => Just(CMD_READ), 3 => Just(CMD_WRITE), 1 => Just(CMD_TRIM), 1 => Just(CMD_WRITE_ZEROES), 1 => Just(CMD_FLUSH),
        1 => Just(55u16),
    ];
    let blocks = AREA as u64 / 512;
    (command, 0..blocks, prop_oneof![1..9u64, 1..=blocks]).prop_map(move |(command, start, length)| Op {
        command,
        start: start * 512,
        length: (length.min(blocks - start) * 512) as u32,
    })
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Feed { most: usize, direct: bool },
    Answer(prop::sample::Index),
    Send { most: usize },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (prop_oneof![1..64usize, 1..200_000usize], any::<bool>())
            .prop_map(|(most, direct)| Event::Feed { most, direct }),
        any::<prop::sample::Index>().prop_map(Event::Answer),
        prop_oneof![1..64usize, 1..200_000usize].prop_map(|most| Event::Send { most }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_request_is_answered_once_and_right_in_any_order_of_events(
        ops in prop::collection::vec(op(), 1..AREAS),
        events in prop::collection::vec(event(), 1..400),
        pool in prop_oneof![Just(0usize), Just(100_000), Just(8 << 20)],
        piece in prop_oneof![Just(4096u32), Just(32 << 10), Just(128 << 10)],
        requests in 1..8usize,
    ) {
        let limits = Limits { requests, piece, range: 32 << 10 };
        let mut world = World::new(limits, pool);
        let mut expected = initial();
        let mut lengths = HashMap::new();
        for (area, op) in ops.iter().enumerate() {
            let cookie = area as u64 + 1;
            let offset = (area * AREA) as u64 + op.start;
            let range = offset as usize..offset as usize + op.length as usize;
            match op.command {
                CMD_READ => { lengths.insert(cookie, op.length as usize); }
                CMD_WRITE => expected[range].copy_from_slice(&pattern(cookie, op.length as usize)),
                CMD_TRIM | CMD_WRITE_ZEROES => expected[range].fill(0),
                _ => {}
            }
            let is_flush = op.command == CMD_FLUSH;
            world.send(op.command, 0, cookie, if is_flush { 0 } else { offset }, if is_flush { 0 } else { op.length });
        }
        for event in events {
            match event {
                Event::Feed { most, direct } => world.feed(most, direct).unwrap(),
                Event::Answer(_) if world.asked.is_empty() => {}
                Event::Answer(which) => {
                    let place = which.index(world.asked.len());
                    world.answer(place).unwrap();
                }
                Event::Send { most } => world.take_output(most),
            }
            world.check_limits(limits);
        }
        world.settle().unwrap();
        prop_assert!(world.to_feed.is_empty(), "{} bytes were never taken", world.to_feed.len());
        let replies = world.replies(&lengths);
        let mut cookies: Vec<u64> = replies.iter().map(|(cookie, ..)| *cookie).collect();
        cookies.sort_unstable();
        prop_assert_eq!(cookies, (1..=ops.len() as u64).collect::<Vec<_>>());
        let initial = initial();
        for (cookie, error, data) in replies {
            let op = ops[cookie as usize - 1];
            prop_assert_eq!(error, if op.command == 55 { 22 } else { 0 });
            let offset = (cookie as usize - 1) * AREA + op.start as usize;
            prop_assert!(data == initial[offset..offset + data.len()], "read {} got other bytes", cookie);
        }
        prop_assert!(world.device == expected, "the device holds other bytes than were written");
        prop_assert_eq!(world.session.request_count(), 0);
        prop_assert_eq!(world.budget.left(), pool);
        prop_assert_eq!(world.session.waits_for(), WaitsFor::NextRequest);
    }

    #[test]
    fn random_and_truncated_bytes_never_panic_and_hold_no_more_than_the_limits(
        heads in prop::collection::vec((0..9u16, 0..4u16, any::<u64>(), any::<u32>(), any::<bool>()), 0..40),
        noise in prop::collection::vec(any::<u8>(), 0..100),
        cut in any::<prop::sample::Index>(),
        stop in any::<bool>(),
    ) {
        let mut world = World::new(LIMITS, 200_000);
        for (cookie, (command, flags, offset, length, sane)) in heads.into_iter().enumerate() {
            let (offset, length) = if sane { (offset % 4096 * 512, length % 400 * 512) } else { (offset, length) };
            let request = Request { flags, command, cookie: cookie as u64, offset, length };
            world.to_feed.extend_from_slice(&request.encode());
            if command == CMD_WRITE && sane {
                world.to_feed.resize(world.to_feed.len() + length as usize, 0xee);
            }
        }
        world.to_feed.extend_from_slice(&noise);
        let cut = cut.index(world.to_feed.len() + 1);
        world.to_feed.truncate(cut);
        loop {
            let before = (world.to_feed.len(), world.sent.len());
            if world.feed(3000, false).is_err() {
                return Ok(());
            }
            world.check_limits(LIMITS);
            while !world.asked.is_empty() {
                world.answer(0).unwrap();
            }
            world.take_output(usize::MAX);
            if before == (world.to_feed.len(), world.sent.len()) {
                break;
            }
        }
        if stop {
            world.session.end_input();
            world.session.cut_short();
            world.to_feed.clear();
            world.settle().unwrap();
            prop_assert!(world.session.is_finished());
            prop_assert_eq!(world.budget.left(), 200_000);
        }
    }
}
