//! Goal: the headers and the library agree on every size, offset, value and function.
//! Method: a C compiler prints what it makes of the headers, and that is compared with the Rust types; every header is
//! compiled alone, as C and as C++; every function that a header declares is linked, and none is exported without.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};
use std::process::Command;

use fuchsine_abi::{protocol::*, status, types::*};
use fuchsine_tests::c::{compiler, include};
use fuchsine_tests::command::c_library;
use fuchsine_tests::process::run;
use fuchsine_tests::source::files;
use tempfile::TempDir;

/// What is compared: an expression of C, and its value in Rust.
type Rows = Vec<(String, i128)>;

/// The size of a structure, and the offsets of its fields. A field may be one of an inner structure.
macro_rules! layout {
    ($rows:ident: $($ty:ident { $($field:ident $(. $inner:ident)*),* $(,)? })*) => {
        $(
            $rows.push((concat!("sizeof(", stringify!($ty), ")").to_owned(), size_of::<$ty>() as i128));
            $rows.push((concat!("_Alignof(", stringify!($ty), ")").to_owned(), align_of::<$ty>() as i128));
            $($rows.push((
                concat!("offsetof(", stringify!($ty), ", ", stringify!($field $(. $inner)*), ")").to_owned(),
                offset_of!($ty, $field $(. $inner)*) as i128,
            ));)*
        )*
    };
}

/// Values by the same name on both sides.
macro_rules! values {
    ($rows:ident: $($name:ident)*) => {
        $($rows.push((stringify!($name).to_owned(), $name as i128));)*
    };
}

/// Types that are numbers: their size, and whether they have a sign.
macro_rules! scalars {
    ($rows:ident: $($ty:ident)*) => {
        $(
            $rows.push((concat!("sizeof(", stringify!($ty), ")").to_owned(), size_of::<$ty>() as i128));
            $rows.push((concat!("(", stringify!($ty), ")-1 < 0").to_owned(), i128::from($ty::MIN != 0)));
        )*
    };
}

fn rows() -> Rows {
    let mut rows: Rows = status::ALL.iter().map(|&(name, code)| (name.to_owned(), i128::from(code))).collect();
    scalars! { rows:
        zx_status_t zx_handle_t fdf_handle_t zx_signals_t zx_rights_t zx_txid_t fdf_txid_t zx_time_t zx_duration_t
        zx_instant_mono_t zx_duration_mono_t zx_instant_boot_t zx_clock_t zx_koid_t zx_vaddr_t zx_gpaddr_t
        async_ops_version_t fdf_arena_tag_t
    }
    values! { rows:
        ZX_HANDLE_INVALID ZX_HANDLE_FIXED_BITS_MASK FDF_HANDLE_INVALID FDF_HANDLE_FIXED_BITS_MASK
        FDF_DISPATCHER_OPTION_SYNCHRONIZED FDF_DISPATCHER_OPTION_UNSYNCHRONIZED FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS
        FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION FDF_DISPATCHER_OPTION_SYNCHRONIZATION_MASK
        FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL FDF_CHANNEL_WAIT_OPTION_ALWAYS_ON
        FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES FDF_ENV_DYNAMIC_THREAD_SPAWNING
        ASYNC_OPS_V1 ASYNC_OPS_V2 ASYNC_OPS_V3 ASYNC_OPS_V4
        ZX_TIME_INFINITE ZX_TIME_INFINITE_PAST ZX_CLOCK_MONOTONIC ZX_CLOCK_BOOT ZX_MAX_NAME_LEN
        ZX_WAIT_ASYNC_ONCE ZX_WAIT_ASYNC_TIMESTAMP ZX_WAIT_ASYNC_EDGE ZX_WAIT_ASYNC_BOOT_TIMESTAMP
        ZX_SIGNAL_NONE ZX_OBJECT_READABLE ZX_OBJECT_WRITABLE ZX_OBJECT_PEER_CLOSED ZX_OBJECT_SIGNALED
        ZX_OBJECT_SIGNAL_4 ZX_OBJECT_SIGNAL_5 ZX_SIGNAL_HANDLE_CLOSED ZX_USER_SIGNAL_ALL DRIVER_REGISTRATION_VERSION_1
        FUCHSINE_DRIVER_START FUCHSINE_DRIVER_STOP FUCHSINE_NODE_ADD_CHILD FUCHSINE_NODE_REMOVE_CHILD FUCHSINE_NODE_CONNECT
        FUCHSINE_NODE_PUBLISH_ADDRESS FUCHSINE_NODE_LOG FUCHSINE_NODE_FAIL FUCHSINE_NODE_CONNECTED FUCHSINE_NOTE_TYPE_C
    }
    layout! { rows:
        async_state_t { reserved }
        async_dispatcher_t { ops }
        async_ops_t {
            version, reserved, v1, v1.now, v1.begin_wait, v1.cancel_wait, v1.post_task, v1.cancel_task, v1.queue_packet,
            v1.set_guest_bell_trap, v2, v2.bind_irq, v2.unbind_irq, v2.create_paged_vmo, v2.detach_paged_vmo, v3,
            v3.get_sequence_id, v3.check_sequence_id, v4, v4.acquire_shared_ref, v4.release_shared_ref
        }
        async_task_t { state, handler, deadline }
        async_wait_t { state, handler, object, trigger, options }
        async_irq_t { state, handler, object }
        async_receiver_t { state, handler }
        async_guest_bell_trap_t { state, handler }
        async_paged_vmo_t { state, handler, pager, vmo }
        async_sequence_id_t { value }
        fdf_dispatcher_shutdown_observer_t { handler }
        fdf_env_driver_shutdown_observer_t { handler }
        fdf_env_stall_scanner_t { handler }
        fdf_env_resume_requester_t { handler }
        fdf_env_suspend_completer_t { handler }
        fdf_channel_read_t { state, handler, channel, options }
        fdf_channel_call_args_t {
            wr_arena, wr_data, wr_num_bytes, wr_handles, wr_num_handles, rd_arena, rd_data, rd_num_bytes, rd_handles,
            rd_num_handles
        }
        fdf_token_t { handler }
        DriverRegistration { version, v1, v1.initialize, v1.destroy }
        fuchsine_message_t { txid, ordinal, value, text_count }
        fuchsine_text_t { offset, length }
        zx_packet_signal_t { trigger, observed, count, timestamp, reserved1 }
        zx_packet_user_t { u64, u32, u16, c8 }
        zx_packet_interrupt_t { timestamp, reserved0, reserved1, reserved2 }
        zx_packet_guest_bell_t { addr, reserved0, reserved1, reserved2 }
        zx_packet_page_request_t { command, flags, reserved0, offset, length, reserved1 }
    }
    rows
}

