//! Waits for readiness on a loop: once, each time, and what is refused.

mod loop_support;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use fuchsine_dispatcher::event_loop::{EventLoop, Wait};
use fuchsine_dispatcher::{Interest, Status};
use loop_support::{Log, run_one, shutdown};

/// Two connected sockets that do not block.
fn pair() -> (Rc<UnixStream>, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (Rc::new(near), far)
}

/// Shuts down when everything that is ready now has been told.
fn finish_soon(event_loop: &EventLoop) {
    let timer = event_loop.timer(|event_loop, _| shutdown(event_loop));
    timer.once(std::time::Duration::from_millis(2)).unwrap();
    timer.detach();
}

#[test]
fn a_wait_for_once_is_called_once_also_for_what_is_ready_already() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (near, mut far) = pair();
        far.write_all(b"xy").unwrap();
        let wait = event_loop.wait_once(&*near, Interest::READABLE, move |event_loop, ready| {
            assert!(ready.is_readable());
            entries.add("called");
            finish_soon(event_loop);
        });
        let wait = wait.unwrap();
        assert!(wait.is_armed());
        // Nothing is read, and more comes: it is over all the same.
        event_loop
            .teardown(move |_| {
                assert!(!wait.is_armed());
                drop((near, far));
            })
            .unwrap();
    });
    assert_eq!(log.text(), "called");
}

#[test]
fn a_wait_for_each_time_is_called_until_nothing_is_left_and_again_when_more_comes() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (near, mut far) = pair();
        far.write_all(b"abc").unwrap();
        let mut reader = near.try_clone().unwrap();
        let mut rounds = 0;
        let wait = event_loop.wait(&*near, Interest::READABLE, move |event_loop, _| {
            let mut byte = [0];
            reader.read_exact(&mut byte).expect("there is something to read whenever this is called");
            entries.add(char::from(byte[0]));
            rounds += 1;
            if rounds == 3 {
                let far = RefCell::new(far.try_clone().unwrap());
                let more = event_loop.timer(move |_, _| far.borrow_mut().write_all(b"d").unwrap());
                more.once(std::time::Duration::from_millis(1)).unwrap();
                more.detach();
            }
            if rounds == 4 {
                finish_soon(event_loop);
            }
        });
        let wait = wait.unwrap();
        event_loop.teardown(move |_| drop((wait, near))).unwrap();
    });
    assert_eq!(log.text(), "a b c d");
}

#[test]
fn a_dropped_wait_is_not_called_and_may_be_dropped_by_its_own_callback() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (near, far) = pair();
        let never = event_loop.wait(&*near, Interest::WRITABLE, |_, _| unreachable!("it was dropped")).unwrap();
        drop(never);
        let own: Rc<RefCell<Option<Wait>>> = Rc::default();
        let reached = own.clone();
        let wait = event_loop.wait(&*near, Interest::WRITABLE, move |event_loop, ready| {
            assert!(ready.is_writable());
            entries.add("once");
            drop(reached.borrow_mut().take());
            finish_soon(event_loop);
        });
        *own.borrow_mut() = Some(wait.unwrap());
        event_loop.teardown(move |_| drop((near, far))).unwrap();
    });
    assert_eq!(log.text(), "once");
}

#[test]
fn reader_and_writer_of_one_socket_wait_apart() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (near, mut far) = pair();
        let (read, written) = (entries.clone(), entries);
        let kept = near.clone();
        let reader = event_loop.wait_once(&*near, Interest::READABLE, move |event_loop, _| {
            read.add("readable");
            drop(kept);
            shutdown(event_loop);
        });
        let writer = event_loop.wait_once(&*near, Interest::WRITABLE, move |_, _| {
            written.add("writable");
            far.write_all(b"x").unwrap();
        });
        reader.unwrap().detach();
        writer.unwrap().detach();
    });
    assert_eq!(log.text(), "writable readable");
}

#[test]
fn hangup_is_told() {
    run_one(|event_loop| {
        let (near, far) = pair();
        drop(far);
        let kept = near.clone();
        let wait = event_loop.wait_once(&*near, Interest::READABLE, move |event_loop, ready| {
            assert!(ready.is_readable() && ready.is_hangup());
            drop(kept);
            shutdown(event_loop);
        });
        wait.unwrap().detach();
    });
}

#[test]
fn a_regular_file_is_refused_with_a_pointer_to_offload_and_the_callback_comes_back() {
    run_one(|event_loop| {
        let file = tempfile::tempfile().unwrap();
        let refused = event_loop.wait_once(&file, Interest::READABLE, |_, _| unreachable!("refused")).unwrap_err();
        assert_eq!(refused.status(), Status::NotSupported);
        assert!(refused.to_string().contains("`offload`"), "{refused}");
        let _callback = refused.into_inner();
        shutdown(event_loop);
    });
}

#[test]
fn a_wait_for_each_time_whose_descriptor_cannot_be_waited_on_any_more_ends_with_an_error() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        let near = OwnedFd::from(Rc::into_inner(near).expect("nobody else has it"));
        let socket = Rc::new(RefCell::new(near));
        let (replaced, mut calls) = (socket.clone(), 0);
        let borrowed = socket.borrow();
        let waited = event_loop.wait(&*borrowed, Interest::READABLE, move |event_loop, ready| {
            calls += 1;
            if calls == 1 {
                entries.add("readable");
                // Closes the socket and puts a regular file under its number, in one step.
                rustix::io::dup2(tempfile::tempfile().unwrap(), &mut replaced.borrow_mut()).unwrap();
            } else {
                assert!(ready.is_error() && ready.is_hangup());
                entries.add("lost");
                shutdown(event_loop);
            }
        });
        drop(borrowed);
        let wait = waited.unwrap();
        event_loop.teardown(move |_| drop((wait, socket, far))).unwrap();
    });
    assert_eq!(log.text(), "readable lost");
}

#[test]
fn a_socket_that_is_always_ready_starves_neither_posts_nor_timers() {
    run_one(|event_loop| {
        let (near, far) = pair();
        let busy = event_loop.wait(&*near, Interest::WRITABLE, |_, _| {}).unwrap();
        let timer = event_loop.timer(|event_loop, _| event_loop.async_run(shutdown).unwrap());
        timer.once(std::time::Duration::from_millis(3)).unwrap();
        timer.detach();
        event_loop.teardown(move |_| drop((busy, near, far))).unwrap();
    });
}
