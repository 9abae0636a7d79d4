//! Goal: what a sandbox does not allow is refused by the system whoever asks, and what it allows works. Method: this test
//! program once more, which puts the sandbox on itself, tries one act after the other and tells how each ended. It does so
//! ahead of `main`, as the harness of tests runs none on the first thread.
//!
//! # Invariants
//! - `unsafe` here makes system calls that no crate offers, by their numbers and with zeros for arguments: each of them is
//!   refused before it looks at one, or else by what zeros mean to it.
//! - It has the system call a function ahead of `main`, which does nothing unless a test of this file has started the process.

#![allow(unsafe_code, reason = "system calls that are to be refused, by their numbers")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Resource, getppid, getrlimit, test_kill_process};
use serde::{Deserialize, Serialize};

use fuchsine_dispatcher::{Channel, Message};

use super::super::tests::Side;
use super::super::{Child, adopt, bridge, socket_pair};
use super::{Enforce, Refusal, Sandbox, SystemCalls};

/// Has the orders of a child.
const ORDERS: &str = "FUCHSINE_TEST_SANDBOX";

/// Who nobody is, and nothing belongs to.
const NOBODY: u32 = 65_534;

#[derive(Serialize, Deserialize)]
struct Orders {
    /// Calls that the kernel is to be without.
    without: Vec<String>,
    sandbox: Sandbox,
    acts: Vec<String>,
}

/// What a child told.
struct Told {
    /// What `apply` returned.
    applied: Result<String, String>,
    acts: BTreeMap<String, Result<String, i32>>,
    status: ExitStatus,
}

impl Told {
    #[track_caller]
    fn refused(&self, act: &str, errno: Errno) {
        assert_eq!(self.acts[act], Err(errno.raw_os_error()), "{act}");
    }

    #[track_caller]
    fn works(&self, act: &str) -> &str {
        self.acts[act]
            .as_ref()
            .unwrap_or_else(|errno| panic!("{act} was refused: {}", io::Error::from_raw_os_error(*errno)))
    }
}

fn run(sandbox: &Sandbox, acts: &[&str]) -> Told {
    run_without(&[], sandbox, acts)
}

fn run_without(without: &[&str], sandbox: &Sandbox, acts: &[&str]) -> Told {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let orders = Orders { without: owned(without), sandbox: sandbox.clone(), acts: owned(acts) };
    let output = Command::new(std::env::current_exe().unwrap())
        .env(ORDERS, serde_json::to_string(&orders).unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut told = Told { applied: Err(format!("{text}{:?}", output)), acts: BTreeMap::new(), status: output.status };
    for line in text.lines().filter_map(|line| line.split_once('@').map(|(_, line)| line)) {
        let (what, result) = line.split_once("=>").unwrap();
        match (what, result.split_once(':').unwrap()) {
            ("apply", ("ok", missing)) => told.applied = Ok(missing.to_owned()),
            ("apply", (_, error)) => told.applied = Err(error.to_owned()),
            (act, ("ok", answer)) => drop(told.acts.insert(act.to_owned(), Ok(answer.to_owned()))),
            (act, (_, errno)) => drop(told.acts.insert(act.to_owned(), Err(errno.parse().unwrap()))),
        }
    }
    if told.applied.is_ok() && told.status.success() {
        assert_eq!(told.acts.len(), acts.len(), "{text}");
    }
    told
}

// SAFETY: the section holds functions of the C interface that are called in order, once, before `main`; the library of C is
// set up by then, and that of Rust needs nothing more for what the child does.
#[unsafe(link_section = ".init_array")]
#[used]
static AHEAD_OF_MAIN: extern "C" fn() = a_child_tries;

/// What the child does.
extern "C" fn a_child_tries() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    lose(&orders.without);
    match orders.sandbox.apply() {
        Ok(missing) => println!("@apply=>ok:{}", missing.join("; ")),
        Err(error) => {
            println!("@apply=>error:{error}");
            std::process::exit(1);
        }
    }
    for order in &orders.acts {
        match act(order) {
            Ok(answer) => println!("@{order}=>ok:{answer}"),
            Err(error) => println!("@{order}=>error:{}", error.raw_os_error().unwrap_or(0)),
        }
    }
    std::process::exit(0);
}

