//! Datagrams on loops: goal is that datagram sockets keep the rules of `event_loop::net` against real sockets. Method:
//! as in `loop_net.rs`.

mod loop_support;

use std::cell::RefCell;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::net::UdpOptions;
use fuchsine_dispatcher::event_loop::{EventLoop, tid};
use loop_support::{HANG, Log, join, loops, run_one, shutdown};
#[test]
fn datagrams_come_whole_with_their_sender_and_answers_go_back() {
    let (told, heard) = channel();
    let builder = loops(1).setup(0, move |event_loop| {
        let socket = event_loop.udp("127.0.0.1:0".parse().unwrap(), UdpOptions::new()).unwrap();
        told.send(socket.local_address()).unwrap();
        let receiving = socket.receive(|event_loop, socket, received| {
            let Ok((bytes, from)) = received else { return };
            let (len, here) = (bytes.len(), event_loop.handle());
            let sent = socket.send_to_then(vec![len as u8; len], from, move |_, outcome| {
                outcome.unwrap();
                assert!(here.is_current());
            });
            assert!(sent.is_ok());
        });
        receiving.unwrap();
        assert!(socket.receive(|_, _, _| {}).is_err_and(|refused| refused.status() == Status::AlreadyBound));
    });
    let running = builder.build().unwrap().spawn().unwrap();
    let server = heard.recv_timeout(HANG).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(HANG)).unwrap();
    for len in [1, 100, 9] {
        client.send_to(&vec![0; len], server).unwrap();
        let mut back = [0; 200];
        assert_eq!(client.recv_from(&mut back).unwrap(), (len, server));
        assert_eq!(back[..len], vec![len as u8; len]);
    }
    running.handle().shutdown();
    assert_eq!(join(running).panics(), 0);
}

#[test]
fn a_receiver_is_told_of_close_and_of_shutdown_and_a_datagram_that_is_too_long_comes_back() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let any = "127.0.0.1:0".parse().unwrap();
        let (closed, kept) =
            (event_loop.udp(any, UdpOptions::new()).unwrap(), event_loop.udp(any, UdpOptions::new()).unwrap());
        for (what, socket) in [("closed", &closed), ("kept", &kept)] {
            let entries = entries.clone();
            let receiving = socket.receive(move |event_loop, _, received| {
                entries.add(format!("{what}:{:?}", received.unwrap_err()));
                if what == "closed" {
                    shutdown(event_loop);
                }
            });
            receiving.unwrap();
        }
        let refused = kept.send_to(vec![0; 70_000], closed.local_address()).unwrap_err();
        assert_eq!(refused.into_inner().len(), 70_000);
        assert!(kept.is_open());
        closed.close();
        assert!(closed.send_to("x", any).is_err() && !closed.is_open());
        let kept = RefCell::new(Some(kept));
        event_loop.teardown(move |_| drop(kept.take())).unwrap();
    });
    assert_eq!(log.text(), "closed:Closed kept:Canceled");
}

#[test]
fn sockets_of_several_loops_share_a_port() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (told, heard) = channel();
    let builder = loops(2).setup(0, move |event_loop| {
        let open = |event_loop: &EventLoop, address| {
            let socket = event_loop.udp(address, UdpOptions::new().shared()).unwrap();
            let receiving = socket.receive(|_, socket, received| {
                if let Ok((_, from)) = received {
                    socket.send_to([tid().unwrap() as u8], from).unwrap();
                }
            });
            receiving.unwrap();
            socket.local_address()
        };
        let address = open(event_loop, any);
        let other = event_loop.manager().unwrap().event_loop(1).unwrap();
        other.async_run(move |event_loop| told.send(open(event_loop, address)).unwrap()).unwrap();
    });
    let running = builder.build().unwrap().spawn().unwrap();
    let server = heard.recv_timeout(HANG).unwrap();
    // The kernel spreads senders by their port: with so many, both loops see some.
    let mut answered = [0; 2];
    for _ in 0..64 {
        let client = UdpSocket::bind(any).unwrap();
        client.set_read_timeout(Some(HANG)).unwrap();
        client.send_to(b"x", server).unwrap();
        let mut who = [0];
        client.recv(&mut who).unwrap();
        answered[usize::from(who[0])] += 1;
    }
    assert!(answered[0] > 0 && answered[1] > 0, "{answered:?}");
    running.handle().shutdown();
    join(running);
}
