//! Processes under a hang limit, and what the kernel says about them.
//!
//! Purpose: everything that a test starts has to end, also when the test fails in the middle. [`Process`] is the
//! guard for that: it collects both outputs, waits with a limit, and kills by process id when dropped.
//!
//! The readings (`resident_bytes`, `cpu_time`, `open_files`, `children`) come from `/proc`, so they are there on
//! Linux only.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

/// How long anything may take before it counts as hung. Generous, since a loaded machine is no failure.
pub const HANG_LIMIT: Duration = Duration::from_secs(60);

/// How often a waiting helper looks again.
const LOOK: Duration = Duration::from_millis(5);

/// A child process whose outputs are collected and which is killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Lines of stdout as they come; the reader thread closes it at the end of the stream.
    lines: Receiver<String>,
    /// Lines already taken from `lines`.
    stdout: Vec<String>,
    /// What was read of stderr so far.
    written: Arc<Mutex<Vec<u8>>>,
    /// What reads it; it ends with the stream.
    stderr: Option<JoinHandle<()>>,
}

/// What a process left behind when it ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its whole standard output, a line each.
    pub stdout: Vec<String>,
    /// Its whole standard error.
    pub stderr: String,
}

impl Finished {
    /// Fails the test with both outputs unless the process exited with 0.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        self.expect_code(0)
    }

    /// Fails the test with both outputs unless the process exited with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.stdout.join("\n"),
            self.stderr
        );
        self
    }
}

impl Process {
    /// Starts `command` with both outputs collected; stdin is what the command says, closed by default.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("stdout was piped above"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut stream = child.stderr.take().expect("stderr was piped above");
        let written = Arc::new(Mutex::new(Vec::new()));
        let writing = Arc::clone(&written);
        let stderr = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A read error ends the text early; what there is of it is still worth showing.
            loop {
                match stream.read(&mut bytes) {
                    Ok(read @ 1..) => writing.lock().expect("nobody panics with it").extend(&bytes[..read]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        });
        Self { name, child, lines, stdout: Vec::new(), written, stderr: Some(stderr) }
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The pipe into the process, if the command was given one and nobody took it before.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends one signal to the process.
    ///
    /// # Panics
    /// When the process has ended already and was waited for.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("{}: {signal:?} cannot be sent: {error}", self.name));
    }

    /// The next line of standard output, or `None` when the process closed it.
    ///
    /// # Panics
    /// When neither happens within `limit`.
    #[track_caller]
    pub fn next_line(&mut self, limit: Duration) -> Option<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => {
                self.stdout.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => self.hung("writes no line", limit),
        }
    }

    /// What it has written on standard error so far.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("nobody panics with it")).into_owned()
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Panics
    /// When it runs longer than `limit`; it is killed and its outputs are part of the message.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Finished {
        let end = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < end => thread::sleep(LOOK),
                Ok(None) => self.hung("does not end", limit),
                Err(error) => panic!("{}: cannot be waited for: {error}", self.name),
            }
        };
        let (stdout, stderr) = self.outputs();
        Finished { status, stdout, stderr }
    }

    /// Both outputs in full. Only after the process has ended: the readers end with their streams.
    fn outputs(&mut self) -> (Vec<String>, String) {
        while let Ok(line) = self.lines.recv() {
            self.stdout.push(line);
        }
        if let Some(thread) = self.stderr.take() {
            // It only reads.
            let _ = thread.join();
        }
        (std::mem::take(&mut self.stdout), self.stderr_so_far())
    }

    #[track_caller]
    fn hung(&mut self, what: &str, limit: Duration) -> ! {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let (stdout, stderr) = self.outputs();
        panic!(
            "{} {what} within {limit:?} and was killed\n--- stdout\n{}\n--- stderr\n{stderr}",
            self.name,
            stdout.join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls do nothing for a process that has been waited for: its id is not used again here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end, with [`HANG_LIMIT`].
#[track_caller]
pub fn run(command: &mut Command) -> Finished {
    Process::start(command.stdin(Stdio::null())).wait(HANG_LIMIT)
}

/// Waits until `condition` holds; it is looked at again and again.
///
/// # Panics
/// When it does not hold within [`HANG_LIMIT`]: `what` says what was waited for.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + HANG_LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "waited {HANG_LIMIT:?} in vain: {what}");
        thread::sleep(LOOK);
    }
}

/// Bytes of physical memory that the process holds now.
#[track_caller]
pub fn resident_bytes(pid: Pid) -> u64 {
    kilobytes(pid, "VmRSS:") * 1024
}

/// The most physical memory that the process ever held, in bytes.
#[track_caller]
pub fn peak_resident_bytes(pid: Pid) -> u64 {
    kilobytes(pid, "VmHWM:") * 1024
}

#[track_caller]
fn kilobytes(pid: Pid, field: &str) -> u64 {
    status_field(pid, field)
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{field} of process {pid} is no number"))
}

/// Whether `signal` has been sent to the process and has not reached a handler yet.
#[track_caller]
pub fn is_pending(pid: Pid, signal: Signal) -> bool {
    let mask = u64::from_str_radix(status_field(pid, "ShdPnd:").trim(), 16).expect("the kernel writes a hex mask");
    mask & (1 << (signal.as_raw() - 1)) != 0
}

#[track_caller]
fn status_field(pid: Pid, field: &str) -> String {
    let text = read_proc(pid, "status");
    text.lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap_or_else(|| panic!("process {pid} has no {field} in its status"))
        .trim()
        .to_owned()
}

/// Processor time that the process has used so far, in user and kernel mode together.
#[track_caller]
pub fn cpu_time(pid: Pid) -> Duration {
    let text = read_proc(pid, "stat");
    // The name in parentheses may hold spaces; what follows the last parenthesis is regular.
    let fields: Vec<&str> =
        text[text.rfind(')').expect("the name is in parentheses") + 1..].split_whitespace().collect();
    let ticks: u64 = fields[11..=12].iter().map(|field| field.parse::<u64>().expect("ticks are a number")).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// How many file descriptors the process has open.
#[track_caller]
pub fn open_files(pid: Pid) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap_or_else(|error| panic!("the files of process {pid} cannot be listed: {error}"))
        .count() as u64
}

/// How many threads the process has.
#[track_caller]
pub fn threads(pid: Pid) -> usize {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap_or_else(|error| panic!("the threads of process {pid} cannot be listed: {error}"))
        .count()
}

/// Ids of the processes whose parent is `pid`.
pub fn children(pid: Pid) -> Vec<i32> {
    let parent = pid.as_raw_nonzero().get().to_string();
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(parent.as_str())
        })
        .collect()
}

#[track_caller]
fn read_proc(pid: Pid, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}"))
        .unwrap_or_else(|error| panic!("/proc/{pid}/{file} cannot be read: {error}"))
}
