//! The example `loop_echo`: goal is that a server made of event loops alone serves real clients, many clients, and
//! hostile ones, and stops cleanly. Method: the built example as a process, `socat` and blocking sockets as clients.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use fuchsine_tests::{
    clients::require_client,
    command::loop_echo,
    process::{Finished, HANG_LIMIT, Process, cpu_time, eventually, open_files, resident_bytes, run},
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// The example, running.
struct Echo {
    process: Process,
    address: SocketAddr,
}

impl Echo {
    #[track_caller]
    fn start(arguments: &[&str]) -> Self {
        Self::start_command(Command::new(loop_echo()).args(["--listen", "127.0.0.1:0"]).args(arguments))
    }

    #[track_caller]
    fn start_command(command: &mut Command) -> Self {
        let mut process = Process::start(command.stdin(Stdio::null()));
        let line = process.next_line(HANG_LIMIT).expect("the ready line");
        let address = line.strip_prefix("ready: ").expect("the first line is the ready line");
        Self { address: address.parse().expect("an address"), process }
    }

    fn dial(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(HANG_LIMIT)).unwrap();
        stream.set_write_timeout(Some(HANG_LIMIT)).unwrap();
        Client { lines: BufReader::with_capacity(256, stream) }
    }

    /// Stops it and expects a clean end, with nothing but the ready line on standard output.
    #[track_caller]
    fn stop(self) -> Finished {
        self.process.signal(Signal::TERM);
        self.ended()
    }

    #[track_caller]
    fn ended(self) -> Finished {
        let finished = self.process.wait(HANG_LIMIT).expect_success();
        assert_eq!(finished.stdout.len(), 1, "more than the ready line: {:?}", finished.stdout);
        finished
    }
}

struct Client {
    lines: BufReader<TcpStream>,
}

impl Client {
    fn send(&self, text: &str) {
        self.lines.get_ref().write_all(text.as_bytes()).expect("the server reads");
    }

    /// The next line, with its end; empty at the end of the stream.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the server answers");
        line
    }
}

#[test]
fn socat_gets_its_lines_back_in_order_with_heavy_ones_between() {
    let Some(socat) = require_client("socat") else { return };
    let echo = Echo::start(&["--loops", "2"]);
    let mut command = Command::new(socat);
    command.arg("-").arg(format!("TCP:{}", echo.address)).stdin(Stdio::piped());
    let mut client = Process::start(&mut command);
    client.take_stdin().unwrap().write_all(b"one\nhash x\ntwo\nthree\nhash x\nrest without an end").unwrap();
    let lines = client.wait(HANG_LIMIT).expect_success().stdout;
    let [one, hash, two, three, again, rest] = &*lines else { panic!("six lines expected: {lines:?}") };
    assert_eq!([&**one, two, three, rest], ["one", "two", "three", "rest without an end"]);
    assert!(hash.starts_with("hash 100000 ") && hash == again, "{lines:?}");
    echo.stop();
}

#[test]
fn hangup_reads_the_settings_again_and_a_faulty_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    let write = |text: &str| fs::write(&path, text).unwrap();
    write("hash_rounds = 3 # few\n");
    let echo = Echo::start(&["--loops", "2", "--settings", path.to_str().unwrap()]);
    let mut client = echo.dial();
    let mut rounds = || {
        client.send("hash x\n");
        client.line().split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(rounds(), "3");
    write("hash_rounds = 4\n");
    echo.process.signal(Signal::HUP);
    eventually("the new settings have reached the client's loop", || rounds() == "4");
    write("hash_rounds = 5\nsize = big\n");
    echo.process.signal(Signal::HUP);
    // Signals are told in order, so once the third file counts the second has been refused.
    eventually("the faulty file has been read", || {
        write("hash_rounds = 6\n");
        echo.process.signal(Signal::HUP);
        let now = rounds();
        assert_ne!(now, "5");
        now == "6"
    });
    let finished = echo.stop();
    assert!(finished.stderr.contains("hash_rounds 6"), "{}", finished.stderr);
}

#[test]
fn a_faulty_settings_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    fs::write(&path, "\nhash_rounds = many\n").unwrap();
    let path = path.to_str().unwrap();
    let finished = run(Command::new(loop_echo()).args(["--settings", path])).expect_code(1);
    let expected = format!("{path}:2: hash_rounds takes a whole number, not `many`");
    assert!(finished.stderr.contains(&expected), "{}", finished.stderr);
}

#[test]
fn wrong_usage_and_a_busy_address_have_their_exit_codes() {
    let finished = run(Command::new(loop_echo()).arg("--lisen")).expect_code(2);
    assert!(finished.stderr.contains("`--lisen`") && finished.stderr.contains("usage:"), "{}", finished.stderr);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = run(Command::new(loop_echo()).args(["--listen", &address])).expect_code(1);
    assert!(finished.stderr.contains(&address) && finished.stdout.is_empty(), "{}", finished.stderr);
}

#[test]
fn statistics_come_by_ticker_and_count_all_loops() {
    let echo = Echo::start(&["--loops", "3"]);
    let mut clients: Vec<_> = (0..9).map(|_| echo.dial()).collect();
    for client in &mut clients {
        client.send("line\n");
        assert_eq!(client.line(), "line\n");
    }
    // Long enough for a tick; that there was one is seen in what it wrote.
    thread::sleep(Duration::from_millis(2_500));
    let finished = echo.stop();
    let line = "statistics: 9 open, 9 accepted, 0 pauses, 9 lines, 45 bytes, 0 hashes";
    assert!(finished.stderr.contains(line), "{}", finished.stderr);
}

