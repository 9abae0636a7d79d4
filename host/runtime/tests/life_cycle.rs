//! The life cycle on real runtimes. Goal: hooks come in order and once, failures stay where they are, and every end is
//! an end. Method: probes that write down what happens to them, each story on threads and in the foreground.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{HANG_LIMIT, Part, World, failures, journal, worlds};
use fuchsine_host::{HostEvent, HostState, Manifest, NotStarted, Phase, Registry, Source};

#[test]
fn children_start_after_parents_and_stop_before_them_hook_by_hook() {
    for world in worlds() {
        let book = world.journal("order");
        let host = world.host(&book, &[Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), "")]);
        assert_eq!(world.started(&host), Ok(vec![]));
        let summary = world.stop(&host);
        assert_eq!(
            journal(&book),
            [
                "disk start",
                "nbd start",
                "nbd prepare_stop",
                "nbd stop",
                "nbd dropped",
                "disk prepare_stop",
                "disk stop",
                "disk dropped"
            ]
        );
        assert!(!summary.has_failed());
        assert_eq!(summary.drivers().iter().map(|driver| driver.node()).collect::<Vec<_>>(), ["/disk/block", "/disk"]);
        assert_eq!(host.state(), HostState::Stopped);
    }
}

#[test]
fn hooks_may_take_their_time() {
    for world in worlds() {
        let book = world.journal("later");
        let later = "start = \"later\"\nprepare = \"later\"\nstop = \"later\"\nchild = \"block\"";
        let host = world.host(&book, &[Part("disk", None, later), Part("nbd", Some("block"), "start = \"later\"")]);
        assert!(world.started(&host).is_ok());
        assert!(!world.stop(&host).has_failed());
        assert_eq!(journal(&book).len(), 8);
    }
}

#[test]
fn addresses_are_told_in_the_order_of_the_drivers() {
    for world in worlds() {
        let book = world.journal("addresses");
        let parts = [Part("a", None, "start = \"later\"\naddress = \"x://a\""), Part("b", None, "address = \"x://b\"")];
        let host = world.host(&book, &parts);
        assert_eq!(world.started(&host), Ok(vec!["x://a".to_owned(), "x://b".to_owned()]));
        world.stop(&host);
    }
}

#[test]
fn a_failed_start_is_told_in_one_sentence_and_what_did_start_is_unwound() {
    for world in worlds() {
        let book = world.journal("start fails");
        let parts = [
            Part("a", None, ""),
            Part("disk", None, "child = \"block\""),
            Part("nbd", Some("block"), "start = \"fail\""),
        ];
        let host = world.host(&book, &parts);
        let error = world.started(&host).unwrap_err();
        assert_eq!(error.to_string(), "driver `nbd` failed to start: no luck in start");
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), [("nbd", "failed to start: no luck in start")]);
        let lines = journal(&book);
        assert!(!lines.contains(&"nbd prepare_stop".to_owned()) && !lines.contains(&"nbd stop".to_owned()));
        for driver in ["a", "disk"] {
            let of_it: Vec<_> = lines.iter().filter(|line| line.starts_with(&format!("{driver} "))).collect();
            let hooks = ["start", "prepare_stop", "stop", "dropped"].map(|hook| format!("{driver} {hook}"));
            assert_eq!(of_it, hooks.iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_start_that_fails_after_it_has_added_a_child_takes_the_child_along() {
    for world in worlds() {
        let book = world.journal("child of a failed start");
        let parts = [Part("disk", None, "child = \"block\"\nstart = \"fail\""), Part("nbd", Some("block"), "")];
        let host = world.host(&book, &parts);
        assert!(matches!(world.started(&host), Err(NotStarted::Failed { driver, .. }) if driver == "disk"));
        world.stop(&host);
        assert_eq!(journal(&book), ["disk start"], "nobody was bound to the child");
    }
}

#[test]
fn a_panic_in_start_is_a_failed_start() {
    for world in worlds() {
        let book = world.journal("panic in start");
        let host = world.host(&book, &[Part("a", None, ""), Part("b", None, "start = \"panic\"")]);
        let error = world.started(&host).unwrap_err();
        assert_eq!(error.to_string(), "driver `b` panicked: a panic in start");
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), [("b", "panicked: a panic in start")]);
        assert!(journal(&book).contains(&"a stop".to_owned()));
    }
}