/// What programs were compiled with stays: these numbers are those of the driver runtime's own headers.
#[test]
fn the_layouts_are_those_of_fdf() {
    let sizes = [
        ("async_state_t", size_of::<async_state_t>(), 16),
        ("async_ops_t", size_of::<async_ops_t>(), 128),
        ("async_task_t", size_of::<async_task_t>(), 32),
        ("async_wait_t", size_of::<async_wait_t>(), 40),
        ("async_irq_t", size_of::<async_irq_t>(), 32),
        ("async_receiver_t", size_of::<async_receiver_t>(), 24),
        ("async_guest_bell_trap_t", size_of::<async_guest_bell_trap_t>(), 24),
        ("async_paged_vmo_t", size_of::<async_paged_vmo_t>(), 32),
        ("fdf_channel_read_t", size_of::<fdf_channel_read_t>(), 32),
        ("fdf_channel_call_args_t", size_of::<fdf_channel_call_args_t>(), 80),
        ("fdf_token_t", size_of::<fdf_token_t>(), 8),
        ("DriverRegistration", size_of::<DriverRegistration>(), 24),
        ("zx_packet_signal_t", size_of::<zx_packet_signal_t>(), 32),
        ("zx_packet_user_t", size_of::<zx_packet_user_t>(), 32),
        ("zx_packet_interrupt_t", size_of::<zx_packet_interrupt_t>(), 32),
        ("zx_packet_page_request_t", size_of::<zx_packet_page_request_t>(), 32),
    ];
    for (name, size, expected) in sizes {
        assert_eq!(size, expected, "{name}");
    }
    assert_eq!(offset_of!(async_ops_t, v4), 112);
    assert_eq!(offset_of!(fdf_channel_call_args_t, rd_num_handles), 72);
}

/// The paths of the headers, as they are included.
fn headers() -> Vec<String> {
    let headers: Vec<String> = files()
        .into_iter()
        .filter_map(|file| Some(file.path.strip_prefix("host/abi/include/")?.to_owned()))
        .filter(|path| path.ends_with(".h"))
        .collect();
    assert!(headers.len() > 15, "{headers:?}");
    headers
}