#[test]
fn sigterm_tells_clients_that_wait_and_those_whose_work_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    fs::write(&path, "hash_rounds = 30000000\n").unwrap();
    let echo = Echo::start(&["--loops", "2", "--settings", path.to_str().unwrap()]);
    let (mut waiting, mut working) = (echo.dial(), echo.dial());
    waiting.send("here\n");
    assert_eq!(waiting.line(), "here\n");
    working.send("first\nhash x\n");
    assert_eq!(working.line(), "first\n");
    echo.process.signal(Signal::TERM);
    assert_eq!((waiting.line(), waiting.line()), ("bye\n".to_owned(), String::new()));
    // The request had arrived together with the first line, so it was accepted before the signal.
    assert!(working.line().starts_with("hash 30000000 "), "accepted work comes to its end");
    assert_eq!((working.line(), working.line()), ("bye\n".to_owned(), String::new()));
    echo.ended();
}

#[test]
fn ten_thousand_clients_are_served_at_a_time_and_each_is_told_goodbye() {
    // Both processes need a descriptor for each; the server inherits the limit.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let most = limit.maximum.unwrap_or(u64::MAX).saturating_sub(300);
    let count = usize::try_from(most).unwrap_or(usize::MAX).min(10_000);
    if count < 10_000 {
        eprintln!("the limit of descriptors allows for {count} clients only");
    }
    let echo = Echo::start(&["--loops", "2"]);
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        let mut client = echo.dial();
        if clients.len() % 500 == 0 {
            // The server keeps up, so that the kernel's queue of connections never overflows: whoever finds it full
            // waits a second, which would make a long test of this.
            client.send("in?\n");
            assert_eq!(client.line(), "in?\n");
        }
        clients.push(client);
    }
    for round in 0..2 {
        for (nth, client) in clients.iter().enumerate() {
            client.send(&format!("{round} {nth}\n"));
        }
        for (nth, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.line(), format!("{round} {nth}\n"));
        }
    }
    assert!(open_files(echo.process.pid()) >= count as u64);
    echo.process.signal(Signal::TERM);
    for client in &mut clients {
        assert_eq!((client.line(), client.line()), ("bye\n".to_owned(), String::new()));
    }
    let finished = echo.ended();
    assert!(finished.stderr.contains(" 0 panicked"), "{}", finished.stderr);
}

#[test]
fn without_descriptors_the_listener_pauses_does_not_spin_and_goes_on_later() {
    const CLIENTS: usize = 80;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 50; exec \"$0\" --listen 127.0.0.1:0 --loops 2"]).arg(loop_echo());
    let echo = Echo::start_command(&mut command);
    let pid = echo.process.pid();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| echo.dial()).collect();
    clients.iter().for_each(|client| client.send("hello\n"));
    // Connections are accepted in order, so the first is among the served.
    assert_eq!(clients[0].line(), "hello\n");
    eventually("the limit is reached", || open_files(pid) >= 50);
    let before = cpu_time(pid);
    thread::sleep(Duration::from_secs(1));
    let used = cpu_time(pid) - before;
    assert!(used < Duration::from_millis(300), "{used:?} of processor time in a second without descriptors");
    // Each that goes makes room for one that waits.
    for mut client in clients.drain(..) {
        client.lines.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = String::new();
        if client.lines.read_to_string(&mut all).is_ok() && !all.is_empty() {
            assert_eq!(all, "hello\n");
        }
    }
    let mut late = echo.dial();
    late.send("later\n");
    assert_eq!(late.line(), "later\n");
    drop(late);
    let finished = echo.stop();
    let paused = |line: &&str| line.starts_with("statistics") && !line.contains(" 0 pauses");
    assert!(finished.stderr.lines().any(|line| paused(&line)), "{}", finished.stderr);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_and_the_others_do_not_notice() {
    let echo = Echo::start(&["--loops", "1"]);
    let before = resident_bytes(echo.process.pid());
    let greedy = echo.dial();
    let mut stream = greedy.lines.get_ref();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let mut sent = 0u64;
    // Until everything between here and there is full.
    let refused = loop {
        match stream.write(&line) {
            Ok(count) => sent += count as u64,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "the server takes in a gigabyte that it cannot send back");
    };
    assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{refused}");
    let mut good = echo.dial();
    good.send("still there?\n");
    assert_eq!(good.line(), "still there?\n");
    let grown = resident_bytes(echo.process.pid()).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for one client that does not read");
    // Now it reads, and everything is there.
    let mut reader = stream.try_clone().unwrap();
    let reading = thread::spawn(move || {
        let mut rest = sent;
        let mut bytes = vec![0; 1 << 16];
        while rest > 0 {
            let most = usize::try_from(rest).unwrap_or(usize::MAX).min(bytes.len());
            let count = reader.read(&mut bytes[..most]).expect("the server sends on");
            assert!(count > 0, "{rest} bytes are missing");
            rest -= count as u64;
        }
    });
    stream.write_all(b"\n").unwrap();
    reading.join().unwrap();
    echo.stop();
}

#[test]
fn a_unix_socket_serves_as_well_and_goes_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo");
    let address = format!("unix:{}", path.display());
    let mut process = Process::start(Command::new(loop_echo()).args(["--listen", &address]).stdin(Stdio::null()));
    assert_eq!(process.next_line(HANG_LIMIT).unwrap(), format!("ready: {address}"));
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"hello\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = String::new();
    stream.read_to_string(&mut back).unwrap();
    assert_eq!(back, "hello\n");
    process.signal(Signal::TERM);
    process.wait(HANG_LIMIT).expect_success();
    assert!(!Path::new(&path).exists());
}
