//! What the fake host has not: calls, tokens, irqs, suspend. A host may refuse them, and a driver sees `NotSupported`; what
//! they do is tested with the real one.

use super::super::CallSite;
use super::super::calls::{Callback, ConnectCallback, IrqHandler, MessageCallback, ResumeRequester};
use super::super::parts::{MessageParts, TxidParts};
use super::super::types::{
    RawChannel, RawContext, RawDispatcher, RawIrq, RawIrqBinding, RawIrqTrigger, RawSocket, RawTask, RawToken,
    RawWakeVector,
};
use super::channel::{channel_read, channel_write};
use super::dispatcher::dispatcher_retain;
use crate::Status;

const NO: i32 = Status::NotSupported.as_raw();

pub(super) unsafe extern "C" fn channel_write_reply(
    channel: *mut RawChannel,
    message: *const MessageParts,
    _txid: *const TxidParts,
) -> i32 {
    // SAFETY: the caller keeps to the contract of the other function too.
    unsafe { channel_write(channel, message) }
}

pub(super) unsafe extern "C" fn channel_read_request(
    channel: *mut RawChannel,
    out: *mut MessageParts,
    out_txid: *mut TxidParts,
) -> i32 {
    // SAFETY: the caller passes a valid out pointer.
    unsafe { out_txid.write(TxidParts::NONE) };
    // SAFETY: the caller keeps to the contract of the other function too.
    unsafe { channel_read(channel, out) }
}

pub(super) unsafe extern "C" fn channel_call(
    _channel: *mut RawChannel,
    _request: *const MessageParts,
    _deadline: u64,
    _out: *mut MessageParts,
    _out_sent: *mut u32,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn channel_begin_call(
    _channel: *mut RawChannel,
    _dispatcher: *const RawDispatcher,
    _request: *const MessageParts,
    _deadline: u64,
    _callback: *mut MessageCallback,
    _out: *mut *mut RawTask,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn token_create(
    _site: *const CallSite,
    _out_a: *mut *mut RawToken,
    _out_b: *mut *mut RawToken,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn token_register(
    _token: *mut RawToken,
    _dispatcher: *const RawDispatcher,
    _callback: *mut ConnectCallback,
    _out: *mut *mut RawTask,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn token_transfer(_token: *mut RawToken, _channel: *mut RawChannel) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn token_receive(_token: *mut RawToken, _out: *mut *mut RawChannel) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn token_release(_token: *mut RawToken) {}

pub(super) unsafe extern "C" fn irq_create(
    _dispatcher: *const RawDispatcher,
    _site: *const CallSite,
    _out: *mut *mut RawIrq,
    _out_trigger: *mut *mut RawIrqTrigger,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn irq_over_fd(_fd: i32, _site: *const CallSite, _out: *mut *mut RawIrq) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn irq_bind(
    _irq: *mut RawIrq,
    _dispatcher: *const RawDispatcher,
    _handler: *mut IrqHandler,
    _out: *mut *mut RawIrqBinding,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn irq_release(_irq: *mut RawIrq) {}

pub(super) unsafe extern "C" fn irq_trigger(_trigger: *mut RawIrqTrigger) {}

pub(super) unsafe extern "C" fn irq_trigger_release(_trigger: *mut RawIrqTrigger) {}

pub(super) unsafe extern "C" fn irq_ack(_binding: *mut RawIrqBinding) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn irq_unbind(_binding: *mut RawIrqBinding, _out_running: *mut u32) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn irq_binding_release(_binding: *mut RawIrqBinding) {}

pub(super) unsafe extern "C" fn dispatcher_always_on(dispatcher: *const RawDispatcher) -> *const RawDispatcher {
    // Nobody is ever suspended here, so it is as good as the dispatcher itself.
    // SAFETY: the caller passes a valid dispatcher.
    unsafe { dispatcher_retain(dispatcher) };
    dispatcher
}

pub(super) unsafe extern "C" fn context_suspend(_context: *const RawContext, _callback: *mut Callback) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn context_resume(_context: *const RawContext) -> u32 {
    0
}

pub(super) unsafe extern "C" fn context_is_suspended(_context: *const RawContext) -> u32 {
    0
}

pub(super) unsafe extern "C" fn context_set_resume_requester(
    _context: *const RawContext,
    _requester: *mut ResumeRequester,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn context_add_wake_vector(
    _context: *const RawContext,
    _irq: *mut RawIrq,
    _out: *mut *mut RawWakeVector,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn context_add_socket_wake_vector(
    _context: *const RawContext,
    _socket: *mut RawSocket,
    _interest: u32,
    _out: *mut *mut RawWakeVector,
) -> i32 {
    NO
}

pub(super) unsafe extern "C" fn wake_vector_release(_vector: *mut RawWakeVector) {}
