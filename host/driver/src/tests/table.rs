//! The layout of the interface. A change here is a change of the interface: raise `ABI_VERSION`, or for an addition at
//! the end `ABI_REVISION`.

use std::mem::{offset_of, size_of};

use crate::abi::*;

const WORD: usize = size_of::<usize>();

#[test]
fn the_table_keeps_its_layout() {
    assert_eq!((ABI_VERSION, ABI_REVISION), (1, 3));
    assert_eq!(size_of::<Header>(), 8 + WORD);
    let fields = [
        ("dispatcher_current", offset_of!(Table, dispatcher_current)),
        ("dispatcher_retain", offset_of!(Table, dispatcher_retain)),
        ("dispatcher_release", offset_of!(Table, dispatcher_release)),
        ("dispatcher_create", offset_of!(Table, dispatcher_create)),
        ("dispatcher_shutdown", offset_of!(Table, dispatcher_shutdown)),
        ("dispatcher_post", offset_of!(Table, dispatcher_post)),
        ("task_cancel", offset_of!(Table, task_cancel)),
        ("task_release", offset_of!(Table, task_release)),
        ("dispatcher_name", offset_of!(Table, dispatcher_name)),
        ("dispatcher_is_stopping", offset_of!(Table, dispatcher_is_stopping)),
        ("dispatcher_is_current", offset_of!(Table, dispatcher_is_current)),
        ("dispatcher_flags", offset_of!(Table, dispatcher_flags)),
        ("spawn", offset_of!(Table, spawn)),
        ("join_cancel", offset_of!(Table, join_cancel)),
        ("join_release", offset_of!(Table, join_release)),
        ("blocking", offset_of!(Table, blocking)),
        ("offload", offset_of!(Table, offload)),
        ("offload_cancel", offset_of!(Table, offload_cancel)),
        ("offload_release", offset_of!(Table, offload_release)),
        ("stop_token_is_stopping", offset_of!(Table, stop_token_is_stopping)),
        ("stop_token_wait", offset_of!(Table, stop_token_wait)),
        ("channel_create", offset_of!(Table, channel_create)),
        ("channel_write", offset_of!(Table, channel_write)),
        ("channel_read", offset_of!(Table, channel_read)),
        ("handles_free", offset_of!(Table, handles_free)),
        ("channel_begin_read", offset_of!(Table, channel_begin_read)),
        ("channel_cancel_read", offset_of!(Table, channel_cancel_read)),
        ("channel_close", offset_of!(Table, channel_close)),
        ("arena_create", offset_of!(Table, arena_create)),
        ("arena_alloc", offset_of!(Table, arena_alloc)),
        ("arena_retain", offset_of!(Table, arena_retain)),
        ("arena_release", offset_of!(Table, arena_release)),
        ("socket_listen", offset_of!(Table, socket_listen)),
        ("socket_accept", offset_of!(Table, socket_accept)),
        ("socket_connect", offset_of!(Table, socket_connect)),
        ("socket_take_error", offset_of!(Table, socket_take_error)),
        ("socket_read", offset_of!(Table, socket_read)),
        ("socket_write", offset_of!(Table, socket_write)),
        ("socket_shutdown", offset_of!(Table, socket_shutdown)),
        ("socket_local_address", offset_of!(Table, socket_local_address)),
        ("socket_peer_address", offset_of!(Table, socket_peer_address)),
        ("socket_begin_wait", offset_of!(Table, socket_begin_wait)),
        ("fd_begin_wait", offset_of!(Table, fd_begin_wait)),
        ("wait_cancel", offset_of!(Table, wait_cancel)),
        ("wait_release", offset_of!(Table, wait_release)),
        ("socket_close", offset_of!(Table, socket_close)),
        ("clock_now", offset_of!(Table, clock_now)),
        ("context_retain", offset_of!(Table, context_retain)),
        ("context_release", offset_of!(Table, context_release)),
        ("context_dispatcher", offset_of!(Table, context_dispatcher)),
        ("context_name", offset_of!(Table, context_name)),
        ("context_config", offset_of!(Table, context_config)),
        ("context_fail", offset_of!(Table, context_fail)),
        ("context_publish_address", offset_of!(Table, context_publish_address)),
        ("log", offset_of!(Table, log)),
        ("log_enabled", offset_of!(Table, log_enabled)),
        ("node_name", offset_of!(Table, node_name)),
        ("node_properties", offset_of!(Table, node_properties)),
        ("node_connect", offset_of!(Table, node_connect)),
        ("child_add", offset_of!(Table, child_add)),
        ("child_remove", offset_of!(Table, child_remove)),
        ("child_release", offset_of!(Table, child_release)),
        ("dispatcher_seal", offset_of!(Table, dispatcher_seal)),
        ("channel_write_reply", offset_of!(Table, channel_write_reply)),
        ("channel_read_request", offset_of!(Table, channel_read_request)),
        ("channel_call", offset_of!(Table, channel_call)),
        ("channel_begin_call", offset_of!(Table, channel_begin_call)),
        ("token_create", offset_of!(Table, token_create)),
        ("token_register", offset_of!(Table, token_register)),
        ("token_transfer", offset_of!(Table, token_transfer)),
        ("token_receive", offset_of!(Table, token_receive)),
        ("token_release", offset_of!(Table, token_release)),
        ("irq_create", offset_of!(Table, irq_create)),
        ("irq_over_fd", offset_of!(Table, irq_over_fd)),
        ("irq_bind", offset_of!(Table, irq_bind)),
        ("irq_release", offset_of!(Table, irq_release)),
        ("irq_trigger", offset_of!(Table, irq_trigger)),
        ("irq_trigger_release", offset_of!(Table, irq_trigger_release)),
        ("irq_ack", offset_of!(Table, irq_ack)),
        ("irq_unbind", offset_of!(Table, irq_unbind)),
        ("irq_binding_release", offset_of!(Table, irq_binding_release)),
        ("dispatcher_always_on", offset_of!(Table, dispatcher_always_on)),
        ("context_suspend", offset_of!(Table, context_suspend)),
        ("context_resume", offset_of!(Table, context_resume)),
        ("context_is_suspended", offset_of!(Table, context_is_suspended)),
        ("context_set_resume_requester", offset_of!(Table, context_set_resume_requester)),
        ("context_add_wake_vector", offset_of!(Table, context_add_wake_vector)),
        ("wake_vector_release", offset_of!(Table, wake_vector_release)),
        ("context_add_socket_wake_vector", offset_of!(Table, context_add_socket_wake_vector)),
    ];
    for (index, (name, offset)) in fields.iter().enumerate() {
        assert_eq!(*offset, size_of::<Header>() + index * WORD, "{name} has moved");
    }
    assert_eq!(size_of::<Table>(), size_of::<Header>() + fields.len() * WORD, "a function is missing in this test");
}

