//! A TCP echo server on event loops alone: no dispatcher, no future.
//!
//! ```sh
//! cargo run --release -p fuchsine-dispatcher --example loop_echo -- --listen 127.0.0.1:0
//! ```
//!
//! It prints `ready: HOST:PORT` on standard output; everything else goes to standard error. Each line that a client
//! sends comes back. A line `hash TEXT` is heavy work instead: it is done on the fast lane, off the loop, and the answer
//! is `hash ROUNDS RESULT`. Answers keep the order of the requests of their client.
//!
//! What it shows, and where:
//!
//! - the listener is on loop 0 and hands each connection to one loop for life (`main`);
//! - a client that does not read its answers is not read from either (`client`);
//! - state that is split by loop needs no lock: settings and statistics (`home`);
//! - SIGHUP reads the settings again (`settings`), a ticker reports every second;
//! - SIGTERM ends it: each client is told `bye`, what was accepted is sent, and the exit code is 0.

mod client;
mod home;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::net::{Address, ConnectionOptions, ListenOptions, Listener};
use fuchsine_dispatcher::event_loop::{EventLoop, LoopManager, RunSummary};

use home::Homes;
use settings::Settings;

const SIGHUP: i32 = 1;

const USAGE: &str = "\
usage: loop_echo [--listen ADDRESS] [--loops N] [--settings FILE]

  --listen ADDRESS   IP:PORT or unix:PATH; port 0 lets the system choose (default 127.0.0.1:7007)
  --loops N          how many event loops (default: as many as the machine runs threads at a time)
  --settings FILE    lines `NAME = VALUE`, read at the start and on SIGHUP:
                     hash_rounds, idle_timeout_ms (0: none), write_limit";

struct Arguments {
    listen: Address,
    loops: Option<usize>,
    settings: Option<PathBuf>,
}

fn parse(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { listen: Address::Tcp(([127, 0, 0, 1], 7007).into()), loops: None, settings: None };
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or(format!("{name} needs a value"));
        match &*name {
            "--listen" => arguments.listen = value()?.parse().map_err(|error| format!("{error}"))?,
            "--loops" => {
                let text = value()?;
                let loops = text.parse().ok().filter(|loops| *loops > 0);
                arguments.loops = Some(loops.ok_or(format!("--loops takes a number above 0, not `{text}`"))?);
            }
            "--settings" => arguments.settings = Some(value()?.into()),
            other => return Err(format!("`{other}` is not known")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let mut given = std::env::args().skip(1).peekable();
    if given.peek().is_some_and(|first| first == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match parse(given) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("loop_echo: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(arguments) {
        Ok(summary) => {
            eprintln!("stopped: {} callbacks, {} panicked", summary.callbacks(), summary.panics());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("loop_echo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Arguments) -> Result<RunSummary, String> {
    let settings = match &arguments.settings {
        Some(path) => Settings::read(path)?,
        None => Settings::default(),
    };
    let homes = Homes::new(settings.clone());
    let mut builder = LoopManager::builder().name("echo");
    if let Some(loops) = arguments.loops {
        builder = builder.loops(loops);
    }
    // What goes wrong in a callback comes out of it by this.
    let (failed, failure) = std::sync::mpsc::channel();
    let manager = builder
        .setup(0, move |event_loop| {
            let started = listen(event_loop, &arguments.listen, &settings, &homes)
                .and_then(|listener| report_every_second(event_loop, listener, &homes))
                .and_then(|()| read_again_on_hangup(event_loop, arguments.settings, &homes));
            if let (Err(message), Some(manager)) = (started, event_loop.manager()) {
                // The receiver outlives the loops.
                let _ = failed.send(message);
                manager.shutdown();
            }
        })
        .build()
        .map_err(|error| format!("the loops cannot be made: {error}"))?;
    let summary = manager.run().map_err(|error| format!("the loops cannot be run: {error}"))?;
    match failure.try_recv() {
        Ok(message) => Err(message),
        Err(_) => Ok(summary),
    }
}

fn listen(event_loop: &EventLoop, on: &Address, settings: &Settings, homes: &Homes) -> Result<Listener, String> {
    // The idle timeout may change, so each connection asks for it when it begins.
    let options = ListenOptions::new().connections(ConnectionOptions::new().write_limit(settings.write_limit));
    let homes = homes.clone();
    let listener = event_loop
        .listen(on, options, move |event_loop, connection| client::welcome(event_loop, connection, &homes))
        .map_err(|refused| format!("cannot listen on {on}: {refused}"))?;
    println!("ready: {}", listener.local_address());
    Ok(listener)
}

/// Keeps the listener, too: both end with the loops.
fn report_every_second(event_loop: &EventLoop, listener: Listener, homes: &Homes) -> Result<(), String> {
    let homes = homes.clone();
    let ticker = event_loop.timer(move |event_loop, _| homes.report(event_loop, listener.counters()));
    ticker.ticker(Duration::from_secs(1)).map_err(|error| format!("the statistics cannot be timed: {error}"))?;
    ticker.detach();
    Ok(())
}

fn read_again_on_hangup(event_loop: &EventLoop, path: Option<PathBuf>, homes: &Homes) -> Result<(), String> {
    let homes = homes.clone();
    let handler = event_loop.signal(SIGHUP, move |event_loop, _| {
        let Some(path) = &path else { return eprintln!("settings: no file was given, nothing to read again") };
        match Settings::read(path) {
            Ok(settings) => homes.change(event_loop, settings),
            // Whoever edits a running server's file makes mistakes; it goes on as it was.
            Err(message) => eprintln!("settings: {message}; nothing changes"),
        }
    });
    let handler = handler.map_err(|error| error.to_string())?;
    // It lives until the loop shuts down.
    event_loop.teardown(move |_| drop(handler)).map_err(|_| "the loop has ended already".to_owned())
}
