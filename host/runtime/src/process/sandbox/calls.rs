//! Which system calls a process may make: seccomp.
//!
//! A list of what is allowed rather than of what is not: a call that a later kernel brings is not allowed until somebody has
//! thought about it. Two filters are put on, of which the kernel takes the stricter answer:
//!
//! 1. `clone3` is told to be unknown, so that the C library makes threads by `clone`: what that does can be seen from its
//!    arguments, and new namespaces are refused there.
//! 2. The list, and last what `refuse_calls` takes out of it.
//!
//! What a driver may do to *other* processes of its user is left out as well as what needs a privilege: it shares its user
//! with the host, unless it is given one of its own.

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{BpfProgram, apply_filter, compile_from_json};
use serde_json::{Value, json};

use super::{Enforce, Refusal, Sandbox, SandboxError, SystemCalls};

/// What programs need: memory, threads, time, waiting, files that are open or may be opened, signals, and telling about
/// themselves.
const ALLOWED: &str = "
    brk mmap mprotect munmap mremap madvise mincore msync mlock mlock2 mlockall munlock munlockall membarrier mseal
    memfd_create memfd_secret pkey_alloc pkey_free pkey_mprotect map_shadow_stack get_mempolicy set_mempolicy mbind
    exit exit_group wait4 waitid set_tid_address set_robust_list get_robust_list rseq
    futex futex_wait futex_wake futex_waitv futex_requeue sched_yield restart_syscall
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday times getitimer setitimer
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime
    timerfd_create timerfd_gettime timerfd_settime eventfd2 signalfd4
    epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 ppoll pselect6 inotify_init1 inotify_add_watch inotify_rm_watch
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup3 pipe2 fcntl
    sendfile splice tee vmsplice copy_file_range fallocate fadvise64 readahead flock ftruncate truncate
    fsync fdatasync sync_file_range syncfs io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy
    openat openat2 fstat newfstatat statx statfs fstatfs faccessat faccessat2 readlinkat getdents64 getcwd chdir fchdir
    mkdirat unlinkat renameat renameat2 linkat symlinkat mknodat fchmod fchmodat fchmodat2 fchown fchownat utimensat umask
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr lremovexattr
    fremovexattr cachestat
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn rt_sigqueueinfo
    rt_tgsigqueueinfo sigaltstack kill tkill tgkill pidfd_open pidfd_send_signal
    getpid gettid getppid getpgid getsid setpgid setsid getuid geteuid getgid getegid getresuid getresgid getgroups
    capget prctl getrusage sysinfo uname getcpu getrandom getpriority ioprio_get
    sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
    sched_rr_get_interval seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
    accept accept4 getsockname getpeername getsockopt setsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown
    clone3
";

/// The same things by older names, which newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &str = "
    access alarm arch_prctl chmod chown creat dup2 epoll_create epoll_wait eventfd fork vfork futimesat getdents getpgrp
    getrlimit inotify_init lchown link lstat mkdir mknod open pause pipe poll readlink rename rmdir select setrlimit
    signalfd stat symlink time unlink utime utimes
";
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &str = "";

const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;
const STREAM: u64 = 1;
const SEQUENCED: u64 = 5;

/// All kinds of namespaces that `clone` can begin.
const NEW_NAMESPACES: u64 = 0x7E02_0000;

/// Requests that put letters into a terminal as if somebody had typed them.
const TYPING: [u64; 2] = [0x5412, 0x541C];

/// What one argument must be.
fn argument(index: u8, op: Value, value: u64) -> Value {
    json!({ "index": index, "type": "dword", "op": op, "val": value })
}

fn equal(index: u8, value: u64) -> Value {
    argument(index, json!("eq"), value)
}

/// The filters of a sandbox, ready to be put on.
pub(super) struct Calls {
    filters: Vec<BpfProgram>,
    /// Why there are none, although there should be.
    lacks: Option<String>,
}

impl Calls {
    pub(super) fn of(sandbox: &Sandbox) -> Result<Calls, SandboxError> {
        let refusal = match sandbox.refused_calls {
            Refusal::Error => json!({ "errno": Errno::PERM.raw_os_error() }),
            Refusal::Kill => json!("kill_process"),
        };
        let mut filters = Vec::new();
        let mut lacks = None;
        if sandbox.system_calls == SystemCalls::Default {
            if known_here() {
                let unknown = json!({ "errno": Errno::NOSYS.raw_os_error() });
                filters.push(compile(&json!("allow"), &unknown, &[json!({ "syscall": "clone3" })])?);
                filters.push(compile(&refusal, &json!("allow"), &allowed(sandbox))?);
            } else {
                let machine = std::env::consts::ARCH;
                lacks = Some(format!("system calls of this kind of machine ({machine}) cannot be filtered"));
            }
        }
        if !sandbox.refuse_calls.is_empty() {
            let rules: Vec<Value> = sandbox.refuse_calls.iter().map(|name| json!({ "syscall": name })).collect();
            filters.push(compile(&json!("allow"), &refusal, &rules)?);
        }
        Ok(Calls { filters, lacks })
    }

