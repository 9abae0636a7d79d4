//! Random steps at both ends of a pair, beside a plain model: queues, registrations, waits for room, calls, closes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::calls::{Caller, Left};
use super::ends::{Side, Wanted};
use super::limits::Limits;
use super::pair::{Closed, Pair, Queued, Reply};
use super::wait_op::{Completion, Next, Schedule, WaitOp};
use crate::status::Status;
use crate::sync::{Arc, Mutex};

/// A message of a length, and the number of the call whose request it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    id: u32,
    len: usize,
    call: Option<u32>,
}

impl Queued for Letter {
    fn byte_len(&self) -> usize {
        self.len
    }
}

/// A registration that notes how it was completed, at most once, and whether its handler ran at once.
#[derive(Debug, Clone, Default)]
struct Op {
    told: Arc<Mutex<Option<Completion>>>,
    runs_at_once: bool,
    ran: Arc<Mutex<bool>>,
}

impl WaitOp for Op {
    type Handler = ();
    type Begun = Op;
    type Message = Letter;

    fn ready(self, next: &mut Next<Self>) -> Option<(Self, Schedule)> {
        self.complete(Completion::Ready);
        if !self.runs_at_once {
            return Some((self, Schedule::Yes));
        }
        *next = Next::Run(self);
        None
    }

    fn hand(_: &mut Op, _: Letter) {
        unreachable!("none of these takes messages");
    }

    fn run(begun: Op) {
        assert!(!std::mem::replace(&mut *begun.ran.lock(), true), "it runs once");
    }

    fn schedule(self) {
        assert_eq!(self.told(), Some(Completion::Ready));
    }

    fn complete(&self, how: Completion) {
        let before = self.told.lock().replace(how);
        assert!(before.is_none() || how == Completion::Canceled, "told {before:?}, then {how:?}");
    }

    fn take_back(&self) -> Option<()> {
        Some(())
    }
}

impl Op {
    fn new(runs_at_once: bool) -> Self {
        Op { runs_at_once, ..Op::default() }
    }

    fn told(&self) -> Option<Completion> {
        *self.told.lock()
    }

    fn has_run(&self) -> bool {
        *self.ran.lock()
    }
}

/// One end as it should be.
#[derive(Debug, Default)]
struct End {
    closed: bool,
    queue: VecDeque<Letter>,
    reading: Option<(Op, u64)>,
    writing: Option<(Op, u64, usize)>,
    calls: Vec<(u32, Op)>,
}

impl End {
    fn bytes(&self) -> usize {
        self.queue.iter().map(|letter| letter.len).sum()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Read,
    /// The handler runs at once, or later.
    WaitForMessage(bool),
    WaitForRoom(usize, bool),
    /// The handler of what is registered begins, if it was told and has not run.
    Begin(bool),
    Cancel(bool),
    Call(usize),
    /// Answers a request that this end has read, the oldest or the newest.
    Answer(bool),
    /// The oldest call of this end is over for its caller.
    EndCall,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..6).prop_map(Step::Write),
        4 => Just(Step::Read),
        2 => any::<bool>().prop_map(Step::WaitForMessage),
        2 => (0usize..12, any::<bool>()).prop_map(|(len, at_once)| Step::WaitForRoom(len, at_once)),
        2 => any::<bool>().prop_map(Step::Begin),
        1 => any::<bool>().prop_map(Step::Cancel),
        3 => (0usize..4).prop_map(Step::Call),
        3 => any::<bool>().prop_map(Step::Answer),
        2 => Just(Step::EndCall),
        1 => Just(Step::Close),
    ]
}

const MESSAGES: usize = 3;
const BYTES: usize = 8;

struct World {
    pair: Pair<Letter, Op>,
    limits: Limits,
    ends: [End; 2],
    /// Requests that were read and not answered, by the end that read them.
    open: [Vec<u32>; 2],
    next: u32,
}

impl World {
    fn new() -> Self {
        let limits = Limits::default().messages(MESSAGES).bytes(BYTES);
        World { pair: Pair::new(limits), limits, ends: Default::default(), open: Default::default(), next: 0 }
    }

