//! What is done at each place for code of others, which says where it comes from.

use std::time::Duration;

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Arena, CallSite, Channel, Instant, Interest, Irq, Lane, Limits, Message, Site, Status, Token, Txid,
};

use super::operations::{Answer, Operation, any, done, running, silent, status};

static SOMEWHERE: CallSite = CallSite::new("", 0, u32::MAX, "");

fn site() -> Site {
    Site::of(&SOMEWHERE)
}

/// The operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    running("post_task_from", |t| status(t.target.post_task_from(site(), |_| ()))),
    running("post_cancelable_from", |t| {
        status(t.target.post_cancelable_from(site(), |_| ()).map(|handle| done(handle.cancel())))
    }),
    running("post_at_from", |t| status(t.target.post_at_from(site(), Instant::ZERO, |_| ()))),
    running("post_at_from, never", |t| status(t.target.post_at_from(site(), Instant::INFINITE, |_| ()))),
    running("begin_wait_from", |t| status(t.target.begin_wait_from(site(), &t.stream, Interest::WRITABLE, |_| ()))),
    running("offload_from", |t| status(t.target.offload_from(site(), Lane::Slow, |_| (), |_| ()))),
    running("spawn_from", |t| status(t.target.spawn_from(site(), async {}))),
    running("begin_read_from", |t| {
        let read = t.far.begin_read_from(site(), &t.target, |_| ());
        done((t.far.begin_read_from(site(), &t.target, |_| ()).is_ok(), t.far.cancel_read()));
        status(read)
    }),
    any("begin_read_from of nobody", |t| {
        status(t.closed.begin_read_from(site(), &t.other, |_| ()).map_err(|error| error.into_status()))
    }),
    running("begin_writable_from", |t| {
        let waiting = t.near.begin_writable_from(site(), &t.target, usize::MAX, |_| ());
        done(t.near.cancel_writable());
        status(waiting.map_err(|refused| refused.status()))
    }),
    running("begin_call_from", |t| {
        let (client, server) = Channel::pair();
        let begun = client.begin_call_from(site(), &t.target, Message::new(), Instant::ZERO, |_| ());
        done(server.try_read());
        status(begun.map(|handle| handle.cancel()).map_err(|refused| refused.status()))
    }),
    silent("a reply to a made up call", |t| {
        let replies = [(0, 0), (0, 1), (u64::MAX, u32::MAX), (1, 1 << 31)].map(|(channel, number)| {
            t.near.write(Message::new().in_reply_to(Txid::from_raw_parts(channel, number))).map_err(|_| ())
        });
        done(replies);
    }),
    running("register_from", |t| {
        let (server, client) = Token::pair_from(site());
        let registered = server.register_from(site(), &t.target, |_| ()).map_err(|refused| refused.status());
        done(client.transfer(Channel::pair().0));
        status(registered)
    }),
    running("bind_irq_from", |t| match t.target.new_irq_from(site()) {
        Ok((irq, trigger)) => {
            trigger.trigger();
            status(t.target.bind_irq_from(site(), &irq, |outcome| done(outcome.map(|event| event.count()))))
        }
        Err(_) => Answer::Done,
    }),
    any("bind_irq_from over a stream", |t| {
        let irq = Irq::over_from(site(), t.stream.try_clone().expect("there is a descriptor"));
        status(t.other.bind_irq_from(site(), &irq, |_| ()).map(|handle| handle.unbind()).map_err(Status::from))
    }),
    silent("pair_from", |_| {
        let (near, _far) = Channel::pair_from(site(), Limits::default().messages(0));
        done(near.write(Message::with_len(10)));
    }),
    silent("try_with_capacity_from", |_| {
        done((Arena::try_with_capacity_from(site(), usize::MAX), Arena::try_with_capacity_from(site(), 0)));
    }),
    silent("listen_from and connect_from", |_| {
        let runtime = ForegroundRuntime::new();
        let net = runtime.sim_net().expect("it is simulated");
        let listener = net.listen_from(site(), "");
        done((net.listen_from(site(), ""), net.connect_from(site(), ""), net.connect_from(site(), "nobody"), listener));
        runtime.advance(Duration::from_millis(1));
    }),
];
