//! Drivers on several nodes at once. Goal: a composite runs while all its parents are there, stops before any of them
//! goes, and reaches each by its name. Method: probes and scenarios, on threads and in the foreground.

mod common;

use common::scripted::{role, scripted_entry};
use common::{Part, failures, journal, manifest, worlds};
use fuchsine_driver::{Channel, ChildNode, DriverContext, Message, Status, spawn};

/// A manifest of two disks and a driver on both.
fn mirrored(book: &str, left: &'static str, options: &str) -> String {
    let disks = [Part("left", None, left), Part("right", None, "child = \"block\"")];
    let mirror = manifest(book, &[Part("mirror", None, "")]);
    format!(
        "{}{mirror}[drivers.mirror.parents]\nleft.bind = {{ kind = \"block\", parent = \"left\" }}\n\
         right = {{ bind = {{ kind = \"block\", parent = \"right\" }}{options} }}\n",
        manifest(book, &disks)
    )
}

#[test]
fn a_composite_starts_after_all_its_parents_and_stops_before_them() {
    for world in worlds() {
        let book = world.journal("composite order");
        let host = world.host_of(&[common::entry()], &mirrored(&book, "child = \"block\"", ""));
        assert_eq!(world.started(&host), Ok(vec![]));
        let paths: Vec<_> = host.nodes().iter().map(|node| node.path().to_owned()).collect();
        assert_eq!(paths, ["/left", "/left/block", "/right", "/right/block", "/mirror"]);
        let explained = host.explain("/right/block").unwrap().to_string();
        assert!(explained.contains("mirror (as `right`): has it"), "{explained}");
        assert!(explained.contains("mirror (as `left`): does not match: `parent` must be \"left\", and is \"right\""));
        assert!(!world.stop(&host).has_failed());
        let lines = journal(&book);
        let at =
            |line: &str| lines.iter().position(|found| found == line).unwrap_or_else(|| panic!("{line}: {lines:?}"));
        for disk in ["left", "right"] {
            assert!(at(&format!("{disk} start")) < at("mirror start"));
            assert!(at("mirror dropped") < at(&format!("{disk} prepare_stop")));
        }
    }
}

#[test]
fn a_composite_goes_with_any_parent_and_comes_back_with_it() {
    for world in worlds() {
        let book = world.journal("composite comes back");
        let host = world.host_of(&[common::entry()], &mirrored(&book, "child = \"block\"", ""));
        world.started(&host).unwrap();
        host.stop_driver("left").unwrap();
        world.until("left is gone", || common::count(&book, "left dropped") == 1);
        world.settle();
        assert_eq!(common::count(&book, "mirror dropped"), 1);
        let waits = "it is kept as a parent of `mirror`, which waits for the others";
        world.until("the other parent waits", || {
            host.nodes().iter().any(|node| node.path() == "/right/block" && node.state() == waits)
        });
        assert_eq!(common::count(&book, "right prepare_stop"), 0, "nobody touched it");
        host.start_driver("left").unwrap();
        world.until("both are back", || common::count(&book, "mirror start") == 2);
        assert_eq!(common::count(&book, "right start"), 1);
        assert!(!world.stop(&host).has_failed());
        journal(&book);
    }
}

#[test]
fn an_optional_parent_comes_and_goes_while_the_composite_runs() {
    for world in worlds() {
        let book = world.journal("optional parent");
        let host = world.host_of(&[common::entry()], &mirrored(&book, "child = \"block\"", ", optional = true"));
        world.started(&host).unwrap();
        host.stop_driver("right").unwrap();
        world.until("right is gone", || common::count(&book, "right dropped") == 1);
        world.settle();
        host.start_driver("right").unwrap();
        world.until("right is back", || {
            host.nodes()
                .iter()
                .any(|node| node.path() == "/right/block" && node.state() == "it is a parent of `mirror`")
        });
        assert_eq!(common::count(&book, "mirror start"), 1);
        assert_eq!(common::count(&book, "mirror prepare_stop"), 0);
        assert!(!world.stop(&host).has_failed());
        journal(&book);
    }
}

