//! Futures at a pair: each takes what it waits for, or is noted as the one to be woken.
//!
//! A waker is user code: it is cloned and dropped with no lock held. So who finds that it needs one releases the lock, clones
//! it, and looks again.

use std::task::{Poll, Waker};

use super::ends::{Side, Wanted};
use super::pair::{Pair, Queued};
use super::slot::Seat;
use super::wait_op::{Next, WaitOp};
use crate::status::Status;

impl<M: Queued, R: WaitOp<Message = M>> Pair<M, R> {
    /// The outcome of a call for a caller that is no callback, or the waker is noted.
    pub(crate) fn poll_call(&self, side: Side, number: u32, waker: &Waker) -> Poll<Result<M, Status>> {
        let mut own = None;
        loop {
            let mut state = self.state.lock();
            let polled = state.ends[side as usize].calls.poll(number, waker, &mut own);
            drop(state);
            match polled {
                Some(polled) => return polled,
                // A waker is user code, to clone it included.
                None => own = Some(waker.clone()),
            }
        }
    }

    /// Takes the oldest message for a future, or notes the future as the one that is woken. `awaiting` is the future's
    /// own mark, empty at first. What is to be done next is done with no lock held.
    ///
    /// # Errors
    /// [`Status::PeerClosed`]; [`Status::BadState`] when a read is registered or another future waits.
    pub(crate) fn poll_read(
        &self,
        side: Side,
        awaiting: &mut Option<u64>,
        waker: &Waker,
        next: &mut Next<R>,
    ) -> Poll<Result<M, Status>> {
        // A waker is user code: it is cloned and dropped with no lock held.
        let mut own = None;
        loop {
            let mut state = self.state.lock();
            let seat = state.ends[side as usize].reading.seat(*awaiting);
            if seat == Seat::Taken {
                return Poll::Ready(Err(Status::BadState));
            }
            let read = self.pop(&mut state, side, next);
            let peer_is_open = state.ends[side.other() as usize].is_open;
            let slot = &mut state.ends[side as usize].reading;
            let (polled, replaced) = match read {
                None if peer_is_open && slot.will_wake(waker) => (Poll::Pending, None),
                None if peer_is_open => match own.take() {
                    Some(own) => (Poll::Pending, slot.sit(awaiting, own)),
                    None => {
                        drop(state);
                        own = Some(waker.clone());
                        continue;
                    }
                },
                read => {
                    let replaced = if seat == Seat::Own { awaiting.and_then(|mark| slot.stand_up(mark)) } else { None };
                    *awaiting = None;
                    (Poll::Ready(read.ok_or(Status::PeerClosed)), replaced)
                }
            };
            drop(state);
            drop(replaced);
            return polled;
        }
    }

    /// Like [`poll_read`](Pair::poll_read), for room for a message of `bytes`.
    pub(crate) fn poll_room(
        &self,
        side: Side,
        bytes: usize,
        awaiting: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<Result<(), Status>> {
        let mut own = None;
        loop {
            let mut state = self.state.lock();
            let seat = state.ends[side as usize].writing.seat(*awaiting);
            if seat == Seat::Taken {
                return Poll::Ready(Err(Status::BadState));
            }
            let refused = state.refuses(side, bytes);
            let end = &mut state.ends[side as usize];
            let (polled, replaced) = match refused {
                Some(Status::ShouldWait) => {
                    if !end.writing.will_wake(waker) && own.is_none() {
                        drop(state);
                        own = Some(waker.clone());
                        continue;
                    }
                    end.wanted_bytes = bytes;
                    let needed = if end.writing.will_wake(waker) { None } else { own.take() };
                    (Poll::Pending, needed.and_then(|own| end.writing.sit(awaiting, own)))
                }
                outcome => {
                    let replaced =
                        if seat == Seat::Own { awaiting.and_then(|mark| end.writing.stand_up(mark)) } else { None };
                    *awaiting = None;
                    (Poll::Ready(outcome.map_or(Ok(()), Err)), replaced)
                }
            };
            drop(state);
            drop(replaced);
            return polled;
        }
    }

    /// A future that waits is dropped; its waker is dropped by the caller.
    pub(crate) fn stop_awaiting(&self, side: Side, wanted: Wanted, awaiting: u64) -> Option<Waker> {
        self.state.lock().ends[side as usize].slot(wanted).stand_up(awaiting)
    }
}
