//! Goal: the stack answers pings and echoes, on both protocols, whatever packets are lost or senseless.
//! Method: a second stack of the same kind at the other end of a wire in memory, as the client; time is what the test says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::socket::{icmp, tcp};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpCidr, IpEndpoint};

use super::*;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One side of a wire in memory.
struct Side {
    comes: Queue,
    goes: Queue,
    /// Every so many packets one is lost on its way out.
    loses: usize,
    sent: RefCell<usize>,
    is_cut: RefCell<bool>,
}

impl Wire for Side {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        if *self.is_cut.borrow() {
            return Err(io::Error::from_raw_os_error(77));
        }
        let packet = self.comes.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        into[..packet.len()].copy_from_slice(&packet);
        Ok(packet.len())
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        *self.sent.borrow_mut() += 1;
        if self.loses == 0 || !self.sent.borrow().is_multiple_of(self.loses) {
            self.goes.borrow_mut().push_back(packet.to_vec());
        }
        Ok(())
    }
}

/// The stack under test, and a client at the other end.
struct World {
    stack: Stack,
    side: Side,
    client: Interface,
    client_sockets: SocketSet<'static>,
    client_buffers: Buffers,
    client_side: Side,
    now: Instant,
}

const OURS: [&str; 2] = ["10.77.0.2", "fd77::2"];

impl World {
    fn new(connections: usize, loses: usize) -> Self {
        let (there, back) = (Queue::default(), Queue::default());
        let side = |comes: &Queue, goes: &Queue| Side {
            comes: Rc::clone(comes),
            goes: Rc::clone(goes),
            loses,
            sent: RefCell::default(),
            is_cut: RefCell::default(),
        };
        let (side, client_side) = (side(&there, &back), side(&back, &there));
        let addresses = ["10.77.0.2/24", "fd77::2/64"].map(|text| text.parse().unwrap()).to_vec();
        let settings = Settings { interface: "none".into(), addresses, echo_port: 7, connections, mtu: 1500 };
        let now = Instant::from_millis(1000);
        let stack = Stack::new(&settings, &side, 1, now);
        let mut client_buffers = Buffers::new(1500);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = 2;
        let mut client = Interface::new(config, &mut Port { wire: &client_side, buffers: &mut client_buffers }, now);
        client.update_ip_addrs(|addresses| {
            for text in ["10.77.0.1/24", "fd77::1/64"] {
                addresses.push(text.parse::<IpCidr>().unwrap()).unwrap();
            }
        });
        Self { stack, side, client, client_sockets: SocketSet::new(Vec::new()), client_buffers, client_side, now }
    }

    fn connect(&mut self, address: &str, from: u16) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 8 << 10]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        let to = IpEndpoint::new(address.parse().unwrap(), 7);
        socket.connect(self.client.context(), to, from).unwrap();
        self.client_sockets.add(socket)
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.client_sockets.get_mut(handle)
    }

    /// Both sides have their turns until neither has more to do now.
    fn settle(&mut self) {
        loop {
            self.client_buffers.allowed = usize::MAX;
            let mut port = Port { wire: &self.client_side, buffers: &mut self.client_buffers };
            self.client.poll(self.now, &mut port, &mut self.client_sockets);
            let next = self.stack.turn(&self.side, self.now).expect("the wire is whole");
            if next != Next::Again && self.side.comes.borrow().is_empty() && self.side.goes.borrow().is_empty() {
                return;
            }
        }
    }

    fn after(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.settle();
    }
}

use smoltcp::iface::SocketHandle;

#[test]
fn bytes_come_back_in_order_on_both_protocols_also_when_packets_are_lost() {
    for (address, loses) in OURS.into_iter().flat_map(|address| [0, 7].map(|loses| (address, loses))) {
        let mut world = World::new(2, loses);
        world.settle();
        let handle = world.connect(address, 4000);
        let bytes: Vec<u8> = (0..100_000u32).map(|at| (at / 3) as u8).collect();
        let (mut sent, mut echoed) = (0, Vec::new());
        for _ in 0..100_000 {
            world.after(10);
            let socket = world.socket(handle);
            if socket.may_send() && sent < bytes.len() {
                sent += socket.send_slice(&bytes[sent..]).unwrap();
            }
            if socket.can_recv() {
                socket.recv(|got| (got.len(), echoed.extend_from_slice(got))).unwrap();
            }
            if echoed.len() == bytes.len() {
                break;
            }
        }
        assert!(echoed == bytes, "{} of {} bytes at {address}", echoed.len(), bytes.len());
        // The end is echoed too, and the place is free for the next.
        world.socket(handle).close();
        for _ in 0..1000 {
            world.after(100);
        }
        assert_eq!(world.socket(handle).state(), tcp::State::Closed);
        assert_eq!(world.stack.connections(), 0);
    }
}

