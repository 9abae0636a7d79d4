//! Calls over the table: a request, and the one reply to it.
//!
//! # Invariants
//! - As in `channel`: what was sent belongs to the host, what was not is still ours; for a call that blocks, the host says
//!   which of the two it is.

use std::ptr;

use super::attach::table;
use super::channel::{ChannelObject, lend_message, message_of_parts};
use super::closure::{Content, give_message};
use super::objects::{DispatcherObject, TaskObject};
use super::parts::MessageParts;
use super::site::CallSite;
use crate::{Message, Status};

impl ChannelObject {
    /// Sends a request and blocks until its reply is there. The request is inside the error if it was not sent.
    pub(crate) fn call(&self, request: Content, deadline: u64) -> Result<Content, (Option<Content>, Status)> {
        let lent = lend_message(request, |parts| {
            let (mut reply, mut sent) = (MessageParts::EMPTY, 0);
            // SAFETY: the end is alive, and all pointers are valid for the call.
            let status = unsafe { (table().channel_call)(self.raw(), parts, deadline, &raw mut reply, &raw mut sent) };
            // SAFETY: on success the host has stored the parts of a message, which are ours now.
            let reply = Status::result_of(status).map(|()| unsafe { message_of_parts(&reply) });
            if sent == 0 { reply.map(Ok) } else { Ok(reply) }
        });
        match lent {
            Ok(reply) => reply.map_err(|status| (None, status)),
            Err((request, status)) => Err((Some(request), status)),
        }
    }

    /// Sends a request and has `f` called with its reply.
    pub(crate) fn begin_call<F>(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        request: Content,
        deadline: u64,
        f: F,
    ) -> Result<TaskObject, ((Content, F), Status)>
    where
        F: FnOnce(Result<Message, Status>) + Send + 'static,
    {
        let mut task = ptr::null_mut();
        let lent = lend_message(request, |parts| {
            // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
            give_message(site, f, |callback| unsafe {
                (table().channel_begin_call)(self.raw(), dispatcher.raw(), parts, deadline, callback, &raw mut task)
            })
        });
        match lent {
            // SAFETY: on success the host has stored an owned pointer.
            Ok(()) => Ok(unsafe { TaskObject::from_owned(task) }),
            Err((request, (f, status))) => Err(((request, f), status)),
        }
    }
}
