//! The program whose machine code `.ci/no-cost` compares: it posts, makes inline calls and has turns made, and little else.
//!
//! Driver `a` posts to itself; each time it also writes to a channel, on which a read of driver `b` is registered, so the
//! read's handler runs inside of the write. The argument is how often.

use std::hint::black_box;
use std::sync::{Arc, mpsc};

use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Message, RuntimeBuilder};

fn main() {
    let rounds = std::env::args().nth(1).map_or(1000, |rounds| rounds.parse().expect("a number of rounds"));
    let runtime = RuntimeBuilder::new().threads(1).build().expect("a runtime can be had");
    let dispatcher = |name: &str| -> Dispatcher {
        let builder = DispatcherBuilder::new().name(name);
        runtime.new_driver(name).new_dispatcher(builder).expect("a dispatcher can be had")
    };
    let (a, b) = (dispatcher("a"), dispatcher("b"));
    let (writer, reader) = Channel::pair();
    listen(Arc::new(reader), (*b).clone());
    let (sender, receiver) = mpsc::channel();
    post(Ball { left: rounds, home: (*a).clone(), writer, sender });
    let left = receiver.recv().expect("the last round tells");
    println!("{rounds} rounds, {left} messages left");
}

struct Ball {
    left: u64,
    home: DispatcherHandle,
    writer: Channel,
    sender: mpsc::Sender<u64>,
}

#[inline(never)]
fn post(ball: Ball) {
    let home = ball.home.clone();
    black_box(home.post_task(move |_| hit(ball))).expect("it is running");
}

#[inline(never)]
fn hit(mut ball: Ball) {
    if ball.left == 0 {
        let left = ball.writer.peer_queued_messages() as u64;
        ball.sender.send(left).expect("it is waited for");
        return;
    }
    ball.left -= 1;
    write(&ball.writer);
    post(ball);
}

#[inline(never)]
fn write(writer: &Channel) {
    black_box(writer.write(Message::new())).expect("the reader is there");
}

#[inline(never)]
fn listen(reader: Arc<Channel>, home: DispatcherHandle) {
    let (end, target) = (Arc::clone(&reader), home.clone());
    let registered = end.begin_read(&target, move |told| {
        if told.is_ok() {
            drop(black_box(reader.try_read()));
            listen(reader, home);
        }
    });
    drop(black_box(registered));
}
