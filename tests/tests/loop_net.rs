//! The network on loops: goal is that connections and listeners keep the rules of `event_loop::net` against real
//! sockets; `loop_udp.rs` is about datagrams. Method: a manager of loops in the background, and blocking sockets of the
//! standard library at the other end, on the test's own thread.

mod loop_support;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::net::{Address, Connection, ConnectionOptions, ListenOptions, NetError, Spread};
use fuchsine_dispatcher::event_loop::{EventLoop, HolderKind, LoopManagerBuilder, RunSummary, tid};
use loop_support::{HANG, Log, join, loops, run_one, shutdown};

fn any_port() -> Address {
    "127.0.0.1:0".parse().unwrap()
}

/// Runs a server on these loops and a client against it on this thread; then shuts the loops down.
#[track_caller]
fn serve(
    builder: LoopManagerBuilder,
    options: ListenOptions,
    accepted: impl Fn(&EventLoop, Connection) + Send + Sync + 'static,
    client: impl FnOnce(SocketAddr),
) -> RunSummary {
    let (told, address) = channel();
    let builder = builder.setup(0, move |event_loop| {
        let listener = event_loop.listen(&any_port(), options, accepted).unwrap();
        let Address::Tcp(address) = *listener.local_address() else { panic!("it was asked for TCP") };
        told.send(address).unwrap();
        listener.detach();
    });
    let running = builder.build().unwrap().spawn().unwrap();
    client(address.recv_timeout(HANG).expect("the listener is opened"));
    running.handle().shutdown();
    join(running)
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream
}

fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Sends back what comes, and closes at the end.
fn echo(connection: &Connection) {
    let reading = connection.read(|_, connection, received| match received {
        Ok(bytes) => connection.write(bytes).unwrap(),
        Err(_) => connection.close(),
    });
    reading.unwrap();
}

fn name(error: &NetError) -> String {
    format!("{error:?}").split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn bytes_come_back_whole_and_in_order() {
    let sent: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let options = ListenOptions::new().connections(ConnectionOptions::new().write_limit(usize::MAX));
    let summary = serve(
        loops(2),
        options,
        |_, connection| echo(&connection),
        |address| {
            let stream = dial(address);
            let (mut writer, bytes) = (stream.try_clone().unwrap(), sent.clone());
            let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
            let mut back = vec![0; sent.len()];
            (&stream).read_exact(&mut back).unwrap();
            writing.join().unwrap();
            assert!(back == sent, "what came back differs from what was sent");
        },
    );
    assert_eq!(summary.panics(), 0);
}

#[test]
fn writes_are_told_in_order_and_none_inside_its_own_call() {
    let log = Log::new();
    let entries = log.clone();
    let summary = serve(
        loops(1),
        ListenOptions::new(),
        move |_, connection| {
            for nth in 0..5 {
                let entries = entries.clone();
                let sent = connection.write_then(vec![nth; 1 << (nth * 5)], move |_, outcome| {
                    outcome.unwrap();
                    entries.add(nth.to_string());
                });
                assert!(sent.is_ok());
            }
            let room = entries.clone();
            connection.writable(move |_, _, told| room.add(format!("room:{}", told.is_ok()))).ok().unwrap();
            entries.add("returned");
        },
        // The connection closes when all has been sent, as nobody keeps a handle to it.
        |address| assert_eq!(read_to_end(&dial(address)).len(), (0..5).map(|nth| 1 << (nth * 5)).sum::<usize>()),
    );
    assert_eq!(summary.panics(), 0);
    let text = log.text();
    assert!(text.starts_with("returned 0 1 2 3"), "{text}");
    assert!(text.contains("4") && text.contains("room:true"), "{text}");
}

#[test]
fn a_full_queue_gives_the_bytes_back_and_tells_of_room() {
    let (told, result) = channel();
    let summary = serve(
        loops(1),
        ListenOptions::new().connections(ConnectionOptions::new().write_limit(120_000)),
        move |_, connection| {
            let mut accepted = 0;
            let refused = loop {
                match connection.write(vec![7; 60_000]) {
                    Ok(()) => accepted += 60_000,
                    Err(refused) => break refused,
                }
            };
            assert_eq!((refused.reason().status(), name(refused.reason())), (Status::ShouldWait, "Full".into()));
            assert!(connection.queued() <= 120_000);
            let bytes = refused.into_inner();
            assert_eq!(bytes, vec![7; 60_000], "the bytes come back");
            let told = told.clone();
            let waiting = connection.writable(move |_, connection, room| {
                room.unwrap();
                assert!(connection.queued() <= 60_000, "room for half of it, which is what comes next");
                connection.write(bytes).unwrap();
                told.send(accepted + 60_000).unwrap();
            });
            waiting.unwrap();
        },
        |address| {
            let stream = dial(address);
            let received = read_to_end(&stream).len();
            assert_eq!(received, result.recv_timeout(HANG).unwrap());
        },
    );
    assert_eq!(summary.panics(), 0);
}

#[test]
fn what_was_written_is_sent_when_the_last_handle_has_gone_and_then_the_connection_closes() {
    let bytes = vec![3; 8 << 20];
    let sent = bytes.clone();
    serve(
        loops(1),
        ListenOptions::new(),
        move |_, connection| connection.write(sent.clone()).unwrap(),
        |address| assert!(read_to_end(&dial(address)) == bytes),
    );
}

#[test]
fn a_silent_connection_times_out_and_one_without_a_limit_does_not() {
    let log = Log::new();
    let entries = log.clone();
    serve(
        loops(1),
        ListenOptions::new().connections(ConnectionOptions::new().idle_timeout(Duration::from_millis(20))),
        move |_, connection| {
            let entries = entries.clone();
            let first = entries.len() == 0;
            entries.add("accepted");
            if first {
                connection.set_idle_timeout(None).unwrap();
            }
            let reading = connection.read(move |_, connection, received| match received {
                Ok(bytes) => connection.write(bytes).unwrap(),
                Err(reason) => {
                    assert!(matches!(reason, NetError::End) || !connection.is_open());
                    entries.add(name(&reason));
                }
            });
            reading.unwrap();
        },
        |address| {
            let (patient, silent) = (dial(address), dial(address));
            assert_eq!(read_to_end(&silent), b"", "the silent one is closed");
            (&patient).write_all(b"still here").unwrap();
            let mut back = [0; 10];
            (&patient).read_exact(&mut back).unwrap();
            assert_eq!(&back, b"still here");
            patient.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&patient), b"");
        },
    );
    assert_eq!(log.text(), "accepted accepted TimedOut End");
}

