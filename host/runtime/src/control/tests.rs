//! Clients that do what they should not: each is told why and left, and nobody else notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError, Status};
use serde_json::Value;

use super::*;
use crate::{Host, Manifest, Registry, Source};

struct Idle;
impl Driver for Idle {
    const NAME: &'static str = "idle";
    async fn start(_: DriverContext) -> Result<Self, StartError> {
        Ok(Idle)
    }
}
static IDLE: DriverEntry = DriverEntry::of::<Idle>();

struct Unable;
impl Driver for Unable {
    const NAME: &'static str = "unable";
    async fn start(_: DriverContext) -> Result<Self, StartError> {
        Err(StartError::new(Status::Io, "no such device"))
    }
}
static UNABLE: DriverEntry = DriverEntry::of::<Unable>();

/// So long as nobody has to wait for, unless it is what a test is about.
const LONG: Duration = Duration::from_secs(60);

struct Served {
    server: Option<ControlServer>,
    host: Arc<Host>,
    ring: LogRing,
    folder: tempfile::TempDir,
}

impl Served {
    fn with(limits: Limits) -> Served {
        let registry = Registry::new([&IDLE, &UNABLE]).unwrap();
        let manifest = Manifest::parse(Source::named("test", "[drivers.idle]")).unwrap();
        let host = Arc::new(Host::builder(manifest.plan(&registry).unwrap()).build().unwrap());
        host.start();
        host.wait_started(LONG).unwrap();
        let (folder, ring) = (tempfile::tempdir().unwrap(), LogRing::new());
        let load = move |load: &Load| {
            let name = load.name.as_deref().unwrap_or("added");
            manifest.addition(name, load.driver.as_deref(), None, &load.set, &registry)
        };
        let server = ControlServer::builder(Arc::clone(&host)).limits(limits).logs(ring.clone()).load(load);
        let server = server.serve(&ControlPlace::at(folder.path().join("c"))).unwrap();
        Served { server: Some(server), host, ring, folder }
    }

    fn new() -> Served {
        Served::with(Limits { idle: LONG, ..Limits::default() })
    }

