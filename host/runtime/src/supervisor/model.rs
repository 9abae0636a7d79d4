//! The supervisor under random interleavings.
//!
//! Goal: whatever happens in whatever order, the promises of the life cycle hold. Method: proptest feeds random events
//! (ends of hooks, failures, panics, children that come and go, requests, new manifests, time limits, a stop) to a
//! supervisor; a small model beside it only remembers what was called on whom and checks each action against that. In the
//! end everything that is owed is paid, and nothing may be left.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::rule;
use super::*;
use crate::node::BindRule;

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
    given_up: bool,
    late: bool,
    /// How many time limits of it run.
    watches: u32,
    /// The instances bound to the nodes above, when this one was bound.
    parents: Vec<InstanceId>,
}

#[derive(Debug, Clone)]
enum Event {
    /// Ends one owed hook (chosen by the number), well or badly.
    End(usize, bool),
    AddChild(usize, u8),
    Remove(usize),
    Panic(usize),
    Ended(usize),
    Finished(usize),
    /// A time limit is up.
    Overdue(usize),
    /// The wait for a restart is over.
    Due(usize),
    Pass(u16),
    Rule(usize, Request),
    Node(usize, Request),
    Retire(usize),
    Replace(usize, bool),
    Add(u8),
    StopAll,
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Stop,
    Start,
    Restart,
    Rematch,
}

struct Model {
    host: Supervisor,
    records: BTreeMap<InstanceId, Record>,
    waits: Vec<(NodeId, u64)>,
    now: Duration,
    all_started: u32,
    all_gone: u32,
    added: u32,
}

fn parent(name: &str, kind: &str, optional: bool) -> ParentRule {
    ParentRule { name: name.into(), bind: BindRule::equal([("kind", kind)]), optional }
}

fn with_policy(mut rule: Rule, restart: Restart, rematch: bool) -> Rule {
    let limit = Limit { count: 2, within: Duration::from_secs(10) };
    let stop_timeout = Some(Duration::from_secs(1));
    rule.policy = Policy { restart, limit, rematch, stop_timeout, ..Policy::default() };
    rule
}

impl Model {
    fn new() -> Model {
        let mut pair = rule("pair", &[]);
        pair.parents = vec![parent("left", "4", false), parent("right", "4", false)];
        let mut loose = rule("loose", &[]);
        loose.parents = vec![parent("must", "5", false), parent("may", "1", true)];
        loose.priority = 1;
        let rules = vec![
            rule("a", &[]),
            with_policy(rule("b", &[]), Restart::OnFailure, false),
            rule("one", &[("kind", "1")]),
            with_policy(rule("two", &[("kind", "2")]), Restart::Always, true),
            rule("three", &[("kind", "3"), ("name", "3")]),
            rule("also-two", &[("kind", "2")]),
            pair,
            with_policy(loose, Restart::OnFailure, false),
        ];
        Model {
            host: Supervisor::new(rules),
            records: BTreeMap::new(),
            waits: Vec::new(),
            now: Duration::ZERO,
            all_started: 0,
            all_gone: 0,
            added: 0,
        }
    }

    fn settle(&mut self) {
        for action in self.host.take_actions() {
            assert_eq!(self.all_gone, 0, "{action:?} after everything was gone");
            match action {
                Action::Start { instance, node, rule } => {
                    assert!(
                        !self.host.stopping
                            || self.records.contains_key(&instance)
                            || self.host.node_of(instance).is_some()
                    );
                    let above = self.host.tree.above(node);
                    let is_above = |id: &InstanceId| self.host.node_of(*id).is_some_and(|node| above.contains(&node));
                    let parents: Vec<_> = self.records.keys().copied().filter(is_above).collect();
                    for parent in &parents {
                        let above = &self.records[parent];
                        assert!(above.start_succeeded && !above.released, "bound below a driver that does not run");
                    }
                    let record = Record { parents, ..Record::default() };
                    assert!(self.records.insert(instance, record).is_none(), "an instance was started twice");
                    assert!(self.host.rules.get(rule).is_some());
                    self.call(instance, Owed::Start);
                }
                Action::PrepareStop(id) => self.call(id, Owed::Prepare),
                Action::ShutDown(id) => self.call(id, Owed::ShutDown),
                Action::Stop(id) => self.call(id, Owed::Stop),
                Action::CutStop(id) => assert!(self.records[&id].owed.contains(&Owed::Stop)),
                Action::Destroy(id) => self.call(id, Owed::Destroy),
                Action::Watch(id, _) => self.records.get_mut(&id).unwrap().watches += 1,
                Action::RestartLater { node, number, .. } => self.waits.push((node, number)),
                Action::Released(id) => {
                    let record = self.records.get_mut(&id).unwrap();
                    assert!(!std::mem::replace(&mut record.released, true), "released twice");
                    assert_eq!(record.called.last(), Some(&Owed::Destroy));
                }
                Action::GivenUp(id, _) => {
                    let record = self.records.get_mut(&id).unwrap();
                    assert!(record.late && !std::mem::replace(&mut record.released, true), "gone twice");
                    record.given_up = true;
                }
                Action::Failed(id, ..) => self.records.get_mut(&id).unwrap().failed += 1,
                Action::AllStarted => {
                    self.all_started += 1;
                    assert!(self.host.not_started().next().is_none());
                }
                Action::AllGone => {
                    self.all_gone += 1;
                    assert!(self.records.values().all(|record| record.released));
                }
                Action::NodeRemoved(_) | Action::Stopping | Action::Finished(..) => {}
                Action::Abort(_) => panic!("no policy says so"),
            }
        }
        assert!(self.all_started <= 1);
        self.check_state();
    }

