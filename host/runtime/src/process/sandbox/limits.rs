//! How much a process may use: the limits of the system, both the one that counts and the one that it may raise that to.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Sandbox, SandboxError};

/// What a process needs beside what it has when the limit is set: the stacks of its threads.
const ROOM: u64 = 32 << 20;

pub(super) fn set(sandbox: &Sandbox, will_be_root: bool) -> Result<(), SandboxError> {
    if let Some(memory) = sandbox.memory {
        let used = address_space()?;
        if memory < used + ROOM {
            let least = (used + ROOM).div_ceil(1 << 20);
            return Err(SandboxError::said(format!("`memory` must be {least} MiB at least"))
                .help("it counts address space, and this process has most of that before any driver is in it"));
        }
        limit("memory", Resource::As, memory, memory)?;
    }
    if let Some(files) = sandbox.files {
        limit("files", Resource::Nofile, files, files)?;
    }
    if let Some(processes) = sandbox.processes {
        if will_be_root {
            return Err(SandboxError::said("`processes` has no effect on root")
                .help("run it as another `user`; or leave the limit out, and limit it by a cgroup"));
        }
        limit("processes", Resource::Nproc, processes, processes)?;
    }
    if let Some(seconds) = sandbox.cpu_seconds {
        // At the first it is told by SIGXCPU, which names the reason; at the second it is killed by SIGKILL.
        limit("cpu_seconds", Resource::Cpu, seconds, seconds + 1)?;
    }
    limit("core", Resource::Core, sandbox.core, sandbox.core)
}

fn limit(key: &str, resource: Resource, current: u64, maximum: u64) -> Result<(), SandboxError> {
    let may = getrlimit(resource).maximum;
    let is_lower = |wanted| may.is_none_or(|may| wanted <= may);
    let new = Rlimit { current: Some(current), maximum: Some(maximum) };
    match setrlimit(resource, new) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) if !is_lower(maximum) => {
            let may = may.unwrap_or(u64::MAX);
            Err(SandboxError::said(format!("`{key}` may not be raised to {maximum}: the host itself has {may}"))
                .help("lower it, or raise the limit of the host"))
        }
        Err(error) => Err(SandboxError::system(format_args!("cannot set the limit `{key}`"), error)),
    }
}

/// The bytes of address space that this process has.
fn address_space() -> Result<u64, SandboxError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let unknown = || SandboxError::said("cannot tell from /proc/self/status how much memory this process has");
    Ok(kib.ok_or_else(unknown)? << 10)
}
