//! Manifests of thousands of drivers. Goal: the time to start and stop grows with the number of drivers and not with its
//! square. Method: as many drivers as fit a manifest; a quadratic list makes it run into the limit.

mod common;

use common::worlds;
use fuchsine_driver::{ChildNode, Driver, DriverContext, DriverEntry, StartError};

/// Adds a child for the driver of the same number.
struct Small;

impl Driver for Small {
    const NAME: &'static str = "small";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        if !cx.name().starts_with('s') {
            cx.add_child(ChildNode::new("block").property("protocol", "block"))?.detach();
        }
        Ok(Small)
    }
}

static SMALL: DriverEntry = DriverEntry::of::<Small>();

#[test]
fn thousands_of_drivers_are_bound_each_to_its_own_node_and_stop_in_order() {
    let count = 2_000;
    let pair = |n: usize| {
        format!(
            "[drivers.d{n}]\ndriver=\"small\"\n[drivers.s{n}]\ndriver=\"small\"\n\
             bind={{protocol=\"block\",parent=\"d{n}\"}}\n"
        )
    };
    let manifest: String = (0..count).map(pair).collect();
    for world in worlds() {
        let host = world.host_of(&[&SMALL], &manifest);
        world.started(&host).unwrap();
        let nodes = host.nodes();
        assert_eq!(nodes.len(), count * 2);
        let own = |node: &fuchsine_host::NodeInfo| {
            let expected = node.properties().get("parent").map(|parent| parent.replace('d', "s"));
            expected.is_none_or(|expected| node.driver() == Some(expected.as_str()))
        };
        assert!(nodes.iter().all(own));
        let summary = world.stop(&host);
        assert_eq!((summary.drivers().len(), summary.has_failed()), (count * 2, false));
    }
}