/// Makes the kernel one that does not know some calls.
fn lose(calls: &[String]) {
    if calls.is_empty() {
        return;
    }
    let rules: Vec<_> = calls.iter().map(|name| serde_json::json!({ "syscall": name })).collect();
    let unknown = serde_json::json!({ "errno": Errno::NOSYS.raw_os_error() });
    let filter = super::calls::compile(&serde_json::json!("allow"), &unknown, &rules).unwrap();
    seccompiler::apply_filter(&filter).unwrap();
}

fn act(order: &str) -> io::Result<String> {
    let (verb, object) = order.split_once(' ').unwrap_or((order, ""));
    let number = || object.parse::<i64>().unwrap();
    let host = || getppid().unwrap();
    let of_host = |name: &str| format!("/proc/{}/{name}", host().as_raw_nonzero());
    match verb {
        "read" => fs::read(object).map(|bytes| bytes.len().to_string()),
        "list" => fs::read_dir(object).map(|entries| entries.count().to_string()),
        "write" => OpenOptions::new().write(true).open(object).map(|_| String::new()),
        "truncate" => rustix::fs::open(object, rustix::fs::OFlags::TRUNC, rustix::fs::Mode::empty())
            .map(|_| String::new())
            .map_err(Into::into),
        "create" => File::create_new(object).map(|_| String::new()),
        "remove" => fs::remove_file(object).map(|()| String::new()),
        "execute" => Command::new(object).status().map(|status| status.to_string()),
        "connect" => TcpStream::connect(object).map(|_| String::new()),
        "datagram" => UdpSocket::bind("127.0.0.1:0").map(|_| String::new()),
        "unix" => UnixStream::connect(object).map(|_| String::new()),
        "pair" => {
            let kind = if object == "datagrams" { SocketType::DGRAM } else { SocketType::SEQPACKET };
            let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
            pair.map(|_| String::new()).map_err(Into::into)
        }
        "signal-host" => test_kill_process(host()).map(|()| String::new()).map_err(Into::into),
        "memory-of-host" => File::open(of_host("mem")).map(|_| String::new()),
        "environment-of-host" => fs::read(of_host("environ")).map(|_| String::new()),
        "limits-of-host" => {
            let same = getrlimit(Resource::Core);
            let pid: Option<Pid> = Some(host());
            rustix::process::prlimit(pid, Resource::Core, same).map(|_| String::new()).map_err(Into::into)
        }
        "serve" => serve().map(|()| String::new()),
        "call" => zeros(number()),
        "threads" => {
            let threads: Vec<_> = (0..number())
                .map(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(std::thread::park))
                .collect::<Result<_, _>>()?;
            threads.iter().for_each(|thread| thread.thread().unpark());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            Ok(String::new())
        }
        "open" => {
            let files: Vec<File> = (0..number()).map(|_| File::open("/dev/null")).collect::<Result<_, _>>()?;
            Ok(files.len().to_string())
        }
        "allocate" => {
            let mut bytes = Vec::<u8>::new();
            bytes.try_reserve_exact(number() as usize).map_err(|_| io::Error::from(Errno::NOMEM))?;
            Ok(String::new())
        }
        "limit" => {
            let resource = if object == "cpu" { Resource::Cpu } else { Resource::Core };
            let limit = getrlimit(resource);
            Ok(format!("{:?} {:?}", limit.current, limit.maximum))
        }
        "become-root" => {
            let root = rustix::process::Uid::ROOT;
            rustix::thread::set_thread_uid(root).map(|()| String::new()).map_err(Into::into)
        }
        "status" => {
            let status = fs::read_to_string("/proc/self/status")?;
            let line = status.lines().find_map(|line| line.strip_prefix(object)?.strip_prefix(':')).unwrap_or("-");
            Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        _ => unreachable!("{order}"),
    }
}

/// What a process of drivers does: it has a runtime, and sends back what comes over its channel.
fn serve() -> io::Result<()> {
    let socket = adopt()?;
    let side = Side::new();
    let (end, far) = Channel::pair();
    bridge(side.home(), far, socket).unwrap();
    let end = Arc::new(end);
    while let Ok(message) = side.read(&end) {
        end.write(message).unwrap();
    }
    side.end();
    Ok(())
}

/// A system call with zeros.
fn zeros(number: i64) -> io::Result<String> {
    // SAFETY: zeros are no valid pointers to anything, and the calls that are asked for take a zero for an error, for
    // nothing to do, or for this process.
    match unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer.to_string()),
    }
}