#[test]
fn what_crosses_the_boundary_keeps_its_layout() {
    if WORD != 8 {
        return eprintln!("skipped: the numbers are those of a 64-bit machine");
    }
    let sizes = [
        ("Str", size_of::<Str>(), 16),
        ("Slice", size_of::<Slice>(), 16),
        ("TextSink", size_of::<TextSink>(), 16),
        ("PropertySink", size_of::<PropertySink>(), 16),
        ("Property", size_of::<Property>(), 32),
        ("Panic", size_of::<Panic>(), 24),
        ("CallSite", size_of::<CallSite>(), 48),
        ("Data", size_of::<Data>(), 8),
        ("Callback", size_of::<Callback>(), 32),
        ("ReadyCallback", size_of::<ReadyCallback>(), 32),
        ("ConnectCallback", size_of::<ConnectCallback>(), 32),
        ("MessageCallback", size_of::<MessageCallback>(), 32),
        ("IrqHandler", size_of::<IrqHandler>(), 32),
        ("ResumeRequester", size_of::<ResumeRequester>(), 32),
        ("TxidParts", size_of::<TxidParts>(), 16),
        ("Connector", size_of::<Connector>(), 32),
        ("OffloadJob", size_of::<OffloadJob>(), 40),
        ("FutureObject", size_of::<FutureObject>(), 32),
        ("Polled", size_of::<Polled>(), 16),
        ("WakerObject", size_of::<WakerObject>(), 8),
        ("WakerOps", size_of::<WakerOps>(), 32),
        ("Completion", size_of::<Completion>(), 16),
        ("HookResult", size_of::<HookResult>(), 32),
        ("MessageParts", size_of::<MessageParts>(), 40),
        ("HandleParts", size_of::<HandleParts>(), 32),
        ("DispatcherOptions", size_of::<DispatcherOptions>(), 56),
        ("Service", size_of::<Service>(), 48),
        ("ChildOptions", size_of::<ChildOptions>(), 64),
        ("ConfigKey", size_of::<ConfigKey>(), 56),
        ("DriverEntry", size_of::<DriverEntry>(), 136),
    ];
    for (name, size, expected) in sizes {
        assert_eq!(size, expected, "{name} has changed its size");
    }
    assert_eq!(offset_of!(HookResult, message), 8);
    assert_eq!(offset_of!(HookResult, instance), 24);
    assert_eq!(offset_of!(MessageParts, handles), 24);
    assert_eq!(offset_of!(HandleParts, object), 8);
    assert_eq!(offset_of!(DispatcherOptions, observer), 40);
    assert_eq!(offset_of!(ChildOptions, dispatcher), 48);
    assert_eq!(size_of::<crate::Handle>(), size_of::<HandleParts>());
}

