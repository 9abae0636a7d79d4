//! Sockets of drivers. Goal: the same driver code works on real and on simulated sockets, and nothing hangs or leaks at
//! their ends. Method: scenarios in a driver, on threads with real sockets and in the foreground with simulated ones;
//! what only the operating system has is tested on threads.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use common::scripted::{Notes, jot, lines, role};
use common::{World, worlds};
use fuchsine_driver::net::{Interest, Listener, Shutdown, Stream, ready};
use fuchsine_driver::{Status, current, sleep, spawn};

/// Serves one connection: everything comes back, until the end of the stream.
async fn echo(listener: Listener) {
    let (stream, peer) = listener.accept().await.unwrap();
    assert!(!peer.is_empty());
    let mut buffer = vec![0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        if count == 0 {
            return;
        }
        stream.write_all(&buffer[..count]).await.unwrap();
    }
}

#[test]
fn what_is_written_comes_out_on_the_other_side_until_the_end_of_the_stream() {
    for world in worlds() {
        world.play_through(vec![role(world.name("echo"), |_| async {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_address().to_owned();
            assert!(!address.ends_with(":0"), "the real port is told: {address}");
            let server = spawn(echo(listener)).unwrap();
            let client = Stream::connect(&address).await.unwrap();
            assert_eq!(client.peer_address().unwrap(), address);
            // More than the buffers in between hold, so that both sides wait for each other.
            let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
            let client = Arc::new(client);
            let (writer, bytes) = (Arc::clone(&client), sent.clone());
            let writing = spawn(async move {
                writer.write_all(&bytes).await.unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut received = vec![0; sent.len()];
            client.read_exact(&mut received).await.unwrap();
            assert!(received == sent);
            writing.unwrap().await.unwrap();
            assert_eq!(client.read(&mut [0; 1]).await, Ok(0));
            server.await.unwrap();
        })]);
    }
}

#[test]
fn nobody_listens_is_told_to_whoever_connects() {
    for world in worlds() {
        world.play_through(vec![role(world.name("refused"), |_| async {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_address().to_owned();
            drop(listener);
            let refused = Stream::connect(&address).await.unwrap_err();
            assert_eq!(refused.status(), Status::ConnectionRefused);
        })]);
    }
}

#[test]
fn an_address_in_use_is_told_with_the_address() {
    for world in worlds() {
        world.play_through(vec![role(world.name("busy"), |_| async {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let busy = Listener::bind(listener.local_address()).unwrap_err();
            assert_eq!(busy.status(), Status::AddressInUse);
            assert!(busy.to_string().contains(listener.local_address()), "{busy}");
        })]);
    }
}

#[test]
fn a_wait_ends_with_the_socket_and_can_be_taken_back() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("waits"), move |cx| async move {
            let home = cx.dispatcher();
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let client = Stream::connect(listener.local_address()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let taken = server.begin_wait(&home, Interest::READABLE, |_| unreachable!("it was taken back")).unwrap();
            assert_eq!(taken.cancel(), Ok(()));
            assert_eq!(taken.cancel(), Err(Status::NotFound));
            let told = Arc::clone(&seen);
            let closed = server.begin_wait(&home, Interest::READABLE, move |outcome| {
                jot(&told, format!("closed: {:?}", outcome.map(|ready| ready.is_readable())));
            });
            drop(server);
            while lines(&seen).is_empty() {
                sleep(Duration::from_millis(1)).await.unwrap();
            }
            assert_eq!(closed.unwrap().cancel(), Err(Status::NotFound));
            assert_eq!(client.read(&mut [0; 1]).await, Ok(0), "the other side sees the end");
        })]);
        assert_eq!(lines(&notes), ["closed: Err(Canceled)"]);
    }
}

#[test]
fn a_wait_that_is_pending_at_the_stop_is_told_that_it_is_canceled() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        let host = world.play(vec![role(world.name("pending"), move |cx| async move {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let wait = listener.begin_wait(&cx.dispatcher(), move |outcome| jot(&seen, format!("{:?}", outcome.err())));
            drop(wait.unwrap());
            // It lives on in a future, which goes with the dispatcher as well.
            let keeping = spawn(async move {
                let _listener = listener;
                std::future::pending::<()>().await;
            });
            drop(keeping.unwrap());
        })]);
        world.started(&host).unwrap();
        world.stop(&host);
        assert_eq!(lines(&notes), ["Some(Canceled)"]);
    }
}