    /// What is counted is so, and no node is forgotten that a driver could have.
    fn check_state(&self) {
        let host = &self.host;
        let starting = host.instances().filter(|(_, phase)| *phase == Phase::Starting).count();
        assert_eq!(host.starting, starting);
        let count = |of: fn(&Binding) -> bool| host.tree.iter().filter(|(_, node)| of(&node.binding)).count();
        assert_eq!(host.waiting, count(|binding| matches!(binding, Binding::Waiting(..))));
        assert_eq!(host.held, count(|binding| matches!(binding, Binding::Held(_))));
        for (id, node) in host.tree.iter() {
            match node.binding {
                Binding::Bound(instance) => assert_eq!(host.node_of(instance), Some(id)),
                Binding::Part(set) => {
                    assert!(
                        host.sets.get(set).is_some_and(|set| set.places.contains(&Some(id))),
                        "{id:?} is in no set"
                    );
                }
                Binding::Unbound if !node.removal.is_leaving() && node.made_for.is_none() && id != host.tree.root() => {
                    let above = node.parent.and_then(|above| host.tree.get(above)).map(|above| above.binding);
                    let offered = matches!(above, Some(Binding::Bound(id)) if host.phase_of(id) == Phase::Running);
                    let choice = host.rules.choose(&node.properties, |_| true);
                    assert!(!offered || choice.is_none(), "{id:?} is free, and {choice:?} would take it");
                }
                _ => {}
            }
        }
    }

