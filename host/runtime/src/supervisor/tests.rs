//! Single stories, told event by event. Goal: the order of actions in the cases that matter most; `model.rs` covers
//! the interleavings.

use super::*;
use crate::node::BindRule;

const DISK: InstanceId = InstanceId(0);
const NBD: InstanceId = InstanceId(1);

pub(super) fn rule(name: &str, bind: &[(&str, &str)]) -> Rule {
    Rule { name: name.to_owned(), bind: BindRule::equal(bind.iter().copied()), ..Rule::default() }
}

fn block() -> Properties {
    Properties::from_iter([("protocol", "block")])
}

fn host() -> Supervisor {
    Supervisor::new(vec![rule("disk", &[]), rule("nbd", &[("protocol", "block")])])
}

/// A host in which `nbd` runs on the block node of `disk`.
fn running() -> (Supervisor, NodeId) {
    let mut host = host();
    host.begin();
    let node = host.add_child(DISK, "block", block()).unwrap();
    host.started(DISK).unwrap();
    host.started(NBD).unwrap();
    host.take_actions();
    (host, node)
}

/// Lets an instance go all the way down, from `PrepareStop` on.
fn stop_in_order(host: &mut Supervisor, id: InstanceId) -> Vec<Action> {
    let mut seen = host.take_actions();
    host.prepared(id).unwrap();
    seen.extend(host.take_actions());
    host.dispatchers_down(id).unwrap();
    seen.extend(host.take_actions());
    host.stopped(id).unwrap();
    seen.extend(host.take_actions());
    host.destroyed(id).unwrap();
    seen
}

#[test]
fn a_driver_without_a_rule_gets_a_node_of_its_own() {
    let mut host = host();
    host.begin();
    let actions = host.take_actions();
    let [Action::Start { instance: DISK, rule: RuleId(0), node }] = actions[..] else { panic!("{actions:?}") };
    assert_eq!(host.tree().path(node).to_string(), "/disk");
}

#[test]
fn a_child_node_is_offered_only_once_its_driver_has_started() {
    let mut host = host();
    host.begin();
    host.take_actions();
    let node = host.add_child(DISK, "block", block()).unwrap();
    assert_eq!(host.take_actions(), []);
    host.started(DISK).unwrap();
    assert_eq!(host.take_actions(), [Action::Start { instance: NBD, rule: RuleId(1), node }]);
    host.started(NBD).unwrap();
    assert_eq!(host.take_actions(), [Action::AllStarted]);
}

#[test]
fn a_node_that_appears_later_is_offered_at_once_and_the_first_matching_rule_gets_it() {
    let mut host = Supervisor::new(vec![
        rule("disk", &[]),
        rule("slow", &[("protocol", "block"), ("kind", "tape")]),
        rule("nbd", &[("protocol", "block")]),
        rule("other", &[("protocol", "block")]),
    ]);
    host.begin();
    host.started(DISK).unwrap();
    assert_eq!(host.waiting_for_a_node(), ["slow", "nbd", "other"]);
    host.take_actions();
    let node = host.add_child(DISK, "late", block()).unwrap();
    assert_eq!(host.take_actions(), [Action::Start { instance: NBD, rule: RuleId(2), node }]);
    assert_eq!(host.waiting_for_a_node().len(), 0, "nbd is starting and may bring more nodes");
}

#[test]
fn a_node_that_matches_nothing_stays_unbound() {
    let mut host = host();
    host.begin();
    host.started(DISK).unwrap();
    host.take_actions();
    host.add_child(DISK, "net", Properties::from_iter([("protocol", "network")])).unwrap();
    assert_eq!(host.take_actions(), []);
}

#[test]
fn children_stop_before_parents_and_everything_is_told_in_order() {
    let (mut host, node) = running();
    let own = host.node_of(DISK).unwrap();
    host.stop_all();
    let mut seen = stop_in_order(&mut host, NBD);
    seen.extend(stop_in_order(&mut host, DISK));
    seen.extend(host.take_actions());
    let root = NodeTree::new().root();
    assert_eq!(
        seen,
        [
            Action::Stopping,
            Action::PrepareStop(NBD),
            Action::ShutDown(NBD),
            Action::Stop(NBD),
            Action::Destroy(NBD),
            Action::Released(NBD),
            Action::NodeRemoved(node),
            Action::PrepareStop(DISK),
            Action::ShutDown(DISK),
            Action::Stop(DISK),
            Action::Destroy(DISK),
            Action::Released(DISK),
            Action::NodeRemoved(own),
            Action::NodeRemoved(root),
            Action::AllGone,
        ]
    );
}

