//! The Fuchsine book, whose code blocks run as tests.
//!
//! Each page is a module here that carries the page as its documentation, so `cargo test` builds and runs every Rust
//! block of it. A page that is missing here would not be tested: `tests/tests/tidy.rs` compares the list with the files.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        $(#[doc = include_str!($file)] pub mod $name {})*
    };
}

pages! {
    readme: "../../README.md",
    architecture: "../ARCHITECTURE.md",
    names: "../NAMES.md",
    unsafe_code: "../UNSAFE.md",
    introduction: "introduction.md",
    getting_started: "getting-started.md",
    tutorials_test_a_driver: "tutorials/test-a-driver.md",
    tutorials_a_driver_of_your_own: "tutorials/a-driver-of-your-own.md",
    tutorials_a_driver_in_c: "tutorials/a-driver-in-c.md",
    concepts_dispatchers: "concepts/dispatchers.md",
    concepts_threads: "concepts/threads.md",
    concepts_irqs: "concepts/irqs.md",
    concepts_suspend: "concepts/suspend.md",
    concepts_shutdown: "concepts/shutdown.md",
    concepts_channels: "concepts/channels.md",
    concepts_futures: "concepts/futures.md",
    concepts_loops: "concepts/loops.md",
    how_to_run_the_host: "how-to/run-the-host.md",
    how_to_operate_a_host: "how-to/operate-a-host.md",
    how_to_write_a_driver: "how-to/write-a-driver.md",
    how_to_load_a_module: "how-to/load-a-module.md",
    how_to_run_in_a_process: "how-to/run-in-a-process.md",
    how_to_fence_in_a_driver: "how-to/fence-in-a-driver.md",
    how_to_program_in_c: "how-to/program-in-c.md",
    how_to_test_without_waiting: "how-to/test-without-waiting.md",
    how_to_explore_schedules: "how-to/explore-schedules.md",
    how_to_shut_down_everywhere: "how-to/shut-down-everywhere.md",
    how_to_read_a_dump: "how-to/read-a-dump.md",
    how_to_from_isc_loopmgr: "how-to/from-isc-loopmgr.md",
    how_to_from_libuv: "how-to/from-libuv.md",
    reference_manifest: "reference/manifest.md",
    reference_exit_codes: "reference/exit-codes.md",
    reference_control_socket: "reference/control-socket.md",
    reference_ramdisk: "reference/ramdisk.md",
    reference_file_block: "reference/file-block.md",
    reference_mirror: "reference/mirror.md",
    reference_nbd: "reference/nbd.md",
    reference_pty_serial: "reference/pty-serial.md",
    reference_tun_net: "reference/tun-net.md",
    reference_status: "reference/status.md",
    reference_c_interface: "reference/c-interface.md",
    internals_architecture: "internals/architecture.md",
    internals_names: "internals/names.md",
    internals_loop_rules: "internals/loop-rules.md",
    internals_models: "internals/models.md",
    internals_runtime_rules: "internals/runtime-rules.md",
    internals_unsafe: "internals/unsafe.md",
    internals_decisions: "internals/decisions.md",
    internals_benches: "internals/benches.md",
    internals_performance: "internals/performance.md",
    dependencies: "dependencies.md",
}
