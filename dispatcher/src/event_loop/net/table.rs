//! `NetTable`: what a loop has open, so that its end reaches everything; and the buffer that all of it reads into.

use std::rc::{Rc, Weak};

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::slots::{Key, Slots};

/// How much one read takes in at most. One buffer a loop serves all its sockets: bytes are lent to a callback, and
/// nothing else reads meanwhile.
const BUFFER: usize = 64 * 1024;

/// How far the end of a loop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Stage {
    /// A shutdown has begun.
    Begin,
    /// The teardown callbacks have run: what is pending is told.
    Cancel,
    /// The time to linger is over, or nothing is left to do.
    End,
}

/// Something open, which hears of the end of its loop.
pub(super) trait Member {
    /// No table is borrowed meanwhile. What has to be told is deferred.
    fn on_stage(self: Rc<Self>, stage: Stage);
}

pub(crate) struct NetTable {
    members: Slots<Weak<dyn Member>>,
    /// Absent while a callback has it.
    buffer: Option<Box<[u8]>>,
    reached: Option<Stage>,
}

impl NetTable {
    pub(crate) fn new() -> Self {
        NetTable { members: Slots::new(), buffer: None, reached: None }
    }
}

/// The table as the things in it see it. Nothing here calls user code with the table borrowed.
impl EventLoop {
    pub(super) fn enter_net(&self, member: Weak<dyn Member>) -> Key {
        self.local().net.borrow_mut().members.insert(member)
    }

    pub(super) fn leave_net(&self, key: Key) {
        let member = self.local().net.borrow_mut().members.remove(key);
        drop(member);
    }

    /// Whether what is pending has been canceled, so that nothing new may wait.
    pub(super) fn net_is_canceled(&self) -> bool {
        self.local().net.borrow().reached.is_some_and(|reached| reached >= Stage::Cancel)
    }

    pub(super) fn take_read_buffer(&self) -> Box<[u8]> {
        let buffer = self.local().net.borrow_mut().buffer.take();
        buffer.unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice())
    }

    pub(super) fn put_read_buffer_back(&self, buffer: Box<[u8]>) {
        self.local().net.borrow_mut().buffer = Some(buffer);
    }

    /// The end of the loop has come so far.
    pub(crate) fn reach_net_stage(&self, stage: Stage) {
        let members: Vec<_> = {
            let mut table = self.local().net.borrow_mut();
            table.reached = Some(stage);
            table.members.iter().filter_map(Weak::upgrade).collect()
        };
        members.into_iter().for_each(|member| member.on_stage(stage));
    }
}
