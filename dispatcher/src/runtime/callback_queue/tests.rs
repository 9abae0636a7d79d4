//! Goal: an operation ends once, lists keep their order, and memory goes back.
//! Method: the table and the row beside plain queues, by hand and with random operations.

use super::blocks::DEEP;
use super::*;
use crate::site::Site;
use proptest::prelude::*;
use std::collections::VecDeque;

fn entry(kind: Kind) -> Entry {
    Entry { callback: Callback::new(WithOutcome(|_| {})), kind, flavour: Flavour::REGULAR, outcome: Outcome::Done(0) }
}

fn details() -> Details {
    Details {
        deadline: Instant::INFINITE,
        source: EventSource::None,
        poster: Poster::default(),
        location: Site::caller(),
        accepted_at: Instant::from_nanos(0),
    }
}

/// Shows D10.
#[test]
fn an_id_never_names_a_second_operation_even_after_the_table_gave_memory_back() {
    let mut queue = CallbackQueue::new();
    let ids: Vec<_> = (0..5000).map(|_| queue.insert(entry(Kind::Task), details(), Stage::Ready)).collect();
    while queue.pop_ready().is_some() {}
    let again: Vec<_> = (0..5000).map(|_| queue.insert(entry(Kind::Task), details(), Stage::Ready)).collect();
    assert!(ids.iter().all(|id| queue.stage(*id).is_none()));
    assert!(again.iter().all(|id| queue.stage(*id) == Some(Stage::Ready)));
    assert_eq!(queue.enumerate_pending(), 5000);
}

fn posted(kind: Kind) -> Posted {
    Posted {
        callback: Callback::new(WithOutcome(|_| {})),
        location: Site::caller(),
        poster: Poster { driver: ROW, dispatcher: 0 },
        accepted_at: Instant::from_nanos(0),
        manner: if kind == Kind::Wake { Manner::wake(Flavour::REGULAR) } else { Manner::PLAIN },
    }
}

/// Who posts what stands in the row, so that it can be told from the rest.
const ROW: u64 = 7;

fn is_in_row(id: OpId) -> bool {
    id.as_key() & OF_ROW != 0
}

/// Goal: dispatchers with one task at a time touch one place of their row's memory, not all of it.
#[test]
fn what_comes_alone_lies_where_the_one_before_it_lay() {
    let mut queue = CallbackQueue::new();
    let mut place = || {
        queue.push(posted(Kind::Task));
        let place = queue.newest_mut().map(std::ptr::from_mut);
        assert!(queue.pop_alone().is_some() && queue.is_ready_empty());
        place
    };
    let first = place();
    (0..9).for_each(|_| assert_eq!(place(), first));
}

#[test]
fn what_stands_in_the_row_is_told_canceled_after_the_row_was_and_keeps_its_name_in_the_table() {
    let mut queue = CallbackQueue::new();
    let names: Vec<_> = (0..3).map(|_| queue.push(posted(Kind::Task))).collect();
    let (first, entry, _) = queue.pop_ready().expect("three are ready");
    assert_eq!((first, entry.outcome), (names[0], Outcome::Done(0)));
    queue.cancel_row();
    let (second, entry, _) = queue.pop_ready().expect("two are ready");
    assert_eq!((second, entry.outcome), (names[1], Outcome::Canceled));
    queue.empty_row();
    let id = queue.ids(Stage::Ready).next().expect("one is in the table");
    assert!(id != names[2] && queue.noted_as(id) == names[2] && queue.stage(names[2]).is_none());
    let (third, entry, _) = queue.pop_ready().expect("one is ready");
    assert_eq!((third, entry.outcome), (names[2], Outcome::Canceled));
    assert!(queue.is_ready_empty() && queue.pop_ready().is_none());
}

#[test]
fn the_row_gives_the_memory_of_a_burst_back() {
    let mut queue = CallbackQueue::new();
    for _ in 0..KEPT * 64 {
        queue.push(posted(Kind::Task));
    }
    while queue.pop_ready().is_some() {
        queue.trim(false);
        assert!(queue.row.room() <= queue.row.len() + KEPT * 8, "{} of {}", queue.row.len(), queue.row.room());
    }
    assert!(queue.row.room() <= KEPT * 2, "{}", queue.row.room());
    assert_eq!(queue.longest(), KEPT * 64);
}