#[test]
fn a_table_or_entry_of_another_build_is_refused_with_both_versions() {
    let own = Header::of::<Table>();
    assert_eq!(own.check::<Table>("host", "driver"), Ok(()));
    let newer = Header { size: own.size + 64, revision: own.revision + 3, ..own };
    assert_eq!(newer.check::<Table>("host", "driver"), Ok(()), "more than needed is no harm");
    let other = Header { version: 7, ..own };
    let message = other.check::<Table>("host", "driver").expect_err("another version");
    assert!(message.contains("version 7") && message.contains("version 1"), "{message}");
    let older = Header { size: own.size - 8, ..own };
    let message = older.check::<Table>("host", "driver").expect_err("too small");
    assert!(message.contains(&own.size.to_string()) && message.contains("host with a newer"), "{message}");
}

#[test]
fn public_types_can_go_where_users_expect() {
    fn everywhere<T: Send + Sync>() {}
    fn movable<T: Send>() {}
    everywhere::<crate::Dispatcher>();
    everywhere::<crate::TaskHandle>();
    everywhere::<crate::OffloadHandle>();
    everywhere::<crate::JoinHandle<Vec<u8>>>();
    everywhere::<crate::Channel>();
    everywhere::<crate::Message>();
    everywhere::<crate::Arena>();
    everywhere::<crate::Handle>();
    everywhere::<crate::Node>();
    everywhere::<crate::Token>();
    everywhere::<crate::Txid>();
    everywhere::<crate::CallError>();
    everywhere::<crate::Irq>();
    everywhere::<crate::IrqTrigger>();
    everywhere::<crate::IrqBinding>();
    everywhere::<crate::WakeVector>();
    everywhere::<crate::Child>();
    everywhere::<crate::Logger>();
    everywhere::<crate::DriverContext>();
    everywhere::<crate::DriverEntry>();
    everywhere::<crate::net::Listener>();
    everywhere::<crate::net::Stream>();
    everywhere::<crate::net::WaitHandle>();
    everywhere::<crate::block::BlockClient>();
    everywhere::<crate::block::BlockServer>();
    everywhere::<crate::block::BlockBuffer>();
    movable::<crate::Sleep>();
    movable::<crate::net::Ready<'static>>();
    movable::<crate::Read<'static>>();
    movable::<crate::Call<'static>>();
    movable::<crate::block::BlockRequest>();
    movable::<crate::ChildNode>();
    movable::<crate::DispatcherOptions>();
    movable::<crate::PostError<()>>();
}
