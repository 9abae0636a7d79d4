//! The block protocol: bytes, client, server.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::Journal;
use crate::abi::fake::FakeHost;
use crate::block::*;
use crate::{Channel, Dispatcher, Message, Status, spawn};

const SIZE: usize = 64 << 10;

/// A disk in memory behind a server.
fn disk(dispatcher: &Dispatcher, channel: Channel) -> Arc<Mutex<Vec<u8>>> {
    let store = Arc::new(Mutex::new(vec![0_u8; SIZE]));
    let served = Arc::clone(&store);
    let server = BlockServer::new(channel, BlockInfo::new(SIZE as u64, 512)).expect("it makes sense");
    let handler = move |mut request: BlockRequest| {
        let mut store = served.lock().expect("no panic under the lock");
        let range = request.offset() as usize..request.offset() as usize + request.length() as usize;
        match request.op() {
            Op::Read => request.data_mut().copy_from_slice(&store[range]),
            Op::Write => store[range].copy_from_slice(request.data()),
            Op::Trim | Op::WriteZeroes => store[range].fill(0),
            _ => {}
        }
        drop(store);
        request.reply(Ok(()));
    };
    server.serve(dispatcher, handler).expect("it runs");
    store
}

fn connected(host: &FakeHost) -> (BlockClient, Arc<Mutex<Vec<u8>>>) {
    let (client, server) = Channel::pair().expect("attached");
    let store = disk(&host.dispatcher("disk"), server);
    (BlockClient::new(client, &host.dispatcher("client")).expect("it runs"), store)
}

#[test]
fn every_operation_does_what_it_says() {
    let host = FakeHost::new();
    let (client, store) = connected(&host);
    host.block_on(async move {
        let info = client.info().await.expect("it answers");
        assert_eq!(info, BlockInfo::new(SIZE as u64, 512));
        let data: Vec<u8> = (0..1024).map(|index| index as u8).collect();
        client.write(512, BlockBuffer::from_bytes(&data).expect("memory"), Flags::FUA).await.expect("it writes");
        assert_eq!(client.read(512, 1024).await.expect("it reads").data(), data);
        client.flush().await.expect("it flushes");
        client.trim(512, 512, Flags::NONE).await.expect("it trims");
        client.write_zeroes(1024, 512, Flags::FUA | Flags::NO_HOLE).await.expect("it zeroes");
        assert_eq!(client.read(0, 4096).await.expect("it reads").data(), [0; 4096]);
        assert_eq!(client.read(0, 0).await.expect("nothing is fine").len(), 0);
        assert_eq!(client.read(1, 512).await.map(drop), Err(Status::InvalidArgs));
        assert_eq!(client.read(SIZE as u64, 512).await.map(drop), Err(Status::OutOfRange));
        assert_eq!(client.read(u64::MAX - 511, 512).await.map(drop), Err(Status::OutOfRange));
        assert_eq!(
            client.trim(0, 512, Flags::NO_HOLE).await,
            Err(Status::InvalidArgs),
            "a flag that trim does not have"
        );
        assert_eq!(client.in_flight(), 0);
    });
    assert!(store.lock().expect("no panic").iter().all(|&byte| byte == 0));
    drop(store);
    host.run();
    assert_eq!(host.objects_left(), 0, "closing the client ends the service");
}

#[test]
fn read_data_is_answered_in_the_memory_that_the_client_gave() {
    let host = FakeHost::new();
    let (client, store) = connected(&host);
    store.lock().expect("no panic")[..512].fill(7);
    host.block_on(async move {
        let room = BlockBuffer::with_len(512).expect("memory");
        let address = room.data().as_ptr().addr();
        let data = client.request(BlockCommand::read_into(0, room)).await.expect("it reads");
        assert_eq!((data.data().as_ptr().addr(), data.data()), (address, &[7; 512][..]));
        let mut data = data;
        data.head_mut()[HEADER_LEN - 4..].copy_from_slice(b"head");
        assert_eq!(data.framed(4)[..6], [b'h', b'e', b'a', b'd', 7, 7]);
        assert_eq!(data.framed(4).len(), 516);
    });
}

