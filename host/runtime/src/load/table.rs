//! The table itself.
//!
//! # Invariants
//! - It is a static, so it lives as long as the process and every pointer to it stays valid.

use fuchsine_driver::abi::{Header, Table};

use super::{calls, channels, context, dispatchers, futures, irqs, nodes, power, sockets, tokens};

/// What every driver of this process talks through.
pub(super) static TABLE: Table = Table {
    header: Header::of::<Table>(),

    dispatcher_current: dispatchers::current,
    dispatcher_retain: dispatchers::retain,
    dispatcher_release: dispatchers::release,
    dispatcher_create: dispatchers::create,
    dispatcher_shutdown: dispatchers::shutdown,
    dispatcher_post: dispatchers::post,
    task_cancel: dispatchers::task_cancel,
    task_release: dispatchers::task_release,
    dispatcher_name: dispatchers::name,
    dispatcher_is_stopping: dispatchers::is_stopping,
    dispatcher_is_current: dispatchers::is_current,
    dispatcher_flags: dispatchers::flags,

    spawn: futures::spawn,
    join_cancel: futures::join_cancel,
    join_release: futures::join_release,
    blocking: dispatchers::blocking,
    offload: dispatchers::offload,
    offload_cancel: dispatchers::offload_cancel,
    offload_release: dispatchers::offload_release,
    stop_token_is_stopping: dispatchers::stop_token_is_stopping,
    stop_token_wait: dispatchers::stop_token_wait,

    channel_create: channels::create,
    channel_write: channels::write,
    channel_read: channels::read,
    handles_free: channels::handles_free,
    channel_begin_read: channels::begin_read,
    channel_cancel_read: channels::cancel_read,
    channel_close: channels::close,

    arena_create: channels::arena_create,
    arena_alloc: channels::arena_alloc,
    arena_retain: channels::arena_retain,
    arena_release: channels::arena_release,

    socket_listen: sockets::listen,
    socket_accept: sockets::accept,
    socket_connect: sockets::connect,
    socket_take_error: sockets::take_error,
    socket_read: sockets::read,
    socket_write: sockets::write,
    socket_shutdown: sockets::shutdown,
    socket_local_address: sockets::local_address,
    socket_peer_address: sockets::peer_address,
    socket_begin_wait: sockets::begin_wait,
    fd_begin_wait: sockets::begin_wait_fd,
    wait_cancel: sockets::wait_cancel,
    wait_release: sockets::wait_release,
    socket_close: sockets::close,

    clock_now: dispatchers::clock_now,

    context_retain: context::retain,
    context_release: context::release,
    context_dispatcher: context::dispatcher,
    context_name: context::name,
    context_config: context::config,
    context_fail: context::fail,
    context_publish_address: context::publish_address,
    log: context::log,
    log_enabled: context::log_enabled,

    node_name: context::node_name,
    node_properties: context::node_properties,
    node_connect: nodes::connect,
    child_add: nodes::add,
    child_remove: nodes::remove,
    child_release: nodes::release,
    dispatcher_seal: dispatchers::seal,

    channel_write_reply: channels::write_reply,
    channel_read_request: channels::read_request,
    channel_call: calls::call,
    channel_begin_call: calls::begin_call,

    token_create: tokens::create,
    token_register: tokens::register,
    token_transfer: tokens::transfer,
    token_receive: tokens::receive,
    token_release: tokens::release,

    irq_create: irqs::create,
    irq_over_fd: irqs::over_fd,
    irq_bind: irqs::bind,
    irq_release: irqs::release,
    irq_trigger: irqs::trigger,
    irq_trigger_release: irqs::trigger_release,
    irq_ack: irqs::ack,
    irq_unbind: irqs::unbind,
    irq_binding_release: irqs::binding_release,

    dispatcher_always_on: dispatchers::always_on,
    context_suspend: power::suspend,
    context_resume: power::resume,
    context_is_suspended: power::is_suspended,
    context_set_resume_requester: power::set_resume_requester,
    context_add_wake_vector: power::add_wake_vector,
    wake_vector_release: power::wake_vector_release,

    context_add_socket_wake_vector: power::add_socket_wake_vector,
};