    /// What a write of this length is refused with.
    fn refuses(&self, from: Side, len: usize) -> Option<Status> {
        let reader = &self.ends[from.other() as usize];
        match (reader.closed, self.limits.allow(reader.queue.len(), reader.bytes(), len)) {
            (true, _) => Some(Status::PeerClosed),
            (false, false) => Some(Status::ShouldWait),
            (false, true) => None,
        }
    }

    fn letter(&mut self, len: usize) -> Letter {
        self.next += 1;
        Letter { id: self.next, len, call: None }
    }

    fn run(&mut self, side: Side, step: &Step) {
        let (own, peer) = (side as usize, side.other() as usize);
        if self.ends[own].closed {
            return;
        }
        let mut next = Next::Nothing;
        match *step {
            Step::Write(len) => {
                let letter = self.letter(len);
                let written = self.pair.write(side, letter.clone(), &mut next);
                match (written, self.refuses(side, len)) {
                    (Ok(()), None) => self.ends[peer].queue.push_back(letter),
                    (Err(refused), Some(status)) => assert_eq!(refused, (status, letter)),
                    (written, expected) => panic!("{written:?}, expected {expected:?}"),
                }
            }
            Step::Read => {
                let mut peer_is_open = true;
                let read = self.pair.try_read(side, &mut peer_is_open, &mut next);
                assert!(read.is_some() || peer_is_open != self.ends[peer].closed);
                assert_eq!(read, self.ends[own].queue.pop_front());
                self.open[own].extend(read.and_then(|letter| letter.call));
            }
            Step::WaitForMessage(at_once) => {
                let op = Op::new(at_once);
                let nothing_comes = self.ends[peer].closed && self.ends[own].queue.is_empty();
                let mut number = 0;
                let registered = self.pair.register(side, |is_ready, generation| {
                    number = generation;
                    is_ready.then(|| op.complete(Completion::Ready));
                    Some(op.clone())
                });
                let expected = match (nothing_comes, &self.ends[own].reading) {
                    (true, _) => Err(Status::PeerClosed),
                    (false, Some(_)) => Err(Status::BadState),
                    (false, None) => Ok(()),
                };
                assert_eq!(registered, expected);
                if registered.is_ok() {
                    self.ends[own].reading = Some((op, number));
                }
            }
            Step::WaitForRoom(len, at_once) => {
                let op = Op::new(at_once);
                let mut number = 0;
                let registered = self.pair.register_room(side, len, |is_ready, generation| {
                    number = generation;
                    is_ready.then(|| op.complete(Completion::Ready));
                    Some(op.clone())
                });
                let expected = match (self.refuses(side, len), &self.ends[own].writing) {
                    (Some(Status::PeerClosed), _) => Err(Status::PeerClosed),
                    (_, Some(_)) => Err(Status::BadState),
                    (_, None) => Ok(()),
                };
                assert_eq!(registered, expected);
                if registered.is_ok() {
                    self.ends[own].writing = Some((op, number, len));
                }
            }
            Step::Begin(reads) => {
                let wanted = if reads { Wanted::Message } else { Wanted::Room };
                let end = &mut self.ends[own];
                let waiting = if reads { end.reading.clone() } else { end.writing.clone().map(|(op, it, _)| (op, it)) };
                let Some((op, generation)) = waiting.filter(|(op, _)| op.told().is_some()) else { return };
                drop(op);
                assert!(self.pair.handler_begins(side, wanted, generation).is_some());
                assert!(self.pair.handler_begins(side, wanted, generation).is_none(), "it is free");
                self.pair.handler_ends(side);
                self.pair.handler_ends(side);
                if reads { end.reading = None } else { end.writing = None }
            }
            Step::Cancel(reads) => {
                let wanted = if reads { Wanted::Message } else { Wanted::Room };
                let end = &mut self.ends[own];
                let was = if reads { end.reading.take().is_some() } else { end.writing.take().is_some() };
                assert_eq!(self.pair.cancel(side, wanted).is_some(), was);
            }
            Step::Call(len) => {
                let (mut letter, op) = (self.letter(len), Op::new(len % 2 == 0));
                let begun = self.pair.begin_call(side, letter.clone(), &mut next, |number, letter| {
                    letter.call = Some(number);
                    Some(Caller::Callback(op.clone()))
                });
                match (begun, self.refuses(side, len)) {
                    (Ok(number), None) => {
                        assert!(self.ends.iter().flat_map(|end| &end.calls).all(|(other, _)| *other != number));
                        letter.call = Some(number);
                        self.ends[peer].queue.push_back(letter);
                        self.ends[own].calls.push((number, op));
                    }
                    (Err((refused, back)), Some(status)) => assert_eq!((refused, back), (status, letter)),
                    (begun, expected) => panic!("{begun:?}, expected {expected:?}"),
                }
            }
            Step::Answer(oldest) => {
                let open = &mut self.open[own];
                if open.is_empty() {
                    return;
                }
                let number = if oldest { open.remove(0) } else { open.pop().expect("not empty") };
                let letter = self.letter(0);
                let call = self.ends[peer].calls.iter().find(|(it, _)| *it == number);
                let waits = call.is_some_and(|(_, op)| op.told().is_none());
                match self.pair.answer(side, number, letter.clone(), &mut next) {
                    Ok(Reply::Taken) => assert!(waits, "nobody waited"),
                    Ok(Reply::Late(back)) => assert!(!waits && back == letter),
                    Err((status, back)) => {
                        assert_eq!((status, back), (Status::PeerClosed, letter));
                        assert!(self.ends[peer].closed);
                    }
                }
            }
            Step::EndCall => {
                if self.ends[own].calls.is_empty() {
                    return;
                }
                let (number, op) = self.ends[own].calls.remove(0);
                let left = self.pair.end_call(side, number);
                assert_eq!(matches!(left, Left::Reply(_)), op.told() == Some(Completion::Ready), "{left:?}");
                assert!(matches!(self.pair.end_call(side, number), Left::Unanswered(None)), "it ends once");
            }
            Step::Close => {
                let Closed { unread, to_tell } = self.pair.close(side);
                assert_eq!(unread, self.ends[own].queue);
                to_tell.into_iter().for_each(Next::carry_out);
                let end = &mut self.ends[own];
                end.closed = true;
                end.queue.clear();
                let answered = |op: &Op| op.told() == Some(Completion::Ready);
                for op in end.reading.iter().map(|it| &it.0).chain(end.writing.iter().map(|it| &it.0)) {
                    assert_eq!(op.told(), Some(Completion::Canceled));
                }
                assert!(end.calls.iter().all(|(_, op)| answered(op) || op.told().is_some()));
                (end.reading, end.writing) = (None, None);
            }
        }
        next.carry_out();
    }

