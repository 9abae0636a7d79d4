//! Goal: the server ends well whenever and however its end begins: everything that was asked is answered right or told of
//! the shutdown, once; all callbacks are accounted for; nothing is left behind.
//! Method: clients at work on a runtime that is explored, and an end that is injected at one of its steps.
//!
//! `tests/explore` runs as many seeds as one has time for.

use fuchsine_dispatcher::testing::{Explorer, ForegroundRuntime, Injector, Seeds, Target};

use super::world::{Client, READ, TRIM, WRITE, World, pattern};

/// How much the clients write and read at once, of which they trim the first half.
const LENGTH: u32 = 8 << 10;

/// Clients at work: requests of each kind, some taken in full, some in part, some not at all.
fn clients_at_work<'a>(world: &'a World<'a>) -> Vec<Client<'a>> {
    let clients: Vec<Client<'a>> = (0..3).map(|_| world.client()).collect();
    for round in 0..2u64 {
        for (number, client) in clients.iter().enumerate() {
            let offset = (number as u64) << 18;
            let cookie = round * 10;
            client.request(WRITE, cookie, offset, LENGTH, &pattern(cookie, LENGTH));
            client.request(READ, cookie + 1, offset, LENGTH, &[]);
            client.request(TRIM, cookie + 2, offset, 4096, &[]);
            world.turn();
        }
    }
    clients[0].request(WRITE, 90, 0, 8192, &[9; 5000]);
    clients[1].request(READ, 91, 0, 200 << 10, &[]);
    world.run();
    clients
}

/// The whole life of a server.
fn served(runtime: &ForegroundRuntime) {
    let world = World::explored(runtime);
    world.net().set_stream_capacity(32 << 10);
    let clients = clients_at_work(&world);
    world.begin_stop();
    world.run_to_the_end();
    for client in clients {
        client.check_replies(|cookie| match cookie {
            91 => 200 << 10,
            cookie if cookie % 10 == 1 => LENGTH as usize,
            _ => 0,
        });
    }
    world.check_the_end();
}

/// Ends one server a seed.
fn inject(target: Target) {
    let explorer = Explorer::new().seeds(Seeds::from_environment_or(30));
    let injected = Injector::new().explorer(explorer).one_step_a_seed().shutdown(target, served);
    // Not at all seeds there is such a target at the step.
    assert!(injected.injections > injected.schedules / 2, "{injected:?}");
}

#[test]
fn a_host_that_is_stopped_at_any_step_accounts_for_every_callback_and_every_reply() {
    inject(Target::custom("stop the host"));
}

#[test]
fn every_step_of_the_usual_order_is_one_at_which_the_host_can_be_stopped() {
    let only = "picks:".parse().expect("the usual order");
    let injected =
        Injector::new().explorer(Explorer::new().only(only)).shutdown(Target::custom("stop the host"), served);
    assert!(injected.injections > 100, "{injected:?}");
}

#[test]
fn a_server_that_is_shut_down_by_somebody_else_at_any_step_ends_too() {
    for driver in ["nbd", "ramdisk"] {
        inject(Target::driver(driver));
    }
}

#[test]
fn a_runtime_that_is_shut_down_below_its_host_tells_everybody() {
    inject(Target::runtime());
}