#[test]
fn replies_come_in_any_order_and_find_their_requests() {
    let host = FakeHost::new();
    let (near, far) = Channel::pair().expect("attached");
    let server = BlockServer::new(far, BlockInfo::new(SIZE as u64, 1)).expect("it makes sense");
    let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
    let asked = client.clone();
    let order = host.block_on(async move {
        let journal = Journal::default();
        let tasks: Vec<_> = (0..4_u64)
            .map(|index| {
                let (client, noted) = (asked.clone(), journal.clone());
                spawn(async move {
                    let data = client.read(index, 1).await.expect("it reads");
                    assert_eq!(data.data(), [index as u8]);
                    noted.note(index.to_string());
                })
                .expect("it runs")
            })
            .collect();
        let mut requests = Vec::new();
        for _ in 0..4 {
            requests.push(server.next().await.expect("it was asked"));
        }
        assert_eq!(asked.in_flight(), 4);
        for mut request in requests.into_iter().rev() {
            let offset = request.offset() as u8;
            request.data_mut()[0] = offset;
            request.reply(Ok(()));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        journal.take()
    });
    assert_eq!(order, ["3", "2", "1", "0"]);
    drop(client);
    host.run();
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn a_request_that_the_driver_drops_or_fails_is_answered() {
    let host = FakeHost::new();
    let (near, far) = Channel::pair().expect("attached");
    let server =
        BlockServer::new(far, BlockInfo { read_only: true, ..BlockInfo::new(4096, 512) }).expect("it makes sense");
    let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
    host.block_on(async move {
        let device = spawn(async move {
            drop(server.next().await.expect("it was asked"));
            server.next().await.expect("it was asked").reply(Err(Status::IoDataLoss));
            server.next().await.map(drop)
        })
        .expect("it runs");
        assert_eq!(client.read(0, 512).await.map(drop), Err(Status::Canceled));
        assert_eq!(client.flush().await, Err(Status::IoDataLoss));
        assert_eq!(client.trim(0, 512, Flags::NONE).await, Err(Status::AccessDenied));
        drop(client);
        assert_eq!(device.await.expect("no panic"), Err(Status::PeerClosed));
    });
}

#[test]
fn the_end_of_the_device_is_told_to_all_who_wait_and_to_later_requests() {
    let host = FakeHost::new();
    let (near, far) = Channel::pair().expect("attached");
    let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
    let journal = Journal::default();
    for index in 0..2 {
        let noted = journal.clone();
        let told = move |outcome: Result<BlockBuffer, Status>| noted.note(format!("{index} {:?}", outcome.map(drop)));
        client.submit(BlockCommand::read(0, 512), told).expect("sent");
    }
    drop(far);
    host.run();
    assert_eq!(journal.take(), ["0 Err(PeerClosed)", "1 Err(PeerClosed)"]);
    let write = BlockCommand::write(0, BlockBuffer::from_bytes(&[3; 512]).expect("memory"), Flags::NONE);
    let noted = journal.clone();
    let error = client.submit(write, move |_| noted.note("by hand")).expect_err("gone");
    assert_eq!(
        (error.status(), error.to_string().as_str()),
        (Status::PeerClosed, "the request was not sent: peer closed")
    );
    let (done, buffer) = error.into_parts();
    assert_eq!(buffer.expect("it comes back").data(), [3; 512]);
    done(Err(Status::PeerClosed));
    assert_eq!(journal.take(), ["by hand"]);
}

#[test]
fn the_shutdown_and_the_drop_of_the_client_tell_what_is_pending() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let ask = |client: &BlockClient| {
        let noted = journal.clone();
        client
            .submit(BlockCommand::flush(), move |outcome| noted.note(format!("{:?}", outcome.map(drop))))
            .expect("sent");
    };
    let dispatcher = host.dispatcher("client");
    let (near, _far) = Channel::pair().expect("attached");
    let client = BlockClient::new(near, &dispatcher).expect("it runs");
    ask(&client);
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["Err(Canceled)"]);
    assert_eq!(client.submit(BlockCommand::flush(), |_| ()).expect_err("over").status(), Status::Canceled);

    let (near, _far) = Channel::pair().expect("attached");
    let client = BlockClient::new(near, &host.dispatcher("other")).expect("it runs");
    ask(&client);
    drop(client);
    assert_eq!(journal.take(), ["Err(Canceled)"]);
    host.run();
    assert_eq!(journal.take(), [""; 0]);
}

