//! Tickers and what is done to timers while they run: missed ticks, restarting, rescheduling, destroying, and a million
//! of them. What is asserted is order and the arithmetic of deadlines, which have a lower bound and no upper one.

mod loop_support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, MissedTicks, Tick, Timer, TimerError, TimerState};
use fuchsine_dispatcher::{Instant, Status};
use loop_support::{HANG, Log, run_one, shutdown};

const MS: Duration = Duration::from_millis(1);
const PERIOD: Duration = Duration::from_micros(500);

/// A timer that its own callback can reach.
type Own = Rc<RefCell<Option<Timer>>>;

fn own_timer(event_loop: &EventLoop, mut callback: impl FnMut(&EventLoop, &Timer, Tick) + 'static) -> Own {
    let own: Own = Rc::default();
    let reached = own.clone();
    let timer = event_loop.timer(move |event_loop, tick| {
        // Taken out for the call, so that the callback may drop it from elsewhere.
        let timer = reached.borrow_mut().take().expect("a timer that fires is alive");
        callback(event_loop, &timer, tick);
        *reached.borrow_mut() = Some(timer);
    });
    *own.borrow_mut() = Some(timer);
    own
}

/// Breaks the circle of a timer and its callback at the end of the loop.
fn drop_at_end(event_loop: &EventLoop, own: &Own) {
    let own = own.clone();
    event_loop.teardown(move |_| drop(own.borrow_mut().take())).unwrap();
}

fn busy_for(event_loop: &EventLoop, how_long: Duration) {
    let until = event_loop.now() + how_long;
    while event_loop.now() < until {}
}

/// The ticks of a ticker whose third call takes four periods.
fn ticks(policy: MissedTicks) -> Vec<Tick> {
    let (sender, receiver) = channel();
    run_one(move |event_loop| {
        let mut calls = 0;
        let ticker = event_loop.timer(move |event_loop, tick| {
            assert!(event_loop.now() >= tick.deadline, "never early");
            sender.send(tick).unwrap();
            calls += 1;
            match calls {
                3 => busy_for(event_loop, 4 * PERIOD),
                12 => shutdown(event_loop),
                _ => {}
            }
        });
        ticker.ticker_with(PERIOD, policy).unwrap();
        ticker.detach();
    });
    receiver.into_iter().collect()
}

/// Shows E23, T14.
#[test]
fn a_ticker_that_skips_keeps_its_grid_and_says_how_many_ticks_a_call_stands_for() {
    let ticks = ticks(MissedTicks::Skip);
    for pair in ticks.windows(2) {
        let periods = 1 + u32::try_from(pair[0].missed).unwrap();
        assert_eq!(pair[1].deadline, pair[0].deadline + periods * PERIOD, "{ticks:?}");
    }
    assert!(ticks[3].missed >= 2, "the fourth call stands for those missed: {ticks:?}");
}

/// Shows E23, T14.
#[test]
fn a_ticker_that_bursts_makes_up_for_each_missed_tick() {
    let ticks = ticks(MissedTicks::Burst);
    for pair in ticks.windows(2) {
        assert_eq!(pair[1].deadline, pair[0].deadline + PERIOD, "{ticks:?}");
    }
    assert!(ticks.iter().all(|tick| tick.missed == 0), "each has a call of its own: {ticks:?}");
}

/// Shows E23, T14.
#[test]
fn a_ticker_that_delays_comes_a_whole_period_after_a_late_call() {
    let ticks = ticks(MissedTicks::Delay);
    for pair in ticks.windows(2) {
        assert!(pair[1].deadline >= pair[0].deadline + PERIOD, "{ticks:?}");
    }
    // The fourth call came when the third had ended, four periods later; the fifth is a period after that.
    assert!(ticks[4].deadline >= ticks[2].deadline + 5 * PERIOD, "{ticks:?}");
    assert!(ticks[3].missed >= 2, "{ticks:?}");
}

/// Shows C11.
#[test]
fn twelve_ticks_come_one_period_after_the_other_and_the_twelfth_destroys_the_ticker() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (mut last, mut calls) = (event_loop.now(), 0);
        let own: Own = Rc::default();
        let reached = own.clone();
        let ticker = event_loop.timer(move |event_loop, tick| {
            let missed = u32::try_from(tick.missed).unwrap();
            assert!(tick.deadline >= last + PERIOD, "no tick comes early");
            last = tick.deadline + missed * PERIOD;
            calls += 1;
            entries.add("tick");
            if calls == 12 {
                drop(reached.borrow_mut().take());
                // Whatever comes after that would be a thirteenth.
                let after = event_loop.timer(|event_loop, _| shutdown(event_loop));
                after.once(4 * PERIOD).unwrap();
                after.detach();
            }
        });
        ticker.ticker(PERIOD).unwrap();
        *own.borrow_mut() = Some(ticker);
    });
    assert_eq!(log.len(), 12);
}

