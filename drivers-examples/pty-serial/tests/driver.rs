//! Goal: the port as its client and its terminal see it: what is typed arrives and is shown, nobody is flooded, who breaks the
//! protocol is closed, and a stop at any moment accounts for everything.
//! Method: the harness, with a fake child as the client and the terminal opened by the test; on threads, since a terminal is
//! the system's and cannot be simulated.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use fuchsine_driver::DriverEntry;
use fuchsine_pty_serial::protocol::{Frame, MAX_DATA, WINDOW};
use fuchsine_testing::{Harness, HarnessBuilder, Peer, Place, Problem, Received};
use rustix::fs::OFlags;

static DRIVER: DriverEntry = fuchsine_pty_serial::DRIVER;

fn port(config: &str) -> HarnessBuilder {
    Harness::builder(&DRIVER).config(config).children([("protocol", "serial")])
}

/// The terminal side, as a program opens it.
struct Terminal<'a, 'rt> {
    file: File,
    harness: &'a Harness<'rt>,
}

impl<'a, 'rt> Terminal<'a, 'rt> {
    fn open(harness: &'a Harness<'rt>) -> Option<Self> {
        let path = PathBuf::from(harness.addresses().first()?.strip_prefix("pty://")?);
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
        Some(Self { file, harness })
    }

    fn types(&self, keys: &[u8]) {
        (&self.file).write_all(keys).expect("there is room");
    }

