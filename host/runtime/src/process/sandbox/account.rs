//! Whom a process runs as, and with which capabilities.
//!
//! Names are looked up in `/etc/passwd` and `/etc/group` themselves: what else a system may know accounts from would load
//! code and talk to services, in a process that is about to be fenced in. Numbers work for all.

use std::fs;

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities as capabilities_now, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::{Sandbox, SandboxError};

/// Whom the process is to run as; looked up.
pub(super) struct Account {
    /// User and group, if it is to become somebody else.
    identity: Option<(Uid, Gid)>,
    groups: Vec<Gid>,
    keeps: CapabilitySet,
}

/// One line of `/etc/passwd`.
struct User {
    uid: Uid,
    /// That of a number which has no line is not known.
    gid: Option<Gid>,
}

impl Account {
    pub(super) fn find(sandbox: &Sandbox) -> Result<Account, SandboxError> {
        let keeps = capabilities(sandbox)?;
        let groups = sandbox.groups.iter().map(|group| find_group(group)).collect::<Result<Vec<Gid>, _>>()?;
        let user = sandbox.user.as_deref().map(find_user).transpose()?;
        let group = sandbox.group.as_deref().map(find_group).transpose()?;
        if user.is_none() && group.is_none() && groups.is_empty() {
            return Ok(Account { identity: None, groups, keeps });
        }
        let gid = match (group, &user) {
            (Some(gid), _) => gid,
            (None, None) => getgid(),
            (None, Some(User { gid: Some(gid), .. })) => *gid,
            (None, Some(User { uid, gid: None })) => {
                let message = format!("user {} has no line in /etc/passwd, so its group is not known", uid.as_raw());
                return Err(SandboxError::said(message).help("say `group` too"));
            }
        };
        let uid = user.map_or_else(getuid, |user| user.uid);
        if !geteuid().is_root() {
            // It need not become what it is.
            if (uid, gid) == (getuid(), getgid()) && (uid, gid) == (geteuid(), getegid()) && groups.is_empty() {
                return Ok(Account { identity: None, groups, keeps });
            }
            return Err(SandboxError::said("only root can become another `user` or `group`")
                .help("leave them out, or start the host as root"));
        }
        Ok(Account { identity: Some((uid, gid)), groups, keeps })
    }

    /// Whether the process will run as root.
    pub(super) fn will_be_root(&self) -> bool {
        self.identity.map_or_else(geteuid, |(uid, _)| uid).is_root()
    }

    /// Becomes it. Each step needs a right that a later one gives up.
    pub(super) fn enter(&self) -> Result<(), SandboxError> {
        let now = capabilities_now(None).map_err(failed("read the capabilities"))?;
        let lacking = self.keeps - now.permitted;
        if !lacking.is_empty() {
            let message = format!("the host does not have the capability {} itself", names(lacking));
            return Err(SandboxError::said(message).help("leave it out of `capabilities`, or start the host with it"));
        }
        // A program that is started later cannot get back what is not in the bounding set, not even as root.
        if now.effective.contains(CapabilitySet::SETPCAP) {
            for capability in known().filter(|&one| !self.keeps.contains(one)) {
                match remove_capability_from_bounding_set(capability) {
                    // One that this kernel does not know is not there.
                    Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                    Err(error) => return Err(failed("drop a capability for good")(error)),
                }
            }
        }
        clear_ambient_capability_set().map_err(failed("clear the ambient capabilities"))?;
        if let Some((uid, gid)) = self.identity {
            set_thread_groups(&self.groups).map_err(failed("leave the groups of the host"))?;
            set_thread_res_gid(gid, gid, gid).map_err(failed("change the group"))?;
            // Else all of them are lost with the change of the user, those that are to stay too.
            set_keep_capabilities(true).map_err(failed("keep the capabilities"))?;
            set_thread_res_uid(uid, uid, uid).map_err(failed("change the user"))?;
            set_keep_capabilities(false).map_err(failed("keep no further capabilities"))?;
        } else if geteuid().is_root() {
            set_thread_groups(&[]).map_err(failed("leave the groups of the host"))?;
        }
        let sets = CapabilitySets { effective: self.keeps, permitted: self.keeps, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(failed("drop the capabilities"))
    }
}

fn failed(what: &'static str) -> impl Fn(rustix::io::Errno) -> SandboxError {
    move |error| SandboxError::system(format_args!("cannot {what}"), error)
}

/// The capabilities that are kept.
pub(super) fn capabilities(sandbox: &Sandbox) -> Result<CapabilitySet, SandboxError> {
    let mut kept = CapabilitySet::empty();
    for name in &sandbox.capabilities {
        let upper = name.to_ascii_uppercase().replace('-', "_");
        let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
        kept |= CapabilitySet::from_name(bare).ok_or_else(|| {
            SandboxError::said(format!("there is no capability `{name}`"))
                .help("the names are those of capabilities(7), such as `net_admin`")
        })?;
    }
    Ok(kept)
}

fn known() -> impl Iterator<Item = CapabilitySet> {
    CapabilitySet::all().iter_names().map(|(_, capability)| capability)
}

fn names(set: CapabilitySet) -> String {
    set.iter_names().map(|(name, _)| format!("`{}`", name.to_ascii_lowercase())).collect::<Vec<_>>().join(", ")
}

fn find_user(name: &str) -> Result<User, SandboxError> {
    let number = name.parse::<u32>().ok();
    for fields in lines("/etc/passwd")? {
        let (Some(uid), Some(gid)) = (at(&fields, 2), at(&fields, 3)) else { continue };
        if fields[0] == name || number == Some(uid) {
            return Ok(User { uid: Uid::from_raw(uid), gid: Some(Gid::from_raw(gid)) });
        }
    }
    match number.filter(|&number| number != u32::MAX) {
        Some(number) => Ok(User { uid: Uid::from_raw(number), gid: None }),
        None => Err(SandboxError::said(format!("there is no user `{name}` in /etc/passwd"))
            .help("make it, or give the number of one that is known from elsewhere")),
    }
}

fn find_group(name: &str) -> Result<Gid, SandboxError> {
    if let Some(number) = name.parse::<u32>().ok().filter(|&number| number != u32::MAX) {
        return Ok(Gid::from_raw(number));
    }
    let found = lines("/etc/group")?.into_iter().find(|fields| fields[0] == name);
    found.and_then(|fields| at(&fields, 2)).map(Gid::from_raw).ok_or_else(|| {
        SandboxError::said(format!("there is no group `{name}` in /etc/group"))
            .help("make it, or give the number of one that is known from elsewhere")
    })
}

/// The lines of such a file, in fields.
fn lines(path: &str) -> Result<Vec<Vec<String>>, SandboxError> {
    let bytes = fs::read(path).map_err(|error| SandboxError::system(format_args!("cannot read {path}"), error))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect())
}

fn at(fields: &[String], index: usize) -> Option<u32> {
    fields.get(index)?.parse().ok()
}