/// Shows C13, T3.
#[test]
fn a_ticker_that_its_second_tick_restarts_as_a_once_timer_fires_once_more() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let mut calls = 0;
        let own = own_timer(event_loop, move |event_loop, timer, tick| {
            calls += 1;
            entries.add("fired");
            match calls {
                1 => {}
                2 => timer.once(PERIOD).unwrap(),
                3 => {
                    assert_eq!(tick.missed, 0, "a once timer stands for itself alone");
                    let after = event_loop.timer(|event_loop, _| shutdown(event_loop));
                    after.once(4 * PERIOD).unwrap();
                    after.detach();
                }
                _ => unreachable!("it was armed once"),
            }
        });
        own.borrow().as_ref().unwrap().ticker(PERIOD).unwrap();
        drop_at_end(event_loop, &own);
    });
    assert_eq!(log.len(), 3);
}

/// Shows C14, T9.
#[test]
fn no_tick_comes_after_a_ticker_has_been_destroyed() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let flag: Rc<Cell<bool>> = Rc::default();
        let (set, seen) = (flag.clone(), flag);
        let once = event_loop.timer(move |_, _| set.set(true));
        once.once(3 * MS).unwrap();
        once.detach();
        let own: Own = Rc::default();
        let reached = own.clone();
        let ticker = event_loop.timer(move |event_loop, _| {
            if !seen.get() {
                return;
            }
            entries.add("tick");
            drop(reached.borrow_mut().take());
            let after = event_loop.timer(|event_loop, _| shutdown(event_loop));
            after.once(3 * MS).unwrap();
            after.detach();
        });
        ticker.ticker(MS).unwrap();
        *own.borrow_mut() = Some(ticker);
    });
    assert_eq!(log.text(), "tick");
}

/// Shows C16, T3, T6.
#[test]
fn a_timer_that_is_restarted_for_sooner_fires_sooner() {
    run_one(|event_loop| {
        let armed_at = event_loop.now();
        let timer = event_loop.timer(move |event_loop, tick| {
            assert!(tick.deadline < armed_at + Duration::from_secs(3_600));
            shutdown(event_loop);
        });
        timer.once(Duration::from_secs(3_600)).unwrap();
        timer.once(Duration::ZERO).unwrap();
        assert!(matches!(timer.state(), TimerState::Armed(_)), "it never fires inside of the call");
        timer.detach();
    });
}

/// Shows C17, C19, T3.
#[test]
fn a_timer_may_be_rescheduled_by_its_own_callback_again_and_again() {
    run_one(|event_loop| {
        let (mut last, mut calls) = (event_loop.now(), 0);
        let own = own_timer(event_loop, move |event_loop, timer, tick| {
            assert!(tick.deadline >= last, "each is at least a period after the call before it");
            last = event_loop.now() + PERIOD;
            calls += 1;
            match calls {
                // As it was armed last: once.
                1 => timer.restart().unwrap(),
                2..5 => timer.ticker(PERIOD).unwrap(),
                _ => {
                    assert!(timer.stop(), "else it would tick on, on the grid of its last start");
                    shutdown(event_loop);
                }
            }
        });
        own.borrow().as_ref().unwrap().once(PERIOD).unwrap();
        drop_at_end(event_loop, &own);
    });
}

/// Shows T7, E21.
#[test]
fn the_state_of_a_timer_says_what_it_does_and_a_timer_that_has_fired_is_idle() {
    run_one(|event_loop| {
        let timer = Rc::new(event_loop.timer(|_, _| {}));
        assert_eq!(timer.restart(), Err(TimerError::NeverArmed));
        assert_eq!(TimerError::NeverArmed.status(), Status::BadState);
        assert_eq!(timer.state(), TimerState::Idle);
        timer.once(MS).unwrap();
        assert!(matches!(timer.state(), TimerState::Armed(_)));
        let later = event_loop.timer(move |event_loop, _| {
            assert_eq!(timer.state(), TimerState::Idle, "it has fired");
            assert!(!timer.stop(), "there is nothing to stop");
            timer.restart().unwrap();
            assert!(matches!(timer.state(), TimerState::Armed(_)) && timer.stop());
            assert_eq!(timer.state(), TimerState::Idle);
            shutdown(event_loop);
        });
        later.once(2 * MS).unwrap();
        later.detach();
    });
}

/// Shows T12, T13, E22, T17.
#[test]
fn a_timer_that_is_armed_late_in_a_long_callback_is_not_early_and_one_that_is_overdue_does_not_wait() {
    run_one(|event_loop| {
        let early = event_loop.now();
        let overdue: Rc<Cell<bool>> = Rc::default();
        let has_fired = overdue.clone();
        let short = event_loop.timer(move |_, _| has_fired.set(true));
        short.once(Duration::from_micros(50)).unwrap();
        short.detach();
        busy_for(event_loop, 3 * MS);
        // The clock is read here, and not at the beginning of the iteration.
        let armed_at = event_loop.now();
        assert!(armed_at >= early + 3 * MS, "the time moves within a callback");
        let late = event_loop.timer(move |event_loop, tick| {
            assert!(tick.deadline >= armed_at + 2 * MS && event_loop.now() >= tick.deadline);
            assert!(overdue.get(), "what was due before came before");
            shutdown(event_loop);
        });
        late.once(2 * MS).unwrap();
        late.detach();
    });
}

