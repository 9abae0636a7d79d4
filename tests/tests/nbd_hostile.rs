//! Goal: whatever a client sends, the host stays up, keeps its memory bounded, and serves everybody else.
//! Method: raw sockets that say what no decent client says, beside a good client that checks its data all the while.
//! Memory and processor time of the host are read from the kernel.

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use fuchsine_tests::{
    host::Host,
    nbd::{
        self, CMD_READ, CMD_WRITE, CMD_WRITE_ZEROES, Client, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST,
        Stream, export_data, is_end, option, option_with_length, request,
    },
    process::{cpu_time, eventually, open_files, peak_resident_bytes, resident_bytes, threads},
    random::Random,
};
use rustix::process::{Resource, Rlimit};

/// What hostile clients may make the host hold above what it held before, in bytes. The device itself (64 MiB) is
/// counted apart: reading it does not fill it, and the good client writes one block again and again.
const MEMORY_LIMIT: u64 = 64 << 20;

/// A client that goes on working while others misbehave, and notices at once when it is served wrongly.
struct GoodClient {
    client: Client,
    round: u8,
}

impl GoodClient {
    #[track_caller]
    fn connect(host: &Host) -> Self {
        Self { client: Client::connect(&host.address()).expect("the host serves a good client"), round: 0 }
    }

    /// Writes a block of its own and reads it back.
    #[track_caller]
    fn works(&mut self) {
        self.round = self.round.wrapping_add(1);
        let block = vec![self.round; 4096];
        self.client.write(8192, &block).expect("a good client is served");
        assert_eq!(self.client.read(8192, 4096).expect("a good client is served"), block);
    }
}

/// Ends a test: a new client is served as well, no panic was logged, memory stayed bounded, the stop is clean.
#[track_caller]
fn still_fine(host: Host, mut good: GoodClient, resident_before: u64) {
    good.works();
    GoodClient::connect(&host).works();
    let grown = peak_resident_bytes(host.pid()).saturating_sub(resident_before);
    assert!(grown < MEMORY_LIMIT, "the host grew by {grown} bytes");
    let finished = host.stop();
    assert!(!finished.stderr.contains("panic"), "{}", finished.stderr);
}

/// Sends `bytes`, ends the writing side, and takes what comes until the server closes. What the server does in
/// between is its own affair, but it has to close.
#[track_caller]
fn send_and_leave(host: &Host, bytes: &[u8]) {
    let mut stream = host.address().connect().expect("the host accepts");
    match stream.write_all(bytes) {
        Ok(()) => {}
        Err(error) if is_end(&error) => return,
        Err(error) => panic!("{error}"),
    }
    // The server may have closed already; then there is nothing to end.
    let _ = stream.finish_writing();
    stream.expect_closed();
}

/// A client that has negotiated the export and is about to send requests.
#[track_caller]
fn in_transmission(host: &Host) -> Client {
    Client::connect(&host.address()).expect("the host serves")
}