#[test]
fn after_the_end_of_the_other_side_this_side_may_still_answer() {
    let summary = serve(
        loops(2),
        ListenOptions::new(),
        |_, connection| {
            let mut question = Vec::new();
            let reading = connection.read(move |_, connection, received| match received {
                Ok(bytes) => question.extend_from_slice(bytes),
                Err(reason) => {
                    assert!(matches!(reason, NetError::End) && connection.is_open() && !connection.is_reading());
                    connection.write(format!("{} bytes", question.len())).unwrap();
                }
            });
            reading.unwrap();
        },
        |address| {
            let stream = dial(address);
            (&stream).write_all(&[0; 4321]).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&stream), b"4321 bytes");
        },
    );
    assert_eq!(summary.panics(), 0);
}

#[test]
fn a_side_that_has_finished_still_reads_and_writes_no_more() {
    let (told, heard) = channel();
    serve(
        loops(1),
        ListenOptions::new(),
        move |_, connection| {
            connection.write("all there is").unwrap();
            connection.finish().unwrap();
            let refused = connection.write("more").unwrap_err();
            assert_eq!(name(refused.reason()), "Finished");
            let told = told.clone();
            connection.read(move |_, _, received| told.send(received.map(<[u8]>::to_vec).ok()).unwrap()).unwrap();
        },
        |address| {
            let stream = dial(address);
            assert_eq!(read_to_end(&stream), b"all there is");
            (&stream).write_all(b"thanks").unwrap();
            assert_eq!(heard.recv_timeout(HANG).unwrap().as_deref(), Some(&b"thanks"[..]));
            drop(stream);
            assert_eq!(heard.recv_timeout(HANG).unwrap(), None);
        },
    );
}

