//! Listeners and streams.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use super::Journal;
use crate::abi::fake::{CAPACITY, FakeHost};
use crate::net::{Interest, Listener, Shutdown, Stream, ready};
use crate::{Status, spawn, timeout};

#[test]
fn a_listener_tells_its_real_address_and_a_busy_one_is_named() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let listener = Listener::bind_on(&dispatcher, "127.0.0.1:0").expect("free");
    assert_eq!(listener.local_address(), "127.0.0.1:40000");
    let error = Listener::bind_on(&dispatcher, "127.0.0.1:40000").expect_err("busy");
    assert_eq!((error.status(), error.to_string().as_str()), (Status::AddressInUse, "127.0.0.1:40000 is in use"));
    assert_eq!(Listener::bind("127.0.0.1:1").expect_err("no dispatcher is current").status(), Status::BadState);
    drop(listener);
    Listener::bind_on(&dispatcher, "127.0.0.1:40000").expect("free again");
    let refused = host.block_on(Stream::connect("unix:/nobody")).expect_err("nobody listens");
    assert_eq!(refused.to_string(), "nobody listens on unix:/nobody");
    assert_eq!(Status::from(refused), Status::ConnectionRefused);
}

#[test]
fn more_bytes_than_fit_go_through_while_both_sides_wait_for_each_other() {
    let host = FakeHost::new();
    let received = host.block_on(async {
        let listener = Listener::bind("unix:/echo").expect("free");
        let server = spawn(async move {
            let (stream, peer) = listener.accept().await?;
            assert_eq!(peer, "unix:");
            let mut all = Vec::new();
            let mut buffer = [0; 37];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => break,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
            stream.write_all(&[9; 3]).await?;
            Ok::<_, Status>(all)
        });
        let stream = Stream::connect("unix:/echo").await.expect("somebody listens");
        let (head, body) = ([1_u8; 10], vec![2_u8; CAPACITY * 5]);
        let mut slices = [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&body)];
        stream.write_all_vectored(&mut slices).await.expect("somebody reads");
        stream.shutdown(Shutdown::Write).expect("connected");
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(answer, [9; 3]);
        assert_eq!(stream.read_exact(&mut answer).await, Err(Status::PeerClosed));
        server.expect("it runs").await.expect("no panic")
    });
    let received = received.expect("no error");
    assert_eq!(received.len(), 10 + CAPACITY * 5);
    assert!(received[..10].iter().all(|&byte| byte == 1) && received[10..].iter().all(|&byte| byte == 2));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn try_forms_never_wait() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let listener = Listener::bind_on(&dispatcher, "unix:/x").expect("free");
    assert_eq!(listener.try_accept().map(drop), Err(Status::ShouldWait));
    host.refuse_next_accept("unix:/x", Status::NoResources);
    assert_eq!(listener.try_accept().map(drop), Err(Status::NoResources));
    let client = host.block_on(Stream::connect("unix:/x")).expect("somebody listens");
    let (server, _) = listener.try_accept().expect("one waits");
    assert_eq!(server.try_read(&mut [0; 4]), Err(Status::ShouldWait));
    assert_eq!(client.try_write(&[7; CAPACITY + 1]), Ok(CAPACITY));
    assert_eq!(client.try_write(&[7]), Err(Status::ShouldWait));
    assert_eq!(server.try_read(&mut [0; 4]), Ok(4));
    assert_eq!(
        (server.local_address(), client.peer_address()),
        (Ok(String::from("unix:/x")), Ok(String::from("unix:/x")))
    );
    drop(server);
    assert_eq!(client.try_write(&[7]), Err(Status::PeerClosed));
    assert_eq!(client.try_read(&mut [0; 4]), Ok(0));
}

#[test]
fn accept_tells_of_exhaustion_and_goes_on_afterwards() {
    let host = FakeHost::new();
    let listener = host.block_on(async { Listener::bind("unix:/x") }).expect("free");
    host.refuse_next_accept("unix:/x", Status::NoResources);
    let (listener, first) = host.block_on(async move {
        let first = listener.accept().await.map(drop);
        (listener, first)
    });
    assert_eq!(first, Err(Status::NoResources));
    let accepted = host.block_on(async move {
        let _client = Stream::connect("unix:/x").await.expect("somebody listens");
        listener.accept().await.map(drop)
    });
    assert_eq!(accepted, Ok(()));
}

#[test]
fn waits_can_be_dropped_polled_and_taken_back() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let (client, server) = host.block_on(async {
        let listener = Listener::bind("unix:/x").expect("free");
        let client = Stream::connect("unix:/x").await.expect("somebody listens");
        (Arc::new(client), listener.accept().await.expect("one waits").0)
    });
    let noted = journal.clone();
    let wait = client.begin_wait(&dispatcher, Interest::READABLE, move |ready| noted.note(format!("{ready:?}")));
    let wait = wait.expect("it runs");
    assert_eq!(wait.cancel(), Ok(()));
    assert_eq!(wait.cancel(), Err(Status::NotFound));
    let reader = Arc::clone(&client);
    let outcome = host.block_on(async move {
        let early = timeout(Duration::from_secs(1), reader.readable()).await;
        assert_eq!(early.map(drop), Err(Status::TimedOut));
        let both = reader.ready(Interest::READABLE | Interest::WRITABLE).await.expect("writable");
        assert!(both.is_writable() && !both.is_readable() && !both.is_error() && !both.is_hangup());
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(reader.poll_readable(cx).is_pending())).await;
        assert!(polled, "nothing is there");
        assert!(std::future::poll_fn(|cx| reader.poll_writable(cx)).await.is_ok());
        server.try_write(&[1]).expect("room");
        std::future::poll_fn(|cx| reader.poll_readable(cx)).await.map(|ready| ready.is_readable())
    });
    assert_eq!(outcome, Ok(true));
    drop(client);
    host.run();
    assert_eq!(journal.take(), [""; 0]);
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn the_shutdown_tells_a_wait() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let listener = Listener::bind_on(&dispatcher, "unix:/x").expect("free");
    let noted = journal.clone();
    listener.begin_wait(&dispatcher, move |ready| noted.note(format!("{ready:?}"))).expect("it runs");
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["Err(Canceled)"]);
    let refused = listener.begin_wait(&dispatcher, |_| ()).expect_err("shut down");
    assert_eq!(refused.status(), Status::BadState);
}

#[test]
fn what_cannot_be_polled_says_so() {
    let host = FakeHost::new();
    let outcome = host.block_on(async {
        let file = std::fs::File::open("/dev/null").expect("it exists");
        ready(&file, Interest::READABLE).await
    });
    assert_eq!(outcome, Err(Status::NotSupported));
}