    fn client(&self) -> ControlClient {
        ControlClient::connect(&self.folder.path().join("c")).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("c")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// That others are served as ever.
    #[track_caller]
    fn serves(&self) {
        assert_eq!(self.client().ask(&Request::Ps {}).unwrap()["drivers"][0]["state"], "running");
    }

    fn log(&self, message: &str) {
        self.ring.push(LogRecord {
            at: SystemTime::now(),
            level: tracing::Level::INFO,
            target: "t".into(),
            driver: Some("idle".into()),
            message: message.into(),
            fields: Vec::new(),
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.take();
        let _ = self.host.stop(LONG);
    }
}

fn line(stream: &UnixStream) -> Value {
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// The refusal that this client gets, after which it is left.
#[track_caller]
fn last_words(mut stream: UnixStream) -> (String, String) {
    let answer = line(&stream);
    let mut rest = Vec::new();
    // What it has sent and nobody has read makes a reset of the end.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    (text("kind"), text("message"))
}

#[test]
fn garbage_is_answered_and_ends_that_client_only() {
    let served = Served::new();
    for garbage in [&b"\0\xff\xfe\n"[..], b"GET / HTTP/1.1\n\n", b"[]\n", b"{\n", b"\n"] {
        let mut stream = served.raw();
        stream.write_all(garbage).unwrap();
        let (kind, message) = last_words(stream);
        assert_eq!(kind, "bad-request");
        assert!(message.contains(r#"{"version":1,"command":"ps"}"#), "{message}");
        served.serves();
    }
}

#[test]
fn a_wrong_request_is_answered_and_the_next_one_too() {
    let served = Served::new();
    let mut stream = served.raw();
    for (request, kind) in [
        ("{\"version\":9,\"command\":\"ps\"}\n", "version"),
        ("{\"version\":1,\"command\":\"pz\"}\n", "bad-request"),
        ("{\"version\":1,\"command\":\"stop\",\"target\":\"nobody\"}\n", "not-found"),
        ("{\"version\":1,\"command\":\"reload\"}\n", "unsupported"),
    ] {
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(line(&stream)["error"]["kind"], kind, "{request}");
    }
    stream.write_all(b"{\"version\":1,\"id\":[7],\"command\":\"hello\"}\n").unwrap();
    let answer = line(&stream);
    assert_eq!((&answer["id"], &answer["ok"]["state"]), (&serde_json::json!([7]), &Value::from("running")));
}

#[test]
fn half_a_line_for_ever_and_silence_end_after_the_idle_time() {
    let served = Served::with(Limits { idle: Duration::from_millis(50), ..Limits::default() });
    let mut half = served.raw();
    half.write_all(b"{\"version\":1,").unwrap();
    let (kind, message) = last_words(half);
    assert_eq!((kind.as_str(), message.contains("has not come to its end")), ("idle", true), "{message}");
    let (kind, message) = last_words(served.raw());
    assert_eq!((kind.as_str(), message.contains("nothing was asked")), ("idle", true), "{message}");
    // A byte now and then does not make the time longer.
    let mut slow = served.raw();
    while slow.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    served.serves();
}

#[test]
fn a_line_without_end_is_refused_at_its_limit() {
    let served = Served::new();
    let mut stream = served.raw();
    let block = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < 10 << 20 && stream.write_all(&block).is_ok() {
        sent += block.len();
    }
    assert!(sent < 10 << 20, "nobody reads ten megabytes");
    let (kind, message) = last_words(stream);
    assert_eq!((kind.as_str(), message.contains("65536")), ("too-long", true), "{message}");
    served.serves();
}

#[test]
fn clients_over_the_limit_are_turned_away_and_come_in_when_others_have_gone() {
    let served = Served::with(Limits { clients: 3, idle: LONG, ..Limits::default() });
    let mut all: Vec<_> = (0..3).map(|_| served.client()).collect();
    all.iter_mut().for_each(|client| drop(client.ask(&Request::Hello {}).unwrap()));
    let (kind, message) = last_words(served.raw());
    assert_eq!((kind.as_str(), message.contains("3 clients already")), ("busy", true), "{message}");
    let refused = served.client().ask(&Request::Ps {});
    assert!(matches!(refused, Err(ControlError::Refused { ref kind, .. }) if kind == "busy"), "{refused:?}");
    assert!(all[0].ask(&Request::Hello {}).is_ok());
    all.pop();
    // The thread of the one that has gone finds out on its own.
    while served.client().ask(&Request::Hello {}).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_goes_while_it_waits_leaves_its_place_to_others() {
    let served = Served::with(Limits { clients: 1, idle: LONG, ..Limits::default() });
    let mut stream = served.raw();
    stream.write_all(b"{\"version\":1,\"command\":\"wait\",\"for\":\"stopped\",\"timeout_ms\":86400000}\n").unwrap();
    drop(stream);
    while served.client().ask(&Request::Hello {}).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn many_requests_in_one_piece_are_answered_in_order() {
    let served = Served::new();
    let mut stream = served.raw();
    let requests: String = (0..200).map(|n| format!("{{\"version\":1,\"id\":{n},\"command\":\"hello\"}}\n")).collect();
    let writer = std::thread::spawn({
        let mut stream = stream.try_clone().unwrap();
        move || stream.write_all(requests.as_bytes()).unwrap()
    });
    let mut answers = BufReader::new(&mut stream).lines();
    for n in 0..200 {
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], n);
    }
    writer.join().unwrap();
}

#[test]
fn a_follower_that_does_not_read_holds_up_nobody_and_is_told_what_it_lost() {
    let served = Served::new();
    let mut stream = served.raw();
    stream.write_all(b"{\"version\":1,\"command\":\"logs\",\"follow\":true}\n").unwrap();
    served.log("first");
    let mut lines = BufReader::new(stream).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(lines.next().unwrap()["log"]["message"], "first");
    // More than the socket and the ring take together.
    (0..50_000).for_each(|n| served.log(&n.to_string()));
    served.serves();
    served.log("last");
    let (mut got, mut lost) = (0, 0);
    loop {
        let line = lines.next().unwrap();
        lost += line["lost"].as_u64().unwrap_or_default();
        match line["log"]["message"].as_str() {
            Some("last") => break,
            Some(_) => got += 1,
            None => {}
        }
    }
    assert!(lost > 0);
    assert_eq!(got + lost, 50_000);
}

#[test]
fn an_answer_has_to_be_taken_in_time_however_slowly_it_is_read() {
    let served = Served::with(Limits { idle: Duration::from_millis(100), ..Limits::default() });
    (0..150).for_each(|_| served.log(&"x".repeat(8 << 10)));
    let mut stream = served.raw();
    stream.write_all(b"{\"version\":1,\"command\":\"logs\"}\n").unwrap();
    // Each piece makes room for a further line, long before the time for one is over.
    let (mut piece, mut taken) = (vec![0; 16 << 10], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        taken.extend_from_slice(&piece[..count]);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!taken.ends_with(b"\"ok\":{}}\n") && taken.len() < 1 << 20, "all {} bytes came", taken.len());
    served.serves();
}

#[test]
fn a_follower_that_does_not_read_leaves_its_place_to_one_that_asks() {
    let served = Served::with(Limits { followers: 1, idle: Duration::from_millis(100), ..Limits::default() });
    let mut slow = served.raw();
    slow.write_all(b"{\"version\":1,\"command\":\"logs\",\"follow\":true}\n").unwrap();
    served.log("first");
    assert_eq!(line(&slow)["log"]["message"], "first");
    (0..50_000).for_each(|n| served.log(&n.to_string()));
    let follow = Request::Logs { follow: true, driver: None, lines: Some(1) };
    let enough = || ControlError::NoAnswer("enough".to_owned());
    let until = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < until, "it stays");
        match served.client().ask_with(&follow, |_, _| Err(enough())) {
            Err(ControlError::NoAnswer(_)) => break,
            Err(ControlError::Refused { kind, .. }) if kind == "busy" => std::thread::yield_now(),
            other => panic!("{other:?}"),
        }
    }
    while let Ok(1..) = slow.read(&mut [0; 4096]) {}
    served.serves();
}

#[test]
fn followers_have_a_limit_of_their_own_and_end_with_the_server() {
    let mut served = Served::with(Limits { followers: 1, idle: LONG, ..Limits::default() });
    served.log("here");
    let follow = Request::Logs { follow: true, driver: Some("idle".into()), lines: Some(1) };
    let mut first = served.client();
    let (told, heard) = std::sync::mpsc::channel();
    let follower = {
        let follow = follow.clone();
        std::thread::spawn(move || {
            first.ask_with(&follow, |_, line| {
                let _ = told.send(line["message"].as_str().map(str::to_owned));
                Ok(())
            })
        })
    };
    assert_eq!(heard.recv_timeout(LONG).unwrap().as_deref(), Some("here"));
    let refused = served.client().ask(&follow);
    assert!(matches!(refused, Err(ControlError::Refused { ref kind, .. }) if kind == "busy"), "{refused:?}");
    served.server.take();
    assert_eq!(follower.join().unwrap().unwrap(), serde_json::json!({}));
    assert!(matches!(ControlClient::connect(&served.folder.path().join("c")), Err(ControlError::NoHost(_))));
}

#[test]
fn drivers_are_stopped_started_and_loaded_and_what_does_not_start_is_told() {
    let served = Served::new();
    let mut client = served.client();
    let state = |answer: Result<Value, ControlError>| answer.unwrap()["state"].as_str().unwrap().to_owned();
    let target = || "idle".to_owned();
    assert_eq!(state(client.ask(&Request::Stop { target: target(), wait_ms: None })), "held");
    assert_eq!(state(client.ask(&Request::Start { target: target(), wait_ms: None })), "running");
    assert_eq!(state(client.ask(&Request::Restart { target: target(), wait_ms: None })), "running");
    let on_node = || Request::Restart { target: "/idle".to_owned(), wait_ms: None };
    for _ in 0..20 {
        assert_eq!(state(client.ask(&on_node())), "`idle` is bound to it");
        let phase = client.ask(&Request::Tree {}).unwrap()["nodes"][0]["phase"].clone();
        assert_eq!(phase, "running");
    }
    let load = |name: &str, driver: &str| {
        Request::Load(Load { name: Some(name.into()), driver: Some(driver.into()), ..Load::default() })
    };
    assert_eq!(state(client.ask(&load("more", "idle"))), "running");
    let kind = |answer: Result<Value, ControlError>| match answer {
        Err(ControlError::Refused { kind, message }) => (kind, message),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(client.ask(&load("more", "idle"))).0, "conflict");
    assert_eq!(kind(client.ask(&load("x", "nobody"))).0, "config-invalid");
    assert_eq!(kind(client.ask(&load("a b", "idle"))).0, "config-invalid");
    let (failed, message) = kind(client.ask(&load("un", "unable")));
    assert_eq!((failed.as_str(), message.contains("no such device")), ("failed", true), "{message}");
    let wait = |state| Request::Wait { state, driver: Some("un".into()), timeout_ms: Some(60_000) };
    assert_eq!(state(client.ask(&wait(WaitFor::Failed))), "failed");
    assert_eq!(kind(client.ask(&wait(WaitFor::Running))).0, "failed");
    assert_eq!(state(client.ask(&Request::Unload { name: "un".into(), wait_ms: None })), "unloaded");
    assert_eq!(kind(client.ask(&wait(WaitFor::Running))).0, "not-found");
    let wait = Request::Wait { state: WaitFor::Stopped, driver: Some("more".into()), timeout_ms: Some(0) };
    assert_eq!(kind(client.ask(&wait)).0, "timed-out");
}

#[test]
fn who_waits_for_the_end_of_the_host_is_answered_before_the_socket_closes() {
    let mut served = Served::new();
    let mut client = served.client();
    let waiting = std::thread::spawn(move || {
        client.ask(&Request::Wait { state: WaitFor::Stopped, driver: None, timeout_ms: Some(60_000) })
    });
    // Whether it asks before or after does not matter: there is an answer, or nobody to give one.
    served.host.stop(LONG).unwrap();
    served.server.take();
    match waiting.join().unwrap() {
        Ok(answer) => assert_eq!(answer["state"], "stopped"),
        Err(error) => assert!(matches!(error, ControlError::Closed), "{error:?}"),
    }
}