#[test]
fn a_reset_is_told_to_the_reader_and_closes_the_connection() {
    let (told, heard) = channel();
    serve(
        loops(1),
        ListenOptions::new(),
        move |_, connection| {
            let told = told.clone();
            let reading = connection.read(move |_, connection, received| {
                let Err(reason) = received else { return connection.write("go").unwrap() };
                assert!(!connection.is_open() && connection.write("more").is_err());
                told.send(name(&reason)).unwrap();
            });
            reading.unwrap();
        },
        |address| {
            let stream = dial(address);
            (&stream).write_all(b"ready?").unwrap();
            let mut go = [0; 2];
            (&stream).read_exact(&mut go).unwrap();
            // Closing without lingering sends a reset.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            drop(stream);
            assert_eq!(heard.recv_timeout(HANG).unwrap(), "Reset");
        },
    );
}

#[test]
fn open_connections_spread_evenly_and_each_stays_on_its_loop() {
    const CLIENTS: usize = 64;
    let seen: Arc<Mutex<BTreeMap<u32, usize>>> = Arc::default();
    let counts = seen.clone();
    let summary = serve(
        loops(4),
        ListenOptions::new(),
        move |event_loop, connection| {
            let home = event_loop.tid();
            *counts.lock().unwrap().entry(home.unwrap()).or_default() += 1;
            let reading = connection.read(move |_, connection, received| {
                assert_eq!(tid(), home, "a connection stays on its loop");
                match received {
                    Ok(bytes) => connection.write_then(bytes.to_vec(), move |_, _| assert_eq!(tid(), home)).unwrap(),
                    Err(_) => connection.close(),
                }
            });
            reading.unwrap();
        },
        |address| {
            let streams: Vec<_> = (0..CLIENTS).map(|_| dial(address)).collect();
            for round in 0..3u8 {
                streams.iter().for_each(|mut stream| stream.write_all(&[round; 10]).unwrap());
                for mut stream in &streams {
                    let mut back = [0; 10];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, [round; 10]);
                }
            }
        },
    );
    assert_eq!(summary.panics(), 0);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, (0..4).map(|loop_| (loop_, CLIENTS / 4)).collect());
}

#[test]
fn connections_go_only_to_the_loops_that_were_asked_for() {
    for (spread, expected) in [(Spread::OwnLoop, vec![0]), (Spread::OtherLoops, vec![1, 2])] {
        let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
        let entries = seen.clone();
        serve(
            loops(3),
            ListenOptions::new().spread(spread),
            move |_, connection| {
                entries.lock().unwrap().push(tid().unwrap());
                echo(&connection);
            },
            |address| {
                let streams: Vec<_> = (0..expected.len() * 3).map(|_| dial(address)).collect();
                for mut stream in &streams {
                    stream.write_all(b"x").unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                }
            },
        );
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, expected, "{spread:?}");
    }
}

#[test]
fn shutdown_tells_each_pending_operation_canceled_once_after_the_teardown_callbacks() {
    let log = Log::new();
    let (in_accepted, in_teardown) = (log.clone(), log.clone());
    let ready = Arc::new(Mutex::new(None::<Sender<()>>));
    let (sender, is_ready) = channel();
    *ready.lock().unwrap() = Some(sender);
    let builder = loops(1).linger(Duration::from_millis(50)).teardown(0, move |_| in_teardown.add("teardown"));
    let summary = serve(
        builder,
        ListenOptions::new().connections(ConnectionOptions::new().write_limit(1000)),
        move |_, connection| {
            let add = |what: &'static str| {
                let entries = in_accepted.clone();
                move |outcome: Result<(), NetError>| entries.add(format!("{what}:{}", name(&outcome.unwrap_err())))
            };
            let (read, room, write) = (add("read"), add("room"), add("write"));
            let read = Cell::new(Some(read));
            let reading = connection.read(move |_, connection, received| {
                assert!(connection.is_open(), "it is still open while this is told");
                read.take().expect("the end is told once")(received.map(drop));
            });
            reading.unwrap();
            // More than the kernel takes while the other side does not read.
            connection.write_then(vec![0; 64 << 20], move |_, outcome| write(outcome)).ok().unwrap();
            connection.writable(move |_, _, outcome| room(outcome)).ok().unwrap();
            ready.lock().unwrap().take().unwrap().send(()).unwrap();
        },
        |address| {
            let stream = dial(address);
            is_ready.recv_timeout(HANG).unwrap();
            // Kept open and unread until the loops have ended.
            std::mem::forget(stream);
        },
    );
    assert_eq!(summary.panics(), 0);
    assert_eq!(log.text(), "teardown read:Canceled room:Canceled write:Canceled");
    let dropped: Vec<_> = summary.loops[0].dropped.iter().map(|holder| holder.kind).collect();
    assert_eq!(dropped, [HolderKind::Socket], "what kept the loop open until the time to linger had passed");
}