#[test]
fn beyond_the_limit_connections_are_refused_until_one_ends() {
    let mut world = World::new(2, 0);
    let handles = [4000, 4001, 4002].map(|port| world.connect(OURS[0], port));
    world.settle();
    let states = handles.map(|handle| world.socket(handle).state());
    assert_eq!(states, [tcp::State::Established, tcp::State::Established, tcp::State::Closed]);
    assert_eq!(world.stack.connections(), 2);
    world.socket(handles[0]).abort();
    world.settle();
    let next = world.connect(OURS[1], 4003);
    world.settle();
    assert_eq!(world.socket(next).state(), tcp::State::Established);
}

#[test]
fn a_reset_tells_every_peer() {
    let mut world = World::new(2, 0);
    let handles = OURS.map(|address| world.connect(address, 4000));
    world.settle();
    assert_eq!(world.stack.connections(), 2);
    world.stack.reset(&world.side, world.now);
    // Nothing but what was sent by the reset.
    world.client_buffers.allowed = usize::MAX;
    let mut port = Port { wire: &world.client_side, buffers: &mut world.client_buffers };
    world.client.poll(world.now, &mut port, &mut world.client_sockets);
    for handle in handles {
        assert_eq!(world.socket(handle).state(), tcp::State::Closed);
    }
}

#[test]
fn a_peer_that_falls_silent_is_dropped_after_a_while() {
    let mut world = World::new(1, 0);
    world.connect(OURS[0], 4000);
    world.settle();
    assert_eq!(world.stack.connections(), 1);
    // From now on nobody takes what the stack sends.
    for _ in 0..200 {
        world.now += Duration::from_secs(1);
        world.stack.turn(&world.side, world.now).unwrap();
        world.side.goes.borrow_mut().clear();
    }
    assert_eq!(world.stack.connections(), 0);
}

#[test]
fn pings_are_answered_on_both_protocols_with_what_they_carry() {
    for address in OURS {
        let mut world = World::new(1, 0);
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 4096]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(9)).unwrap();
        let to: IpAddress = address.parse().unwrap();
        let data = [0x5a; 1000];
        match to {
            IpAddress::Ipv4(_) => {
                let ping = Icmpv4Repr::EchoRequest { ident: 9, seq_no: 1, data: &data };
                let bytes = socket.send(ping.buffer_len(), to).unwrap();
                ping.emit(&mut Icmpv4Packet::new_unchecked(bytes), &Default::default());
            }
            IpAddress::Ipv6(to_v6) => {
                let ping = Icmpv6Repr::EchoRequest { ident: 9, seq_no: 1, data: &data };
                let bytes = socket.send(ping.buffer_len(), to).unwrap();
                let from = "fd77::1".parse().unwrap();
                ping.emit(&from, &to_v6, &mut Icmpv6Packet::new_unchecked(bytes), &Default::default());
            }
        }
        let handle = world.client_sockets.add(socket);
        world.settle();
        let socket = world.client_sockets.get_mut::<icmp::Socket<'_>>(handle);
        let (reply, from) = socket.recv().expect("the ping is answered");
        assert_eq!(from, to);
        assert!(reply.ends_with(&data), "with the data of the ping");
    }
}

#[test]
fn senseless_packets_are_dropped_and_a_turn_takes_a_bounded_number_of_them() {
    let mut world = World::new(1, 0);
    let mut garbage: Vec<Vec<u8>> = vec![vec![], vec![0x45], vec![0x60; 20], vec![0xff; 1500], vec![0; 60_000]];
    garbage.extend(
        (0..300u32).map(|seed| {
            (0..40 + seed % 80).map(|at| if at == 0 { 0x45 } else { (seed * 31 + at * 7) as u8 }).collect()
        }),
    );
    let count = garbage.len();
    world.side.comes.borrow_mut().extend(garbage);
    let mut turns = 0;
    while world.stack.turn(&world.side, world.now).unwrap() == Next::Again {
        turns += 1;
    }
    assert!(turns >= count / BATCH, "{turns} turns");
    world.side.goes.borrow_mut().clear();
    let handle = world.connect(OURS[0], 4000);
    world.settle();
    assert_eq!(world.socket(handle).state(), tcp::State::Established);
}

#[test]
fn with_nothing_to_do_it_waits_for_packets_alone_and_tells_when_the_wire_is_gone() {
    let mut world = World::new(1, 0);
    assert_eq!(world.stack.turn(&world.side, world.now).unwrap(), Next::Wait(None));
    *world.side.is_cut.borrow_mut() = true;
    let error = world.stack.turn(&world.side, world.now).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(77));
}