/// Memory of a flood goes to and fro, and as much of it stays as the flood takes.
#[test]
fn what_an_inbox_hands_over_comes_back_to_it_as_room() {
    let (mut queue, mut inbox) = (CallbackQueue::new(), Blocks::default());
    queue.append(&mut inbox);
    assert_eq!((queue.row.room(), inbox.room()), (0, 0), "nothing is handed over");
    let mut pass = |count: usize| {
        (0..count).for_each(|_| inbox.push(posted(Kind::Task)));
        queue.append(&mut inbox);
        assert_eq!((queue.row.len(), inbox.len()), (count, 0));
        while queue.pop_ready().is_some() {
            queue.trim(true);
        }
        (queue.row.room(), inbox.room())
    };
    let burst = DEEP;
    assert_eq!(pass(burst), (burst, 0), "the room waits where it was emptied");
    let (row, back) = pass(burst);
    assert!(back > 0 && row + back <= burst * 2 + KEPT, "and goes to the inbox with the next one: {row} and {back}");
    let (row, back) = pass(burst);
    assert!(row + back <= burst * 2 + KEPT, "which is put into it: {row} and {back}");
    let (row, back) = pass(burst * 8);
    assert!(row + back <= burst * 3, "most of a deep one goes at once: {row} and {back}");
    let (row, back) = pass(burst * 8);
    assert!(row + back <= burst * 3, "deep ones come one after the other: {row} and {back}");
    for _ in 0..64 {
        pass(1);
    }
    let (row, back) = pass(1);
    assert!(row + back <= KEPT * 4, "a flood that has become small keeps little: {row} and {back}");
    queue.trim(false);
    inbox.trim();
    assert!(queue.row.room() + inbox.room() <= KEPT * 3);
}

/// Something that is told from all others by its poster.
fn numbered(number: u64) -> Posted {
    Posted { poster: Poster { driver: 0, dispatcher: number }, ..posted(Kind::Task) }
}

