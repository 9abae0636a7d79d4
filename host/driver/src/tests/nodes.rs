//! Nodes: children, properties, services.

use std::time::Duration;

use super::Journal;
use crate::abi::fake::FakeHost;
use crate::{
    Child, ChildNode, Driver, DriverContext, DriverEntry, Message, StartError, Status, StopError, current, sleep, spawn,
};

thread_local! {
    static JOURNAL: Journal = Journal::default();
}

fn journal() -> Journal {
    JOURNAL.with(Journal::clone)
}

struct Parent {
    child: Option<Child>,
}

impl Driver for Parent {
    const NAME: &'static str = "parent";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let node = ChildNode::new("disk").property("protocol", "greeting").property("speed", "slow").service(
            "greeting",
            |channel| {
                journal().note(format!("accept on {}", current().expect("current").name()));
                let served = spawn(async move {
                    while let Ok(message) = channel.read().await {
                        let text = [b"hello ", message.bytes()].concat();
                        channel.write(Message::from_bytes(&text)?).map_err(Status::from)?;
                    }
                    journal().note("client gone");
                    Ok::<_, Status>(())
                });
                drop(served);
            },
        );
        let child = cx.add_child(node)?;
        let again = cx.add_child(ChildNode::new("disk").service("x", |_| ())).expect_err("the name is taken");
        assert_eq!(
            (again.status(), again.to_string()),
            (Status::AlreadyExists, String::from("there is a child \"disk\" already"))
        );
        Ok(Parent { child: Some(child) })
    }

    async fn stop(mut self) -> Result<(), StopError> {
        drop(self.child.take());
        Ok(())
    }
}

struct Greeter;

impl Driver for Greeter {
    const NAME: &'static str = "greeter";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let node = cx.node();
        assert_eq!((node.name(), node.property("speed")), (String::from("disk"), Some(String::from("slow"))));
        assert_eq!(node.property("colour"), None);
        assert_eq!(node.connect("parting").await.map(drop), Err(Status::NotFound));
        let channel = node.connect("greeting").await?;
        channel.write(Message::from_bytes(b"you")?).map_err(|error| error.into_status())?;
        journal().note(String::from_utf8_lossy(channel.read().await?.bytes()));
        Ok(Greeter)
    }
}

#[test]
fn a_child_s_driver_connects_to_the_service_of_its_parent() {
    let host = FakeHost::new();
    let mut parent = host.start(&DriverEntry::of::<Parent>(), "{}", None);
    assert_eq!(parent.started(), Some(Ok(())));
    let child = parent.child("disk").expect("it was added");
    let mut greeter = host.start(&DriverEntry::of::<Greeter>(), "{}", Some(&child));
    assert_eq!(greeter.started(), Some(Ok(())));
    assert_eq!(journal().take(), ["accept on parent", "hello you", "client gone"]);
    greeter.stop_in_order();
    parent.stop_in_order();
    drop(child);
    assert_eq!(host.panics(), [""; 0]);
    assert_eq!(host.objects_left(), 0);
}

struct Remover;

impl Driver for Remover {
    const NAME: &'static str = "remover";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let held = super::Noted(journal(), "connector");
        let first = cx.add_child(ChildNode::new("a").service("s", move |_| held.0.note("never")))?;
        first.remove().await?;
        journal().note("removed");
        cx.add_child(ChildNode::new("a"))?.detach();
        drop(cx.add_child(ChildNode::new("b").service("s", |_| ()))?);
        sleep(Duration::ZERO).await?;
        Ok(Remover)
    }
}

#[test]
fn a_removed_child_drops_its_connectors_and_a_detached_one_stays() {
    let host = FakeHost::new();
    let mut driver = host.start(&DriverEntry::of::<Remover>(), "{}", None);
    assert_eq!(driver.started(), Some(Ok(())));
    assert_eq!(journal().take(), ["connector dropped", "removed"]);
    assert!(driver.child("a").is_some());
    driver.stop_in_order();
}

#[test]
fn connecting_on_the_root_finds_nothing() {
    struct Lonely;
    impl Driver for Lonely {
        const NAME: &'static str = "lonely";
        async fn start(cx: DriverContext) -> Result<Self, StartError> {
            assert_eq!(cx.node().properties(), []);
            cx.node().connect("anything").await.map_err(StartError::from)?;
            Ok(Lonely)
        }
    }
    let host = FakeHost::new();
    let mut driver = host.start(&DriverEntry::of::<Lonely>(), "{}", None);
    assert_eq!(driver.started().expect("told").expect_err("no parent").status, Status::NotFound);
    assert!(!driver.dispatcher().is_stopping());
    driver.shutdown();
    assert!(driver.dispatcher().is_stopping());
}
