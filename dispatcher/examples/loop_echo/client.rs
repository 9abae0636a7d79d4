//! One client: its lines come back in their order, heavy ones by way of a worker.
//!
//! While an answer is being worked out, or cannot be sent because the client does not read, nothing more is read from
//! it: the kernel's buffers fill, and the client has to wait. So no client makes the server's memory grow.

use std::cell::RefCell;
use std::rc::Rc;

use fuchsine_dispatcher::event_loop::net::{Connection, NetError};
use fuchsine_dispatcher::event_loop::{EventLoop, Lane};

use crate::home::Homes;

/// A line that is longer comes back in pieces.
const LONGEST_LINE: usize = 64 * 1024;

struct Client {
    connection: Connection,
    homes: Homes,
    /// Received and not answered yet.
    input: Vec<u8>,
    /// The client has sent everything.
    ended: bool,
    /// It has been told `bye`.
    dismissed: bool,
}

type Shared = Rc<RefCell<Client>>;

/// What comes next in the input.
enum Request {
    Echo(Vec<u8>),
    Hash(Vec<u8>),
}

/// A connection has come to this loop.
pub(crate) fn welcome(event_loop: &EventLoop, connection: Connection, homes: &Homes) {
    // Refused only if the client has gone already, which the read below says as well.
    let _ = connection.set_idle_timeout(homes.settings(event_loop).idle_timeout);
    let client = Client { connection, homes: homes.clone(), input: Vec::new(), ended: false, dismissed: false };
    listen_to(&Rc::new(RefCell::new(client)));
}

/// Reads from the client, until there is something that cannot be answered at once.
fn listen_to(client: &Shared) {
    let connection = client.borrow().connection.clone();
    let heard = client.clone();
    let reading = connection.read(move |event_loop, _, received| match received {
        Ok(bytes) => {
            heard.borrow_mut().input.extend_from_slice(bytes);
            answer(event_loop, &heard);
        }
        Err(NetError::End) => {
            heard.borrow_mut().ended = true;
            answer(event_loop, &heard);
        }
        Err(NetError::Canceled) => dismiss(&heard),
        // The client is gone, or was silent for too long: the connection is closed.
        Err(_) => {}
    });
    if let Err(refused) = reading
        && let NetError::Canceled = refused.reason()
    {
        dismiss(client);
    }
}

/// The loop shuts down: the last that this client hears. What was written before is sent before.
fn dismiss(client: &Shared) {
    let mut client = client.borrow_mut();
    if !std::mem::replace(&mut client.dismissed, true) {
        // A client that has not read its answers has no room for this one either.
        let _ = client.connection.write("bye\n");
        let _ = client.connection.finish();
    }
}

/// Answers what is in the input, as far as it goes.
fn answer(event_loop: &EventLoop, client: &Shared) {
    loop {
        let (connection, homes) = (client.borrow().connection.clone(), client.borrow().homes.clone());
        let next = next_request(&mut client.borrow_mut());
        match next {
            Some(Request::Echo(bytes)) => {
                let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
                let len = bytes.len() as u64;
                match connection.write(bytes) {
                    Ok(()) => homes.count(event_loop, |counts| {
                        counts.lines += lines;
                        counts.bytes += len;
                    }),
                    Err(refused) => return put_off(client, refused.reason().clone(), refused.into_inner()),
                }
            }
            Some(Request::Hash(text)) => return hash_elsewhere(event_loop, client, text),
            None => break,
        }
    }
    let client_now = client.borrow();
    if client_now.ended {
        // All is answered: the connection closes once that is sent, with the last handle to it.
        let _ = client_now.connection.finish();
    } else if !client_now.connection.is_reading() && client_now.connection.is_open() {
        drop(client_now);
        listen_to(client);
    }
}

/// Takes the next request out of the input: as many plain lines as there are, or one heavy one.
fn next_request(client: &mut Client) -> Option<Request> {
    let input = &client.input;
    let mut end = 0;
    let mut rest = &input[..];
    while !rest.starts_with(b"hash ") {
        let Some(line) = rest.iter().position(|byte| *byte == b'\n') else { break };
        end += line + 1;
        rest = &input[end..];
    }
    if end == 0 && (client.ended || input.len() > LONGEST_LINE) && !input.contains(&b'\n') {
        end = input.len();
    }
    if end > 0 {
        return Some(Request::Echo(client.input.drain(..end).collect()));
    }
    let line = input.iter().position(|byte| *byte == b'\n')?;
    let text = client.input.drain(..=line).collect::<Vec<_>>();
    Some(Request::Hash(text[b"hash ".len()..line].to_vec()))
}

/// The client does not read its answers: nothing is read from it until it does.
fn put_off(client: &Shared, why: NetError, mut bytes: Vec<u8>) {
    // Anything else means that the connection has ended, which the reader is told.
    let NetError::Full = why else { return };
    let connection = client.borrow().connection.clone();
    connection.stop_reading();
    bytes.append(&mut client.borrow_mut().input);
    client.borrow_mut().input = bytes;
    let waiting = client.clone();
    let room = connection.writable(move |event_loop, _, room| match room {
        Ok(()) => answer(event_loop, &waiting),
        Err(NetError::Canceled) => dismiss(&waiting),
        Err(_) => {}
    });
    if room.is_err() {
        dismiss(client);
    }
}

/// Works on the fast lane and goes on when the result is back on this loop.
fn hash_elsewhere(event_loop: &EventLoop, client: &Shared, text: Vec<u8>) {
    let homes = client.borrow().homes.clone();
    let rounds = homes.settings(event_loop).hash_rounds;
    client.borrow().connection.stop_reading();
    let waiting = client.clone();
    let handed = event_loop.work(
        Lane::Fast,
        move || hash(&text, rounds),
        move |event_loop, result| {
            let reply = match result {
                Ok(result) => format!("hash {rounds} {result:016x}\n"),
                Err(error) => format!("error {error}\n"),
            };
            homes.count(event_loop, |counts| counts.hashes += 1);
            let connection = waiting.borrow().connection.clone();
            match connection.write(reply.into_bytes()) {
                Ok(()) => answer(event_loop, &waiting),
                Err(refused) => put_off(&waiting, refused.reason().clone(), refused.into_inner()),
            }
        },
    );
    if let Err(refused) = handed {
        let _ = client.borrow().connection.write(format!("error {refused}\n"));
        dismiss(client);
    }
}

/// FNV-1a, over and over: work for a processor and nothing else.
fn hash(text: &[u8], rounds: u64) -> u64 {
    (0..rounds).fold(0xcbf2_9ce4_8422_2325, |hash, _| {
        text.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    })
}