/// A folder of its own for a test, with a file, where other users get to.
struct Ground {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Ground {
    fn new() -> Ground {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        for name in ["in", "out"] {
            fs::create_dir(path.join(name)).unwrap();
            fs::write(path.join(name).join("file"), "text").unwrap();
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o777)).unwrap();
            fs::set_permissions(path.join(name).join("file"), fs::Permissions::from_mode(0o666)).unwrap();
        }
        Ground { _folder: folder, path }
    }

    fn at(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// Runs acts, each of which is a verb and the name of something on the ground.
#[track_caller]
fn on(ground: &Ground, sandbox: &Sandbox, acts: &[&str]) -> BTreeMap<String, Result<String, i32>> {
    let full: Vec<String> = acts
        .iter()
        .map(|act| {
            let (verb, name) = act.split_once(' ').unwrap();
            format!("{verb} {}", ground.at(name))
        })
        .collect();
    let told = run(sandbox, &full.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(told.applied, Ok(String::new()));
    acts.iter().zip(&full).map(|(act, full)| ((*act).to_owned(), told.acts[full].clone())).collect()
}

/// Whether this kernel lacks a fence, without which these tests say nothing: some came as late as Linux 6.12.
fn kernel_lacks_a_fence() -> bool {
    let lacks = run(&Sandbox::default(), &[]).applied.err().filter(|error| error.contains("this kernel cannot"));
    if let Some(error) = &lacks {
        eprintln!("SKIPPED: {error}");
    }
    lacks.is_some()
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("SKIPPED: this part needs root, which can become somebody else");
        assert!(std::env::var_os("FUCHSINE_REQUIRE_CLIENTS").is_none(), "it must not be skipped here: run it as root");
    }
    root
}

const DENIED: Result<String, i32> = Err(libc::EACCES);

#[test]
fn only_files_that_are_listed_are_read_or_written() {
    if kernel_lacks_a_fence() {
        return;
    }
    let ground = Ground::new();
    let acts = [
        "read in/file",
        "list in",
        "write in/file",
        "truncate in/file",
        "create in/new",
        "read out/file",
        "list out",
        "write out/file",
        "truncate out/file",
        "create out/new",
        "remove out/file",
    ];
    let nothing = on(&ground, &Sandbox::default(), &acts);
    assert!(nothing.values().all(|result| *result == DENIED), "{nothing:?}");

    let reads = Sandbox { read: vec![ground.path.join("in")], ..Sandbox::default() };
    let told = on(&ground, &reads, &acts);
    for (act, result) in told {
        let works = ["read in/file", "list in"].contains(&act.as_str());
        assert_eq!(result.is_ok(), works, "{act}: {result:?}");
        assert!(works || result == DENIED, "{act}: {result:?}");
    }

    let writes = Sandbox { write: vec![ground.path.join("in")], ..Sandbox::default() };
    let told = on(&ground, &writes, &acts);
    for (act, result) in told {
        assert_eq!(result.is_ok(), act.contains(" in"), "{act}: {result:?}");
    }

    let one_file = Sandbox { write: vec![ground.path.join("out/file")], ..Sandbox::default() };
    let told = on(&ground, &one_file, &["read out/file", "write out/file", "create out/new", "remove out/file"]);
    assert_eq!(told.values().filter(|result| result.is_ok()).count(), 2, "{told:?}");
}

#[test]
fn no_socket_is_made_unless_the_kind_is_allowed() {
    if kernel_lacks_a_fence() {
        return;
    }
    let ground = Ground::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _unix = UnixListener::bind(ground.path.join("socket")).unwrap();
    let (connect, unix) = (format!("connect {}", tcp.local_addr().unwrap()), format!("unix {}", ground.at("socket")));
    let acts = [connect.as_str(), "datagram", &unix, "pair", "pair datagrams"];
    let works = |sandbox: &Sandbox| -> Vec<bool> {
        let told = run(sandbox, &acts);
        assert_eq!(told.applied, Ok(String::new()));
        acts.iter()
            .map(|act| match told.acts[*act] {
                Ok(_) => true,
                Err(errno) => {
                    assert_eq!(errno, libc::EPERM, "{act}");
                    false
                }
            })
            .collect()
    };
    assert_eq!(works(&Sandbox::default()), [false, false, false, true, false]);
    assert_eq!(works(&Sandbox { network: true, ..Sandbox::default() }), [true, true, false, true, false]);
    assert_eq!(works(&Sandbox { unix_sockets: true, ..Sandbox::default() }), [false, false, true, true, true]);
    let all = Sandbox { network: true, unix_sockets: true, ..Sandbox::default() };
    assert_eq!(works(&all), [true; 5]);
}

#[test]
fn calls_that_reach_beyond_the_process_are_refused_and_threads_work() {
    if kernel_lacks_a_fence() {
        return;
    }
    let calls = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
        libc::SYS_open_by_handle_at,
        libc::SYS_shmget,
        libc::SYS_mq_open,
        libc::SYS_init_module,
        libc::SYS_execve,
        libc::SYS_setuid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        libc::SYS_socket,
    ];
    let acts: Vec<String> = calls.iter().map(|number| format!("call {number}")).collect();
    let mut acts: Vec<&str> = acts.iter().map(String::as_str).collect();
    let clone3 = format!("call {}", libc::SYS_clone3);
    acts.push(&clone3);
    acts.extend(["threads 3", "become-root", "signal-host", "memory-of-host", "environment-of-host", "limits-of-host"]);
    acts.extend(["execute /bin/true", "status NoNewPrivs", "status Seccomp"]);
    let told = run(&Sandbox::default(), &acts);
    assert_eq!(told.applied, Ok(String::new()));
    for number in calls {
        told.refused(&format!("call {number}"), Errno::PERM);
    }
    told.refused(&clone3, Errno::NOSYS);
    for act in ["become-root", "signal-host", "limits-of-host", "execute /bin/true"] {
        told.refused(act, Errno::PERM);
    }
    told.refused("memory-of-host", Errno::ACCESS);
    told.refused("environment-of-host", Errno::ACCESS);
    told.works("threads 3");
    assert_eq!((told.works("status NoNewPrivs"), told.works("status Seccomp")), ("1", "2"));
}

