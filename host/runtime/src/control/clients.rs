//! The clients of a control socket that there are, and which of them follow the log.
//!
//! Followers stay, so their places are given away: one that has been busy with a write for the idle time, which means that
//! its client does not read, leaves when another one asks and no place is free.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The clients of one server. Behind a lock of its own, which is not held while anything is written.
#[derive(Debug, Default)]
pub(super) struct Clients {
    next: u64,
    /// Their connections, for the end.
    streams: Vec<(u64, UnixStream)>,
    followers: Vec<Follower>,
}

#[derive(Debug)]
struct Follower {
    client: u64,
    /// Since when one line is being written to it.
    busy: Option<Instant>,
}

/// Whether a client may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Free,
    /// It was that of a client that does not read.
    Taken,
    None,
}

impl Clients {
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &UnixStream> {
        self.streams.iter().map(|(_, stream)| stream)
    }

    /// A client more; returns its number.
    pub(super) fn add(&mut self, stream: UnixStream) -> u64 {
        self.next += 1;
        self.streams.push((self.next, stream));
        self.next
    }

    pub(super) fn remove(&mut self, client: u64) {
        self.streams.retain(|(id, _)| *id != client);
        self.unfollow(client);
    }

    /// Makes a client one of at most `most` followers, if there is a place, or one that has not read for `patience`.
    pub(super) fn follow(&mut self, client: u64, most: usize, patience: Duration) -> Place {
        let is_full = self.followers.len() >= most;
        if is_full {
            let stuck = |follower: &Follower| follower.busy.filter(|since| since.elapsed() >= patience);
            let longest = self.followers.iter().filter_map(|one| Some((stuck(one)?, one.client))).min();
            let Some((_, slow)) = longest else { return Place::None };
            // Its write ends with an error, and with it its session.
            for (_, stream) in self.streams.iter().filter(|(id, _)| *id == slow) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            self.unfollow(slow);
        }
        self.followers.push(Follower { client, busy: None });
        if is_full { Place::Taken } else { Place::Free }
    }

    /// What a follower does: it waits for its client since then, or not any more.
    pub(super) fn busy(&mut self, client: u64, since: Option<Instant>) {
        for follower in self.followers.iter_mut().filter(|follower| follower.client == client) {
            follower.busy = since;
        }
    }

    pub(super) fn unfollow(&mut self, client: u64) {
        self.followers.retain(|follower| follower.client != client);
    }
}