#[test]
fn a_panic_in_prepare_stop_skips_the_stop_and_touches_nobody_else() {
    for world in worlds() {
        let book = world.journal("panic in prepare_stop");
        let parts = [Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), "prepare = \"panic\"")];
        let host = world.host(&book, &parts);
        world.started(&host).unwrap();
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), [("nbd", "panicked: a panic in prepare_stop")]);
        assert_eq!(
            journal(&book)[2..],
            ["nbd prepare_stop", "nbd dropped", "disk prepare_stop", "disk stop", "disk dropped"]
        );
    }
}

#[test]
fn a_panic_in_stop_is_a_failure_and_touches_nobody_else() {
    for world in worlds() {
        let book = world.journal("panic in stop");
        let parts = [Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), "stop = \"panic\"")];
        let host = world.host(&book, &parts);
        world.started(&host).unwrap();
        let summary = world.stop(&host);
        assert_eq!(failures(&summary), [("nbd", "panicked: a panic in stop")]);
        assert_eq!(
            journal(&book)[2..],
            ["nbd prepare_stop", "nbd stop", "nbd dropped", "disk prepare_stop", "disk stop", "disk dropped"]
        );
    }
}

#[test]
fn a_failed_stop_hook_counts_as_a_failure_and_the_stop_goes_on() {
    for world in worlds() {
        let book = world.journal("failed stop hooks");
        let host = world.host(&book, &[Part("a", None, "prepare = \"fail\""), Part("b", None, "stop = \"fail\"")]);
        world.started(&host).unwrap();
        let summary = world.stop(&host);
        let mut failed = failures(&summary);
        failed.sort();
        assert_eq!(
            failed,
            [("a", "did not stop well: no luck in prepare_stop"), ("b", "did not stop well: no luck in stop")]
        );
        assert_eq!(journal(&book).len(), 8, "all hooks of both were called");
    }
}

#[test]
fn a_panic_in_a_task_takes_down_the_driver_and_its_children_only() {
    for world in worlds() {
        let book = world.journal("panic in a task");
        let parts = [
            Part("other", None, "then = \"nothing\""),
            Part("disk", None, "child = \"block\"\nthen = \"panic\""),
            Part("nbd", Some("block"), ""),
        ];
        let host = world.host(&book, &parts);
        world.started(&host).unwrap();
        world.until("disk and nbd are gone", || host.summary().drivers().len() == 2);
        assert_eq!(host.state(), HostState::Running);
        assert_eq!(failures(&host.summary()), [("disk", "panicked: disk panics in a task")]);
        let lines = journal(&book);
        let of_nbd: Vec<_> = lines.iter().filter(|line| line.starts_with("nbd ")).collect();
        assert_eq!(of_nbd, ["nbd start", "nbd prepare_stop", "nbd stop", "nbd dropped"]);
        let of_disk: Vec<_> = lines.iter().filter(|line| line.starts_with("disk ")).collect();
        assert_eq!(of_disk, ["disk start", "disk dropped"], "no hook of a broken driver is called");
        let dropped = |name: &str| lines.iter().position(|line| line == name);
        assert!(dropped("nbd dropped") < dropped("disk dropped"));
        assert!(!lines.contains(&"other prepare_stop".to_owned()), "{lines:?}");
        world.stop(&host);
        assert!(journal(&book).contains(&"other stop".to_owned()));
    }
}

#[test]
fn a_driver_that_cannot_go_on_is_stopped_in_order_and_counts_as_failed() {
    for world in worlds() {
        let book = world.journal("cannot go on");
        let parts = [
            Part("other", None, ""),
            Part("disk", None, "child = \"block\"\nthen = \"fail\""),
            Part("nbd", Some("block"), ""),
        ];
        let host = world.host(&book, &parts);
        world.started(&host).unwrap();
        world.until("disk and nbd are gone", || host.summary().drivers().len() == 2);
        assert_eq!(failures(&host.summary()), [("disk", "cannot go on: the device is gone")]);
        world.stop(&host);
        let lines = journal(&book);
        let of_disk: Vec<_> = lines.iter().filter(|line| line.starts_with("disk ")).collect();
        assert_eq!(of_disk, ["disk start", "disk prepare_stop", "disk stop", "disk dropped"]);
    }
}

#[test]
fn a_host_whose_last_driver_fails_stops_by_itself() {
    for world in worlds() {
        let book = world.journal("last driver");
        let host = world.host(&book, &[Part("disk", None, "then = \"panic\"")]);
        world.started(&host).unwrap();
        world.until("the host has stopped", || host.state() == HostState::Stopped);
        assert!(world.stop(&host).has_failed());
    }
}

