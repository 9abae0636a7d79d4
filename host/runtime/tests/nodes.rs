//! Drivers that work together over nodes. Goal: services connect, messages cross with all that they carry, children come
//! and go in order. Method: scenarios on both sides, on threads and in the foreground.

mod common;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::scripted::{Notes, jot, lines, role};
use common::{failures, worlds};
use fuchsine_driver::{Channel, ChildNode, Handle, Message, Status, sleep, spawn};

/// Adds a child `kind` whose service `echo` answers each message with itself, and leaves it there.
fn add_echo(cx: &fuchsine_driver::DriverContext, kind: &str) {
    let child = ChildNode::new(kind).property("kind", kind).property("colour", "red").service("echo", |channel| {
        let serving = spawn(async move {
            while let Ok(message) = channel.read().await {
                if channel.write(message).is_err() {
                    return;
                }
            }
        });
        drop(serving.expect("the dispatcher runs"));
    });
    cx.add_child(child).expect("a child can be added").detach();
}

#[test]
fn a_child_sees_its_node_and_reaches_the_services_of_its_parent() {
    for world in worlds() {
        world.play_through(vec![
            role(world.name("parent"), |cx| async move { add_echo(&cx, "echo") }),
            role(world.name("child"), |cx| async move {
                let node = cx.node();
                assert_eq!(node.name(), "echo");
                assert_eq!(node.property("colour").as_deref(), Some("red"));
                assert_eq!(node.property("name").as_deref(), Some("echo"));
                assert_eq!(node.connect("nonsense").await.unwrap_err(), Status::NotFound);
                let channel = node.connect("echo").await.unwrap();
                for text in [&b"hello"[..], b"", &[7; 100_000]] {
                    channel.write(Message::from_bytes(text).unwrap()).unwrap();
                    assert_eq!(channel.read().await.unwrap().bytes(), text);
                }
            })
            .on("echo"),
        ]);
    }
}

#[test]
fn a_message_carries_channels_descriptors_and_values() {
    for world in worlds() {
        world.play_through(vec![
            role(world.name("carrier"), |cx| async move { add_echo(&cx, "carry") }),
            role(world.name("sender"), |cx| async move {
                let channel = cx.node().connect("echo").await.unwrap();
                let (near, far) = Channel::pair().unwrap();
                let (mut reader, writer) = std::io::pipe().unwrap();
                let mut message = Message::from_bytes(b"with handles").unwrap();
                message.push(far);
                message.push(OwnedFd::from(writer));
                message.push(Handle::value(vec![String::from("any"), String::from("value")]));
                channel.write(message).unwrap();
                let mut back = channel.read().await.unwrap();
                assert_eq!(back.bytes(), b"with handles");
                let [far, writer, value] = <[Handle; 3]>::try_from(back.take_handles()).expect("three handles");
                let far = far.into_channel_end().expect("a channel end");
                far.write(Message::from_bytes(b"through").unwrap()).unwrap();
                assert_eq!(near.read().await.unwrap().bytes(), b"through");
                let mut writer = std::fs::File::from(writer.into_owned_fd().expect("a descriptor"));
                writer.write_all(b"pipe").unwrap();
                drop(writer);
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                assert_eq!(text, "pipe");
                assert_eq!(value.into_value_of::<Vec<String>>().expect("the value"), ["any", "value"]);
            })
            .on("carry"),
        ]);
    }
}

#[test]
fn a_refused_message_comes_back_whole() {
    for world in worlds() {
        world.play_through(vec![role(world.name("refused"), |_| async move {
            let (near, far) = Channel::pair_with_limit(1).unwrap();
            near.write(Message::from_bytes(b"first").unwrap()).unwrap();
            let (a, b) = Channel::pair().unwrap();
            let (mut reader, writer) = std::io::pipe().unwrap();
            let mut second = Message::from_bytes(b"second").unwrap();
            second.push(b);
            second.push(OwnedFd::from(writer));
            second.push(Handle::value(7_u32));
            let refused = near.write(second).unwrap_err();
            assert_eq!(refused.status(), Status::ShouldWait);
            let second = refused.into_message();
            assert_eq!((second.bytes(), second.handles().len()), (&b"second"[..], 3));
            assert_eq!(far.read().await.unwrap().bytes(), b"first");
            near.write(second).unwrap();
            let mut second = far.read().await.unwrap();
            assert_eq!(second.bytes(), b"second");
            let [b, writer, value] = <[Handle; 3]>::try_from(second.take_handles()).expect("three handles");
            b.into_channel_end().expect("a channel end").write(Message::from_bytes(b"alive").unwrap()).unwrap();
            assert_eq!(a.read().await.unwrap().bytes(), b"alive");
            drop(writer);
            assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0, "the one copy of the descriptor was closed");
            assert_eq!(value.into_value_of::<u32>().expect("the value"), 7);

            drop(far);
            let late = near.write(Message::from_bytes(b"late").unwrap()).unwrap_err();
            assert_eq!((late.status(), late.into_message().bytes()), (Status::PeerClosed, &b"late"[..]));
        })]);
    }
}