    /// Puts the filters on, and returns what this machine cannot do.
    pub(super) fn enforce(self, sandbox: &Sandbox) -> Result<Option<String>, SandboxError> {
        let mut lacks = self.lacks;
        // In the order of the list: the first one allows what puts on the others.
        for filter in &self.filters {
            match apply_filter(filter) {
                Ok(()) => {}
                Err(seccompiler::Error::Seccomp(error)) if is_absent(&error) => {
                    lacks = Some("this kernel cannot filter system calls (seccomp)".to_owned());
                }
                Err(error) => return Err(SandboxError::said(format!("cannot filter system calls: {error}"))),
            }
        }
        match lacks {
            Some(lacks) if sandbox.enforce == Enforce::Required => Err(SandboxError::missing(&[lacks])),
            lacks => Ok(lacks),
        }
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOSYS.raw_os_error())
}

/// Whether the names of system calls of this kind of machine are known.
fn known_here() -> bool {
    seccompiler::TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// The names that a sandbox says.
pub(super) fn check(sandbox: &Sandbox) -> Result<(), SandboxError> {
    for name in sandbox.allow_calls.iter().chain(&sandbox.refuse_calls).filter(|_| known_here()) {
        let alone = [json!({ "syscall": name })];
        if compile(&json!("allow"), &json!({ "errno": 1 }), &alone).is_err() {
            return Err(SandboxError::said(format!("there is no system call `{name}` on this kind of machine"))
                .help("the names are those of section 2 of the manual, such as `ptrace`"));
        }
    }
    Ok(())
}

/// The rules for what is allowed.
fn allowed(sandbox: &Sandbox) -> Vec<Value> {
    // Of each call the rules, one of which has to hold; none: it is allowed whatever its arguments are.
    let mut rules: BTreeMap<&str, Vec<Vec<Value>>> = BTreeMap::new();
    for name in ALLOWED.split_whitespace().chain(OLDER.split_whitespace()) {
        rules.insert(name, Vec::new());
    }
    rules.insert("clone", vec![vec![argument(0, json!({ "masked_eq": NEW_NAMESPACES }), 0)]]);
    rules.insert("ioctl", vec![TYPING.iter().map(|&request| argument(1, json!("ne"), request)).collect()]);
    // Of the process itself, which is number 0, and not of others of the same user.
    for name in ["prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"] {
        rules.insert(name, vec![vec![equal(0, 0)]]);
    }
    for name in ["setpriority", "ioprio_set"] {
        rules.insert(name, vec![vec![equal(1, 0)]]);
    }
    if !sandbox.execute.is_empty() {
        rules.insert("execve", Vec::new());
        rules.insert("execveat", Vec::new());
    }
    sockets(sandbox, &mut rules);
    for name in &sandbox.allow_calls {
        rules.insert(name, Vec::new());
    }
    let rule = |name: &str, arguments: Option<Vec<Value>>| match arguments {
        Some(arguments) => json!({ "syscall": name, "args": arguments }),
        None => json!({ "syscall": name }),
    };
    rules
        .into_iter()
        .flat_map(|(name, rules)| match rules.is_empty() {
            true => vec![rule(name, None)],
            false => rules.into_iter().map(|arguments| rule(name, Some(arguments))).collect(),
        })
        .collect()
}

fn sockets(sandbox: &Sandbox, rules: &mut BTreeMap<&str, Vec<Vec<Value>>>) {
    let mut families = Vec::new();
    if sandbox.network {
        families.extend([vec![equal(0, INET)], vec![equal(0, INET6)]]);
        // Asks for addresses and routes; changing any needs `net_admin`.
        families.push(vec![equal(0, NETLINK), equal(2, 0)]);
    }
    if sandbox.unix_sockets {
        families.push(vec![equal(0, UNIX)]);
        rules.insert("socketpair", vec![vec![equal(0, UNIX)]]);
    } else {
        // A pair of datagram sockets could send to any other by its path, and is no pair then.
        let kind = |kind| vec![equal(0, UNIX), argument(1, json!({ "masked_eq": 0xF }), kind)];
        rules.insert("socketpair", vec![kind(STREAM), kind(SEQUENCED)]);
    }
    if !families.is_empty() {
        rules.insert("socket", families);
        for name in ["connect", "bind", "listen"] {
            rules.insert(name, Vec::new());
        }
    }
}

/// A filter that answers `matching` to what one of the rules says, and `other` to the rest.
pub(super) fn compile(other: &Value, matching: &Value, rules: &[Value]) -> Result<BpfProgram, SandboxError> {
    let text = json!({ "it": { "mismatch_action": other, "match_action": matching, "filter": rules } }).to_string();
    let failed = |error: String| SandboxError::said(format!("cannot make a filter of system calls: {error}"));
    let machine = seccompiler::TargetArch::try_from(std::env::consts::ARCH);
    let machine = machine.map_err(|error| failed(error.to_string()))?;
    let mut compiled = compile_from_json(text.as_bytes(), machine).map_err(|error| failed(error.to_string()))?;
    compiled.remove("it").ok_or_else(|| failed("it is empty".to_owned()))
}