#[test]
fn siblings_stop_side_by_side_the_newest_first() {
    let mut host = Supervisor::new(vec![rule("a", &[]), rule("b", &[]), rule("c", &[])]);
    host.begin();
    for id in 0..3 {
        host.started(InstanceId(id)).unwrap();
    }
    host.take_actions();
    host.stop_all();
    assert_eq!(host.take_actions()[1..], [2, 1, 0].map(|id| Action::PrepareStop(InstanceId(id))),);
}

#[test]
fn a_start_failure_before_all_have_started_unwinds_the_host_children_first() {
    let mut host = host();
    host.begin();
    host.add_child(DISK, "block", block()).unwrap();
    host.started(DISK).unwrap();
    host.take_actions();
    host.start_failed(NBD, "port 1 is in use".into()).unwrap();
    assert_eq!(
        host.take_actions(),
        [
            Action::Failed(NBD, Failure::Start("port 1 is in use".into()), Consequence::Down),
            Action::Stopping,
            Action::ShutDown(NBD),
        ]
    );
    host.dispatchers_down(NBD).unwrap();
    assert_eq!(host.take_actions(), [Action::Destroy(NBD)]);
    host.destroyed(NBD).unwrap();
    let actions = host.take_actions();
    assert_eq!(actions.last(), Some(&Action::PrepareStop(DISK)), "{actions:?}");
}

#[test]
fn a_stop_during_a_start_waits_for_its_end() {
    let mut host = host();
    host.begin();
    host.take_actions();
    host.stop_all();
    assert_eq!(host.take_actions(), [Action::Stopping]);
    host.started(DISK).unwrap();
    assert_eq!(host.take_actions(), [Action::PrepareStop(DISK)]);
}

#[test]
fn a_panic_takes_down_the_driver_and_its_children_and_nobody_else() {
    let (mut host, node) = running();
    host.panicked(DISK, "boom".into());
    assert_eq!(
        host.take_actions(),
        [Action::Failed(DISK, Failure::Panic("boom".into()), Consequence::Down), Action::PrepareStop(NBD)]
    );
    stop_in_order(&mut host, NBD);
    let rest = host.take_actions();
    assert_eq!(rest, [Action::Released(NBD), Action::NodeRemoved(node), Action::ShutDown(DISK)]);
    host.dispatchers_down(DISK).unwrap();
    assert_eq!(host.take_actions(), [Action::Destroy(DISK)], "a broken driver's stop is not called");
    host.destroyed(DISK).unwrap();
    assert_eq!(host.take_actions()[..2], [Action::Released(DISK), Action::Stopping], "it was the last one");

    let (mut host, _) = running();
    host.panicked(NBD, "boom".into());
    assert_eq!(
        host.take_actions(),
        [Action::Failed(NBD, Failure::Panic("boom".into()), Consequence::Down), Action::ShutDown(NBD)]
    );
    host.dispatchers_down(NBD).unwrap();
    host.destroyed(NBD).unwrap();
    host.take_actions();
    assert_eq!(host.phase_of(DISK), Phase::Running);
}

#[test]
fn the_node_of_a_failed_driver_is_kept_and_offered_to_nobody() {
    let (mut host, node) = running();
    host.panicked(NBD, "boom".into());
    host.dispatchers_down(NBD).unwrap();
    host.destroyed(NBD).unwrap();
    host.take_actions();
    assert_eq!(host.tree().get(node).map(|node| node.binding), Some(Binding::Quarantined(RuleId(1))));
    host.offer(node);
    assert_eq!(host.take_actions(), []);
}

#[test]
fn a_driver_that_cannot_go_on_is_stopped_with_its_hooks_and_counts_as_failed() {
    let (mut host, _) = running();
    host.ended(DISK, "the medium is gone".into());
    let actions = host.take_actions();
    assert_eq!(
        actions,
        [
            Action::Failed(DISK, Failure::Ended("the medium is gone".into()), Consequence::Down),
            Action::PrepareStop(NBD)
        ]
    );
    stop_in_order(&mut host, NBD);
    assert_eq!(host.take_actions().last(), Some(&Action::PrepareStop(DISK)));
}