#[test]
fn a_full_channel_gives_the_request_back() {
    let host = FakeHost::new();
    let (near, _far) = Channel::pair_with_limit(1).expect("attached");
    let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
    client.submit(BlockCommand::flush(), |_| ()).expect("sent");
    let error = client.submit(BlockCommand::read(0, 512), |_| ()).expect_err("full");
    assert_eq!(error.status(), Status::ShouldWait);
    assert_eq!(error.into_parts().1.expect("the room comes back").len(), 512);
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn a_device_that_does_not_keep_to_the_protocol_is_given_up() {
    type Lie = (&'static str, fn(u64) -> Vec<u8>);
    let lies: [Lie; 4] = [
        ("short", |_| vec![1, 2, 3]),
        ("unknown id", |id| ReplyHeader { id: id + 1, op: 4, status: Ok(()), length: 0 }.encode().to_vec()),
        ("a request", |id| {
            RequestHeader { id, op: Op::Flush, flags: Flags::NONE, offset: 0, length: 0 }.encode().to_vec()
        }),
        ("length without payload", |id| ReplyHeader { id, op: 4, status: Ok(()), length: 512 }.encode().to_vec()),
    ];
    for (name, lie) in lies {
        let host = FakeHost::new();
        let (near, far) = Channel::pair().expect("attached");
        let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
        let outcome = host.block_on(async move {
            let asked = spawn(async move { (client.flush().await, client.flush().await) }).expect("it runs");
            let request = far.read().await.expect("it was asked");
            let id = RequestHeader::decode(request.bytes()).expect("it is well-formed").id;
            far.write(Message::from_bytes(&lie(id)).expect("memory")).expect("the client is there");
            asked.await.expect("no panic")
        });
        assert_eq!(outcome, (Err(Status::IoInvalid), Err(Status::IoInvalid)), "{name}");
    }
}

#[test]
fn a_success_with_the_wrong_amount_of_data_is_no_success() {
    let host = FakeHost::new();
    let (near, far) = Channel::pair().expect("attached");
    let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
    let outcome = host.block_on(async move {
        let asked = spawn(async move { client.read(0, 512).await.map(drop) }).expect("it runs");
        let request = far.read().await.expect("it was asked");
        let id = RequestHeader::decode(request.bytes()).expect("it is well-formed").id;
        let reply = ReplyHeader { id, op: 2, status: Ok(()), length: 0 }.encode();
        far.write(Message::from_bytes(&reply).expect("memory")).expect("the client is there");
        asked.await.expect("no panic")
    });
    assert_eq!(outcome, Err(Status::IoInvalid));
}

#[test]
fn a_handler_or_callback_that_panics_does_not_end_the_conversation() {
    let host = FakeHost::new();
    for flags in [0, crate::abi::UNSYNCHRONIZED] {
        let (near, far) = Channel::pair().expect("attached");
        let server = BlockServer::new(far, BlockInfo::new(4096, 512)).expect("it makes sense");
        let handler = |request: BlockRequest| {
            assert_ne!(request.offset(), 512, "not this one");
            request.reply(Ok(()));
        };
        server.serve(&host.dispatcher_with("disk", flags), handler).expect("it runs");
        let client = BlockClient::new(near, &host.dispatcher("client")).expect("it runs");
        client.submit(BlockCommand::flush(), |_| panic!("in the callback")).expect("sent");
        let answers =
            host.block_on(
                async move { (client.trim(512, 512, Flags::NONE).await, client.trim(0, 512, Flags::NONE).await) },
            );
        assert_eq!(answers, (Err(Status::Canceled), Ok(())));
        assert_eq!(host.panics().len(), 2);
    }
}

#[test]
fn many_requests_in_flight_are_all_answered() {
    let host = FakeHost::new();
    let (client, _store) = connected(&host);
    let count = Arc::new(Mutex::new(0));
    for index in 0..1000_u64 {
        let counted = Arc::clone(&count);
        let buffer = BlockBuffer::from_bytes(&[index as u8; 512]).expect("memory");
        let done = move |outcome: Result<BlockBuffer, Status>| {
            outcome.expect("it writes");
            *counted.lock().expect("no panic") += 1;
        };
        client.submit(BlockCommand::write(index % 128 * 512, buffer, Flags::NONE), done).expect("sent");
    }
    host.run();
    assert_eq!((*count.lock().expect("no panic"), client.in_flight()), (1000, 0));
}

#[test]
fn a_read_without_room_is_answered_in_another_message() {
    let host = FakeHost::new();
    let (near, far) = Channel::pair().expect("attached");
    let store = disk(&host.dispatcher("disk"), far);
    store.lock().expect("no panic")[0] = 5;
    for (op, length, expected) in [(Op::Read, 512, 512), (Op::Info, 0, INFO_LEN)] {
        let header = RequestHeader { id: 77, op, flags: Flags::NONE, offset: 0, length };
        near.write(BlockBuffer::bare_request(&header).expect("memory")).expect("the device is there");
        host.run();
        let (reply, buffer) = BlockBuffer::from_reply(near.try_read().expect("it answers")).expect("it is a reply");
        assert_eq!((reply.id, reply.op, reply.status, buffer.len()), (77, op as u16, Ok(()), expected));
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let good = BlockInfo::new(1 << 20, 512);
    let bad = [
        BlockInfo { block_size: 0, ..good },
        BlockInfo { block_size: 513, ..good },
        BlockInfo { block_size: MAX_BLOCK_SIZE * 2, ..good },
        BlockInfo { size: 100, ..good },
        BlockInfo { max_transfer: 100, ..good },
        BlockInfo { max_transfer: 0, ..good },
        BlockInfo { optimal_size: 700, ..good },
    ];
    for info in bad {
        assert_eq!(info.validate(), Err(Malformed::Info), "{info:?}");
        assert_eq!(BlockInfo::decode(&info.encode()), Err(Malformed::Info));
    }
    assert_eq!(good.validate(), Ok(()));
}

#[test]
fn the_bytes_are_those_of_the_published_layout() {
    let request = RequestHeader {
        id: 0x0102_0304_0506_0708,
        op: Op::WriteZeroes,
        flags: Flags::FUA,
        offset: 0x1000,
        length: 512,
    };
    let expected = [8, 7, 6, 5, 4, 3, 2, 1, 6, 0, 1, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
    assert_eq!(request.encode(), expected);
    let reply = ReplyHeader { id: 1, op: 2, status: Err(Status::Io), length: 3 };
    let expected =
        [1, 0, 0, 0, 0, 0, 0, 0, 2, 0x80, 0, 0, 0xd8, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(reply.encode(), expected);
}

fn any_op() -> impl Strategy<Value = Op> {
    prop::sample::select(Op::ALL)
}

proptest! {
    #[test]
    fn requests_survive_encoding(id: u64, op in any_op(), raw in 0_u16..4, offset: u64, length in 0_u32..5000) {
        let flags = [Flags::NONE, Flags::FUA, Flags::NO_HOLE, Flags::FUA | Flags::NO_HOLE][usize::from(raw)];
        let header = RequestHeader { id, op, flags, offset, length };
        let mut bytes = header.encode().to_vec();
        bytes.resize(HEADER_LEN + if op == Op::Write { length as usize } else { 0 }, 0);
        match RequestHeader::decode(&bytes) {
            Ok(decoded) => prop_assert_eq!(decoded, header),
            Err(Malformed::Flags(_)) => prop_assert!(raw != 0),
            Err(Malformed::Range) => prop_assert!(!op.has_range() && (offset, length) != (0, 0)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn replies_and_descriptions_survive_encoding(id: u64, op in 0_u16..0x8000, failed in prop::option::of(prop::sample::select(Status::ALL)),
                                                 shift in 0_u32..17, blocks in 0_u64..1 << 40, read_only: bool, trims: bool, durable: bool) {
        let reply = ReplyHeader { id, op, status: failed.map_or(Ok(()), Err), length: 0 };
        prop_assert_eq!(ReplyHeader::decode(&reply.encode()), Ok(reply));
        let block = 1_u32 << shift;
        let info = BlockInfo { size: blocks << shift, block_size: block, optimal_size: block * 2, max_transfer: block * 3, read_only, trims, durable };
        prop_assert_eq!(BlockInfo::decode(&info.encode()), Ok(info));
    }

    #[test]
    fn a_check_lets_nothing_out_of_the_device(offset: u64, length: u32, op in any_op(), shift in 0_u32..13) {
        let info = BlockInfo { max_transfer: 1 << 20, ..BlockInfo::new(1 << 24, 1 << shift) };
        let header = RequestHeader { id: 0, op, flags: Flags::NONE, offset, length };
        if op.has_range() && info.check(&header).is_ok() {
            prop_assert!(u128::from(offset) + u128::from(length) <= u128::from(info.size));
            prop_assert_eq!((offset | u64::from(length)) % u64::from(info.block_size), 0);
        }
    }

    #[test]
    fn random_bytes_are_answered_and_never_panic(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
                                                 heads in prop::collection::vec((0_u16..9, 0_u16..5, 0_u64..200_000, 0_u32..200_000), 0..20)) {
        let host = FakeHost::new();
        let (near, far) = Channel::pair().expect("attached");
        let _store = disk(&host.dispatcher("disk"), far);
        let mut sent = 0;
        let headers = heads.into_iter().map(|(op, flags, offset, length)| {
            // Nearly right: a header whose fields are small numbers.
            let mut bytes = RequestHeader { id: 1, op: Op::Flush, flags: Flags::NONE, offset, length }.encode().to_vec();
            bytes[8..10].copy_from_slice(&op.to_le_bytes());
            bytes[10..12].copy_from_slice(&flags.to_le_bytes());
            bytes
        });
        for bytes in messages.into_iter().chain(headers) {
            near.write(Message::from_bytes(&bytes).expect("memory")).expect("the device is there");
            sent += 1;
        }
        host.run();
        prop_assert_eq!(host.panics(), Vec::<String>::new());
        let mut answered = 0;
        while let Ok(message) = near.try_read() {
            prop_assert!(ReplyHeader::decode(message.bytes()).is_ok());
            answered += 1;
        }
        prop_assert_eq!(answered, sent);
    }
}