#[test]
fn a_reader_that_has_gone_is_an_error_to_the_writer_and_no_signal() {
    for world in worlds() {
        world.play_through(vec![role(world.name("gone"), |_| async {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let client = Stream::connect(listener.local_address()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            drop(client);
            let mut outcome = Ok(());
            for _ in 0..1000 {
                outcome = server.write_all(&[0; 4096]).await;
                if outcome.is_err() {
                    break;
                }
            }
            assert!(matches!(outcome, Err(Status::PeerClosed | Status::ConnectionReset)), "{outcome:?}");
        })]);
    }
}

#[test]
fn a_path_is_listened_on_and_removed_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = format!("unix:{}", path.display());
    let there = path.clone();
    World::Threads.play_through(vec![role("path", move |_| async move {
        let listener = Listener::bind(&address).unwrap();
        assert_eq!(listener.local_address(), address);
        let server = spawn(echo(listener)).unwrap();
        let client = Stream::connect(&address).await.unwrap();
        client.write_all(b"over a path").await.unwrap();
        let mut text = [0; 11];
        client.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"over a path");
        drop(client);
        server.await.unwrap();
        assert!(!there.exists(), "the path goes with its listener");
    })]);
}

#[test]
fn a_path_of_a_dead_listener_is_replaced_and_a_live_one_or_another_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(UnixListener::bind(path("dead")).unwrap());
    let _live = UnixListener::bind(path("live")).unwrap();
    fs::write(path("file"), "something else").unwrap();
    let address = |name: &str| format!("unix:{}", path(name).display());
    let (dead, live, file) = (address("dead"), address("live"), address("file"));
    World::Threads.play_through(vec![role("paths", |_| async move {
        drop(Listener::bind(&dead).unwrap());
        assert_eq!(Listener::bind(&live).unwrap_err().status(), Status::AddressInUse);
        let refused = Listener::bind(&file).unwrap_err();
        assert_eq!(refused.status(), Status::AlreadyExists);
        assert!(refused.to_string().ends_with("no socket"), "{refused}");
    })]);
    assert!(path("live").exists());
    assert_eq!(fs::read_to_string(path("file")).unwrap(), "something else");
}

#[test]
fn a_path_whose_owner_accepts_nobody_is_in_use_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy");
    let owner = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&owner, 0).unwrap();
    // The queue has room for one more than its length.
    let _waits = UnixStream::connect(&path).unwrap();
    let address = format!("unix:{}", path.display());
    World::Threads.play_through(vec![role("busy", |_| async move {
        assert_eq!(Listener::bind(&address).unwrap_err().status(), Status::AddressInUse);
    })]);
    assert!(path.exists());
}

#[test]
fn a_listener_leaves_a_path_alone_that_somebody_else_has_taken_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = format!("unix:{}", path.display());
    let there = path.clone();
    World::Threads.play_through(vec![role("taken", move |_| async move {
        let listener = Listener::bind(&address).unwrap();
        fs::remove_file(&there).unwrap();
        fs::write(&there, "mine now").unwrap();
        drop(listener);
    })]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine now");
}

#[test]
fn what_is_no_address_is_refused_with_the_form_of_one() {
    World::Threads.play_through(vec![role("no-address", |_| async {
        let refused = Listener::bind("example.org:80").unwrap_err();
        assert_eq!(refused.status(), Status::InvalidArgs);
        assert!(refused.to_string().contains("127.0.0.1:10809"), "{refused}");
    })]);
}

#[test]
fn descriptors_can_be_waited_for_and_files_are_refused() {
    World::Threads.play_through(vec![role("descriptors", |_| async {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let home = current().unwrap();
        let writing = home.post_after(Duration::from_millis(1), move |_| {
            std::io::Write::write_all(&mut writer, b"x").unwrap();
        });
        drop(writing.unwrap());
        assert!(ready(&reader.as_fd(), Interest::READABLE).await.unwrap().is_readable());
        let file = tempfile::tempfile().unwrap();
        assert_eq!(ready(&file, Interest::READABLE).await.unwrap_err(), Status::NotSupported);
    })]);
}