proptest! {
    /// A tray, the row and the table are one queue, whoever takes what out of it and puts what back.
    #[test]
    fn what_is_on_a_tray_is_the_front_of_the_queue(steps in proptest::collection::vec((0u8..9, 1u32..12), 1..400)) {
        let (mut queue, mut model) = (CallbackQueue::new(), VecDeque::new());
        let (mut next, mut begun, mut settled) = (0, 0, Progress::default());
        let mut longest = 0;
        with_free(|own| -> Result<(), TestCaseError> {
            let own = own.expect("nothing runs here");
            for (step, most) in steps {
                let has_tray = queue.has_tray();
                let is_new = match step {
                    0 => {
                        queue.push(numbered(next));
                        true
                    }
                    1 => {
                        let details = Details { poster: numbered(next).poster, ..details() };
                        queue.insert(entry(Kind::Read), details, Stage::Ready);
                        true
                    }
                    2 if !has_tray && queue.is_next_on_row() => {
                        prop_assert!(queue.borrow(own, 1, most));
                        false
                    }
                    3 | 4 if has_tray => {
                        if let Some(piece) = own.begin(Instant::ZERO) {
                            model.pop_front();
                            begun += 1;
                            let then = piece.work(|callback| callback.invoke(&Outcome::Canceled));
                            prop_assert_eq!(then, Then::Ended);
                        }
                        false
                    }
                    5 | 6 if has_tray && own.is_open() => {
                        let Posted { callback, location, poster, accepted_at, .. } = numbered(next);
                        let label = Label { type_name: callback.type_name_of(), location, poster, accepted_at };
                        own.put(label, || callback);
                        true
                    }
                    7 if has_tray => {
                        queue.answer(false);
                        false
                    }
                    8 if has_tray => {
                        let Progress { accepted, ran, .. } = queue.settle();
                        (settled.accepted, settled.ran) = (settled.accepted + accepted, settled.ran + ran);
                        queue.give_back(own);
                        false
                    }
                    _ => false,
                };
                if is_new {
                    model.push_back(next);
                    next += 1;
                }
                longest = longest.max(model.len());
                queue.ask(if step == 1 { LOOKS_FIRST } else if step == 0 { STANDS_BEHIND } else { 0 });
                let Progress { accepted, ran, .. } = queue.settle();
                (settled.accepted, settled.ran) = (settled.accepted + accepted, settled.ran + ran);
                prop_assert_eq!(settled.ran, begun);
                let pending: Vec<_> = queue.pending(Stage::Ready).map(|pending| pending.poster.dispatcher).collect();
                prop_assert_eq!(pending, model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!((queue.len(), queue.len_of(Stage::Ready)), (model.len(), model.len()));
                prop_assert_eq!(queue.enumerate_pending() as usize, model.len());
                prop_assert_eq!(queue.longest(), longest);
                prop_assert_eq!(queue.at_work().is_some(), queue.has_tray() && own.has_begun());
            }
            queue.give_back(own);
            Ok(())
        })?;
    }

    /// Random operations beside a plain model: order, membership and counts agree at each step.
    #[test]
    fn lists_behave_like_plain_queues(steps in proptest::collection::vec((0u8..11, 0usize..64), 1..400)) {
        let (mut queue, mut inbox) = (CallbackQueue::new(), Blocks::default());
        let mut ready: VecDeque<OpId> = VecDeque::new();
        let mut armed: VecDeque<OpId> = VecDeque::new();
        // What was moved from the row into the table: the name that it had and the one that it has.
        let mut moved: Vec<(OpId, OpId)> = Vec::new();
        let mut longest = 0;
        for (step, pick) in steps {
            match step {
                0 => ready.push_back(queue.insert(entry(Kind::Task), details(), Stage::Ready)),
                1 => armed.push_back(queue.insert(entry(Kind::Read), details(), Stage::Reading)),
                2 if !armed.is_empty() => {
                    let id = armed.remove(pick % armed.len()).expect("in range");
                    prop_assert!(queue.move_to(id, Stage::Ready));
                    ready.push_back(id);
                }
                // One of the row is found by nobody.
                3 if !ready.is_empty() && is_in_row(ready[pick % ready.len()]) => {
                    prop_assert!(queue.remove(ready[pick % ready.len()]).is_none());
                }
                3 if !ready.is_empty() => {
                    let id = ready.remove(pick % ready.len()).expect("in range");
                    prop_assert!(queue.remove(id).is_some());
                    prop_assert!(queue.remove(id).is_none());
                }
                4 => {
                    let popped = queue.pop_ready().map(|(id, ..)| id);
                    let expected = ready.pop_front();
                    prop_assert_eq!(popped.is_some(), expected.is_some());
                    if let (Some(popped), Some(expected)) = (popped, expected) {
                        prop_assert!(popped == expected || moved.contains(&(popped, expected)));
                    }
                }
                5 => {
                    queue.move_all_to_front(Stage::Reading, Stage::Ready);
                    armed.append(&mut ready);
                    std::mem::swap(&mut armed, &mut ready);
                }
                6 | 7 => ready.push_back(queue.push(posted(Kind::Task))),
                8 => {
                    queue.empty_row();
                    let ids: Vec<_> = queue.ids(Stage::Ready).collect();
                    prop_assert_eq!(ids.len(), ready.len());
                    for (id, expected) in ids.into_iter().zip(&mut ready) {
                        if is_in_row(*expected) {
                            moved.push((*expected, id));
                        }
                        *expected = id;
                    }
                }
                9 => {
                    for _ in 0..pick % 12 {
                        ready.push_back(OpId::of_row(queue.row.entered() + inbox.len() as u64));
                        inbox.push(posted(Kind::Task));
                    }
                    queue.append(&mut inbox);
                    prop_assert!(inbox.is_empty());
                }
                10 => queue.trim(pick % 2 == 0),
                _ => {}
            }
            let in_table: Vec<_> = ready.iter().copied().filter(|id| !is_in_row(*id)).collect();
            prop_assert_eq!(queue.ids(Stage::Ready).collect::<Vec<_>>(), in_table);
            let came_from_row = |id: OpId| moved.iter().any(|(_, now)| *now == id);
            let expected: Vec<_> = ready.iter().map(|id| is_in_row(*id) || came_from_row(*id)).collect();
            let of_row = queue.pending(Stage::Ready).map(|pending| pending.poster.driver == ROW);
            prop_assert_eq!(of_row.collect::<Vec<_>>(), expected);
            prop_assert_eq!(queue.ids(Stage::Reading).collect::<Vec<_>>(), armed.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(queue.len(), ready.len() + armed.len());
            prop_assert_eq!((queue.len_of(Stage::Ready), queue.len_of(Stage::Reading)), (ready.len(), armed.len()));
            longest = longest.max(ready.len());
            prop_assert_eq!(queue.longest(), longest);
            prop_assert_eq!(queue.enumerate_pending() as usize, queue.len());
        }
    }
}
