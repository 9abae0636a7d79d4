//! What a process may open, and whom it may signal: Landlock.
//!
//! What it has open already stays open, and so does what it is sent: a descriptor is a right that somebody gave on purpose.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictSelf, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::{Enforce, Sandbox, SandboxError};

/// What programs read wherever they run: libraries, the time zone, chance, and what the system says about this process.
const BASE_READ: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
];

/// What they write to.
const BASE_WRITE: &[&str] = &["/dev/null"];

/// What the names of hosts are found by.
const NETWORK_READ: &[&str] =
    &["/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services"];

/// The newest version of Landlock of which everything is used.
const NEWEST: ABI = ABI::V6;

/// What is needed of a kernel, by the version of Landlock that has it.
const NEEDS: &[(ABI, &str)] = &[
    (ABI::V1, "this kernel cannot fence in files (Landlock, Linux 5.13 or later, and enabled)"),
    (ABI::V3, "this kernel cannot keep files outside of `write` from being truncated (Linux 6.2 or later)"),
    (ABI::V6, "this kernel cannot keep it from sending signals to other processes (Linux 6.12 or later)"),
];

/// The paths of a sandbox, opened.
pub(super) struct Files {
    rules: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// A rule is about an inode. That of this folder would be another one once the kernel is short of memory, if nobody held
    /// it; so this stays open for as long as the process runs.
    itself: Option<OwnedFd>,
}

impl Files {
    pub(super) fn open(sandbox: &Sandbox) -> Result<Files, SandboxError> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let execute = make_bitflags!(AccessFs::{Execute | ReadFile});
        // Devices and further system calls on them: what may be written to may be controlled too.
        let write = AccessFs::from_all(NEWEST) & !make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock});
        // A program that is started needs the one that loads its libraries.
        let base = if sandbox.execute.is_empty() { read } else { read | AccessFs::Execute };

        let itself = open("/proc/self", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let mut files = Files { rules: Vec::new(), itself };
        let network: &[&str] = if sandbox.network { NETWORK_READ } else { &[] };
        for (paths, access) in [(BASE_READ, base), (BASE_WRITE, write), (network, base)] {
            for path in paths {
                // A system that does not have one does not need it.
                let _ = files.allow(Path::new(path), access);
            }
        }
        let named = |key: &'static str, paths: &[PathBuf]| paths.iter().map(move |path| (key, path.clone())).collect();
        let all: [(Vec<(&str, PathBuf)>, _); 3] = [
            (named("read", &sandbox.read), read),
            (named("write", &sandbox.write), write),
            (named("execute", &sandbox.execute), execute),
        ];
        for (paths, access) in all {
            for (key, path) in paths {
                files.allow(&path, access).map_err(|error| {
                    let what = format_args!("cannot open `{}` of `{key}`", path.display()).to_string();
                    let error = SandboxError::system(what, error);
                    match path.parent().filter(|folder| key == "write" && folder.is_dir()) {
                        Some(folder) => {
                            error.help(format!("make it before, or allow its folder, {}", folder.display()))
                        }
                        None => error,
                    }
                })?;
            }
        }
        Ok(files)
    }

    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> rustix::io::Result<()> {
        let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_folder = FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Directory;
        let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST) };
        self.rules.push((opened, access));
        Ok(())
    }

    /// From here on nothing else can be opened. Returns what the kernel does not have.
    pub(super) fn enforce(self, sandbox: &Sandbox) -> Result<Vec<String>, SandboxError> {
        let failed = |error: landlock::RulesetError| {
            let help =
                if sandbox.no_new_privileges { "" } else { "; without `no_new_privileges` it needs `sys_admin`" };
            SandboxError::said(format!("cannot fence in files: {error}{help}"))
        };
        let has = version()?;
        let lacks: Vec<String> =
            NEEDS.iter().filter(|(needs, _)| has < *needs).map(|(_, what)| (*what).to_owned()).collect();
        if !lacks.is_empty() && sandbox.enforce == Enforce::Required {
            return Err(SandboxError::missing(&lacks));
        }
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).map_err(failed)?;
        rules = rules.scope(Scope::Signal).map_err(failed)?;
        if !sandbox.unix_sockets {
            rules = rules.scope(Scope::AbstractUnixSocket).map_err(failed)?;
        }
        if !sandbox.network {
            // System calls that make sockets are refused as well; this is for those that it is given unconnected.
            rules = rules.handle_access(AccessNet::from_all(NEWEST)).map_err(failed)?;
        }
        let mut rules = rules.create().map_err(failed)?.no_new_privs(false);
        for (opened, access) in &self.rules {
            rules = rules.add_rule(PathBeneath::new(opened, *access)).map_err(failed)?;
        }
        let status = rules.restrict_self().map_err(failed)?;
        if status.ruleset == RulesetStatus::NotEnforced && sandbox.enforce == Enforce::Required {
            return Err(SandboxError::missing(&[NEEDS[0].1.to_owned()]));
        }
        std::mem::forget(self.itself);
        Ok(lacks)
    }
}

/// What this kernel has of Landlock. Changes nothing.
fn version() -> Result<ABI, SandboxError> {
    let asked = RestrictSelf::default().no_new_privs(false).apply();
    match asked.map_err(|error| SandboxError::said(format!("cannot ask the kernel for Landlock: {error}")))?.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi),
        _ => Ok(ABI::Unsupported),
    }
}
