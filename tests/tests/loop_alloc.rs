//! What a loop promises to do without the allocator. Method: the same run with few and with many rounds allocates
/// How often a thread allocates for so many posts, each with this closure, to a loop that is busy meanwhile and so gives
/// no memory back.
fn allocations_of_posts<F, C>(posts: u64, closure: C) -> u64
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
    counted.count_total
}

/// Shows A4, E29.
#[test]
fn a_post_allocates_its_node_and_a_small_closure_lies_inside_of_it() {
    let three_words = [1usize; 3];
    assert_eq!(allocations_of_posts(100, move || move |_: &EventLoop| assert_eq!(three_words[2], 1)), 100);
    let four_words = [1usize; 4];
    assert_eq!(allocations_of_posts(100, move || move |_: &EventLoop| assert_eq!(four_words[3], 1)), 200);
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
