//! Goal: the harness drives a driver as its host, its parent, its children and its clients would, and tells what is wrong
//! with it in sentences.
//! Method: each test body runs on a foreground runtime and on threads.

use std::sync::mpsc;
use std::time::Duration;

use fuchsine_driver::net::Listener;
use fuchsine_driver::{
    Channel, ChildNode, ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, Message, StartError, Status,
    StopError, sleep, spawn,
};
use fuchsine_testing::{ForegroundRuntime, Harness, HarnessBuilder, Phase, Place, Problem, Received};
use serde::Deserialize;

/// What it does depends on its configuration.
struct Subject {
    config: Config,
    _child: Option<fuchsine_driver::Child>,
}

#[derive(Deserialize)]
struct Config {
    mode: String,
}

impl Driver for Subject {
    const NAME: &'static str = "subject";
    const CONFIG: &'static [ConfigKey] = &[ConfigKey::optional("mode", ConfigKind::Text, "", "what it does")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        cx.logger().with("mode", &config.mode).info("starts");
        let mut child = None;
        match config.mode.as_str() {
            "slow" => sleep(Duration::from_millis(5)).await?,
            "fails" => return Err(StartError::new(Status::IoNotPresent, "the device is not there")),
            "panics" => panic!("a mistake"),
            "waits for ever" => std::future::pending().await,
            "echoes to its parent" => {
                let channel = cx.node().connect("line").await?;
                spawn(echo(channel))?;
            }
            "echoes to its children" => {
                let node = ChildNode::new("port").property("kind", "echo").service("echo", |channel| {
                    let _ = spawn(echo(channel));
                });
                child = Some(cx.add_child(node)?);
            }
            "echoes to the world" => {
                let listener = Listener::bind("127.0.0.1:0")?;
                cx.publish_address(&format!("echo://{}/it", listener.local_address()))?;
                spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        let mut buffer = [0; 64];
                        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                            let _ = stream.write_all(&buffer[..count]).await;
                        }
                    }
                })?;
            }
            "panics later" => {
                drop(cx.dispatcher().post_after(Duration::from_millis(1), |_| panic!("a late mistake")));
            }
            _ => {}
        }
        Ok(Subject { config, _child: child })
    }

    async fn stop(self) -> Result<(), StopError> {
        match self.config.mode.as_str() {
            "fails to stop" => Err(StopError::new(Status::Io, "the disk is full")),
            "hangs in stop" => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

async fn echo(channel: Channel) -> Result<(), Status> {
    loop {
        channel.write(channel.read().await?)?;
    }
}

static SUBJECT: DriverEntry = DriverEntry::of::<Subject>();

fn subject(mode: &str) -> HarnessBuilder {
    Harness::builder(&SUBJECT).config(format!("mode = {mode:?}"))
}

fn in_each_place(test: impl Fn(Place<'_>)) {
    test(Place::Foreground(&ForegroundRuntime::new()));
    test(Place::Threads);
}

#[test]
fn a_driver_that_takes_its_time_is_started_and_stopped() {
    in_each_place(|place| {
        let harness = subject("slow").start(place).unwrap();
        assert_eq!(harness.phase(), Some(Phase::Running));
        assert_eq!(harness.lines(), ["INFO subject: starts mode=slow"]);
        let summary = harness.stop().unwrap();
        assert_eq!((summary.driver(), summary.node()), ("subject", "/test-parent/test"));
    });
}

#[test]
fn peers_on_both_sides_say_and_hear() {
    in_each_place(|place| {
        let harness = subject("echoes to its parent").service("line").start(place).unwrap();
        let line = harness.accept("line").expect("the driver connects");
        line.send(b"one");
        line.send(b"two");
        line.expect(b"one");
        line.expect(b"two");
        harness.stop().unwrap();
        line.expect_closed();
        assert!(!line.send(b"three"));

        let harness = subject("echoes to its children").children([("kind", "echo")]).start(place).unwrap();
        assert_eq!(harness.node_names(), ["port"]);
        let line = harness.connect_child("port", "echo").unwrap();
        line.send(b"one");
        line.expect(b"one");
        assert_eq!(harness.connect_child("port", "noise").unwrap_err(), Status::NotFound);
        harness.stop().unwrap();
        line.expect_closed();
    });
}

#[test]
fn a_service_may_be_served_by_code_of_the_test_on_the_parents_dispatcher() {
    in_each_place(|place| {
        let (sender, receiver) = mpsc::channel();
        let greet = move |channel: Channel| {
            let sender = sender.clone();
            let greeted = spawn(async move {
                channel.write(Message::from_bytes(b"hello")?)?;
                let _ = sender.send(channel.read().await?.bytes().to_vec());
                Ok::<(), Status>(())
            });
            drop(greeted.expect("the parent runs"));
        };
        let harness = subject("echoes to its parent").serve("line", greet).start(place).unwrap();
        let mut heard = None;
        assert!(harness.run_until(|| {
            heard = heard.take().or_else(|| receiver.try_recv().ok());
            heard.is_some()
        }));
        assert_eq!(heard.as_deref(), Some(&b"hello"[..]));
        harness.stop().unwrap();
    });
}

#[test]
fn clients_reach_the_driver_at_the_address_that_it_published() {
    in_each_place(|place| {
        let harness = subject("echoes to the world").start(place).unwrap();
        let client = harness.connect().unwrap();
        assert_eq!(client.send(b"hello"), 5);
        client.expect(b"hello");
        assert!(!client.is_closed());
        harness.stop().unwrap();
        client.expect_closed();
    });
}

#[test]
fn a_driver_can_be_started_again_in_the_same_place() {
    in_each_place(|place| {
        let harness = subject("echoes to its parent").service("line").start(place).unwrap();
        let harness = harness.restart().unwrap();
        let line = harness.accept("line").expect("it connects once more");
        line.send(b"again");
        line.expect(b"again");
        assert_eq!(harness.lines().len(), 2);
        harness.stop().unwrap();
    });
}

#[test]
fn what_is_wrong_with_a_driver_is_told_in_sentences() {
    in_each_place(|place| {
        let start = |mode: &str| subject(mode).start(place).unwrap_err().to_string();
        assert_eq!(start("fails"), "driver `subject` did not start: the device is not there");
        assert_eq!(start("panics"), "driver `subject` did not start: panicked: a mistake");
        let stop = |mode: &str| subject(mode).start(place).unwrap().stop().unwrap_err().to_string();
        assert_eq!(stop("fails to stop"), "driver `subject` did not stop well: the disk is full");
        let harness = subject("panics later").start(place).unwrap();
        harness.run_until(|| harness.phase() != Some(Phase::Running));
        let problem = harness.stop().unwrap_err();
        assert!(matches!(&problem, Problem::Failed { reason, .. } if reason.contains("a late mistake")), "{problem}");
        let problem = Harness::builder(&SUBJECT).config("mood = \"good\"").start(place).unwrap_err();
        assert!(matches!(&problem, Problem::Setup(text) if text.contains("mood")), "{problem}");
    });
}

#[test]
fn a_driver_that_hangs_is_reported_with_what_is_waited_for() {
    let runtime = ForegroundRuntime::new();
    let problem = subject("waits for ever").start(&runtime).unwrap_err().to_string();
    assert!(problem.starts_with("driver `subject` did not start: nothing is left that it could wait for"), "{problem}");
    let problem = subject("hangs in stop").start(&runtime).unwrap().stop().unwrap_err().to_string();
    assert!(problem.contains("driver `subject` on /test-parent/test: waiting for its stop to end"), "{problem}");
}

#[test]
fn a_peer_says_what_was_expected_and_what_came() {
    let runtime = ForegroundRuntime::new();
    let harness = subject("echoes to its parent").service("line").start(&runtime).unwrap();
    let line = harness.accept("line").unwrap();
    assert!(matches!(line.receive(), Received::Nothing));
    line.send(b"\x01\x02");
    let said = |test: &dyn Fn()| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };
    let service = "service `line` of the parent of `subject`";
    assert_eq!(said(&|| line.expect(b"one")), format!("{service}: expected the message \"one\", but [1, 2] came"));
    let nothing = "nothing is left that could still happen without time passing";
    assert_eq!(said(&|| line.expect(b"x")), format!("{service}: expected the message \"x\", but none came: {nothing}"));
    assert_eq!(said(&|| line.expect_closed()), format!("{service}: expected the channel to be closed: {nothing}"));
    assert!(harness.accept("line").is_none());
    harness.stop().unwrap();
}

#[test]
fn a_harness_that_was_forgotten_stops_its_driver_and_says_what_was_wrong() {
    let runtime = ForegroundRuntime::new();
    let harness = subject("echoes to its parent").service("line").start(&runtime).unwrap();
    let line = harness.accept("line").unwrap();
    drop(harness);
    line.expect_closed();
    let harness = subject("fails to stop").start(&runtime).unwrap();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(harness))).unwrap_err();
    let said = panic.downcast::<String>().unwrap();
    assert_eq!(*said, "a harness was dropped without `stop`, and driver `subject` did not stop well: the disk is full");
}

#[test]
fn a_stop_may_be_begun_from_elsewhere() {
    in_each_place(|place| {
        let harness = subject("").start(place).unwrap();
        let stop = harness.stopper();
        stop();
        stop();
        assert!(harness.run_until(|| harness.phase().is_none()));
        harness.stop().unwrap();
        stop();
    });
}
