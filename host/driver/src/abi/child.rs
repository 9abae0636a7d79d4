//! Child nodes over the table.
//!
//! # Invariants
//! - As in `objects`: one value, one owned pointer. A connector that the host did not take is dropped here.

use std::ptr;

use super::attach::table;
use super::closure::{connector, drop_unused_connector, give_callback};
use super::objects::{CastMut, ChannelObject, ContextObject, DispatcherObject, object};
use super::parts::{ChildOptions, Service};
use super::site::CallSite;
use super::text::collect_text_and;
use super::types::{Property, RawChild, Str};
use crate::Status;

object! {
    /// A child node.
    ChildObject: RawChild as *mut RawChild, child_release
}

/// The server side of a service: its name, where it was offered, and what takes the connections.
pub(crate) struct Accept {
    pub(crate) name: String,
    pub(crate) site: &'static CallSite,
    pub(crate) accept: Box<dyn Fn(ChannelObject) + Send + Sync>,
}

impl ContextObject {
    /// Adds a child whose connectors are called on `dispatcher`.
    pub(crate) fn add_child(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        name: &str,
        properties: &[(String, String)],
        services: Vec<Accept>,
    ) -> Result<ChildObject, (Status, String)> {
        let properties: Vec<Property> =
            properties.iter().map(|(key, value)| Property { key: Str::new(key), value: Str::new(value) }).collect();
        let (names, accepts): (Vec<String>, Vec<_>) =
            services.into_iter().map(|service| (service.name, (service.site, service.accept))).unzip();
        let mut services: Vec<Service> = names
            .iter()
            .zip(accepts)
            .map(|(name, (site, accept))| Service { name: Str::new(name), connector: connector(site, accept) })
            .collect();
        let mut options = ChildOptions {
            name: Str::new(name),
            properties: properties.as_ptr(),
            property_count: properties.len(),
            services: services.as_mut_ptr(),
            service_count: services.len(),
            dispatcher: dispatcher.raw(),
            site,
        };
        let mut child = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the connectors are moved out only on success.
        let (error, status) = collect_text_and(|error| unsafe {
            (table().child_add)(self.raw(), &raw mut options, &raw mut child, error)
        });
        if let Err(status) = Status::result_of(status) {
            services.into_iter().for_each(|service| drop_unused_connector(service.connector));
            return Err((status, error));
        }
        // SAFETY: on success the host has stored an owned pointer. The connectors are its own now; the structs have no
        // destructor of their own.
        Ok(unsafe { ChildObject::from_owned(child) })
    }
}

impl ChildObject {
    /// Begins to remove it.
    pub(crate) fn remove(&self) {
        // SAFETY: the child is alive; nulls ask for no callback. A child that is gone already is no concern here.
        unsafe { (table().child_remove)(self.raw(), ptr::null(), ptr::null_mut()) };
    }

    /// Begins to remove it; `f` is called on `dispatcher` when it is gone.
    pub(crate) fn remove_then<F>(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        f: F,
    ) -> Result<(), (F, Status)>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_callback(site, f, |callback| unsafe { (table().child_remove)(self.raw(), dispatcher.raw(), callback) })
    }
}
