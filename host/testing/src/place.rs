//! Where a driver under test runs, and how a test waits there.

use std::fmt;
use std::time::{Duration, Instant};

use fuchsine_dispatcher::testing::ForegroundRuntime;

/// Where a driver under test runs: one test body runs in either.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Place<'rt> {
    /// On a foreground runtime: nothing happens unless the test turns the crank, time stands still unless it is advanced,
    /// and sockets are simulated.
    Foreground(&'rt ForegroundRuntime),
    /// On a pool of threads of its own, in real time, with real sockets.
    Threads,
}

impl<'rt> From<&'rt ForegroundRuntime> for Place<'rt> {
    fn from(runtime: &'rt ForegroundRuntime) -> Self {
        Place::Foreground(runtime)
    }
}

/// How long a test on threads waits for what should come at once. Only a test that fails waits so long.
const HANG_LIMIT: Duration = Duration::from_secs(30);

/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Whether time may pass while a test waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// What waits for a timer is not waited for.
    Stands,
    /// When only timers are left the clock goes on to the next one.
    Passes,
}

impl Place<'_> {
    /// Lets things happen until `condition` holds; false when nothing is left that could make it hold.
    pub(crate) fn until(self, time: Time, mut condition: impl FnMut() -> bool) -> bool {
        match self {
            Place::Foreground(runtime) if time == Time::Passes => runtime.run_until_condition(condition),
            Place::Foreground(runtime) => loop {
                if condition() {
                    return true;
                }
                if !runtime.run_once() {
                    return condition();
                }
            },
            Place::Threads => {
                let deadline = Instant::now() + HANG_LIMIT;
                while !condition() {
                    if Instant::now() >= deadline {
                        return false;
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
                true
            }
        }
    }

    /// Lets everything happen that is due. On threads nobody knows when that is; tests wait for what they expect.
    pub(crate) fn settle(self) {
        if let Place::Foreground(runtime) = self {
            runtime.run_until_idle();
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(self, duration: Duration) {
        match self {
            Place::Foreground(runtime) => runtime.advance(duration),
            Place::Threads => std::thread::sleep(duration),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Foreground(_) => "nothing is left that could still happen without time passing",
            Place::Threads => "it did not come about in 30 s",
        })
    }
}
