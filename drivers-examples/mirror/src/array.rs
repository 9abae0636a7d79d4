//! [`Array`]: which leg is in which state, and the requests of clients.
//!
//! All of it runs on one synchronized dispatcher; the lock is held for a look or a step, never while a leg is waited for.
//!
//! A leg is *away* until it connects, *copied to* until it has everything, then *good*. Whatever fails on it, while another
//! good leg did it, makes it away again; if it was good, a new generation begins, and what is under way is answered after the
//! labels of those that stay say so.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use fuchsine_driver::block::{BlockBuffer, BlockClient, BlockCommand, BlockInfo, BlockRequest, Flags, Op};
use fuchsine_driver::{DriverContext, Status};
use parking_lot::Mutex;

use crate::gate::Gate;
use crate::label::{Condition, Label};
use crate::ranges::Ranges;

/// The mirror behind all its clients.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) cx: DriverContext,
    pub(crate) info: BlockInfo,
    /// What all its labels have in common.
    mirror: u64,
    pub(crate) state: Mutex<State>,
    pub(crate) gate: Gate,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) legs: Vec<Leg>,
    pub(crate) generation: u64,
    event: u64,
    /// The generation that the labels of good legs say.
    recorded: u64,
    is_recording: bool,
    pub(crate) ranges: Ranges,
    /// Flushes that are not answered.
    flushes: usize,
    /// Which leg is read from next.
    turn: usize,
    pub(crate) is_closed: bool,
    /// Tells a leg from what stood in its place before.
    epochs: u64,
}

#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) name: String,
    epoch: u64,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Away,
    /// It is there and not taken; the client tells when it goes.
    Refused(BlockClient),
    Copied(Attached),
    Good(Attached),
}

/// A leg that takes part.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    pub(crate) at: usize,
    pub(crate) epoch: u64,
    pub(crate) client: BlockClient,
    /// Where its label is.
    pub(crate) label_at: u64,
}

type Outcome = (Attached, Result<(), Status>);

impl Array {
    pub(crate) fn new(cx: DriverContext, info: BlockInfo, mirror: u64, generation: u64, names: &[String]) -> Self {
        let leg = |name: &String| Leg { name: name.clone(), epoch: 0, role: Role::Away };
        let state = State {
            legs: names.iter().map(leg).collect(),
            generation,
            event: chance(),
            recorded: 0,
            is_recording: false,
            ranges: Ranges::default(),
            flushes: 0,
            turn: 0,
            is_closed: false,
            epochs: 0,
        };
        Self { cx, info, mirror, state: Mutex::new(state), gate: Gate::default() }
    }

    /// Puts a leg in the place of one that is away. It is copied to, unless it has everything.
    pub(crate) fn attach(&self, at: usize, client: BlockClient, label_at: u64, is_good: bool) -> Attached {
        let mut state = self.state.lock();
        state.epochs += 1;
        let attached = Attached { at, epoch: state.epochs, client, label_at };
        let leg = &mut state.legs[at];
        leg.epoch = attached.epoch;
        leg.role = if is_good { Role::Good(attached.clone()) } else { Role::Copied(attached.clone()) };
        attached
    }

    /// Notes that a leg is there and not taken.
    pub(crate) fn refuse(&self, at: usize, client: BlockClient) {
        self.state.lock().legs[at].role = Role::Refused(client);
    }