#[test]
fn a_callback_that_is_told_of_the_shutdown_may_still_say_goodbye() {
    let (told, is_ready) = channel();
    let (mut one, mut two) = (None, None);
    let summary = serve(
        loops(2),
        ListenOptions::new(),
        move |_, connection| {
            let reading = connection.read(|_, connection, received| {
                if let Err(NetError::Canceled) = received {
                    connection.write("goodbye").unwrap();
                    assert!(connection.read(|_, _, _| {}).is_err_and(|refused| refused.status() == Status::Canceled));
                }
            });
            reading.unwrap();
            told.send(()).unwrap();
        },
        |address| {
            (one, two) = (Some(dial(address)), Some(dial(address)));
            (0..2).for_each(|_| is_ready.recv_timeout(HANG).unwrap());
        },
    );
    assert_eq!(summary.panics(), 0);
    for stream in [one, two].iter().flatten() {
        assert_eq!(read_to_end(stream), b"goodbye");
    }
}

#[test]
fn what_was_accepted_for_sending_goes_out_while_the_loop_lingers() {
    let bytes = vec![9; 16 << 20];
    let sent = bytes.clone();
    let (told, is_ready) = channel();
    let (mut stream, mut reader) = (None, None);
    let summary = serve(
        loops(1).linger(HANG),
        ListenOptions::new(),
        move |_, connection| {
            let told = told.clone();
            connection.write_then(sent.clone(), |_, outcome| outcome.unwrap()).ok().unwrap();
            assert!(connection.queued() > 0, "the kernel does not take so much at once");
            told.send(()).unwrap();
        },
        |address| {
            stream = Some(dial(address));
            is_ready.recv_timeout(HANG).unwrap();
            // Reads only from now on, while the loops shut down.
            let stream = stream.take().unwrap();
            reader = Some(std::thread::spawn(move || read_to_end(&stream)));
        },
    );
    assert_eq!(summary.panics(), 0);
    assert!(summary.loops[0].dropped.is_empty());
    assert!(reader.unwrap().join().unwrap() == bytes);
}

#[test]
fn a_connect_that_is_refused_is_told_so_and_not_inside_the_call() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run_one(move |event_loop| {
        let returned = Rc::new(Cell::new(false));
        let has_returned = returned.clone();
        let connecting = event_loop.connect(&closed.into(), ConnectionOptions::new(), move |event_loop, connected| {
            assert!(has_returned.get());
            assert_eq!(connected.unwrap_err().status(), Status::ConnectionRefused);
            let nowhere = Address::Unix("/nonexistent/socket".into());
            let connecting = event_loop.connect(&nowhere, ConnectionOptions::new(), |event_loop, connected| {
                assert_eq!(connected.unwrap_err().status(), Status::NotFound);
                shutdown(event_loop);
            });
            drop(connecting.unwrap());
        });
        drop(connecting.unwrap());
        returned.set(true);
    });
}

/// A listener with room for hardly anybody: further connects stay on their way.
fn crowded() -> (rustix::fd::OwnedFd, SocketAddr, Vec<TcpStream>) {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let limit = Duration::from_millis(200);
    let filling = std::iter::from_fn(|| TcpStream::connect_timeout(&address, limit).ok()).collect();
    (socket, address, filling)
}

#[test]
fn a_connect_on_its_way_is_told_of_cancel_of_its_time_limit_and_of_shutdown_each_once() {
    let (_listener, address, _filling) = crowded();
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let connect = |what: &'static str| {
            let entries = entries.clone();
            let told = event_loop.connect(&address.into(), ConnectionOptions::new(), move |event_loop, connected| {
                entries.add(format!("{what}:{}", name(&connected.unwrap_err())));
                if what == "limited" {
                    shutdown(event_loop);
                }
            });
            told.unwrap()
        };
        drop(connect("left"));
        let canceled = connect("canceled");
        assert!(canceled.is_pending() && canceled.cancel() && !canceled.cancel() && !canceled.is_pending());
        drop(connect("limited").timeout(Duration::from_millis(5)));
    });
    assert_eq!(log.text(), "canceled:Canceled limited:TimedOut left:Canceled");
}