#[test]
fn only_the_first_failure_of_a_driver_is_told() {
    let (mut host, _) = running();
    host.panicked(NBD, "first".into());
    host.panicked(NBD, "second".into());
    host.ended(NBD, "third".into());
    let told = host.take_actions().into_iter().filter(|action| matches!(action, Action::Failed(..))).count();
    assert_eq!(told, 1);
}

#[test]
fn a_removed_child_stops_its_driver_and_leaves_the_parent_running() {
    let (mut host, node) = running();
    host.remove(node);
    host.remove(node);
    assert_eq!(host.take_actions(), [Action::PrepareStop(NBD)]);
    assert_eq!(host.add_child(DISK, "block", block()), Err(AddError::Leaving("block".into())));
    stop_in_order(&mut host, NBD);
    assert_eq!(host.take_actions(), [Action::Released(NBD), Action::NodeRemoved(node)]);
    assert_eq!(host.phase_of(DISK), Phase::Running);
    let again = host.add_child(DISK, "block", block()).unwrap();
    assert!(matches!(host.take_actions()[..], [Action::Start { node, .. }] if node == again));
}

#[test]
fn a_driver_that_goes_adds_no_children() {
    let (mut host, node) = running();
    host.remove(node);
    assert_eq!(host.add_child(NBD, "x", block()), Err(AddError::ParentLeaving));
    stop_in_order(&mut host, NBD);
    assert_eq!(host.add_child(NBD, "x", block()), Err(AddError::ParentLeaving));
}

#[test]
fn a_driver_that_matches_what_it_adds_itself_is_told_so_and_ends() {
    let mut host = Supervisor::new(vec![rule("disk", &[]), rule("layer", &[("protocol", "block")])]);
    host.begin();
    host.add_child(DISK, "block", block()).unwrap();
    host.started(DISK).unwrap();
    for layer in (1..).map(InstanceId) {
        if host.take_actions().iter().any(|action| matches!(action, Action::Failed(..) | Action::AllStarted)) {
            panic!("{layer:?} was not started");
        }
        host.add_child(layer, "block", block()).unwrap();
        if layer == InstanceId(MAX_STACKED as u64) {
            host.started(layer).unwrap();
            let actions = host.take_actions();
            let [Action::Failed(failed, Failure::Ended(why), _), Action::Stopping, rest @ ..] = &actions[..] else {
                panic!("{actions:?}");
            };
            assert_eq!(*failed, layer);
            assert!(why.starts_with("`layer` would be bound once more below itself"), "{why}");
            assert_eq!(rest.last(), Some(&Action::PrepareStop(layer)), "{rest:?}");
            return;
        }
        host.started(layer).unwrap();
    }
}

#[test]
fn a_node_is_known_by_the_driver_that_added_it() {
    let mut host = Supervisor::new(vec![
        rule("left", &[]),
        rule("right", &[]),
        rule("one", &[("protocol", "block"), ("parent", "right")]),
        rule("other", &[("protocol", "block"), ("parent", "left")]),
    ]);
    host.begin();
    let (left, right) = (InstanceId(0), InstanceId(1));
    let of_left = host.add_child(left, "block", block()).unwrap();
    let of_right = host.add_child(right, "block", block()).unwrap();
    host.take_actions();
    host.started(left).unwrap();
    assert!(matches!(host.take_actions()[..], [Action::Start { rule: RuleId(3), node, .. }] if node == of_left));
    host.started(right).unwrap();
    assert!(matches!(host.take_actions()[..], [Action::Start { rule: RuleId(2), node, .. }] if node == of_right));
}

#[test]
fn who_waits_for_a_node_that_another_driver_has_is_not_told_that_there_is_none() {
    let (host, _) = running();
    assert_eq!(host.bound_where_it_matches(&rule("late", &[("protocol", "block")])), ["nbd"]);
    assert_eq!(host.bound_where_it_matches(&rule("late", &[("protocol", "serial")])), [""; 0]);
}

#[test]
fn a_host_without_drivers_has_started_at_once_and_goes_at_once() {
    let mut host = Supervisor::new(Vec::new());
    host.begin();
    assert_eq!(host.take_actions(), [Action::AllStarted]);
    host.stop_all();
    assert_eq!(host.take_actions().last(), Some(&Action::AllGone));
    assert!(host.tree().is_empty());
}