#[test]
fn random_bytes_end_only_the_connection_that_sent_them() {
    let host = Host::on_free_port(&[]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut random = Random::from_environment();
    for round in 0..300 {
        let count = 1 + random.below(4000);
        let mut bytes = random.bytes(count);
        match round % 4 {
            0 => {}
            // Past the flags the server reads options; past those it reads requests. Noise at each stage.
            1 => drop(bytes.splice(0..0, nbd::CLIENT_FLAGS.to_be_bytes())),
            2 => {
                let mut start = nbd::CLIENT_FLAGS.to_be_bytes().to_vec();
                start.extend(nbd::OPTION_MAGIC.to_be_bytes());
                drop(bytes.splice(0..0, start));
            }
            _ => {
                let mut start = nbd::CLIENT_FLAGS.to_be_bytes().to_vec();
                start.extend(option(OPT_GO, &export_data("ramdisk")));
                start.extend(nbd::REQUEST_MAGIC.to_be_bytes());
                // Only the type and flags are random here, so that the length does not swallow the rest.
                drop(bytes.splice(0..0, start));
            }
        }
        send_and_leave(&host, &bytes);
        if round % 20 == 0 {
            good.works();
        }
    }
    still_fine(host, good, before);
}

#[test]
fn a_conversation_cut_off_at_any_byte_ends_only_itself() {
    let host = Host::on_free_port(&[]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut whole = nbd::CLIENT_FLAGS.to_be_bytes().to_vec();
    whole.extend(option(OPT_LIST, &[]));
    whole.extend(option(OPT_INFO, &export_data("ramdisk")));
    whole.extend(option(OPT_GO, &export_data("ramdisk")));
    whole.extend(request(CMD_WRITE, 0, 1, 0, 16));
    whole.extend([0x77; 16]);
    whole.extend(request(CMD_READ, 0, 2, 0, 16));
    for length in 0..whole.len() {
        send_and_leave(&host, &whole[..length]);
        if length % 16 == 0 {
            good.works();
        }
    }
    still_fine(host, good, before);
}

#[test]
fn a_wrong_magic_closes_the_connection() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());

    let mut stream = host.address().connect().expect("the host accepts");
    stream.greet().expect("the greeting comes");
    stream.write_all(&[0x55; 16]).expect("the host reads");
    stream.expect_closed();

    let mut client = in_transmission(&host);
    let mut bytes = request(CMD_READ, 0, 1, 0, 512);
    bytes[0] ^= 0xff;
    client.stream().write_all(&bytes).expect("the host reads");
    client.stream().expect_closed();

    still_fine(host, good, before);
}

#[test]
fn an_option_that_announces_four_gigabytes_is_refused_without_keeping_them() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    for number in [OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_INFO, OPT_GO, 0xffff_ffff] {
        let mut stream = host.address().connect().expect("the host accepts");
        stream.greet().expect("the greeting comes");
        stream.write_all(&option_with_length(number, u32::MAX, &[])).expect("the host reads");
        send_until_refused(&mut stream, 128 << 20);
    }
    still_fine(host, good, before);
}

#[test]
fn a_request_of_four_gigabytes_is_refused_without_keeping_them() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());

    // A read or a zeroing of that length is answered with an error, or the connection is closed.
    for command in [CMD_READ, CMD_WRITE_ZEROES] {
        let mut client = in_transmission(&host);
        client.stream().write_all(&request(command, 0, 1, 0, u32::MAX)).expect("the host reads");
        match client.stream().reply() {
            Ok((error, cookie)) => {
                assert_eq!(cookie, 1);
                assert!([nbd::EINVAL, nbd::ENOSPC, nbd::EOVERFLOW].contains(&error), "error {error}");
            }
            Err(error) => assert!(is_end(&error), "{error}"),
        }
    }
    // A write of that length may be swallowed or cut off, but never stored.
    let mut client = in_transmission(&host);
    client.stream().write_all(&request(CMD_WRITE, 0, 1, 0, u32::MAX)).expect("the host reads");
    send_until_refused(client.stream(), 128 << 20);

    still_fine(host, good, before);
}

