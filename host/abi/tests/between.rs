//! Goal: a channel between C and Rust is one channel: messages, ends that travel, and calls both ways.
//! Method: one end is used by the exported functions, as C would, and the other by the dispatchers' own.
//!
//! # Invariants
//! - Every pointer that is handed in is to something on the stack of the test, or to memory of an arena that it holds.
#![allow(unsafe_code, reason = "the exported functions are called as C calls them")]

use std::ptr::null_mut;
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_abi::exports::arena::{fdf_arena_allocate, fdf_arena_create, fdf_arena_drop_ref};
use fuchsine_abi::exports::channel::{fdf_channel_call, fdf_channel_read, fdf_channel_write, fdf_handle_close};
use fuchsine_abi::exports::zx::{zx_event_create, zx_object_signal, zx_object_wait_one};
use fuchsine_abi::host;
use fuchsine_abi::status::{ZX_ERR_BAD_HANDLE, ZX_ERR_PEER_CLOSED, ZX_ERR_SHOULD_WAIT, ZX_OK};
use fuchsine_abi::types::{fdf_arena_t, fdf_channel_call_args_t, fdf_handle_t, zx_handle_t, zx_status_t};
use fuchsine_dispatcher::{Channel, DispatcherBuilder, Handle, Instant, Message, RuntimeBuilder, Status};

const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Writes as C does.
fn c_writes(end: fdf_handle_t, bytes: &[u8], handles: &[zx_handle_t]) -> zx_status_t {
    let mut arena: *mut fdf_arena_t = null_mut();
    // SAFETY: the place can be written.
    assert_eq!(unsafe { fdf_arena_create(0, 0, &raw mut arena) }, ZX_OK);
    // SAFETY: the arena is held.
    let (data, array) = unsafe {
        (fdf_arena_allocate(arena, bytes.len()), fdf_arena_allocate(arena, size_of_val(handles)).cast::<zx_handle_t>())
    };
    // SAFETY: there is room for both.
    unsafe {
        data.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
        array.copy_from(handles.as_ptr(), handles.len());
    }
    let (num_bytes, num_handles) = (bytes.len() as u32, handles.len() as u32);
    // SAFETY: both lie in the arena.
    let status = unsafe { fdf_channel_write(end, 0, arena, data, num_bytes, array, num_handles) };
    // SAFETY: it is held, and given up.
    unsafe { fdf_arena_drop_ref(arena) };
    status
}

/// Reads as C does.
fn c_reads(end: fdf_handle_t) -> Result<(Vec<u8>, Vec<zx_handle_t>), zx_status_t> {
    let (mut arena, mut data, mut num_bytes, mut handles, mut num_handles) = (null_mut(), null_mut(), 0, null_mut(), 0);
    // SAFETY: all places can be written.
    let status = unsafe {
        let (data, handles) = (&raw mut data, &raw mut handles);
        fdf_channel_read(end, 0, &raw mut arena, data, &raw mut num_bytes, handles, &raw mut num_handles)
    };
    if status != ZX_OK {
        return Err(status);
    }
    let copied = |start: *mut u8, len: usize| match len {
        0 => Vec::new(),
        // SAFETY: the message is of this length.
        len => unsafe { std::slice::from_raw_parts(start, len) }.to_vec(),
    };
    let bytes = copied(data.cast(), num_bytes as usize);
    let numbers = copied(handles.cast(), num_handles as usize * size_of::<zx_handle_t>());
    if !arena.is_null() {
        // SAFETY: the read gave a reference.
        unsafe { fdf_arena_drop_ref(arena) };
    }
    let handles = numbers.chunks_exact(4).map(|four| zx_handle_t::from_ne_bytes(four.try_into().expect("four")));
    Ok((bytes, handles.collect()))
}