/// Adds a child whose service answers each message with a name.
fn add_named(cx: &DriverContext, name: &'static str) {
    let child =
        ChildNode::new("block").property("kind", "block").property("size", name).service("who", move |channel| {
            let serving = spawn(async move {
                while channel.read().await.is_ok() {
                    if channel.write(Message::from_bytes(name.as_bytes()).unwrap()).is_err() {
                        return;
                    }
                }
            });
            drop(serving.expect("the dispatcher runs"));
        });
    cx.add_child(child).expect("a child can be added").detach();
}

async fn ask(channel: &Channel) -> Vec<u8> {
    channel.write(Message::from_bytes(b"?").unwrap()).unwrap();
    channel.read().await.unwrap().bytes().to_vec()
}

#[test]
fn the_services_and_properties_of_each_parent_are_reached_by_its_name() {
    for world in worlds() {
        let [left, right, both] = ["left", "right", "both"].map(|name| world.name(&format!("composite-{name}")));
        drop(role(left.clone(), |cx| async move { add_named(&cx, "small") }));
        drop(role(right.clone(), |cx| async move { add_named(&cx, "large") }));
        drop(role(both.clone(), |cx| async move {
            let node = cx.node();
            assert_eq!(node.parents(), ["one", "other"]);
            assert_eq!(node.parent("other").property("size").as_deref(), Some("large"));
            assert_eq!(node.parent("one").properties().len(), 4, "kind, size, parent and name");
            assert_eq!(node.property("one/size").as_deref(), Some("small"));
            for (channel, name) in [
                (node.parent("one").connect("who").await, "small"),
                (node.parent("other").connect("who").await, "large"),
                (node.connect("who").await, "small"),
            ] {
                assert_eq!(ask(&channel.unwrap()).await, name.as_bytes());
            }
            assert_eq!(node.parent("third").connect("who").await.unwrap_err(), Status::NotFound);
            assert_eq!(node.parent("one").connect("nothing").await.unwrap_err(), Status::NotFound);
        }));
        let text = format!(
            "[drivers.{left}]\ndriver = \"scripted\"\n[drivers.{right}]\ndriver = \"scripted\"\n[drivers.{both}]\n\
             driver = \"scripted\"\nparents.one.bind = {{ parent = {left:?} }}\n\
             parents.other.bind = {{ parent = {right:?} }}\n"
        );
        let host = world.host_of(&[scripted_entry()], &text);
        world.started(&host).unwrap();
        let services: Vec<_> = host.nodes().iter().flat_map(|node| node.services().to_vec()).collect();
        assert_eq!(services, ["who", "who", "one/who", "other/who"]);
        assert_eq!(failures(&world.stop(&host)), []);
    }
}

#[test]
fn enough_nodes_make_several_composites() {
    for world in worlds() {
        let book = world.journal("several composites");
        let disks = ["a", "b", "c", "d", "e"].map(|name| Part(name, None, "child = \"block\""));
        let pair = manifest(&book, &[Part("pair", None, "")]);
        let text = format!(
            "{}{pair}[drivers.pair.parents]\nfirst.bind = {{ kind = \"block\" }}\nsecond.bind = {{ kind = \"block\" }}\n",
            manifest(&book, &disks)
        );
        let host = world.host_of(&[common::entry()], &text);
        world.started(&host).unwrap();
        world.until("there are two", || common::count(&book, "pair start") == 2);
        world.settle();
        let node = |path: &str| host.nodes().into_iter().find(|node| node.path() == path);
        assert!(node("/pair").is_some() && node("/pair.2").is_some() && node("/pair.3").is_none());
        assert!(!world.stop(&host).has_failed());
        journal(&book);
    }
}