    /// Reads until it has seen so many bytes, or nothing comes any more.
    fn sees(&self, count: usize) -> String {
        let mut seen = Vec::new();
        self.harness.run_until(|| {
            let mut bytes = vec![0; count - seen.len()];
            match (&self.file).read(&mut bytes) {
                Ok(read) => seen.extend(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            seen.len() == count
        });
        String::from_utf8_lossy(&seen).into_owned()
    }

    #[track_caller]
    fn expect(&self, text: &str) {
        assert_eq!(self.sees(text.len()), text);
    }
}

#[track_caller]
fn expect(client: &Peer<'_>, frame: Frame<'_>, id: u32) {
    client.expect(&frame.encode(id));
}

fn send(client: &Peer<'_>, frame: Frame<'_>, id: u32) -> bool {
    client.send(&frame.encode(id))
}

#[test]
fn lines_are_typed_corrected_shown_and_answered() {
    let harness = port("").start(Place::Threads).unwrap();
    assert_eq!(harness.node_names(), ["port"]);
    let client = harness.connect_child("port", "serial").unwrap();
    let terminal = Terminal::open(&harness).unwrap();
    terminal.types(b"helo\x7flo\rwor");
    expect(&client, Frame::Data(b"hello\n"), 0);
    terminal.expect("helo\x08 \x08lo\r\nwor");
    send(&client, Frame::Taken, 0);
    terminal.types(b"\x03\x04");
    expect(&client, Frame::Interrupt, 1);
    expect(&client, Frame::End, 2);
    terminal.expect("^C\r\n");
    send(&client, Frame::Data(b"one\ntwo\n"), 77);
    expect(&client, Frame::Taken, 77);
    terminal.expect("one\r\ntwo\r\n");
    harness.stop().unwrap();
    client.expect_closed();
}

#[test]
fn a_raw_port_without_echo_hands_on_what_comes() {
    let harness = port("mode = \"raw\"\necho = false").start(Place::Threads).unwrap();
    let client = harness.connect_child("port", "serial").unwrap();
    let terminal = Terminal::open(&harness).unwrap();
    terminal.types(b"\x03\r\x7f\xff");
    expect(&client, Frame::Data(b"\x03\r\x7f\xff"), 0);
    send(&client, Frame::Data(b"\n"), 1);
    terminal.expect("\n");
    harness.stop().unwrap();
}

#[test]
fn a_client_that_answers_nothing_gets_its_window_and_no_more_and_the_next_one_gets_the_rest() {
    let harness = port("echo = false").start(Place::Threads).unwrap();
    let client = harness.connect_child("port", "serial").unwrap();
    let terminal = Terminal::open(&harness).unwrap();
    for line in 0..20 {
        terminal.types(format!("{line}\r").as_bytes());
    }
    for id in 0..WINDOW {
        expect(&client, Frame::Data(format!("{id}\n").as_bytes()), id as u32);
    }
    assert!(matches!(client.poll(), Received::Nothing), "the window is full");
    send(&client, Frame::Taken, 0);
    expect(&client, Frame::Data(b"8\n"), 8);
    drop(client);
    // Those that were under way went with the client. Until the port knows, another one is closed.
    let rest = (0..1000).find_map(|_| {
        let next = harness.connect_child("port", "serial").ok()?;
        match next.receive() {
            Received::Message(first) => Some((next, first.bytes().to_vec())),
            Received::Closed => None,
            Received::Nothing => panic!("the port has nothing for the next client"),
        }
    });
    let (_next, first) = rest.expect("the place is free again");
    assert_eq!(Frame::decode(&first), Ok((Frame::Data(b"9\n"), 9)));
    harness.stop().unwrap();
}

#[test]
fn a_terminal_that_takes_nothing_stops_its_client_and_nothing_is_lost() {
    let harness = port("mode = \"raw\"").start(Place::Threads).unwrap();
    let client = harness.connect_child("port", "serial").unwrap();
    let terminal = Terminal::open(&harness).unwrap();
    let data: Vec<u8> = (0..30 * MAX_DATA).map(|at| b'a' + (at % 23) as u8).collect();
    for (id, piece) in data.chunks(MAX_DATA).enumerate() {
        send(&client, Frame::Data(piece), id as u32);
    }
    let mut answered = 0;
    harness.run_until(|| {
        answered += usize::from(matches!(client.poll(), Received::Message(_)));
        answered == 4
    });
    // What else is answered by now is what there was room for.
    while matches!(client.poll(), Received::Message(_)) {
        answered += 1;
    }
    assert!(answered < 25, "{answered} pieces were taken, and nobody has read one");
    let seen = terminal.sees(data.len());
    assert!(seen.as_bytes() == data, "{} of {} bytes", seen.len(), data.len());
    for id in answered..30 {
        expect(&client, Frame::Taken, id as u32);
    }
    harness.stop().unwrap();
}

#[test]
fn a_slow_line_takes_the_time_that_it_takes() {
    let harness = port("mode = \"raw\"\nbaud = 9600").start(Place::Threads).unwrap();
    let client = harness.connect_child("port", "serial").unwrap();
    let terminal = Terminal::open(&harness).unwrap();
    let began = std::time::Instant::now();
    send(&client, Frame::Data(&[b'x'; 480]), 0);
    assert_eq!(terminal.sees(480).len(), 480);
    // 960 bytes a second; the last piece need not have been paid for when it is seen.
    let took = began.elapsed().as_millis();
    assert!(took >= 450, "{took} ms");
    harness.stop().unwrap();
}

#[test]
fn a_second_client_is_refused_and_one_that_breaks_the_protocol_is_closed() {
    let harness = port("").start(Place::Threads).unwrap();
    let first = harness.connect_child("port", "serial").unwrap();
    let second = harness.connect_child("port", "serial").unwrap();
    second.expect_closed();
    send(&first, Frame::Data(b"hi"), 0);
    expect(&first, Frame::Taken, 0);
    first.send(b"nonsense that is no header");
    first.expect_closed();
    let told = |harness: &Harness<'_>, what: &str| harness.lines().iter().any(|line| line.contains(what));
    assert!(harness.run_until(|| told(&harness, "broke the protocol")), "{:?}", harness.lines());
    assert!(told(&harness, "a second client was refused"));
    for wrong in [Frame::Interrupt, Frame::Taken] {
        // A conversation shows that the place is free: a client that comes too early is closed too.
        let next = (0..1000).find_map(|_| {
            let next = harness.connect_child("port", "serial").ok()?;
            send(&next, Frame::Data(b"hi"), 0);
            next.receive_bytes().map(|_| next)
        });
        let next = next.expect("the place is free again");
        send(&next, wrong, 5);
        next.expect_closed();
    }
    harness.stop().unwrap();
}

#[test]
fn a_link_that_cannot_be_made_is_a_start_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tty");
    std::fs::write(&path, "mine").unwrap();
    let config = format!("link = {:?}", path.display().to_string());
    let error = port(&config).start(Place::Threads).map(|_| ()).expect_err("it is taken");
    let Problem::NotStarted { reason, .. } = error else { panic!("{error}") };
    assert!(reason.contains("is there and is no link to a terminal"), "{reason}");
    std::fs::remove_file(&path).unwrap();
    let harness = port(&config).start(Place::Threads).unwrap();
    assert_eq!(harness.addresses(), [format!("pty://{}", path.display())]);
    assert!(path.is_symlink());
    harness.stop().unwrap();
    assert!(!path.is_symlink(), "the stop removes it");
}

#[test]
fn a_stop_in_the_middle_accounts_for_everything() {
    for steps in 0..8 {
        let harness = port("").start(Place::Threads).unwrap();
        let client = harness.connect_child("port", "serial").unwrap();
        let terminal = Terminal::open(&harness).unwrap();
        terminal.types(b"one\rtwo\rthree\rfo");
        for (id, line) in ["one\n", "two\n", "three\n"].iter().take(steps).enumerate() {
            expect(&client, Frame::Data(line.as_bytes()), id as u32);
        }
        for id in 3..steps {
            send(&client, Frame::Data(&[b'x'; 1000]), id as u32);
            send(&client, Frame::Taken, id as u32 - 3);
        }
        // Every callback is accounted for, or this tells.
        harness.stop().unwrap();
    }
}
