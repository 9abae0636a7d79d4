//! Goal: a module in C that a host loads works on the host's runtime, and on no other.
//! Method: this test is the host. It loads a module, which brings the shared library along, gives that its own table, and
//! starts the driver as a host would; then it looks at what the module has seen, and counts threads.
//!
//! # Invariants
//! - The module and the library are never unloaded, so what is looked up in them stays.
#![allow(unsafe_code, reason = "loading a module and calling into it")]

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_abi::host;
use fuchsine_abi::status::{ZX_ERR_BAD_STATE, ZX_OK};
use fuchsine_abi::table::Table;
use fuchsine_abi::types::{DriverRegistration, zx_status_t};
use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder};
use fuchsine_tests::c::Program;
use fuchsine_tests::process::eventually;

const HANG_LIMIT: Duration = Duration::from_secs(60);

/// What `module.c` fills in.
#[repr(C)]
struct Seen {
    current: *mut c_void,
    now: i64,
    start: i32,
    created: i32,
    task_ran: AtomicU64,
    other_ran: AtomicU64,
    other_was_over: u64,
    destroyed: u64,
}

struct Module(*mut c_void);

impl Module {
    fn load(path: &Path) -> Module {
        let name = CString::new(path.to_str().expect("the path is text")).expect("without a zero");
        // SAFETY: the module is ours; what it runs when it is loaded is nothing.
        let module = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!module.is_null(), "{} is not loaded", path.display());
        Module(module)
    }

    fn symbol(&self, name: &str) -> *mut c_void {
        let c_name: Vec<c_char> = name.bytes().chain([0]).map(|byte| byte as c_char).collect();
        // SAFETY: the module is loaded, and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(self.0, c_name.as_ptr()) };
        assert!(!symbol.is_null(), "{name} is not there");
        symbol
    }
}

/// The names of the threads that a pool of the library's own would have.
fn threads_of_another_pool() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").expect("listed").flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("fdf")).collect()
}

#[test]
fn a_module_in_c_sees_the_hosts_current_dispatcher_and_there_is_one_pool() {
    let Some(program) = Program::module("module.c") else { return };
    let runtime = RuntimeBuilder::new().threads(2).build().expect("the system has threads");
    let driver = runtime.new_driver("written in C");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    assert_eq!(host::dispatcher(&dispatcher), None, "nothing of C's is there yet");
    let table = host::bind(&runtime).expect("there is no other environment");
    let again = host::bind(&runtime).expect("it is a host's");
    assert!(std::ptr::eq(table, again) && std::ptr::eq(table, host::table()));

    let module = Module::load(&program.path());
    let attach = module.symbol("fuchsine_abi_attach");
    // SAFETY: that is its type, by the library's own source.
    let attach: unsafe extern "C" fn(*const Table) -> zx_status_t = unsafe { std::mem::transmute(attach) };
    for _ in 0..2 {
        // SAFETY: the table is that of a host and lives as long as the process.
        assert_eq!(unsafe { attach(table) }, ZX_OK);
    }
    let registration = module.symbol("__fuchsia_driver_registration__").cast::<DriverRegistration>();
    // SAFETY: that is its type, by the header; it stays.
    let registration: &'static DriverRegistration = unsafe { &*registration };
    // SAFETY: as above, by the module's own source.
    let seen: &'static Seen = unsafe { &*module.symbol("seen").cast::<Seen>() };
    assert_eq!(registration.version, 1);

    let (initialize, destroy) = (registration.v1.initialize.expect("set"), registration.v1.destroy.expect("set"));
    let (sender, receiver) = channel();
    dispatcher
        .post_task(move |_| {
            // SAFETY: as the header says: on the driver's default dispatcher, once.
            let token = AtomicPtr::new(unsafe { initialize(0) });
            sender.send(token).expect("it is awaited");
        })
        .expect("it runs");
    let token = receiver.recv_timeout(HANG_LIMIT).expect("it returns").into_inner();

    assert_eq!(Some(seen.current), host::dispatcher(&dispatcher).map(<*mut _>::cast));
    assert_eq!((seen.start, seen.created), (ZX_ERR_BAD_STATE, ZX_OK));
    let now = i64::try_from(dispatcher.now().as_nanos()).expect("less than 292 years");
    assert!(seen.now > 0 && seen.now <= now);
    let load = |flag: &AtomicU64| flag.load(Ordering::SeqCst);
    eventually("both tasks ran", || load(&seen.task_ran) != 0 && load(&seen.other_ran) != 0);
    assert_eq!((load(&seen.task_ran), load(&seen.other_ran)), (1, 1), "with their dispatcher current");
    assert_eq!(driver.dispatchers().len(), 2, "what the module made belongs to its driver");
    assert_eq!(threads_of_another_pool(), Vec::<String>::new(), "the module has brought no pool along");

    let (sender, receiver) = channel();
    let token = AtomicPtr::new(token);
    let ended = driver.shutdown(move || {
        // SAFETY: as the header says: after all dispatchers of the driver, with what `initialize` returned.
        unsafe { destroy(token.into_inner()) };
        sender.send(()).expect("it is awaited");
    });
    ended.expect("once");
    receiver.recv_timeout(HANG_LIMIT).expect("the driver ends");
    assert_eq!((seen.other_was_over, seen.destroyed), (1, 1));
    drop(dispatcher);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}