/// Sends zeroes until the server closes, or `enough` of them: a server may also read and drop them.
#[track_caller]
fn send_until_refused(stream: &mut Stream, enough: usize) {
    let zeroes = vec![0; 1 << 16];
    for _ in 0..enough / zeroes.len() {
        match stream.write_all(&zeroes) {
            Ok(()) => {}
            Err(error) if is_end(&error) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn requests_outside_the_device_and_unknown_commands_are_answered_with_an_error_and_the_next_one_works() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut client = in_transmission(&host);
    let size = client.size();
    for (offset, length) in [(size, 512), (size - 512, 1024), (u64::MAX - 511, 512), (u64::MAX, 1)] {
        for command in [CMD_READ, nbd::CMD_TRIM, CMD_WRITE_ZEROES] {
            let error = client.command(command, 0, offset, length, &[]).expect("an answer comes");
            assert!([nbd::EINVAL, nbd::ENOSPC].contains(&error), "command {command} at {offset}: {error}");
        }
        let data = vec![0; length as usize];
        let error = client.command(CMD_WRITE, 0, offset, length, &data).expect("an answer comes");
        assert!([nbd::EINVAL, nbd::ENOSPC].contains(&error), "write at {offset}: {error}");
    }
    for command in [5, 7, 99, u16::MAX] {
        let error = client.command(command, 0, 0, 0, &[]).expect("an answer comes");
        assert!([nbd::EINVAL, nbd::ENOTSUP].contains(&error), "command {command}: {error}");
    }
    assert_eq!(client.command(nbd::CMD_FLUSH, 0, 0, 0, &[]).expect("an answer comes"), 0);
    client.disconnect().expect("the host closes");
    still_fine(host, good, before);
}

#[test]
fn an_unknown_export_and_an_unknown_option_are_refused_and_the_negotiation_goes_on() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut stream = host.address().connect().expect("the host accepts");
    stream.greet().expect("the greeting comes");
    stream.write_all(&option(OPT_GO, &export_data("no such export"))).expect("the host reads");
    assert_eq!(stream.option_reply(OPT_GO).expect("an answer comes").0, nbd::REP_ERR_UNKNOWN);
    stream.write_all(&option(4711, b"what?")).expect("the host reads");
    assert_eq!(stream.option_reply(4711).expect("an answer comes").0, nbd::REP_ERR_UNSUP);
    // A name that is longer than the option that carries it.
    stream.write_all(&option(OPT_INFO, &[0xff, 0xff, 0xff, 0xff, 0, 0])).expect("the host reads");
    assert_eq!(stream.option_reply(OPT_INFO).expect("an answer comes").0, nbd::REP_ERR_INVALID);
    stream.write_all(&option(OPT_ABORT, &[])).expect("the host reads");
    assert_eq!(stream.option_reply(OPT_ABORT).expect("an answer comes").0, nbd::REP_ACK);
    stream.expect_closed();
    still_fine(host, good, before);
}

#[test]
fn connections_that_never_speak_as_many_as_the_limit_allows_leave_a_good_client_served() {
    let limit = raise_own_limit();
    // Some descriptors are needed for other things, on either side.
    let count = usize::try_from(limit.saturating_sub(200)).unwrap_or(usize::MAX).min(10_000);
    assert!(count >= 500, "the limit of open files is too low for this test: {limit}");
    let host = Host::on_free_port(&["nbd.max_connections=20000", "nbd.handshake_timeout_ms=0"]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let threads_before = threads(host.pid());

    let address = host.address();
    let mut silent = Vec::with_capacity(count);
    for index in 0..count {
        let mut stream = address.connect().unwrap_or_else(|error| panic!("connection {index}: {error}"));
        assert_eq!(stream.u64().expect("the greeting comes"), nbd::GREETING_MAGIC, "connection {index}");
        silent.push(stream);
        if index % 1000 == 0 {
            good.works();
        }
    }
    assert!(open_files(host.pid()) > count as u64);
    assert_eq!(threads(host.pid()), threads_before, "a connection costs no thread");
    good.works();
    GoodClient::connect(&host).works();
    drop(silent);
    still_fine(host, good, before);
}

#[test]
fn connections_beyond_the_configured_number_are_refused_and_places_that_become_free_are_given_again() {
    let host = Host::on_free_port(&["nbd.max_connections=8"]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let address = host.address();
    let mut silent: Vec<Stream> = (0..7)
        .map(|_| {
            let mut stream = address.connect().expect("the host accepts");
            assert_eq!(stream.u64().expect("the greeting comes"), nbd::GREETING_MAGIC);
            stream
        })
        .collect();
    for _ in 0..32 {
        let mut refused = address.connect().expect("the kernel accepts");
        refused.expect_closed();
    }
    good.works();
    silent.pop();
    eventually("the place is given again", || {
        let mut stream = address.connect().expect("the kernel accepts");
        match stream.u64() {
            Ok(magic) => magic == nbd::GREETING_MAGIC,
            Err(error) if is_end(&error) => false,
            Err(error) => panic!("{error}"),
        }
    });
    drop(silent);
    eventually("a new client is served", || Client::connect(&address).is_ok());
    still_fine(host, good, before);
}

#[test]
fn a_connection_that_never_speaks_is_closed_after_the_configured_time() {
    let host = Host::on_free_port(&["nbd.handshake_timeout_ms=500"]);
    let before = resident_bytes(host.pid());
    let mut silent = host.address().connect().expect("the host accepts");
    // Closed by the host: this side only reads.
    silent.expect_closed();
    let good = GoodClient::connect(&host);
    still_fine(host, good, before);
}

#[test]
fn a_host_out_of_descriptors_pauses_its_listener_and_goes_on_when_some_are_free() {
    let host = Host::on_free_port(&[]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let room = open_files(host.pid()) + 8;
    let limit = Rlimit { current: Some(room), maximum: Some(room) };
    rustix::process::prlimit(Some(host.pid()), Resource::Nofile, limit).expect("the limit of a child can be lowered");

    // The kernel completes connections in the listener's backlog, so connecting succeeds; accepting does not.
    let address = host.address();
    let waiting: Vec<Stream> = (0..64).map(|_| address.connect().expect("the kernel accepts")).collect();
    eventually("the host has used up its descriptors", || open_files(host.pid()) >= room - 1);

    // Out of descriptors and with connections waiting: a host that asked again and again would burn a processor.
    let (cpu, began) = (cpu_time(host.pid()), Instant::now());
    while began.elapsed() < Duration::from_secs(2) {
        good.works();
        std::thread::sleep(Duration::from_millis(50));
    }
    let (used, passed) = (cpu_time(host.pid()) - cpu, began.elapsed());
    assert!(used < passed / 4, "{used:?} of processor time in {passed:?} while out of descriptors");

    drop(waiting);
    eventually("a new client is served", || {
        let address = host.address();
        Client::connect(&address).is_ok()
    });
    still_fine(host, good, before);
}

#[test]
fn a_client_that_never_reads_its_replies_is_held_back_and_holds_up_nobody() {
    let host = Host::on_free_port(&[]);
    let mut good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut deaf = in_transmission(&host);
    deaf.stream().set_nonblocking(true).expect("a socket can be made so");

    // Far more requests than the buffers of both kernels' ends can hold, for a million times as many bytes of replies.
    let requests: Vec<u8> = (0..1000).flat_map(|cookie| request(CMD_READ, 0, cookie, 0, 1 << 20)).collect();
    let enough = 64 << 20;
    let mut sent = 0;
    let mut blocked = 0;
    while sent < enough && blocked < 100 {
        match deaf.stream().write(&requests[sent % requests.len()..]) {
            Ok(count) => {
                sent += count;
                blocked = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                blocked += 1;
                // The good client's work takes the time in which the host might take more.
                good.works();
            }
            // To close such a connection is also an answer.
            Err(error) if is_end(&error) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < enough, "the host took every request and let the replies pile up");
    still_fine(host, good, before);
}

#[test]
fn a_client_that_reads_one_byte_at_a_time_gets_the_right_bytes() {
    let host = Host::on_free_port(&[]);
    let good = GoodClient::connect(&host);
    let before = resident_bytes(host.pid());
    let mut slow = in_transmission(&host);
    let pattern: Vec<u8> = (0..4096_u32).map(|index| index as u8).collect();
    slow.write(0, &pattern).expect("a write works");
    slow.stream().write_all(&request(CMD_READ, 0, 9, 0, 4096)).expect("the host reads");
    assert_eq!(slow.stream().reply().expect("a reply comes"), (0, 9));
    let mut got = Vec::new();
    while got.len() < pattern.len() {
        let mut byte = [0];
        slow.stream().read_exact(&mut byte).expect("the data comes");
        got.push(byte[0]);
    }
    assert_eq!(got, pattern);
    still_fine(host, good, before);
}

/// Lets this process open as many files as it may, and says how many that is.
fn raise_own_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).expect("the soft limit can be raised to the hard one");
    limit.maximum.unwrap_or(u64::MAX)
}
