//! Tokens over the table.
//!
//! # Invariants
//! - As in `objects`. An end that is used up belongs to the host from then on, so its owner is forgotten.

use std::mem;
use std::ptr;

use super::attach::{table, try_table};
use super::channel::ChannelObject;
use super::closure::give_connect;
use super::objects::{CastMut, DispatcherObject, TaskObject, object};
use super::site::CallSite;
use super::types::RawToken;
use crate::{Channel, Status};

object! {
    /// One end of a token.
    TokenObject: RawToken as *mut RawToken, token_release
}

impl TokenObject {
    /// A new pair.
    pub(crate) fn pair(site: &'static CallSite) -> Result<(Self, Self), Status> {
        let (mut a, mut b) = (ptr::null_mut(), ptr::null_mut());
        let table = try_table().ok_or(Status::BadState)?;
        // SAFETY: the out pointers are valid for the call.
        Status::result_of(unsafe { (table.token_create)(site, &raw mut a, &raw mut b) })?;
        // SAFETY: on success the host has stored two owned pointers.
        Ok(unsafe { (Self::from_owned(a), Self::from_owned(b)) })
    }

    /// Has `f` called with the channel that comes.
    pub(crate) fn register<F>(
        self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        f: F,
    ) -> Result<TaskObject, ((Self, F), Status)>
    where
        F: FnOnce(Result<Channel, Status>) + Send + 'static,
    {
        let mut task = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        let given = give_connect(site, f, |callback| unsafe {
            (table().token_register)(self.raw(), dispatcher.raw(), callback, &raw mut task)
        });
        match given {
            Ok(()) => {
                mem::forget(self);
                // SAFETY: on success the host has stored an owned pointer.
                Ok(unsafe { TaskObject::from_owned(task) })
            }
            Err((f, status)) => Err(((self, f), status)),
        }
    }

    /// Gives a channel end to whoever has the other end.
    pub(crate) fn transfer(self, channel: ChannelObject) -> Result<(), ((Self, ChannelObject), Status)> {
        // SAFETY: both are alive; they are moved on success only.
        match Status::result_of(unsafe { (table().token_transfer)(self.raw(), channel.raw()) }) {
            Ok(()) => {
                mem::forget((self, channel));
                Ok(())
            }
            Err(status) => Err(((self, channel), status)),
        }
    }

    /// Takes the channel end that was given to this one.
    pub(crate) fn receive(self) -> Result<ChannelObject, (Self, Status)> {
        let mut channel = ptr::null_mut();
        // SAFETY: the end is alive and the out pointer valid for the call.
        match Status::result_of(unsafe { (table().token_receive)(self.raw(), &raw mut channel) }) {
            Ok(()) => {
                mem::forget(self);
                // SAFETY: on success the host has stored an owned pointer.
                Ok(unsafe { ChannelObject::from_owned(channel) })
            }
            Err(status) => Err((self, status)),
        }
    }
}