/// A source that includes all headers and nothing else.
fn includes() -> String {
    headers().iter().map(|header| format!("#include <{header}>\n")).collect()
}

#[test]
fn sizes_offsets_and_values_are_the_same_on_both_sides() {
    let folder = TempDir::new().expect("there is room for a program");
    let Some(mut cc) = compiler("cc") else { return };
    let rows = rows();
    let lines: String = rows
        .iter()
        // Neither a sign nor 64 bits get lost this way.
        .map(|(expression, value)| {
            let (kind, format) = if *value < 0 { ("long long", "%lld") } else { ("unsigned long long", "%llu") };
            format!("printf(\"{format}\\n\", ({kind})({expression}));\n")
        })
        .collect();
    let source = format!("{}#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{lines}}}\n", includes());
    std::fs::write(folder.path().join("probe.c"), source).expect("written");
    cc.args(["-std=c11", "-Wno-type-limits", "-o"]).arg(folder.path().join("probe")).arg(folder.path().join("probe.c"));
    run(&mut cc).expect_success();
    let printed = run(&mut Command::new(folder.path().join("probe"))).expect_success().stdout;
    assert_eq!(printed.len(), rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .zip(printed)
        .filter(|((_, value), printed)| value.to_string() != **printed)
        .map(|((expression, value), printed)| format!("{expression}: {value} in Rust, {printed} in C"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_header_stands_alone_in_c_and_in_cpp() {
    for (name, standard) in [("cc", "-std=c11"), ("c++", "-std=c++17")] {
        let folder = TempDir::new().expect("there is room for a source");
        for header in headers() {
            let Some(mut command) = compiler(name) else { return };
            let source = folder.path().join(if name == "cc" { "alone.c" } else { "alone.cc" });
            std::fs::write(&source, format!("#include <{header}>\n#include <{header}>\nint nothing_else;\n"))
                .expect("written");
            run(command.args([standard, "-pedantic", "-fsyntax-only"]).arg(source)).expect_success();
        }
    }
}

/// Names of functions, with where they stand. A declaration begins a line; so does an inline function, which has a body.
fn declared() -> BTreeMap<String, String> {
    let mut functions = BTreeMap::new();
    for header in headers() {
        let text = std::fs::read_to_string(include().join(&header)).expect("readable");
        for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_alphabetic())) {
            if ["static", "typedef", "struct", "extern"].iter().any(|word| line.starts_with(word)) {
                continue;
            }
            let Some((before, _)) = line.split_once('(') else { continue };
            let name = before.rsplit([' ', '*']).next().unwrap_or_default();
            functions.insert(name.to_owned(), header.clone());
        }
    }
    functions
}

/// The functions that the library exports, by its sources.
fn exported() -> BTreeSet<String> {
    let mut functions = BTreeSet::new();
    for file in files().into_iter().filter(|file| file.path.starts_with("host/abi/src/exports/")) {
        for line in file.text.lines() {
            let Some((before, rest)) = line.split_once("fn ") else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            if ["", "pub unsafe extern \"C\""].contains(&before.trim())
                && ["fdf_", "async_", "zx_", "fuchsine_"].iter().any(|prefix| name.starts_with(prefix))
            {
                functions.insert(name.to_owned());
            }
        }
    }
    functions
}

#[test]
fn the_headers_declare_what_the_library_exports_and_nothing_else() {
    let declared = declared();
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(declared.keys().cloned().collect::<BTreeSet<_>>(), exported());
    let folder = TempDir::new().expect("there is room for a program");
    let Some(mut cc) = compiler("cc") else { return };
    let addresses: String = declared.keys().map(|name| format!("(void*){name},\n")).collect();
    let source =
        format!("{}void* const all[] = {{\n{addresses}}};\nint main(void) {{ return all[0] == 0; }}\n", includes());
    std::fs::write(folder.path().join("all.c"), source).expect("written");
    let library = c_library().parent().expect("a file is in a folder");
    cc.args(["-std=c11", "-o"]).arg(folder.path().join("all")).arg(folder.path().join("all.c"));
    cc.arg("-L").arg(library).arg("-lfuchsine").arg(format!("-Wl,-rpath,{}", library.display()));
    run(&mut cc).expect_success();
    run(&mut Command::new(folder.path().join("all"))).expect_success();
}