#[test]
fn closing_tells_all_that_is_pending_and_later() {
    let log = Log::new();
    let entries = log.clone();
    serve(
        loops(1),
        ListenOptions::new(),
        move |_, connection| {
            let add = |what: &'static str| {
                let entries = entries.clone();
                move |outcome: Result<(), NetError>| entries.add(format!("{what}:{}", name(&outcome.unwrap_err())))
            };
            let (read, room, write) = (add("read"), add("room"), add("write"));
            connection.read(move |_, _, received| read(received.map(drop))).unwrap();
            connection.write_then(vec![0; 64 << 20], move |_, outcome| write(outcome)).ok().unwrap();
            connection.writable(move |_, _, outcome| room(outcome)).ok().unwrap();
            connection.close();
            connection.close();
            entries.add("returned");
            assert!(connection.read(|_, _, _| {}).is_err() && connection.writable(|_, _, _| {}).is_err());
            assert_eq!(connection.write("more").unwrap_err().into_inner(), "more");
        },
        |address| {
            // Some of it has gone out; then comes the end, or a reset.
            let _ = std::io::copy(&mut dial(address), &mut std::io::sink());
        },
    );
    assert_eq!(log.text(), "returned write:Closed read:Closed room:Closed");
}

#[test]
fn reading_stops_and_begins_again_and_two_readers_are_refused() {
    let summary = serve(
        loops(1),
        ListenOptions::new(),
        |_, connection| {
            connection.read(|_, _, _| unreachable!("it is stopped before anything comes")).unwrap();
            let refused = connection.read(|_, _, _| {}).unwrap_err();
            assert_eq!(refused.status(), Status::AlreadyBound);
            let _callback = refused.into_inner();
            assert!(connection.stop_reading() && !connection.stop_reading());
            let mut calls = 0;
            let reading = connection.read(move |_, connection, received| {
                calls += 1;
                assert_eq!((calls, received.unwrap()), (1, &b"a"[..]));
                // Replaced by another from its own callback.
                assert!(connection.stop_reading());
                echo(connection);
                connection.write("b").unwrap();
            });
            reading.unwrap();
        },
        |address| {
            let mut stream = dial(address);
            for (sent, expected) in [(b"a", b"b"), (b"c", b"c")] {
                stream.write_all(sent).unwrap();
                let mut back = [0];
                stream.read_exact(&mut back).unwrap();
                assert_eq!(&back, expected);
            }
        },
    );
    assert_eq!(summary.panics(), 0);
}

#[test]
fn a_reader_that_stops_itself_is_dropped_when_it_has_returned() {
    struct SaysSo(Connection);
    impl Drop for SaysSo {
        fn drop(&mut self) {
            self.0.write("dropped").unwrap();
        }
    }
    let summary = serve(
        loops(1),
        ListenOptions::new(),
        |_, connection| {
            let captured = SaysSo(connection.clone());
            let reading = connection.read(move |_, connection, _| {
                assert!(connection.stop_reading() && !connection.is_reading());
                captured.0.write("stopped and ").unwrap();
            });
            reading.unwrap();
        },
        |address| {
            let mut stream = dial(address);
            stream.write_all(b"a").unwrap();
            assert_eq!(read_to_end(&stream), b"stopped and dropped");
        },
    );
    assert_eq!(summary.panics(), 0);
}

#[test]
fn a_callback_that_panics_closes_its_connection_and_no_other() {
    let summary = serve(
        loops(1),
        ListenOptions::new(),
        |_, connection| {
            let reading = connection.read(|_, connection, received| match received {
                Ok(b"panic") => panic!("on purpose"),
                Ok(bytes) => connection.write(bytes).unwrap(),
                Err(_) => connection.close(),
            });
            reading.unwrap();
        },
        |address| {
            let (good, bad) = (dial(address), dial(address));
            (&bad).write_all(b"panic").unwrap();
            let _ = (&bad).read_to_end(&mut Vec::new());
            (&good).write_all(b"fine").unwrap();
            let mut back = [0; 4];
            (&good).read_exact(&mut back).unwrap();
        },
    );
    assert_eq!(summary.panics(), 1);
}