#[test]
fn messages_and_ends_travel_between_c_and_rust() {
    let (rust, end) = Channel::pair();
    let c = host::give(end).expect("there is room");
    assert_eq!(c_reads(c), Err(ZX_ERR_SHOULD_WAIT));
    assert_eq!(c_writes(c, b"from C", &[]), ZX_OK);
    assert_eq!(rust.try_read().expect("there is one").bytes(), b"from C");

    // An end from Rust, used in C, and sent back as a channel; with an object of C's, and a value of Rust's.
    let (near, far) = Channel::pair();
    rust.write(Message::from_bytes(b"an end").with(far).with(Handle::value(7_u8))).expect("written");
    let (bytes, handles) = c_reads(c).expect("there is one");
    assert_eq!((bytes.as_slice(), handles.len(), handles[1]), (&b"an end"[..], 2, 0));
    near.write(Message::from_bytes(b"inside")).expect("written");
    assert_eq!(c_reads(handles[0]), Ok((b"inside".to_vec(), Vec::new())));
    let mut event = 0;
    // SAFETY: the place can be written.
    assert_eq!(unsafe { zx_event_create(0, &raw mut event) }, ZX_OK);
    assert_eq!(c_writes(c, b"", &[handles[0], event]), ZX_OK);
    assert_eq!(c_writes(handles[0], b"", &[]), ZX_ERR_BAD_HANDLE);
    let mut back = rust.try_read().expect("there is one").take_handles();
    let carried = back.pop().expect("the event");
    let far = back.pop().expect("the end").into_channel().expect("it is a channel here");
    far.write(Message::from_bytes(b"back")).expect("written");
    assert_eq!(near.try_read().expect("there is one").bytes(), b"back");

    // Rust carries the event, and C has it again.
    rust.write(Message::new().with(carried)).expect("written");
    let (_, handles) = c_reads(c).expect("there is one");
    // SAFETY: plain numbers; the place may be null.
    unsafe {
        assert_eq!(zx_object_signal(handles[0], 0, 1 << 24), ZX_OK);
        assert_eq!(zx_object_wait_one(handles[0], 1 << 24, 0, null_mut()), ZX_OK);
        fdf_handle_close(handles[0]);
    }
    let end = host::take(c).expect("nobody uses it");
    assert_eq!(host::take(c).err(), Some(Status::BadHandle));
    drop(end);
    assert!(rust.is_peer_closed());
    drop(near);
}

#[test]
fn calls_go_both_ways() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let dispatcher = runtime.new_driver("server").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (rust, end) = Channel::pair();
    let c = host::give(end).expect("there is room");

    // C calls, and a server in Rust replies in the memory of the request.
    let (sender, receiver) = channel();
    let server = std::sync::Arc::new(rust);
    let serving = std::sync::Arc::clone(&server);
    let serve = move |outcome: Result<(), Status>| {
        outcome.expect("a request");
        let request = serving.try_read().expect("a request");
        let id = u32::from_ne_bytes(*request.bytes().first_chunk::<4>().expect("four bytes"));
        let mut reply = request.recycle(8);
        reply.bytes_mut().copy_from_slice(&[id.to_ne_bytes(), *b"pong"].concat());
        serving.write(reply).expect("written");
        sender.send(id).expect("it is awaited");
    };
    server.begin_read(&dispatcher, serve).expect("registered");
    let mut arena: *mut fdf_arena_t = null_mut();
    // SAFETY: the place can be written.
    assert_eq!(unsafe { fdf_arena_create(0, 0, &raw mut arena) }, ZX_OK);
    // SAFETY: the arena is held.
    let data = unsafe { fdf_arena_allocate(arena, 8) };
    let (mut reply, mut bytes, mut len) = (null_mut(), null_mut(), 0);
    let args = fdf_channel_call_args_t {
        wr_arena: arena,
        wr_data: data,
        wr_num_bytes: 8,
        wr_handles: null_mut(),
        wr_num_handles: 0,
        rd_arena: &raw mut reply,
        rd_data: &raw mut bytes,
        rd_num_bytes: &raw mut len,
        rd_handles: null_mut(),
        rd_num_handles: null_mut(),
    };
    // SAFETY: all that it points to is alive.
    assert_eq!(unsafe { fdf_channel_call(c, 0, i64::MAX, &raw const args) }, ZX_OK);
    let id = receiver.recv_timeout(HANG_LIMIT).expect("it was served");
    assert!(id >= 0x8000_0000 && len == 8);
    // SAFETY: the reply is of this length.
    assert_eq!(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), 8) }, [id.to_ne_bytes(), *b"pong"].concat());
    // SAFETY: both are held, and given up.
    unsafe {
        fdf_arena_drop_ref(reply);
        fdf_arena_drop_ref(arena);
    }

    // Rust calls, and C replies by the first four bytes of the request.
    let (told, answer) = channel();
    let hear = move |outcome: Result<Message, Status>| {
        told.send(outcome.map(|reply| reply.bytes().to_vec())).expect("it is awaited");
    };
    let call = server.begin_call(&dispatcher, Message::from_bytes(b"\x05\0\0\0ping"), Instant::INFINITE, hear);
    let _call = call.expect("sent");
    let (request, _) = c_reads(c).expect("there is one");
    assert_eq!(c_writes(c, b"\x06\0\0\0something else", &[]), ZX_OK);
    assert_eq!(c_writes(c, &[&request[..4], b"pong"].concat(), &[]), ZX_OK);
    assert_eq!(answer.recv_timeout(HANG_LIMIT), Ok(Ok(b"\x05\0\0\0pong".to_vec())));
    assert_eq!(server.try_read().expect("an ordinary message").bytes(), b"\x06\0\0\0something else");
    // SAFETY: a plain number.
    unsafe { fdf_handle_close(c) };
    assert_eq!(server.try_read().err().map(|error| error.status().as_raw()), Some(ZX_ERR_PEER_CLOSED));
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}