/// Shows T10, T8.
#[test]
fn a_timer_is_destroyed_from_another_thread_and_its_callback_is_dropped_on_its_loop() {
    struct OnLoop(Log);
    impl Drop for OnLoop {
        fn drop(&mut self) {
            assert_eq!(fuchsine_dispatcher::event_loop::tid(), Some(0));
            self.0.add("dropped");
        }
    }
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (ticked, has_ticked) = channel();
        let (captured, seen) = (OnLoop(entries.clone()), entries.clone());
        let ticker = event_loop.timer(move |_, _| {
            let _captured = &captured;
            let _ = ticked.send(());
        });
        ticker.ticker(PERIOD).unwrap();
        let (stopper, handle) = (ticker.stopper(), event_loop.handle());
        let thread = std::thread::spawn(move || {
            has_ticked.recv_timeout(HANG).unwrap();
            assert!(stopper.destroy() && !stopper.destroy() && !stopper.stop());
            handle
                .async_run(move |event_loop| {
                    // The destruction was told before this was posted, but may be one iteration behind.
                    event_loop
                        .async_run(move |event_loop| {
                            assert_eq!(seen.text(), "dropped");
                            shutdown(event_loop);
                        })
                        .unwrap();
                })
                .unwrap();
        });
        event_loop
            .teardown(move |_| {
                thread.join().unwrap();
                assert_eq!(ticker.once(MS), Err(TimerError::Destroyed));
                assert_eq!(ticker.state(), TimerState::Idle);
            })
            .unwrap();
    });
}

/// Shows T8.
#[test]
fn a_ticker_that_was_left_to_its_loop_goes_when_it_is_stopped() {
    let value = Arc::new(());
    let (captured, seen) = (value.clone(), value.clone());
    run_one(move |event_loop| {
        let ticker = event_loop.timer(move |_, _| assert!(Arc::strong_count(&captured) > 0));
        ticker.ticker(Duration::from_secs(3_600)).unwrap();
        let stopper = ticker.stopper();
        ticker.detach();
        assert_eq!(Arc::strong_count(&seen), 3);
        let handle = event_loop.handle();
        std::thread::spawn(move || assert!(stopper.stop())).join().unwrap();
        handle
            .async_run(move |event_loop| {
                event_loop
                    .async_run(move |event_loop| {
                        assert_eq!(Arc::strong_count(&seen), 2, "the loop has forgotten the callback");
                        shutdown(event_loop);
                    })
                    .unwrap();
            })
            .unwrap();
    });
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Shows E20, T4.
#[test]
fn intervals_are_nanoseconds_in_64_bits_from_the_shortest_to_centuries() {
    run_one(|event_loop| {
        let centuries = Duration::from_secs(300 * 365 * 24 * 3_600);
        let far = event_loop.timer(|_, _| unreachable!("it is due in three centuries"));
        far.ticker(centuries).unwrap();
        assert!(matches!(far.state(), TimerState::Armed(at) if at >= Instant::ZERO + centuries));
        // 49.7 days are 2^32 milliseconds.
        let wraps = event_loop.timer(|_, _| unreachable!("it is due in fifty days"));
        wraps.once(Duration::from_millis(1 << 32)).unwrap();
        let mut calls = 0;
        let shortest = event_loop.timer(move |event_loop, _| {
            calls += 1;
            if calls == 5 {
                assert!(far.stop() && wraps.stop());
                shutdown(event_loop);
            }
        });
        assert_eq!(shortest.ticker(Duration::ZERO), Err(TimerError::ZeroPeriod));
        // Less than a millisecond ticks on, and does not become zero.
        shortest.ticker(Duration::from_nanos(1)).unwrap();
        shortest.detach();
    });
}

/// Shows T16.
#[test]
fn a_million_timers_are_armed_stopped_and_armed_again_and_those_left_fire_once_each() {
    const TIMERS: usize = 1_000_000;
    run_one(|event_loop| {
        let fired: Rc<Cell<usize>> = Rc::default();
        let far = event_loop.now() + Duration::from_secs(3_600);
        let timers: Vec<_> = (0..TIMERS)
            .map(|nth| {
                let fired = fired.clone();
                let timer = event_loop.timer(move |_, _| fired.set(fired.get() + 1));
                // Spread over an hour from an hour on.
                timer.once_at(far + Duration::from_nanos(nth as u64 * 3_600_000)).unwrap();
                timer
            })
            .collect();
        assert!(timers.iter().all(Timer::stop), "each was armed");
        assert!(!timers.iter().any(Timer::stop), "none is armed any more");
        // One in a thousand, at once; the rest stay idle.
        let at = event_loop.now();
        timers.iter().step_by(1_000).for_each(|timer| timer.once_at(at).unwrap());
        let last = event_loop.timer(move |event_loop, _| {
            assert_eq!((fired.get(), timers.len()), (TIMERS / 1_000, TIMERS));
            shutdown(event_loop);
        });
        last.once_at(at + MS).unwrap();
        last.detach();
    });
}