#[test]
fn a_refused_call_kills_if_that_is_asked_for_and_single_calls_are_allowed_and_refused() {
    if kernel_lacks_a_fence() {
        return;
    }
    let kill = Sandbox { refused_calls: Refusal::Kill, ..Sandbox::default() };
    let ptrace = format!("call {}", libc::SYS_ptrace);
    let told = run(&kill, &["threads 2", "pair", &ptrace, "list /proc/self"]);
    told.works("threads 2");
    assert_eq!(told.status.signal(), Some(libc::SIGSYS));
    assert!(!told.acts.contains_key("list /proc/self"));

    let (kcmp, getuid) = (format!("call {}", libc::SYS_kcmp), format!("call {}", libc::SYS_getuid));
    let single =
        Sandbox { allow_calls: vec!["kcmp".to_owned()], refuse_calls: vec!["getuid".to_owned()], ..Sandbox::default() };
    let told = run(&single, &[&kcmp, &getuid, &ptrace]);
    told.refused(&getuid, Errno::PERM);
    told.refused(&ptrace, Errno::PERM);
    assert_ne!(told.acts[&kcmp], Err(libc::EPERM));

    let any = Sandbox { system_calls: SystemCalls::Any, ..single };
    let told = run(&any, &[&getuid, "datagram", "status Seccomp"]);
    told.refused(&getuid, Errno::PERM);
    told.works("datagram");
}

