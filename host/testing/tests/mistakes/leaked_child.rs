//! A socket board adds a node for each plug. The mistake: an unplugged one is forgotten, and its node stays.

use std::collections::BTreeMap;

use fuchsine_driver::{Child, ChildNode, Driver, DriverContext, StartError};

use super::support::{listen, say};
use super::*;

pub(crate) struct Board<const FIXED: bool>;

impl<const FIXED: bool> Driver for Board<FIXED> {
    const NAME: &'static str = "board";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (inside, mut plugged) = (cx.clone(), BTreeMap::<String, Child>::new());
        listen(&cx, "plugs", move |line, order| {
            let name = order.rsplit(' ').next().unwrap_or_default().to_owned();
            if order.starts_with("plug") {
                let child = inside.add_child(ChildNode::new(&*name).property("kind", "plug"));
                plugged.extend(child.ok().map(|child| (name, child)));
            } else if let Some(child) = plugged.remove(&name) {
                // To drop it would remove the node, which somebody may be using.
                if FIXED { drop(child) } else { child.detach() }
            }
            say(line, "seen");
        })
        .await?;
        Ok(Board)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("plugs"));
    let plugs = harness.accept("plugs").expect("the board connects");
    for order in ["plug lamp", "plug fan", "unplug lamp"] {
        plugs.send(order.as_bytes());
    }
    harness.settle();
    assert_eq!(harness.node_names(), ["fan"], "board: the nodes after the lamp was unplugged");
    end(harness);
}
