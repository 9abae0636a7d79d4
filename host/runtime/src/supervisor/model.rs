//! The supervisor under random interleavings.
//!
//! Goal: whatever happens in whatever order, the promises of the life cycle hold. Method: proptest feeds random events
//! (ends of hooks, failures, panics, children that come and go, a stop) to a supervisor; a small model beside it only
//! remembers what was called on whom and checks each action against that. In the end everything that is owed is paid,
//! and nothing may be left.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What the host owes an instance: the hook that runs, or the shutdown that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Start,
    Prepare,
    ShutDown,
    Stop,
    Destroy,
}

#[derive(Debug, Default)]
struct Record {
    owed: BTreeSet<Owed>,
    called: Vec<Owed>,
    start_succeeded: bool,
    broken: bool,
    failed: u32,
    released: bool,
    /// The instance bound to the node above, when this one was bound.
    parent: Option<InstanceId>,
}

#[derive(Debug, Clone)]
enum Event {
    /// Ends one owed hook (chosen by the number), well or badly.
    End(usize, bool),
    AddChild(usize, u8),
    Remove(usize),
    Panic(usize),
    Ended(usize),
    StopAll,
}

struct Model {
    host: Supervisor,
    records: BTreeMap<InstanceId, Record>,
    all_started: u32,
    all_gone: u32,
}

impl Model {
    fn new() -> Model {
        let rule =
            |name: &str, bind: &[(&str, &str)]| Rule { name: name.into(), bind: BindRule::new(bind.iter().copied()) };
        let rules = vec![
            rule("a", &[]),
            rule("b", &[]),
            rule("one", &[("kind", "1")]),
            rule("two", &[("kind", "2")]),
            rule("three", &[("kind", "3"), ("name", "3")]),
        ];
        Model { host: Supervisor::new(rules), records: BTreeMap::new(), all_started: 0, all_gone: 0 }
    }

    fn settle(&mut self) {
        for action in self.host.take_actions() {
            assert_eq!(self.all_gone, 0, "{action:?} after everything was gone");
            match action {
                Action::Start { instance, node, .. } => {
                    let above = self.host.tree().get(node).and_then(|node| node.parent);
                    let parent = self.records.keys().copied().find(|&id| self.host.node_of(id) == above);
                    let record = Record { parent, ..Record::default() };
                    assert!(self.records.insert(instance, record).is_none(), "an instance was started twice");
                    if let Some(parent) = parent {
                        let above = &self.records[&parent];
                        assert!(above.start_succeeded && !above.released, "bound below a driver that does not run");
                    }
                    self.call(instance, Owed::Start);
                }
                Action::PrepareStop(id) => self.call(id, Owed::Prepare),
                Action::ShutDown(id) => self.call(id, Owed::ShutDown),
                Action::Stop(id) => self.call(id, Owed::Stop),
                Action::Destroy(id) => self.call(id, Owed::Destroy),
                Action::Released(id) => {
                    let record = self.records.get_mut(&id).unwrap();
                    assert!(!std::mem::replace(&mut record.released, true), "released twice");
                    assert_eq!(record.called.last(), Some(&Owed::Destroy));
                }
                Action::Failed(id, _) => self.records.get_mut(&id).unwrap().failed += 1,
                Action::AllStarted => {
                    self.all_started += 1;
                    assert!(self.records.values().all(|record| record.start_succeeded));
                }
                Action::AllGone => {
                    self.all_gone += 1;
                    assert!(self.records.values().all(|record| record.released));
                }
                Action::NodeRemoved(_) | Action::Stopping => {}
            }
        }
        assert!(self.all_started <= 1);
    }

    /// One hook is called: is it its turn?
    fn call(&mut self, id: InstanceId, what: Owed) {
        if !matches!(what, Owed::Start) {
            let children_left = self.records.values().any(|other| other.parent == Some(id) && !other.released);
            assert!(!children_left, "{what:?} while a child of {id:?} is left");
        }
        let record = self.records.get_mut(&id).unwrap();
        assert!(!record.called.contains(&what), "{what:?} called twice on {id:?}");
        match what {
            Owed::Start => assert!(record.called.is_empty()),
            Owed::Prepare => assert!(record.start_succeeded && !record.broken),
            Owed::ShutDown => assert!(!record.owed.contains(&Owed::Start) || record.broken),
            Owed::Stop => {
                assert!(record.start_succeeded && !record.broken);
                assert!(record.called.ends_with(&[Owed::Prepare, Owed::ShutDown]));
                assert!(record.owed.is_empty());
            }
            Owed::Destroy => {
                assert!(record.called.contains(&Owed::ShutDown));
                assert!(!record.owed.contains(&Owed::ShutDown) && !record.owed.contains(&Owed::Stop));
            }
        }
        record.called.push(what);
        record.owed.insert(what);
    }