    /// Handlers that ran at once have returned, and left their ends free before they ran.
    fn note_returns(&mut self) {
        for side in [Side::A, Side::B] {
            let end = &mut self.ends[side as usize];
            if end.reading.take_if(|(op, _)| op.has_run()).is_some() {
                assert!(!self.pair.is_idle(side), "its handler is not counted");
                self.pair.handler_ends(side);
            }
            if end.writing.take_if(|(op, ..)| op.has_run()).is_some() {
                assert!(!self.pair.is_idle(side), "its handler is not counted");
                self.pair.handler_ends(side);
            }
        }
    }

    /// Everything that should have been told has been, and nothing else.
    fn check(&self) {
        for side in [Side::A, Side::B] {
            let (end, peer) = (&self.ends[side as usize], &self.ends[side.other() as usize]);
            if end.closed {
                continue;
            }
            let queued = self.pair.queued(side);
            assert_eq!((queued.messages, queued.bytes), (end.queue.len(), end.bytes()));
            assert!(queued.messages <= MESSAGES.max(1));
            if let Some((op, _)) = &end.reading {
                assert!(op.told().is_some() || end.queue.is_empty() && !peer.closed, "a read waits for what is there");
            }
            if let Some((op, _, len)) = &end.writing {
                let waits_rightly = self.refuses(side, *len) == Some(Status::ShouldWait);
                assert!(op.told().is_some() || waits_rightly, "a writer waits for room that is there");
            }
            assert!(!peer.closed || end.calls.iter().all(|(_, op)| op.told().is_some()));
            let is_idle = end.reading.is_none() && end.writing.is_none() && end.calls.is_empty();
            assert_eq!(self.pair.is_idle(side), is_idle);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn both_ends_behave_like_plain_queues(steps in proptest::collection::vec((any::<bool>(), step()), 1..200)) {
        let mut world = World::new();
        for (near, step) in &steps {
            world.run(if *near { Side::A } else { Side::B }, step);
            world.note_returns();
            world.check();
        }
    }
}
