//! A cloakroom has two tags, and takes a tag back when its time is over or its owner gives it back. The mistake: it does
//! not see that one of the two has happened already, so the tag hangs there twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::{Driver, DriverContext, StartError, TaskHandle};
use parking_lot::Mutex;

use super::support::{listen, number, say};
use super::*;

#[derive(Default)]
struct Room {
    free: Vec<u32>,
    given: BTreeMap<u32, TaskHandle>,
}

pub(crate) struct Cloakroom<const FIXED: bool>;

impl<const FIXED: bool> Driver for Cloakroom<FIXED> {
    const NAME: &'static str = "cloakroom";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (home, room) = (cx.dispatcher(), Arc::new(Mutex::new(Room { free: vec![2, 1], ..Room::default() })));
        listen(&cx, "counter", move |line, order| {
            if order != "take" {
                let tag = number(order);
                let mut room = room.lock();
                let timer = room.given.remove(&tag);
                // Nobody has it any more if its time is over.
                if timer.is_some_and(|timer| !FIXED || timer.cancel().is_ok()) {
                    room.free.push(tag);
                }
                return;
            }
            let Some(tag) = room.lock().free.pop() else { return say(line, "none") };
            let (over, told) = (Arc::clone(&room), Arc::clone(line));
            let timer = home.post_after(Duration::from_millis(5), move |outcome| {
                if outcome.is_ok() {
                    let mut room = over.lock();
                    room.given.remove(&tag);
                    room.free.push(tag);
                    drop(room);
                    say(&told, format!("over {tag}"));
                }
            });
            room.lock().given.extend(timer.ok().map(|timer| (tag, timer)));
            say(line, format!("tag {tag}"));
        })
        .await?;
        Ok(Cloakroom)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("counter"));
    let counter = harness.accept("counter").expect("the cloakroom connects");
    counter.send(b"take");
    harness.advance(Duration::from_millis(4));
    counter.send(b"give back 1");
    harness.advance(Duration::from_millis(4));
    // Both tags are there again, whichever came first.
    let before = counter.receive_texts();
    for _ in 0..3 {
        counter.send(b"take");
    }
    let said = counter.receive_texts();
    assert_eq!(
        said,
        ["tag 1", "tag 2", "none"].map(str::to_owned),
        "cloakroom: two tags for three; before: {before:?}"
    );
    end(harness);
}