    fn owed(&self) -> Vec<(InstanceId, Owed)> {
        // The observer of a driver comes after everything on its dispatchers: a start or prepare_stop that is still
        // owed then is answered before, so of one instance the first that is owed ends first.
        self.records.iter().filter_map(|(&id, record)| record.owed.first().map(|&owed| (id, owed))).collect()
    }

    fn end(&mut self, id: InstanceId, owed: Owed, well: bool) {
        let record = self.records.get_mut(&id).unwrap();
        record.owed.remove(&owed);
        let result = match owed {
            Owed::Start if well => {
                record.start_succeeded = true;
                self.host.started(id)
            }
            Owed::Start => {
                record.broken = true;
                self.host.start_failed(id, "no".into())
            }
            Owed::Prepare => self.host.prepared(id),
            Owed::ShutDown => self.host.dispatchers_down(id),
            Owed::Stop => self.host.stopped(id),
            Owed::Destroy => self.host.destroyed(id),
        };
        assert_eq!(result, Ok(()), "the end of {owed:?} was refused");
    }

    fn apply(&mut self, event: &Event) {
        let alive: Vec<_> = self.host.instances().map(|(id, _)| id).collect();
        let pick = |n: usize| (!alive.is_empty()).then(|| alive[n % alive.len()]);
        match *event {
            Event::End(n, well) => {
                let owed = self.owed();
                if !owed.is_empty() {
                    let (id, what) = owed[n % owed.len()];
                    self.end(id, what, well);
                }
            }
            Event::AddChild(n, kind) => {
                if let Some(id) = pick(n) {
                    let name = kind.to_string();
                    // Refused for names that are taken and for drivers that go: any answer is fine, chaos is not.
                    let _ = self.host.add_child(id, &name, Properties::from_iter([("kind", name.as_str())]));
                }
            }
            Event::Remove(n) => {
                let nodes: Vec<_> = self.host.tree().iter().skip(1).map(|(id, _)| id).collect();
                if !nodes.is_empty() {
                    self.host.remove(nodes[n % nodes.len()]);
                }
            }
            Event::Panic(n) => {
                if let Some(id) = pick(n) {
                    self.records.get_mut(&id).unwrap().broken = true;
                    self.host.panicked(id, "boom".into());
                }
            }
            Event::Ended(n) => {
                if let Some(id) = pick(n) {
                    self.host.ended(id, "gone".into());
                }
            }
            Event::StopAll => self.host.stop_all(),
        }
        self.settle();
    }

    fn finish(&mut self) {
        self.apply(&Event::StopAll);
        while let Some(&(id, owed)) = self.owed().first() {
            self.end(id, owed, true);
            self.settle();
        }
        assert_eq!(self.all_gone, 1, "something is left: {:?}", self.host);
        assert!(self.host.tree().is_empty());
        for record in self.records.values() {
            assert!(record.released && record.owed.is_empty() && record.failed <= 1);
            let stopped = record.called.contains(&Owed::Stop);
            assert!(record.broken || stopped == record.called.contains(&Owed::Prepare), "{record:?}");
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(n, well)| Event::End(n, well)),
        6 => (any::<usize>(), 1..4u8).prop_map(|(n, kind)| Event::AddChild(n, kind)),
        2 => any::<usize>().prop_map(Event::Remove),
        1 => any::<usize>().prop_map(Event::Panic),
        1 => any::<usize>().prop_map(Event::Ended),
        1 => prop::bool::weighted(0.2).prop_map(|stop| if stop { Event::StopAll } else { Event::End(0, true) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn children_go_first_hooks_come_in_order_and_nothing_is_left(events in prop::collection::vec(event(), 0..60)) {
        let mut model = Model::new();
        model.host.begin();
        model.settle();
        for event in &events {
            model.apply(event);
        }
        model.finish();
    }
}
