//! Goal: the server on a real host, from the first byte to its stop, with nothing left to chance.
//! Method: `ramdisk` and `nbd` on a foreground runtime with a virtual clock and a simulated network; a scripted client
//! sends bytes and turns the crank.

mod injected;
mod world;

use std::time::Duration;

use world::{READ, WRITE, World, pattern};

const ESHUTDOWN: u32 = 108;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_client_reads_back_what_it_wrote_however_small_the_pieces_of_the_stream_are() {
    for capacity in [1, 7, 100, 5000, 1 << 20] {
        let world = World::new("");
        world.net().set_stream_capacity(capacity);
        let client = world.client();
        let length = if capacity < 100 { 2048 } else { 300 << 10 };
        client.request(WRITE, 1, 4096, length, &pattern(1, length));
        assert_eq!(client.reply(0), (1, 0, vec![]));
        client.request(READ, 2, 4096, length, &[]);
        assert!(client.reply(length) == (2, 0, pattern(1, length)), "with streams of {capacity} bytes");
        world.stop();
    }
}

#[test]
fn a_connection_that_does_not_negotiate_in_time_is_closed_then_and_not_before() {
    let world = World::new("handshake_timeout_ms = 10000");
    let silent = world.connect();
    // Bytes do not help: the limit is for the whole of the handshake.
    let chatty = world.connect();
    world.advance(seconds(9));
    chatty.send(&[0, 0, 0, 3]);
    world.advance(Duration::from_millis(999));
    assert!(!silent.is_closed() && !chatty.is_closed());
    world.advance(Duration::from_millis(1));
    assert!(silent.is_closed() && chatty.is_closed());
    world.stop();
}

#[test]
fn an_idle_connection_is_closed_after_its_time_and_each_request_begins_it_anew() {
    let world = World::new("idle_timeout_ms = 60000");
    let client = world.client();
    world.advance(seconds(59));
    client.request(READ, 1, 0, 512, &[]);
    client.reply(512);
    world.advance(seconds(59));
    assert!(!client.is_closed());
    world.advance(seconds(1));
    assert!(client.is_closed());
    world.stop();
}

#[test]
fn a_client_that_stops_in_the_middle_of_a_request_is_closed() {
    let world = World::new("stall_timeout_ms = 30000");
    let (head, data) = (world.client(), world.client());
    head.send(&[0x25, 0x60, 0x95]);
    data.request(WRITE, 1, 0, 4096, &[1; 4000]);
    world.advance(seconds(29));
    assert!(!head.is_closed() && !data.is_closed());
    world.advance(seconds(1));
    assert!(head.is_closed() && data.is_closed());
    world.stop();
}

#[test]
fn a_client_that_does_not_read_its_replies_holds_up_only_itself_and_is_closed() {
    let world = World::new("stall_timeout_ms = 30000");
    world.net().set_stream_capacity(16 << 10);
    let (deaf, good) = (world.client(), world.client());
    (0..200).for_each(|cookie| drop(deaf.try_request(READ, cookie, 0, 64 << 10)));
    world.run();
    good.request(READ, 1, 0, 64 << 10, &[]);
    good.reply(64 << 10);
    world.advance(seconds(30));
    assert!(deaf.is_closed_to_writing());
    good.request(READ, 2, 0, 512, &[]);
    good.reply(512);
    world.stop();
}

#[test]
fn beyond_the_limit_connections_are_refused_until_one_ends() {
    let world = World::new("max_connections = 2");
    let (one, _other) = (world.client(), world.client());
    assert!(world.connect().is_closed());
    drop(one);
    world.run();
    let third = world.client();
    third.request(READ, 1, 0, 512, &[]);
    third.reply(512);
    world.stop();
}

#[test]
fn a_stop_answers_what_is_under_way_and_closes_every_connection() {
    let world = World::new("");
    let (idle, silent, writing, reading) = (world.client(), world.connect(), world.client(), world.client());
    writing.request(WRITE, 5, 0, 4096, &[1; 4000]);
    reading.request(READ, 6, 0, 1 << 20, &[]);
    world.run();
    world.begin_stop();
    world.run_to_the_end();
    assert!(idle.is_closed() && silent.is_closed());
    assert_eq!(writing.reply(0), (5, ESHUTDOWN, vec![]));
    assert!(writing.is_closed());
    // The long read had begun and is not taken: after the time of grace it is cut.
    assert!(reading.is_closed_to_writing());
    world.check_the_end();
}