    /// Whether a label is one that a leg of this mirror may have which was away.
    pub(crate) fn may_return(&self, label: &Label) -> Result<(), &'static str> {
        let state = self.state.lock();
        if label.mirror != self.mirror {
            Err("it belongs to another mirror")
        } else if (label.generation, label.event) != (state.generation, state.event)
            && label.generation >= state.generation
        {
            Err("it was used without the others, and has changes that they have not")
        } else {
            Ok(())
        }
    }

    /// The legs that are away, by their places and names.
    pub(crate) fn away(&self) -> Vec<(usize, String)> {
        let state = self.state.lock();
        let away = state.legs.iter().enumerate().filter(|(_, leg)| matches!(leg.role, Role::Away));
        away.map(|(at, leg)| (at, leg.name.clone())).collect()
    }

    /// Asks every leg that is there for a sign of life.
    pub(crate) async fn look_after_legs(&self) {
        let refused: Vec<(usize, BlockClient)> = {
            let state = self.state.lock();
            let refused = state.legs.iter().enumerate().filter_map(|(at, leg)| match &leg.role {
                Role::Refused(client) => Some((at, client.clone())),
                _ => None,
            });
            refused.collect()
        };
        for (at, client) in refused {
            if client.info().await.is_err() {
                self.state.lock().legs[at].role = Role::Away;
            }
        }
        let outcomes = self.on_each(self.active(), |_| BlockCommand::info()).await;
        for (leg, outcome) in outcomes {
            if outcome.is_err() {
                self.lose(&leg, Status::PeerClosed);
            }
        }
        // A leg may have been lost by somebody who had nothing to answer.
        let _ = self.record().await;
    }

    fn active(&self) -> Vec<Attached> {
        let state = self.state.lock();
        let active = state.legs.iter().filter_map(|leg| match &leg.role {
            Role::Good(attached) | Role::Copied(attached) => Some(attached.clone()),
            Role::Away | Role::Refused(_) => None,
        });
        active.collect()
    }

    fn good(&self) -> Vec<Attached> {
        let state = self.state.lock();
        let good = state.legs.iter().filter_map(|leg| match &leg.role {
            Role::Good(attached) => Some(attached.clone()),
            _ => None,
        });
        good.collect()
    }

    pub(crate) fn is_good(&self, leg: &Attached) -> bool {
        let state = self.state.lock();
        let at = &state.legs[leg.at];
        at.epoch == leg.epoch && matches!(at.role, Role::Good(_))
    }

    /// Whether it has not been lost since.
    pub(crate) fn is_attached(&self, leg: &Attached) -> bool {
        let state = self.state.lock();
        let at = &state.legs[leg.at];
        at.epoch == leg.epoch && !matches!(at.role, Role::Away)
    }

    /// Has a leg, which was copied to, be read from too, if the mirror is still in this generation.
    pub(crate) fn promote(&self, leg: &Attached, generation: u64) -> bool {
        let mut state = self.state.lock();
        let place = &state.legs[leg.at];
        let is_copied = place.epoch == leg.epoch && matches!(place.role, Role::Copied(_));
        if state.generation != generation || !is_copied {
            return false;
        }
        state.legs[leg.at].role = Role::Good(leg.clone());
        true
    }

    /// Takes a leg out.
    pub(crate) fn lose(&self, leg: &Attached, why: Status) {
        let mut state = self.state.lock();
        let State { legs, generation, event, is_closed, .. } = &mut *state;
        let place = &mut legs[leg.at];
        if place.epoch != leg.epoch || matches!(place.role, Role::Away) {
            return;
        }
        let was_good = matches!(place.role, Role::Good(_));
        place.role = Role::Away;
        if was_good {
            *generation += 1;
            *event = chance();
        }
        let (name, left) = (place.name.clone(), legs.iter().filter(|leg| matches!(leg.role, Role::Good(_))).count());
        let log = self.cx.logger().with("left", left);
        if *is_closed {
            log.info(format_args!("the leg `{name}` went before the mirror: {why}"));
        } else {
            log.warn(format_args!("the leg `{name}` is lost: {why}"));
        }
        drop(state);
        self.gate.changed();
    }

    /// Does what a client asks, and answers.
    pub(crate) async fn serve(self: Arc<Self>, mut request: BlockRequest) {
        let outcome = match request.op() {
            Op::Read => self.read_for(&mut request).await,
            Op::Flush => self.flush().await,
            Op::Write | Op::Trim | Op::WriteZeroes => self.change(&request).await,
            _ => Err(Status::NotSupported),
        };
        request.reply(outcome);
    }

    async fn read_for(&self, request: &mut BlockRequest) -> Result<(), Status> {
        let data = self.read(request.offset(), request.length()).await?;
        request.data_mut().copy_from_slice(data.data());
        Ok(())
    }

    /// Reads from any good leg; from the next one if that fails.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> Result<BlockBuffer, Status> {
        let mut good = self.good();
        let turn = {
            let mut state = self.state.lock();
            state.turn = state.turn.wrapping_add(1);
            state.turn
        };
        let first = turn % good.len().max(1);
        good.rotate_left(first);
        for leg in good {
            match leg.client.read(offset, length).await {
                Ok(data) => return Ok(data),
                Err(Status::Canceled) => return Err(Status::Canceled),
                Err(Status::PeerClosed) => self.lose(&leg, Status::PeerClosed),
                // What cannot be read there may be elsewhere, and a write may make it good.
                Err(status) => {
                    let log = self.cx.logger().with("leg", leg.at).with("offset", offset).with("length", length);
                    log.warn(format_args!("a leg could not be read, another is asked: {status}"));
                }
            }
        }
        Err(Status::Io)
    }

    async fn change(&self, request: &BlockRequest) -> Result<(), Status> {
        let (offset, length) = (request.offset(), request.length());
        let _taken = self.take(offset..offset + u64::from(length)).await?;
        let fua = if request.is_fua() { Flags::FUA } else { Flags::NONE };
        let keep = if request.keeps_space() { Flags::NO_HOLE } else { Flags::NONE };
        let legs = self.active();
        let mut commands = Vec::with_capacity(legs.len());
        for _ in &legs {
            commands.push(match request.op() {
                Op::Write => BlockCommand::write(offset, BlockBuffer::from_bytes(request.data())?, fua),
                Op::Trim => BlockCommand::trim(offset, length, fua),
                _ => BlockCommand::write_zeroes(offset, length, fua | keep),
            });
        }
        let outcomes = self.on_each(legs, |_| commands.pop().expect("there is one for each")).await;
        self.settle(outcomes).await
    }

    async fn flush(&self) -> Result<(), Status> {
        {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(Status::Unavailable);
            }
            state.flushes += 1;
        }
        let outcomes = self.on_each(self.active(), |_| BlockCommand::flush()).await;
        let settled = self.settle(outcomes).await;
        self.state.lock().flushes -= 1;
        self.gate.changed();
        settled
    }

    /// Waits until nobody else writes to the range.
    ///
    /// # Errors
    /// `Unavailable`: the mirror is being closed.
    pub(crate) async fn take(&self, range: Range<u64>) -> Result<Taken<'_>, Status> {
        let look = || {
            let mut state = self.state.lock();
            if state.is_closed {
                return Some(Err(Status::Unavailable));
            }
            state.ranges.take(&range).then_some(Ok(()))
        };
        self.gate.until(look).await?;
        Ok(Taken { array: self, range })
    }

    /// Asks each leg, all at once, and gives what each has answered.
    async fn on_each(&self, legs: Vec<Attached>, mut command: impl FnMut(&Attached) -> BlockCommand) -> Vec<Outcome> {
        type Asked<'a> = Pin<Box<dyn Future<Output = Result<BlockBuffer, Status>> + Send + 'a>>;
        let asked = legs.iter().map(|leg| Box::pin(leg.client.request(command(leg))) as Asked<'_>);
        let mut asked: Vec<Result<Asked<'_>, Result<(), Status>>> = asked.map(Ok).collect();
        let outcomes = std::future::poll_fn(|cx| {
            let mut waits = false;
            for one in &mut asked {
                if let Ok(future) = one {
                    match future.as_mut().poll(cx) {
                        Poll::Ready(outcome) => *one = Err(outcome.map(drop)),
                        Poll::Pending => waits = true,
                    }
                }
            }
            if waits {
                return Poll::Pending;
            }
            Poll::Ready(asked.drain(..).filter_map(Result::err).collect::<Vec<_>>())
        })
        .await;
        legs.clone().into_iter().zip(outcomes).collect()
    }

    /// What a client is told of a change, once the legs that have missed it are out and the labels say so.
    async fn settle(&self, outcomes: Vec<Outcome>) -> Result<(), Status> {
        // Good by now: one that has got everything while this was under way has got this too.
        let done = outcomes.iter().any(|(leg, outcome)| outcome.is_ok() && self.is_good(leg));
        let mut failure = Status::Io;
        for (leg, outcome) in &outcomes {
            match outcome {
                Ok(()) => {}
                Err(Status::Canceled) => return Err(Status::Canceled),
                Err(status) if done || *status == Status::PeerClosed => self.lose(leg, *status),
                // Nobody did it, so nobody has missed it.
                Err(status) if self.is_good(leg) => failure = *status,
                Err(status) => self.lose(leg, *status),
            }
        }
        if done { self.record().await } else { Err(failure) }
    }

    /// Makes the labels of good legs say which generation it is.
    ///
    /// # Errors
    /// `Io`: there is no good leg.
    pub(crate) async fn record(&self) -> Result<(), Status> {
        loop {
            let generation = {
                let mut state = self.state.lock();
                if state.recorded == state.generation {
                    return Ok(());
                }
                if !state.is_recording {
                    state.is_recording = true;
                    Some(state.generation)
                } else {
                    None
                }
            };
            let Some(generation) = generation else {
                self.gate.until(|| (!self.state.lock().is_recording).then_some(())).await;
                continue;
            };
            let written = self.write_labels(Condition::Open).await;
            let mut state = self.state.lock();
            state.is_recording = false;
            if written.is_ok() && state.generation == generation {
                state.recorded = generation;
            }
            drop(state);
            self.gate.changed();
            written?;
        }
    }

    /// Writes the labels of all good legs; who cannot be labeled is lost.
    async fn write_labels(&self, condition: Condition) -> Result<(), Status> {
        let (label, legs) = (self.label(condition), self.good());
        let mut blocks = Vec::with_capacity(legs.len());
        for _ in &legs {
            blocks.push(self.block_of(&label)?);
        }
        let write = |leg: &Attached| {
            BlockCommand::write(leg.label_at, blocks.pop().expect("there is one for each"), Flags::FUA)
        };
        let outcomes = self.on_each(legs, write).await;
        let mut labeled = 0;
        for (leg, outcome) in outcomes {
            match outcome {
                Ok(()) => labeled += 1,
                Err(Status::Canceled) => return Err(Status::Canceled),
                Err(status) => self.lose(&leg, status),
            }
        }
        if labeled > 0 { Ok(()) } else { Err(Status::Io) }
    }

    /// What a leg of this generation says of itself.
    pub(crate) fn label(&self, condition: Condition) -> Label {
        let state = self.state.lock();
        let State { generation, event, .. } = *state;
        Label { mirror: self.mirror, generation, event, size: self.info.size, condition }
    }

    /// The block that a label is written in.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(crate) fn block_of(&self, label: &Label) -> Result<BlockBuffer, Status> {
        let mut block = BlockBuffer::with_len(self.info.block_size as usize)?;
        let bytes = label.encode();
        block.data_mut().fill(0);
        block.data_mut()[..bytes.len()].copy_from_slice(&bytes);
        Ok(block)
    }

    /// Refuses what comes, waits for what is under way, and labels the legs as closed in order.
    ///
    /// # Errors
    /// No leg could be.
    pub(crate) async fn close(&self) -> Result<(), Status> {
        self.state.lock().is_closed = true;
        self.gate.changed();
        let at_rest = || {
            let state = self.state.lock();
            (state.ranges.is_empty() && state.flushes == 0 && !state.is_recording).then_some(())
        };
        self.gate.until(at_rest).await;
        let outcomes = self.on_each(self.good(), |_| BlockCommand::flush()).await;
        for (leg, outcome) in outcomes {
            if let Err(status) = outcome {
                self.lose(&leg, status);
            }
        }
        self.write_labels(Condition::Closed).await
    }
}

/// The right to write to a range; given back when it is dropped.
pub(crate) struct Taken<'a> {
    array: &'a Array,
    range: Range<u64>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.array.state.lock().ranges.give_back(&self.range);
        self.array.gate.changed();
    }
}

/// A number that nobody else comes upon.
pub(crate) fn chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