#[test]
fn a_listener_with_all_the_connections_it_may_have_pauses_until_one_closes() {
    let (told, heard) = channel();
    let (pauses, counted) = channel();
    let builder = loops(1).setup(0, move |event_loop| {
        let options = ListenOptions::new().max_connections(2);
        let listener = event_loop.listen(&any_port(), options, |_, connection| {
            connection.write("!").unwrap();
            echo(&connection);
        });
        let listener = listener.unwrap();
        let Address::Tcp(address) = *listener.local_address() else { panic!("it was asked for TCP") };
        told.send(address).unwrap();
        event_loop.teardown(move |_| pauses.send(listener.counters()).unwrap()).unwrap();
    });
    let running = builder.build().unwrap().spawn().unwrap();
    let address = heard.recv_timeout(HANG).unwrap();
    let mut streams: Vec<_> = (0..2).map(|_| dial(address)).collect();
    streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    let mut third = dial(address);
    third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(third.read(&mut [0]).is_err(), "the third waits in the kernel");
    drop(streams);
    third.set_read_timeout(Some(HANG)).unwrap();
    third.read_exact(&mut [0]).unwrap();
    running.handle().shutdown();
    join(running);
    let counters = counted.recv_timeout(HANG).unwrap();
    assert_eq!(counters.accepted, 3);
    assert!(counters.pauses >= 1, "{counters:?}");
}

#[test]
fn listeners_are_opened_from_loop_0_and_a_refusal_gives_the_callback_back() {
    let (told, heard) = channel();
    let builder = loops(2).setup(1, move |event_loop| {
        let refused = event_loop.listen(&any_port(), ListenOptions::new(), |_, _| {}).unwrap_err();
        told.send((name(refused.reason()), refused.status())).unwrap();
        let _callback = refused.into_inner();
        shutdown(event_loop);
    });
    join(builder.build().unwrap().spawn().unwrap());
    assert_eq!(heard.recv_timeout(HANG).unwrap(), ("NotMainLoop".to_owned(), Status::BadState));
}

#[test]
fn an_address_in_use_is_an_error_with_a_status() {
    run_one(|event_loop| {
        let listener = event_loop.listen(&any_port(), ListenOptions::new(), |_, _| {}).unwrap();
        let refused = event_loop.listen(listener.local_address(), ListenOptions::new(), |_, _| {}).unwrap_err();
        assert_eq!(refused.status(), Status::AddressInUse);
        shutdown(event_loop);
    });
}

#[test]
fn a_port_is_free_again_once_a_shutdown_has_begun() {
    let (told, heard) = channel();
    let builder = loops(1)
        .setup(0, move |event_loop| {
            let listener = event_loop.listen(&any_port(), ListenOptions::new(), |_, _| {}).unwrap();
            told.send(listener.local_address().clone()).unwrap();
            // Held by the teardown callback, and closed all the same.
            event_loop.teardown(move |_| assert_eq!(listener.counters().accepted, 0)).unwrap();
            shutdown(event_loop);
        })
        .teardown(0, |_| {});
    let running = builder.build().unwrap().spawn().unwrap();
    let Address::Tcp(address) = heard.recv_timeout(HANG).unwrap() else { panic!("it was asked for TCP") };
    join(running);
    std::net::TcpListener::bind(address).unwrap();
}

#[test]
fn unix_sockets_work_alike_and_their_path_goes_with_the_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo");
    let address = Address::Unix(path.clone());
    let (told, is_ready) = channel();
    let builder = loops(2).setup(0, move |event_loop| {
        let listener = event_loop.listen(&address, ListenOptions::new(), |_, connection| echo(&connection)).unwrap();
        assert_eq!(*listener.local_address(), address);
        listener.detach();
        told.send(()).unwrap();
    });
    let running = builder.build().unwrap().spawn().unwrap();
    is_ready.recv_timeout(HANG).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    running.handle().shutdown();
    join(running);
    assert!(!path.exists());
    assert_eq!(stream.read(&mut back).unwrap(), 0, "the connection was closed at the end of its loop");
}
