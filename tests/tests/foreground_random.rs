//! Goal: on the foreground runtime the same program has the same order of everything, however much of it blocks; never do
//! two threads move at once; and each callback ends once.
//! Method: random programs of posts, waits, blocking stretches, calls, work, timers, quits and shutdowns. Each is run
//! twice from the same seed, and the two logs are compared. A failure prints the seed.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Log, add_up};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherHandle, Instant, Lane, Message, StopToken, blocking, current,
};
use fuchsine_tests::random::Random;

const PROGRAMS: usize = 100;
const STEPS: usize = 50;

fn milliseconds(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}

/// What one callback does besides saying that it begins and ends.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    Post,
    Arm(usize),
    Offload(usize),
    Wait(usize),
    Block,
    Call(usize),
}

/// What all callbacks share.
#[derive(Clone)]
struct Place {
    log: Log,
    moving: Arc<AtomicUsize>,
    overlaps: Arc<AtomicUsize>,
    token: StopToken,
    client: Arc<Channel>,
    home: DispatcherHandle,
}

impl Place {
    /// Moves: nobody else may at this moment.
    fn step(&self, what: String) {
        if self.moving.fetch_add(1, Ordering::SeqCst) != 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        thread::yield_now();
        self.log.add(format!("{} {what}", self.home.now().as_nanos() / 1_000_000));
        self.moving.fetch_sub(1, Ordering::SeqCst);
    }

    fn on(&self, home: &DispatcherHandle) -> Place {
        Place { home: home.clone(), ..self.clone() }
    }

    fn post(&self, name: String, deed: Deed) {
        let place = self.clone();
        // Refused once the dispatcher shuts down.
        let _ = self.home.post_task(move |outcome| {
            place.step(format!("{name} begins {outcome:?}"));
            place.act(&name, deed);
            place.step(format!("{name} ends"));
        });
    }

    fn act(&self, name: &str, deed: Deed) {
        match deed {
            Deed::Nothing => {}
            Deed::Post => self.post(format!("{name}'"), Deed::Nothing),
            Deed::Arm(after) => {
                let (place, name) = (self.clone(), format!("{name} timer"));
                let _ = self.home.post_after(milliseconds(after), move |outcome| {
                    place.step(format!("{name} {outcome:?}"));
                });
            }
            Deed::Offload(time) => {
                let (working, done, name) = (self.clone(), self.clone(), name.to_owned());
                let in_work = name.clone();
                let work = move |stop: &StopToken| {
                    working.step(format!("{in_work} works"));
                    let stopped = stop.wait_timeout(milliseconds(time));
                    working.step(format!("{in_work} has worked {stopped}"));
                };
                let lane = if time % 2 == 0 { Lane::Fast } else { Lane::Slow };
                let _ = self.home.offload(lane, work, move |result| done.step(format!("{name} done {result:?}")));
            }
            Deed::Wait(time) => {
                let woken = self.token.wait_timeout(milliseconds(time));
                self.step(format!("{name} has waited {woken}"));
            }
            Deed::Block => {
                let ran = blocking(|| self.step(format!("{name} blocks"))).is_ok();
                self.step(format!("{name} has blocked {ran}"));
            }
            Deed::Call(time) => {
                let deadline = self.home.now() + milliseconds(time);
                let reply = self.client.call(Message::from_bytes(&[1]), deadline);
                self.step(format!("{name} has called {:?}", reply.map(|_| ()).map_err(|error| error.status())));
            }
        }
    }
}

/// Answers each request after a while, until it is shut down or the client is gone.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let (own, again) = (Arc::clone(&end), home.clone());
    let _ = end.begin_read(&home, move |outcome| {
        while let Ok(request) = own.try_read() {
            let own = Arc::clone(&own);
            let _ = again.post_after(milliseconds(3), move |_| drop(own.write(request.recycle(1))));
        }
        if outcome.is_ok() {
            serve(own, again);
        }
    });
}

fn deed(random: &mut Random) -> Deed {
    let time = random.below(12);
    match random.below(8) {
        0 => Deed::Nothing,
        1 => Deed::Post,
        2 => Deed::Arm(time),
        3 => Deed::Offload(time),
        4 | 5 => Deed::Wait(time),
        6 => Deed::Block,
        _ => Deed::Call(time),
    }
}

/// Runs the program of a seed and gives its log.
fn run(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let runtime = ForegroundRuntime::new();
    let builders = [
        DispatcherBuilder::new().name("sync 1").allow_sync_calls(),
        DispatcherBuilder::new().name("sync 2").allow_sync_calls(),
        DispatcherBuilder::new().name("elsewhere").allow_sync_calls().scheduler_role("other"),
        DispatcherBuilder::new().name("plain"),
        DispatcherBuilder::new().name("unsynchronized").unsynchronized(),
        DispatcherBuilder::new().name("pinned").no_thread_migration(),
    ];
    let dispatchers: Vec<_> = builders
        .into_iter()
        .map(|builder| runtime.new_driver("driver").new_dispatcher(builder).expect("created"))
        .collect();
    let gate = runtime.new_driver("gate").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let server = runtime.new_driver("server").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let place = Place {
        log: Log::new(),
        moving: Arc::default(),
        overlaps: Arc::default(),
        token: gate.stop_token(),
        client: Arc::new(near),
        home: gate.handle(),
    };
    for nth in 0..STEPS {
        match random.below(16) {
            0 => runtime.advance(milliseconds(random.below(8))),
            1 => {
                runtime.run_once();
            }
            2 => {
                runtime.run_until_idle();
            }
            3 => {
                runtime.quit();
                place.log.add(format!("{:?}", runtime.run(Instant::INFINITE)));
                runtime.reset_quit().expect("nothing runs");
            }
            4 => {
                let (blocker, deed) = (place.clone(), deed(&mut random));
                let ended = runtime.run_blocking(move || {
                    assert!(current().is_none());
                    blocker.act(&format!("test {nth}"), deed);
                });
                place.log.add(format!("{:?}", ended.map_err(|error| error.status())));
            }
            5 if random.below(4) == 0 => dispatchers[random.below(dispatchers.len())].shutdown_async(),
            6 if random.below(8) == 0 => gate.shutdown_async(),
            7 if random.below(8) == 0 => server.shutdown_async(),
            _ => {
                let home = &dispatchers[random.below(dispatchers.len())];
                let deed = deed(&mut random);
                let may_wait = home.allows_sync_calls() || !matches!(deed, Deed::Wait(_));
                place.on(home).post(format!("{} {nth}", home.name()), if may_wait { deed } else { Deed::Block });
            }
        }
    }
    runtime.shutdown().expect("nothing blocks out of sight");
    add_up(&runtime);
    assert_eq!(place.overlaps.load(Ordering::SeqCst), 0, "two moved at once");
    place.log.take()
}

#[test]
fn the_same_program_has_the_same_order_of_everything() {
    let mut seeds = Random::from_environment();
    let mut lines = 0;
    for _ in 0..PROGRAMS {
        let seed = seeds.next_u64();
        println!("program {seed}");
        let (first, second) = (run(seed), run(seed));
        let differing = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(first == second, "program {seed} went two ways, from {differing:#?} on");
        lines += first.len();
    }
    assert!(lines > PROGRAMS * STEPS, "the programs did something: {lines} lines");
}