#[test]
fn a_process_of_drivers_needs_no_call_that_is_not_listed() {
    if kernel_lacks_a_fence() {
        return;
    }
    let sandbox = Sandbox { refused_calls: Refusal::Kill, ..Sandbox::default() };
    let orders = Orders { without: Vec::new(), sandbox, acts: vec!["serve".to_owned()] };
    let (ours, theirs) = socket_pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ORDERS, serde_json::to_string(&orders).unwrap()).stdout(Stdio::null());
    let mut child = Child::spawn(&mut command, theirs).unwrap();
    let home = Side::new();
    let (end, near) = Channel::pair();
    bridge(home.home(), near, ours).unwrap();
    let end = Arc::new(end);
    let (kept, sent) = Channel::pair();
    let file = File::open("/etc/passwd").unwrap();
    end.write(Message::with_len(1 << 20).with(sent).with(std::os::fd::OwnedFd::from(file))).unwrap();
    let mut back = home.read(&end).unwrap();
    assert_eq!((back.bytes().len(), back.take_handles().len()), (1 << 20, 2));
    drop(kept);
    drop(end);
    let death = home.wait(async move { child.ended().await }).unwrap();
    assert_eq!((death.code(), death.signal()), (Some(0), None), "{death}");
    home.end();
}

#[test]
fn programs_that_are_listed_run_and_no_others() {
    if kernel_lacks_a_fence() {
        return;
    }
    let sandbox = Sandbox { execute: vec![PathBuf::from("/bin/true")], ..Sandbox::default() };
    let told = run(&sandbox, &["execute /bin/true", "execute /bin/false"]);
    assert_eq!(told.applied, Ok(String::new()));
    assert_eq!(told.works("execute /bin/true"), "exit status: 0");
    told.refused("execute /bin/false", Errno::ACCESS);
}

#[test]
fn limits_count() {
    if kernel_lacks_a_fence() {
        return;
    }
    let sandbox =
        Sandbox { memory: Some(4 << 30), files: Some(40), cpu_seconds: Some(7), core: 4096, ..Sandbox::default() };
    // A core dump may not be larger than the host's own may be, unless root says so.
    let sandbox = if rustix::process::geteuid().is_root() { sandbox } else { Sandbox { core: 0, ..sandbox } };
    let core = sandbox.core;
    let acts = ["open 20", "open 60", "allocate 1048576", "allocate 8589934592", "limit cpu", "limit core"];
    let told = run(&sandbox, &acts);
    assert_eq!(told.applied, Ok(String::new()));
    told.works("open 20");
    told.refused("open 60", Errno::MFILE);
    told.works("allocate 1048576");
    told.refused("allocate 8589934592", Errno::NOMEM);
    assert_eq!(told.works("limit cpu"), "Some(7) Some(8)");
    assert_eq!(told.works("limit core"), format!("Some({core}) Some({core})"));

    let little = Sandbox { memory: Some(1 << 20), ..Sandbox::default() };
    assert!(run(&little, &[]).applied.unwrap_err().contains("`memory` must be"));
}