#[test]
fn what_is_pending_at_the_stop_is_told_that_it_is_canceled() {
    for world in worlds() {
        let book = world.journal("pending");
        let host = world.host(&book, &[Part("disk", None, "then = \"nothing\"\nprepare = \"later\"")]);
        world.started(&host).unwrap();
        let summary = world.stop(&host);
        assert_eq!(journal(&book), ["disk start", "disk prepare_stop", "disk canceled", "disk stop", "disk dropped"]);
        assert_eq!(summary.drivers()[0].counters().canceled, 1);
    }
}

#[test]
fn a_node_that_appears_later_is_bound_when_it_does() {
    for world in worlds() {
        let book = world.journal("late node");
        let host = world.host(&book, &[Part("disk", None, "then = \"block\""), Part("nbd", Some("block"), "")]);
        assert_eq!(world.started(&host), Ok(vec![]), "it waits for the node");
        assert_eq!(journal(&book), ["disk start", "nbd start"]);
        let summary = world.stop(&host);
        assert_eq!(summary.drivers()[0].node(), "/disk/late");
    }
}

#[test]
fn one_rule_is_bound_to_every_node_that_matches() {
    for world in worlds() {
        let book = world.journal("many nodes");
        let parts = [
            Part("a", None, "child = \"block\""),
            Part("b", None, "child = \"block\""),
            Part("nbd", Some("block"), ""),
        ];
        let host = world.host(&book, &parts);
        world.started(&host).unwrap();
        world.until("both are there", || journal_has(&book, "nbd start", 2));
        let summary = world.stop(&host);
        let mut nodes: Vec<_> = summary.drivers().iter().map(|driver| driver.node().to_owned()).collect();
        nodes.sort();
        assert_eq!(nodes, ["/a", "/a/block", "/b", "/b/block"]);
        journal(&book);
    }
}

/// Whether a line is in the journal so many times; the journal stays.
fn journal_has(book: &str, line: &str, times: usize) -> bool {
    let lines = journal(book);
    let count = lines.iter().filter(|found| *found == line).count();
    lines.into_iter().for_each(|line| common::note(book, line));
    count >= times
}

#[test]
fn a_stop_that_comes_while_a_driver_starts_waits_for_its_start() {
    for world in worlds() {
        let book = world.journal("stop during start");
        let host = world.host(&book, &[Part("disk", None, "start = \"later\"")]);
        host.begin_stop();
        assert!(matches!(world.started(&host), Err(NotStarted::Stopped)));
        assert!(!world.stop(&host).has_failed());
        assert_eq!(journal(&book), ["disk start", "disk prepare_stop", "disk stop", "disk dropped"]);
    }
}

#[test]
fn a_stop_that_does_not_end_in_time_says_who_is_waited_for() {
    for (config, phase, words) in [
        ("start = \"hang\"", Phase::Starting, "its start to end"),
        ("prepare = \"hang\"", Phase::PreparingStop, "its prepare_stop to end"),
        ("stop = \"hang\"", Phase::Stopping, "its stop to end"),
    ] {
        let world = World::Threads;
        let book = format!("hangs: {config}");
        let host = world.host(&book, &[Part("fine", None, ""), Part("disk", None, config)]);
        if phase == Phase::Starting {
            let waiting_for = vec!["disk".to_owned()];
            world.until("fine has started", || {
                host.wait_started(Duration::ZERO) == Err(NotStarted::TimedOut { waiting_for: waiting_for.clone() })
            });
        } else {
            world.started(&host).unwrap();
        }
        // The time does not matter: a hang never ends.
        let error = world_stop_error(&host);
        let waiting = error.waiting();
        assert_eq!(waiting.len(), 1, "{error}");
        assert_eq!((waiting[0].driver(), waiting[0].node(), waiting[0].phase()), ("disk", "/disk", phase));
        let text = error.to_string();
        assert!(text.contains(&format!("driver `disk` on /disk: waiting for {words}")), "{text}");
        assert_eq!(error.summary().drivers().len(), 1, "the other one has stopped: {text}");
        journal(&book);
    }
}

/// Stops a host of which one driver hangs, until only that one is left.
fn world_stop_error(host: &fuchsine_host::Host) -> fuchsine_host::StopError {
    loop {
        let error = host.stop(Duration::from_millis(50)).expect_err("a driver hangs");
        if error.summary().drivers().len() == 1 {
            return error;
        }
    }
}