    /// One hook is called: is it its turn?
    fn call(&mut self, id: InstanceId, what: Owed) {
        if !matches!(what, Owed::Start) {
            let children_left = self.records.values().any(|other| other.parents.contains(&id) && !other.released);
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

    fn overdue(&mut self, n: usize) {
        let watched: Vec<_> = self.records.iter().filter(|(_, record)| record.watches > 0).map(|(&id, _)| id).collect();
        if watched.is_empty() {
            return;
        }
        let id = watched[n % watched.len()];
        let phase = self.host.phase_of(id);
        let record = self.records.get_mut(&id).unwrap();
        record.watches -= 1;
        record.broken |= !record.late && matches!(phase, Phase::Starting | Phase::PreparingStop);
        record.late |= phase != Phase::Gone;
        self.host.overdue(id, "stuck");
    }

    fn request(&mut self, rule: RuleId, request: Request) {
        match request {
            Request::Stop => self.host.stop_rule(rule),
            Request::Start => self.host.start_rule(rule),
            Request::Restart | Request::Rematch => self.host.restart_rule(rule),
        }
    }

    fn apply(&mut self, event: &Event) {
        self.host.at(self.now);
        let alive: Vec<_> = self.host.instances().map(|(id, _)| id).collect();
        let pick = |n: usize| (!alive.is_empty()).then(|| alive[n % alive.len()]);
        let nodes: Vec<_> = self.host.tree().iter().skip(1).map(|(id, _)| id).collect();
        let node = |n: usize| (!nodes.is_empty()).then(|| nodes[n % nodes.len()]);
        let rules = self.host.rules.ids();
        let open = self.host.may_operate().is_ok() && !rules.is_empty();
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
            Event::Remove(n) => node(n).into_iter().for_each(|node| self.host.remove(node)),
            Event::Panic(n) => {
                if let Some(id) = pick(n) {
                    self.records.get_mut(&id).unwrap().broken = true;
                    self.host.panicked(id, "boom".into());
                }
            }
            Event::Ended(n) => pick(n).into_iter().for_each(|id| self.host.ended(id, "gone".into())),
            Event::Finished(n) => pick(n).into_iter().for_each(|id| self.host.finished(id)),
            Event::Overdue(n) => self.overdue(n),
            Event::Due(n) if !self.waits.is_empty() => {
                let (node, number) = self.waits.remove(n % self.waits.len());
                self.host.restart_due(node, number);
            }
            Event::Pass(ms) => self.now += Duration::from_millis(ms.into()),
            Event::Rule(n, request) if open => self.request(rules[n % rules.len()], request),
            Event::Node(n, request) if open => {
                let host = &mut self.host;
                let asked = node(n).map(|node| match request {
                    Request::Stop => host.stop_node(node),
                    Request::Start => host.start_node(node),
                    Request::Restart => host.restart_node(node),
                    Request::Rematch => host.rematch(node),
                });
                // Refused where nobody is bound; any answer is fine.
                let _ = asked;
            }
            Event::Retire(n) if open => {
                let mut order = rules.clone();
                let rule = order.remove(n % rules.len());
                self.host.retire_rule(rule);
                self.host.arrange(&order);
            }
            Event::Replace(n, restart) if open => {
                let id = rules[n % rules.len()];
                let mut rule = self.host.rules.rule(id).clone();
                rule.priority = i64::try_from(n % 5).unwrap();
                self.host.replace_rule(id, rule, restart);
                self.host.arrange(&rules);
            }
            Event::Add(kind) if open => {
                self.added += 1;
                let name = format!("added-{}", self.added);
                let kind = kind.to_string();
                let bind = [("kind", kind.as_str())];
                let id = self.host.add_rule(rule(&name, if kind == "0" { &[] } else { &bind }));
                let mut order = rules.clone();
                order.insert(0, id);
                self.host.arrange(&order);
            }
            Event::StopAll => self.host.stop_all(),
            _ => {}
        }
        self.settle();
    }

    fn finish(&mut self) {
        self.apply(&Event::StopAll);
        while let Some((id, owed)) = self.owed().into_iter().find(|(id, _)| !self.records[id].given_up) {
            self.end(id, owed, true);
            self.settle();
        }
        assert_eq!(self.all_gone, 1, "something is left: {:?}", self.host);
        assert!(self.host.tree().is_empty() && self.host.sets.is_empty() && self.host.histories.is_empty());
        for record in self.records.values() {
            assert!(record.released && record.failed <= 1);
            assert!(record.given_up || record.owed.is_empty());
            let stopped = record.called.contains(&Owed::Stop);
            let excused = record.broken || record.given_up;
            assert!(excused || stopped == record.called.contains(&Owed::Prepare), "{record:?}");
        }
    }
}

fn request() -> impl Strategy<Value = Request> {
    prop::sample::select(vec![Request::Stop, Request::Start, Request::Restart, Request::Rematch])
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        16 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(n, well)| Event::End(n, well)),
        10 => (any::<usize>(), 1..6u8).prop_map(|(n, kind)| Event::AddChild(n, kind)),
        3 => any::<usize>().prop_map(Event::Remove),
        2 => any::<usize>().prop_map(Event::Panic),
        2 => any::<usize>().prop_map(Event::Ended),
        1 => any::<usize>().prop_map(Event::Finished),
        1 => any::<usize>().prop_map(Event::Overdue),
        3 => any::<usize>().prop_map(Event::Due),
        1 => (0..8_000_u16).prop_map(Event::Pass),
        2 => (any::<usize>(), request()).prop_map(|(n, request)| Event::Rule(n, request)),
        2 => (any::<usize>(), request()).prop_map(|(n, request)| Event::Node(n, request)),
        1 => any::<usize>().prop_map(Event::Retire),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, restart)| Event::Replace(n, restart)),
        1 => (0..6u8).prop_map(Event::Add),
        1 => prop::bool::weighted(0.2).prop_map(|stop| if stop { Event::StopAll } else { Event::End(0, true) }),
    ]
}

/// How many cases: more when `FUCHSINE_CASES` says so.
fn cases() -> u32 {
    std::env::var("FUCHSINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn children_go_first_hooks_come_in_order_and_nothing_is_left(events in prop::collection::vec(event(), 0..90)) {
        let mut model = Model::new();
        model.host.begin();
        model.settle();
        for event in &events {
            model.apply(event);
        }
        model.finish();
    }
}