#[test]
fn unread_values_are_dropped_with_the_channel_that_holds_them() {
    struct Counted(Notes);
    impl Drop for Counted {
        fn drop(&mut self) {
            jot(&self.0, "dropped");
        }
    }
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("unread"), move |_| async move {
            let (near, far) = Channel::pair().unwrap();
            let mut message = Message::from_bytes(b"").unwrap();
            message.push(Handle::value(Counted(Arc::clone(&seen))));
            near.write(message).unwrap();
            assert!(lines(&seen).is_empty());
            drop((near, far));
            assert_eq!(lines(&seen), ["dropped"]);
        })]);
    }
}

#[test]
fn a_registered_read_is_told_once_and_can_be_taken_back() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("read"), move |cx| async move {
            let (near, far) = Channel::pair().unwrap();
            let home = cx.dispatcher();
            let never = home.clone();
            far.begin_read(&never, |_: Result<(), Status>| unreachable!("it was taken back")).unwrap();
            let second = far.begin_read(&home, |_: Result<(), Status>| unreachable!("it was refused"));
            assert_eq!(second.unwrap_err().status(), Status::BadState);
            assert_eq!(far.cancel_read(), Ok(()));
            assert_eq!(far.cancel_read(), Err(Status::NotFound));
            let told = Arc::clone(&seen);
            far.begin_read(&home, move |outcome: Result<(), Status>| jot(&told, format!("{outcome:?}"))).unwrap();
            near.write(Message::from_bytes(b"a").unwrap()).unwrap();
            near.write(Message::from_bytes(b"b").unwrap()).unwrap();
            while lines(&seen).is_empty() {
                sleep(Duration::from_millis(1)).await.unwrap();
            }
            assert_eq!(far.try_read().unwrap().bytes(), b"a");
            assert_eq!(far.try_read().unwrap().bytes(), b"b");
            assert_eq!(far.try_read().unwrap_err(), Status::ShouldWait);
            drop(near);
            assert_eq!(far.try_read().unwrap_err(), Status::PeerClosed);
        })]);
        assert_eq!(lines(&notes), ["Ok(())"]);
    }
}

#[test]
fn a_removed_child_is_gone_when_the_driver_on_it_has_stopped_and_its_name_is_free_then() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        let (stopping, starting) = (Arc::clone(&notes), Arc::clone(&notes));
        let name = world.name("lodger");
        let host = world.play(vec![
            role(world.name("landlord"), move |cx| async move {
                let cx_later = cx.clone();
                let living = cx.dispatcher().spawn(async move {
                    let child = cx_later.add_child(ChildNode::new("room").property("kind", "room")).unwrap();
                    let twin = cx_later.add_child(ChildNode::new("room")).unwrap_err();
                    assert_eq!(twin.status(), Status::AlreadyExists);
                    while lines(&seen).is_empty() {
                        sleep(Duration::from_millis(1)).await.unwrap();
                    }
                    assert_eq!(child.remove().await, Ok(()));
                    jot(&seen, "removed");
                    cx_later.add_child(ChildNode::new("room")).unwrap().detach();
                    jot(&seen, "added again");
                });
                drop(living.unwrap());
            }),
            role(&name, move |cx| async move {
                let gone = stopping;
                let pending = cx.dispatcher().post_after(Duration::from_secs(3600), move |outcome| {
                    assert!(outcome.is_err());
                    jot(&gone, "lodger canceled");
                });
                drop(pending.unwrap());
                jot(&starting, "lodger started");
            })
            .on("room"),
        ]);
        world.started(&host).unwrap();
        world.until("the name is free again", || lines(&notes).len() == 4);
        assert_eq!(lines(&notes), ["lodger started", "lodger canceled", "removed", "added again"]);
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), []);
    }
}

#[test]
fn a_connector_that_panics_costs_the_driver_that_offers_it() {
    for world in worlds() {
        let connected = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&connected);
        let (parent, other) = (world.name("trap"), world.name("innocent"));
        let host = world.play(vec![
            role(&other, |_| async {}),
            role(&parent, |cx| async move {
                let child = ChildNode::new("trap").property("kind", "trap");
                cx.add_child(child.service("trap", |_| panic!("a trap"))).unwrap().detach();
            }),
            role(world.name("victim"), move |cx| async move {
                let later = cx.dispatcher().spawn(async move {
                    sleep(Duration::from_secs(1)).await.unwrap();
                    let channel = cx.node().connect("trap").await;
                    *keep.lock().unwrap() = Some(channel.map(|_| ()));
                });
                drop(later.unwrap());
            })
            .on("trap"),
        ]);
        world.started(&host).unwrap();
        world.until("parent and victim are gone", || host.summary().drivers().len() == 2);
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), [(&*parent, "panicked: a trap")]);
        assert_eq!(summary.drivers().len(), 3);
    }
}
