//! Values of another image: nobody here can take them out, and they are dropped once all the same.

use super::*;
use crate::channel::value::Value;
use crate::channel::{Channel, Handle};
use crate::runtime::{DispatcherBuilder, RuntimeBuilder};
use crate::status::Status;
use crate::sync::{Arc, Mutex};
use crate::time::Instant;

struct Numbers;

impl Protocol for Numbers {
    type Request = Arc<u32>;
    type Reply = Arc<u32>;
    type Event = Arc<u32>;
}

fn foreign<T: Send + 'static>(value: T) -> Message {
    Message::new().with(Handle::Value(Value::of_another_image(value)))
}

const ANOTHER_IMAGE: &str = "a value of another image";

/// Shows D8.
#[test]
fn a_value_of_another_image_is_the_wrong_type_and_dropped() {
    let (near, far) = Channel::pair();
    let held = Arc::new(7);
    near.write(foreign(envelope::Request::<Numbers>(Arc::clone(&held)))).unwrap();
    let server = Server::<Numbers>::from_channel(far);
    let Err(ReceiveError::WrongType { expected, found }) = server.try_next() else { panic!("it is of another image") };
    assert!(expected.contains("Numbers"), "{expected}");
    assert_eq!(found, ANOTHER_IMAGE);
    assert_eq!(Arc::strong_count(&held), 1);

    server.channel().write(foreign(envelope::Event::<Numbers>(Arc::clone(&held)))).unwrap();
    let client = Client::<Numbers>::from_channel(near);
    assert_eq!(client.try_event().map_err(ReceiveError::status), Err(Status::WrongType));
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn calls_from_and_replies_to_another_image_are_told_so() {
    let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
    let home = runtime.new_driver("home").new_dispatcher(DispatcherBuilder::new()).unwrap();
    let (near, far) = Channel::pair();
    let told = Arc::new(Mutex::new(Vec::new()));
    let held = Arc::new(7);

    // A request of another image.
    let telling = Arc::clone(&told);
    let request = foreign(envelope::Request::<Numbers>(Arc::clone(&held)));
    let _call = near
        .begin_call(&home, request, Instant::INFINITE, move |answer| {
            telling.lock().push(take_reply::<Numbers>(answer.unwrap()))
        })
        .unwrap();
    let server = Server::<Numbers>::from_channel(far);
    assert_eq!(server.try_next().map(drop).map_err(ReceiveError::status), Err(Status::WrongType));

    // A reply of another image.
    let client = Client::<Numbers>::from_channel(near);
    let telling = Arc::clone(&told);
    let _call = client
        .begin_call(&home, Arc::clone(&held), Instant::INFINITE, move |reply| telling.lock().push(reply))
        .unwrap();
    let request = server.channel().try_read().unwrap();
    let reply = foreign(envelope::Answer::<Numbers>(Ok(Arc::clone(&held)))).in_reply_to(request.txid());
    server.channel().write(reply).unwrap();
    drop(request);
    runtime.shutdown(std::time::Duration::from_secs(30)).unwrap();
    let wrong = || Err(Status::WrongType);
    assert_eq!(*told.lock(), [wrong(), wrong()]);
    assert_eq!(Arc::strong_count(&held), 1);
}