#[test]
fn a_host_that_is_dropped_still_comes_to_its_orderly_end() {
    let book = "dropped";
    let (sender, events) = mpsc::channel();
    let manifest = common::manifest(book, &[Part("disk", None, "prepare = \"later\"\nstop = \"later\"")]);
    let registry = Registry::new([common::entry()]).unwrap();
    let plan = Manifest::parse(Source::named("test", manifest)).unwrap().plan(&registry).unwrap();
    let host =
        fuchsine_host::Host::builder(plan).observer(move |event| sender.send(event).unwrap_or(())).build().unwrap();
    host.start();
    assert_eq!(events.recv_timeout(HANG_LIMIT), Ok(HostEvent::Started { addresses: vec![] }));
    drop(host);
    assert_eq!(events.recv_timeout(HANG_LIMIT), Ok(HostEvent::Stopping));
    assert_eq!(events.recv_timeout(HANG_LIMIT), Ok(HostEvent::Stopped));
    assert_eq!(journal(book), ["disk start", "disk prepare_stop", "disk stop", "disk dropped"]);
}

/// Five drivers on a runtime whose pool has so many threads, and may have `extra` more for callbacks that block.
fn stop_with_extra_threads(extra: usize) -> (fuchsine_host::Summary, Vec<String>) {
    let book = format!("extra threads: {extra}");
    let parts = ["a", "b", "c", "d", "e"].map(|name| Part(name, None, "stop = \"later\""));
    let plan = Manifest::parse(Source::named("test", common::manifest(&book, &parts)))
        .unwrap()
        .plan(&Registry::new([common::entry()]).unwrap())
        .unwrap();
    let runtime = fuchsine_dispatcher::RuntimeBuilder::new().threads(2).thread_limit(2 + extra).build().unwrap();
    let host = fuchsine_host::Host::builder(plan).runtime(runtime.clone()).build().unwrap();
    host.start();
    host.wait_started(HANG_LIMIT).unwrap();
    let summary = World::Threads.stop(&host);
    runtime.shutdown(HANG_LIMIT).unwrap();
    (summary, journal(&book))
}

#[test]
fn stops_that_find_no_thread_to_block_on_wait_for_each_other() {
    let (summary, lines) = stop_with_extra_threads(1);
    assert_eq!(failures(&summary), []);
    assert_eq!(lines.iter().filter(|line| line.ends_with(" stop")).count(), 5, "{lines:?}");
}

#[test]
fn a_stop_that_can_never_have_a_thread_of_its_own_is_called_all_the_same() {
    let (summary, lines) = stop_with_extra_threads(0);
    assert_eq!(failures(&summary), []);
    assert_eq!(lines.iter().filter(|line| line.ends_with(" stop")).count(), 5, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(" dropped")).count(), 5, "{lines:?}");
}

/// A small generator, so that every run does the same.
struct Seeded(u64);

impl Seeded {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from[(self.0 % from.len() as u64) as usize]
    }
}

#[test]
fn whatever_drivers_do_the_host_comes_to_its_end_with_every_hook_called_at_most_once() {
    for seed in 1..=40_u64 {
        for world in worlds() {
            let mut random = Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let book = world.journal(&format!("random {seed}"));
            let hook = ["ok", "ok", "ok", "later", "later", "fail", "panic"];
            let mut config = |child: &str| -> &'static str {
                let (start, prepare, stop) = (random.pick(&hook), random.pick(&hook), random.pick(&hook));
                let then = random.pick(&["", "", "panic", "fail", "late"]);
                let text =
                    format!("start = {start:?}\nprepare = {prepare:?}\nstop = {stop:?}\nthen = {then:?}\n{child}");
                Box::leak(text.into_boxed_str())
            };
            let parts = [
                Part("a", None, config("child = \"x\"")),
                Part("b", None, config("child = \"y\"")),
                Part("c", None, config("")),
                Part("x", Some("x"), config("child = \"z\"")),
                Part("y", Some("y"), config("")),
                Part("z", Some("z"), config("")),
            ];
            let host = world.host(&book, &parts);
            match random.pick(&[0, 1, 2]) {
                0 => {}
                1 => world.settle(),
                _ => drop(world.started(&host)),
            }
            world.stop(&host);
            let lines = journal(&book);
            let mut once = lines.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), lines.len(), "seed {seed}: something happened twice: {lines:?}");
            let at = |line: String| lines.iter().position(|found| *found == line);
            for (child, parent) in [("x", "a"), ("z", "x"), ("y", "b")] {
                let stopped = at(format!("{parent} prepare_stop"));
                if let (Some(dropped), Some(stopped)) = (at(format!("{child} dropped")), stopped) {
                    assert!(dropped < stopped, "seed {seed}: {parent} stopped before {child}: {lines:?}");
                }
            }
        }
    }
}
