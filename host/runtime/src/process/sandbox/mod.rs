//! Fences around a process that runs drivers: what it may still do is listed, and the rest is refused by the system.
//!
//! A [`Sandbox`] is what the table `sandbox` of a manifest says. The process puts it on itself, once and for good, while it
//! has one thread and before any code of a driver is in it. Whatever a driver does later, whether by a mistake or on
//! purpose, is done inside.
//!
//! # Steps of [`Sandbox::apply`], in this order
//! 1. **One thread.** Most of what follows counts for the calling thread and those that it starts, so another one would
//!    stay outside, with the same memory.
//! 2. **Look.** Names of accounts are looked up and paths opened, as what this process still is: later it may not.
//! 3. **Limits**, while it may still raise one.
//! 4. **Account.** What can be regained goes first: the bounding set of capabilities, the groups, the group, the user, then
//!    the capabilities themselves. Each needs a right that a later one gives up.
//! 5. **No new privileges.** Without it, an unprivileged process may put on neither of the next two. It comes after the
//!    account, since it is of no use for a process that can become root by itself.
//! 6. **Files and signals** (Landlock).
//! 7. **System calls** (seccomp) last, as it refuses those that the steps before need.
//!
//! Nothing is rolled back: after an error the process is somewhere in between, and has to end.
//!
//! # Parts
//! | file | noun |
//! |---|---|
//! | `account` | whom the process runs as, and with which capabilities |
//! | `limits` | how much it may use |
//! | `files` | what it may open, and whom it may signal |
//! | `calls` | which system calls it may make |
//! | `problem` | why a fence cannot be put on |
//!
//! # Shutdown and panic
//! Nothing ends a fence but the end of the process. Programs that it starts inherit it.

mod account;
mod calls;
mod files;
mod limits;
mod problem;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use problem::SandboxError;

/// Fences for a process: what its drivers may do. What is not allowed here is refused.
///
/// The default lets a driver compute, run threads, use memory and the channels and descriptors that it is given, and
/// nothing else: no file besides the system's libraries, no network, no other programs.
///
/// # Examples
/// ```
/// use fuchsine_host::process::Sandbox;
///
/// # fn main() -> Result<(), serde_json::Error> {
/// let sandbox: Sandbox = serde_json::from_str(r#"{ "write": ["/var/lib/disk.img"], "files": 64 }"#)?;
/// assert!(sandbox.no_new_privileges && !sandbox.network);
///
/// let error = serde_json::from_str::<Sandbox>(r#"{ "wirte": [] }"#).unwrap_err();
/// assert!(error.to_string().starts_with("unknown field `wirte`"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sandbox {
    /// Neither it nor a program that it starts gains a right by a set-user-ID bit or a capability of a file.
    pub no_new_privileges: bool,
    /// Files that may be read, and folders with all that is below. Absolute.
    pub read: Vec<PathBuf>,
    /// Files that may be read, written and truncated, and folders in which files may be made and removed as well. Absolute.
    pub write: Vec<PathBuf>,
    /// Programs that may be started, and folders of such.
    pub execute: Vec<PathBuf>,
    /// Whether it may make sockets of the internet. Sockets that it is given work in any case.
    pub network: bool,
    /// Whether it may make Unix sockets: with one it reaches every service that its user may connect to.
    pub unix_sockets: bool,
    /// Which system calls it may make.
    pub system_calls: SystemCalls,
    /// Calls that it may make beside those, by name.
    pub allow_calls: Vec<String>,
    /// Calls that it may not make although they are among those, by name.
    pub refuse_calls: Vec<String>,
    /// What becomes of a call that it may not make.
    pub refused_calls: Refusal,
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Descriptors at one time.
    pub files: Option<u64>,
    /// Processes and threads of its user, all together. Does not count for root.
    pub processes: Option<u64>,
    /// Seconds of processor time, after which it is killed.
    pub cpu_seconds: Option<u64>,
    /// The size of a core dump, in bytes.
    pub core: u64,
    /// Whom it runs as: a name of `/etc/passwd`, or a number. Only root can become somebody else.
    pub user: Option<String>,
    /// Its group: a name of `/etc/group`, or a number; if it is not said, that of the user.
    pub group: Option<String>,
    /// Further groups. It is in no others.
    pub groups: Vec<String>,
    /// The capabilities that it keeps, by name: `net_admin`, for example.
    pub capabilities: Vec<String>,
    /// What becomes of a fence that the kernel does not have.
    pub enforce: Enforce,
}

/// Which system calls a process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SystemCalls {
    /// Those that programs need: the list is in the book's reference.
    #[default]
    Default,
    /// All.
    Any,
}

/// What becomes of a system call that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// It fails, with `EPERM`.
    #[default]
    Error,
    /// The process is killed, by `SIGSYS`.
    Kill,
}

/// What becomes of a fence that this machine's kernel does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Enforce {
    /// The process does not start, and the error says which it is.
    #[default]
    Required,
    /// It goes without that one, and is told.
    BestEffort,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox {
            no_new_privileges: true,
            read: Vec::new(),
            write: Vec::new(),
            execute: Vec::new(),
            network: false,
            unix_sockets: false,
            system_calls: SystemCalls::default(),
            allow_calls: Vec::new(),
            refuse_calls: Vec::new(),
            refused_calls: Refusal::default(),
            memory: None,
            files: None,
            processes: None,
            cpu_seconds: None,
            core: 0,
            user: None,
            group: None,
            groups: Vec::new(),
            capabilities: Vec::new(),
            enforce: Enforce::default(),
        }
    }
}

impl Sandbox {
    /// Puts the fences on this process. What the kernel does not have is returned, a sentence each; with
    /// [`Enforce::Required`] there is none.
    ///
    /// # Errors
    /// What cannot be done, and what to do about it. The process is then partly fenced, and has to end.
    ///
    /// # Thread requirements
    /// The only thread of its process.
    pub fn apply(&self) -> Result<Vec<String>, SandboxError> {
        self.check()?;
        only_one_thread()?;
        let account = account::Account::find(self)?;
        let files = files::Files::open(self)?;
        let calls = calls::Calls::of(self)?;
        limits::set(self, account.will_be_root())?;
        account.enter()?;
        if self.no_new_privileges {
            rustix::thread::set_no_new_privs(true).map_err(|error| SandboxError::system("no new privileges", error))?;
        }
        let mut missing = files.enforce(self)?;
        missing.extend(calls.enforce(self)?);
        Ok(missing)
    }

    /// Whether it makes sense, as far as that can be told without putting it on: names of system calls and capabilities, and
    /// what excludes each other.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), SandboxError> {
        account::capabilities(self)?;
        calls::check(self)?;
        let mut paths = self.read.iter().chain(&self.write).chain(&self.execute);
        if let Some(path) = paths.find(|path| !path.is_absolute()) {
            return Err(SandboxError::relative(path));
        }
        let filters_calls = self.system_calls != SystemCalls::Any || !self.refuse_calls.is_empty();
        if !self.no_new_privileges && filters_calls {
            return Err(SandboxError::said(
                "`no_new_privileges = false` needs `system_calls = \"any\"` and no `refuse_calls`",
            )
            .help("a filter of system calls is only for processes that gain no privileges"));
        }
        Ok(())
    }
}

/// Whether this process has one thread.
fn only_one_thread() -> Result<(), SandboxError> {
    let threads =
        std::fs::read_dir("/proc/self/task").map_err(|error| SandboxError::system("/proc/self/task", error))?;
    match threads.count() {
        1 => Ok(()),
        count => Err(SandboxError::threads(count)),
    }
}