#[test]
fn root_becomes_who_it_is_told_and_keeps_no_capability_but_those_listed() {
    if kernel_lacks_a_fence() || !is_root() {
        return;
    }
    let ground = Ground::new();
    fs::write(ground.path.join("in/secret"), "").unwrap();
    fs::set_permissions(ground.path.join("in/secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let sandbox = Sandbox {
        user: Some(NOBODY.to_string()),
        group: Some("12345".to_owned()),
        groups: vec!["23456".to_owned()],
        read: vec![ground.path.join("in")],
        processes: Some(4),
        // Without the list of calls the change of the user alone has to hold.
        system_calls: SystemCalls::Any,
        ..Sandbox::default()
    };
    let (own, secret) = (format!("read {}", ground.at("in/file")), format!("read {}", ground.at("in/secret")));
    let sets = ["status CapPrm", "status CapEff", "status CapInh", "status CapBnd", "status CapAmb"];
    let ids = ["status Uid", "status Gid", "status Groups"];
    let acts = [&[own.as_str(), &secret, "become-root", "threads 2", "threads 30"][..], &sets, &ids].concat();
    let told = run(&sandbox, &acts);
    assert_eq!(told.applied, Ok(String::new()));
    told.works(&own);
    told.refused(&secret, Errno::ACCESS);
    told.refused("become-root", Errno::PERM);
    told.works("threads 2");
    told.refused("threads 30", Errno::AGAIN);
    for set in sets {
        assert_eq!(told.works(set), "0000000000000000", "{set}");
    }
    assert_eq!(ids.map(|id| told.works(id)), ["65534 65534 65534 65534", "12345 12345 12345 12345", "23456"]);

    let keeps = Sandbox { capabilities: vec!["net_admin".to_owned()], ..sandbox };
    let told = run(&keeps, &sets);
    assert_eq!(told.applied, Ok(String::new()));
    assert_eq!(sets.map(|set| told.works(set).trim_start_matches('0')), ["1000", "1000", "", "1000", ""]);

    // Root stays root, and has no capability.
    let told = run(&Sandbox::default(), &["status CapEff", "status CapBnd", "status Uid", "status Groups", &secret]);
    assert_eq!((told.works("status CapEff"), told.works("status CapBnd")), ("0000000000000000", "0000000000000000"));
    assert_eq!((told.works("status Uid"), told.works("status Groups")), ("0 0 0 0", ""));
    let told = run(&Sandbox { processes: Some(4), ..Sandbox::default() }, &[]);
    assert!(told.applied.unwrap_err().starts_with("`processes` has no effect on root"));
}

#[test]
fn a_name_of_an_account_is_looked_up_before_anything_is_fenced_in() {
    if kernel_lacks_a_fence() || !is_root() {
        return;
    }
    let sandbox = Sandbox { user: Some("nobody".to_owned()), ..Sandbox::default() };
    let told = run(&sandbox, &["status Uid", "status Groups"]);
    assert_eq!((told.works("status Uid"), told.works("status Groups")), ("65534 65534 65534 65534", ""));
    for (user, group, message) in [
        (Some("nobody-at-all"), None, "there is no user `nobody-at-all` in /etc/passwd"),
        (Some("4000000"), None, "user 4000000 has no line in /etc/passwd"),
        (None, Some("no-such-group"), "there is no group `no-such-group` in /etc/group"),
    ] {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        let told = run(&Sandbox { user: owned(user), group: owned(group), ..Sandbox::default() }, &[]);
        let error = told.applied.unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn what_only_root_can_do_is_said_to_others() {
    if kernel_lacks_a_fence() || !is_root() {
        return;
    }
    // Whoever runs this as root: once as nobody, which then asks for more than it has.
    let as_nobody = |sandbox: &Sandbox| {
        let orders = Orders { without: Vec::new(), sandbox: sandbox.clone(), acts: Vec::new() };
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("test");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for path in [folder.path(), &program] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        use std::os::unix::process::CommandExt;
        let output = Command::new(&program)
            .env(ORDERS, serde_json::to_string(&orders).unwrap())
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(as_nobody(&Sandbox::default()).contains("@apply=>ok:"));
    let root = Sandbox { user: Some("root".to_owned()), ..Sandbox::default() };
    assert!(as_nobody(&root).contains("only root can become another `user` or `group`"));
    let keeps = Sandbox { capabilities: vec!["sys_admin".to_owned()], ..Sandbox::default() };
    assert!(as_nobody(&keeps).contains("the host does not have the capability `sys_admin` itself"));
    let itself = Sandbox { user: Some(NOBODY.to_string()), group: Some(NOBODY.to_string()), ..Sandbox::default() };
    assert!(as_nobody(&itself).contains("@apply=>ok:"));
}

#[test]
fn a_kernel_without_a_fence_is_an_error_that_names_it_or_a_sentence_to_be_told() {
    if kernel_lacks_a_fence() {
        return;
    }
    let without = ["landlock_create_ruleset"];
    let told = run_without(&without, &Sandbox::default(), &[]);
    let error = told.applied.unwrap_err();
    assert!(error.contains("this kernel cannot fence in files (Landlock, Linux 5.13"), "{error}");
    assert!(error.contains("enforce = \"best-effort\""), "{error}");

    let best = Sandbox { enforce: Enforce::BestEffort, ..Sandbox::default() };
    let told = run_without(&without, &best, &["read /etc/passwd", "datagram"]);
    let missing = told.applied.as_ref().unwrap();
    assert!(missing.contains("this kernel cannot fence in files") && missing.contains("signals"), "{missing}");
    told.works("read /etc/passwd");
    told.refused("datagram", Errno::PERM);

    let told = run_without(&["seccomp"], &Sandbox::default(), &[]);
    assert!(told.applied.unwrap_err().contains("this kernel cannot filter system calls"));
    let told = run_without(&["seccomp"], &best, &["datagram", "read /etc/passwd"]);
    assert_eq!(told.applied.as_deref(), Ok("this kernel cannot filter system calls (seccomp)"));
    told.works("datagram");
    told.refused("read /etc/passwd", Errno::ACCESS);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let wrong = |sandbox: Sandbox, message: &str| {
        let error = sandbox.check().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert!(sandbox.apply().is_err(), "and nothing is applied");
    };
    let names = |name: &str| vec![name.to_owned()];
    wrong(Sandbox { allow_calls: names("ptraec"), ..Sandbox::default() }, "there is no system call `ptraec`");
    wrong(Sandbox { refuse_calls: names("x\"}"), ..Sandbox::default() }, "there is no system call `x\"}`");
    wrong(Sandbox { capabilities: names("net_admn"), ..Sandbox::default() }, "there is no capability `net_admn`");
    wrong(Sandbox { read: vec![PathBuf::from("here")], ..Sandbox::default() }, "the path `here` is not absolute");
    wrong(Sandbox { no_new_privileges: false, ..Sandbox::default() }, "`no_new_privileges = false` needs");
    assert!(Sandbox { capabilities: names("CAP_NET_ADMIN"), ..Sandbox::default() }.check().is_ok());
}

#[test]
fn a_path_that_is_not_there_and_a_process_with_threads_are_refused() {
    if kernel_lacks_a_fence() {
        return;
    }
    let ground = Ground::new();
    let missing = |path: &Path| Sandbox { write: vec![path.to_owned()], ..Sandbox::default() };
    let error = run(&missing(&ground.path.join("in/none")), &[]).applied.unwrap_err();
    assert!(error.contains("of `write`") && error.contains("allow its folder"), "{error}");
    let error = run(&Sandbox { read: vec!["/none/at/all".into()], ..Sandbox::default() }, &[]).applied.unwrap_err();
    assert!(error.starts_with("cannot open `/none/at/all` of `read`"), "{error}");

    let error = std::thread::spawn(|| Sandbox::default().apply().unwrap_err().to_string()).join().unwrap();
    assert!(error.contains("threads, and a sandbox is put on by a process with one"), "{error}");
}
