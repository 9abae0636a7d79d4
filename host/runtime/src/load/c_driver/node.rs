//! What a driver in C asks of its node.

use std::sync::Arc;

use fuchsine_abi::protocol::{
    FUCHSINE_NODE_ADD_CHILD, FUCHSINE_NODE_CONNECT, FUCHSINE_NODE_CONNECTED, FUCHSINE_NODE_FAIL, FUCHSINE_NODE_LOG,
    FUCHSINE_NODE_PUBLISH_ADDRESS, FUCHSINE_NODE_REMOVE_CHILD, Packet,
};
use fuchsine_dispatcher::{Channel, Message, Txid};
use fuchsine_driver::{ChildNode, Level, Status, spawn};

use super::super::channels::taken_from;
use super::Talk;

/// How a request ended badly.
type Refused = (Status, String);

/// A request, to be answered once.
struct Request {
    packet: Packet,
    /// Of a call: what ties the answer to it.
    txid: Option<Txid>,
}

impl Talk {
    /// Does what the driver asks of its node.
    pub(super) fn node_asks(self: &Arc<Self>, message: Message) {
        let txid = message.txid();
        let packet = match Packet::read(message.bytes()) {
            Ok(packet) => packet,
            Err(why) => return self.cx.logger().warn(format_args!("a message on its node's channel is none: {why}")),
        };
        let request = Request { packet, txid };
        let packet = &request.packet;
        let done = match packet.ordinal {
            FUCHSINE_NODE_ADD_CHILD => self.add_child(packet),
            FUCHSINE_NODE_REMOVE_CHILD => return self.remove_child(request),
            FUCHSINE_NODE_CONNECT => return self.connect(request),
            FUCHSINE_NODE_PUBLISH_ADDRESS => self
                .cx
                .publish_address(packet.text(0))
                .map_err(|status| (status, format!("the address {:?} is not published: {status}", packet.text(0)))),
            FUCHSINE_NODE_LOG => {
                self.cx.logger().log(level(packet.value), packet.text(0), &[]);
                Ok(())
            }
            FUCHSINE_NODE_FAIL => {
                let status = Status::result_of(packet.value).err().unwrap_or(Status::Internal);
                match packet.text(0) {
                    "" => self.cx.fail(status, status),
                    why => self.cx.fail(status, why),
                }
                Ok(())
            }
            other => Err((Status::NotSupported, format!("this host knows no request with the ordinal {other}"))),
        };
        self.answer(&request, done.map(|()| None));
    }

    fn add_child(&self, packet: &Packet) -> Result<(), Refused> {
        let pairs = usize::try_from(packet.value).ok().and_then(|count| count.checked_mul(2));
        let texts = packet.texts.get(1..).unwrap_or_default();
        let Some((properties, services)) = pairs.and_then(|count| texts.split_at_checked(count)) else {
            let why = format!("a child with {} properties cannot have {} texts", packet.value, packet.texts.len());
            return Err((Status::InvalidArgs, why));
        };
        let name = packet.text(0);
        let mut child = ChildNode::new(name);
        for pair in properties.chunks_exact(2) {
            child = child.property(&pair[0], &pair[1]);
        }
        for service in services {
            let (node, texts) = (Arc::clone(&self.node), [name.to_owned(), service.clone()]);
            child = child.service(service, move |end| {
                let told = Packet::new(FUCHSINE_NODE_CONNECTED, 0, texts.clone()).to_message();
                // A driver that has closed its node serves nobody: the end is closed with the message.
                let _ = node.write(told.with(taken_from(end)));
            });
        }
        let added = self.cx.add_child(child).map_err(|error| (error.status(), error.to_string()))?;
        self.children.lock().insert(name.to_owned(), added);
        Ok(())
    }

    fn remove_child(self: &Arc<Self>, request: Request) {
        let child = self.children.lock().remove(request.packet.text(0));
        let Some(child) = child else {
            let why = format!("there is no child {:?}", request.packet.text(0));
            return self.answer(&request, Err((Status::NotFound, why)));
        };
        self.later(request, async move {
            child.remove().await.map(|()| None).map_err(|status| (status, format!("a child is not removed: {status}")))
        });
    }

    fn connect(self: &Arc<Self>, request: Request) {
        let (service, parent) = (request.packet.text(0).to_owned(), request.packet.text(1).to_owned());
        let node = self.cx.node();
        self.later(request, async move {
            let connected = match parent.as_str() {
                "" => node.connect(&service).await,
                parent => node.parent(parent).connect(&service).await,
            };
            match connected {
                Ok(end) => Ok(Some(taken_from(end))),
                Err(status) => Err((status, format!("there is no connection to the service {service:?}: {status}"))),
            }
        });
    }

    /// Answers when `work` has ended.
    fn later(
        self: &Arc<Self>,
        request: Request,
        work: impl Future<Output = Result<Option<Channel>, Refused>> + Send + 'static,
    ) {
        let talk = Arc::clone(self);
        // Refused only when the driver shuts down, which closes the channel.
        let _ = spawn(async move {
            let done = work.await;
            talk.answer(&request, done);
        });
    }

    fn answer(&self, request: &Request, done: Result<Option<Channel>, Refused>) {
        let (packet, is_wanted) = (&request.packet, request.packet.txid != 0 || request.txid.is_some());
        let (answer, end) = match done {
            Ok(end) => (packet.answer(0, None), end),
            Err((_, why)) if !is_wanted => return self.cx.logger().warn(why),
            Err((status, why)) => (packet.answer(status.as_raw(), Some(why)), None),
        };
        if is_wanted {
            let message = answer.to_message().in_reply_to(request.txid);
            let message = match end {
                Some(end) => message.with(end),
                None => message,
            };
            // Who has closed its node wants no answers.
            let _ = self.node.write(message);
        }
    }
}

fn level(number: i32) -> Level {
    match number {
        i32::MIN..=1 => Level::Error,
        2 => Level::Warn,
        3 => Level::Info,
        4 => Level::Debug,
        _ => Level::Trace,
    }
}
