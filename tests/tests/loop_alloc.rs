//! What a loop promises to do without the allocator. Method: the same run with few and with many rounds allocates
//! the same number of times. What is counted is what the test's own thread allocates.

mod loop_support;

use std::cell::RefCell;
use std::rc::Rc;

use fuchsine_dispatcher::event_loop::{EventLoop, Job};
use loop_support::{loops, shutdown};

/// Runs a loop on this thread in which eight jobs arm each other for so many rounds; answers how often this thread allocated.
fn allocations(rounds: u32) -> u64 {
    let manager = loops(1).setup(0, move |event_loop| arm_each_other(event_loop, rounds)).build().unwrap();
    let counted = allocation_counter::measure(|| assert_eq!(manager.run().unwrap().panics(), 0));
    counted.count_total
}

fn arm_each_other(event_loop: &EventLoop, rounds: u32) {
    let ring: Rc<RefCell<Vec<Job>>> = Rc::default();
    let jobs = (0..8).map(|nth| {
        let (ring, mut left) = (ring.clone(), rounds);
        event_loop.job(move |event_loop| {
            left -= 1;
            if left == 0 {
                return if nth == 7 {
                    shutdown(event_loop)
                };
            }
            let ring = ring.borrow();
            // Itself, and there and back for a neighbour that waits in the same drain.
            ring[nth].arm().unwrap();
            let next = &ring[(nth + 1) % 8];
            if next.disarm() {
                next.arm().unwrap();
            }
        })
    });
    let jobs: Vec<_> = jobs.collect();
    jobs.iter().for_each(|job| job.arm().unwrap());
    ring.borrow_mut().extend(jobs);
    event_loop.teardown(move |_| ring.borrow_mut().clear()).unwrap();
}

/// Shows J1.
#[test]
fn jobs_and_idle_iterations_allocate_nothing() {
    // The first run pays for what is made once a thread.
    allocations(2);
    assert_eq!(allocations(10), allocations(1_000));
}

/// How often a thread allocates for so many posts, and how many bytes, each with this closure, to a loop that is busy
/// meanwhile, so that no memory is used again.
fn allocations_of_posts<F, C>(posts: u64, closure: C) -> (u64, u64)
where
    F: FnOnce(&EventLoop) + Send + 'static,
    C: Fn() -> F + Send + 'static,
{
    let running = loops(1).build().unwrap().spawn().unwrap();
    let handle = running.handle().event_loop(0).unwrap();
    let (is_busy, go_on) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let busy = move |_: &EventLoop| {
        is_busy.0.send(()).unwrap();
        go_on.1.recv().unwrap();
    };
    handle.async_run(busy).unwrap();
    is_busy.1.recv().unwrap();
    // On a thread of its own, which has kept no memory from before.
    let post = move || (0..posts).for_each(|_| handle.async_run(closure()).unwrap());
    let counted = std::thread::spawn(move || allocation_counter::measure(post)).join().unwrap();
    go_on.0.send(()).unwrap();
    running.handle().shutdown();
    running.join();
    (counted.count_total, counted.bytes_total)
}

/// Shows A4, E29.
#[test]
fn a_hundred_posts_share_an_allocation_and_a_small_closure_lies_inside_of_it() {
    let three_words = [1usize; 3];
    assert_eq!(allocations_of_posts(100, move || move |_: &EventLoop| assert_eq!(three_words[2], 1)).0, 1);
    let four_words = [1usize; 4];
    assert_eq!(allocations_of_posts(100, move || move |_: &EventLoop| assert_eq!(four_words[3], 1)).0, 101);
}

/// What counts is all that a queued callback takes, with its part of the memory that many share.
///
/// Shows A4.
#[test]
fn a_queued_callback_takes_41_bytes_and_one_with_four_words_32_more() {
    const POSTS: u64 = 100_000;
    let bytes = |(_, bytes): (u64, u64)| bytes.div_ceil(POSTS);
    assert_eq!(bytes(allocations_of_posts(POSTS, || |_: &EventLoop| {})), 41);
    let (three_words, four_words) = ([1usize; 3], [1usize; 4]);
    let three = allocations_of_posts(POSTS, move || move |_: &EventLoop| assert_eq!(three_words[2], 1));
    assert_eq!(bytes(three), 41);
    let four = allocations_of_posts(POSTS, move || move |_: &EventLoop| assert_eq!(four_words[3], 1));
    assert_eq!(bytes(four), 41 + 32);
}

fn posted(rounds: u32) -> u64 {
    fn hop(event_loop: &EventLoop, left: u32) {
        match left {
            0 => shutdown(event_loop),
            left => event_loop.async_run(move |event_loop| hop(event_loop, left - 1)).unwrap(),
        }
    }
    let manager = loops(1).setup(0, move |event_loop| hop(event_loop, rounds)).build().unwrap();
    let counted = allocation_counter::measure(|| assert_eq!(manager.run().unwrap().panics(), 0));
    counted.count_total
}

/// Shows E29.
#[test]
fn small_posts_use_the_memory_of_those_that_have_run() {
    posted(10);
    assert_eq!(posted(10), posted(1_000));
}
