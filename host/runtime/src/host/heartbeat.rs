//! Signs of life: a callback that comes back for as long as the threads of drivers get anywhere.

use std::time::Duration;

use fuchsine_dispatcher::{CreateError, DispatcherBuilder, DispatcherHandle, Driver};

use super::Host;

/// The owner of the dispatcher.
const NAME: &str = "fuchsine-heartbeat";

/// A callback that is made again and again. Dropping it ends that.
#[derive(Debug)]
#[must_use = "dropping it ends it"]
pub struct Heartbeat(Driver);

impl Host {
    /// Has `beat` called again and again, so long after each other, on a dispatcher of the pool that drivers run on unless they
    /// ask for another role. When no thread of that pool gets anywhere it is not called, which is what it is for: whoever
    /// waits for it in vain knows that this host is stuck. It ends with the runtime of the host at the latest.
    ///
    /// # Errors
    /// [`CreateError`]: the runtime has been shut down, or has no room left.
    pub fn heartbeat(&self, every: Duration, beat: impl FnMut() + Send + 'static) -> Result<Heartbeat, CreateError> {
        let owner = self.shared().runtime().new_driver(NAME);
        match owner.new_dispatcher(DispatcherBuilder::new().name("beat")) {
            Ok(dispatcher) => {
                beat_again(&dispatcher.release(), every, beat);
                Ok(Heartbeat(owner))
            }
            Err(error) => {
                super::actions::shut_down(&owner, || {});
                Err(error)
            }
        }
    }
}

fn beat_again(dispatcher: &DispatcherHandle, every: Duration, mut beat: impl FnMut() + Send + 'static) {
    let again = dispatcher.clone();
    // Refused once the dispatcher shuts down, which is the end.
    let _ = dispatcher.post_after(every, move |ran| {
        if ran.is_ok() {
            beat();
            beat_again(&again, every, beat);
        }
    });
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        super::actions::shut_down(&self.0, || {});
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use fuchsine_dispatcher::testing::ForegroundRuntime;
    use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};

    use crate::{Host, Manifest, Registry, Source};

    struct Idle;
    impl Driver for Idle {
        const NAME: &'static str = "idle";
        async fn start(_: DriverContext) -> Result<Self, StartError> {
            Ok(Idle)
        }
    }
    static IDLE: DriverEntry = DriverEntry::of::<Idle>();

    #[test]
    fn it_beats_once_an_interval_and_no_more_when_it_is_dropped() {
        let foreground = ForegroundRuntime::new();
        let manifest = Manifest::parse(Source::named("test", "[drivers.idle]")).unwrap();
        let plan = manifest.plan(&Registry::new([&IDLE]).unwrap()).unwrap();
        let host = Host::builder(plan).runtime((*foreground).clone()).build().unwrap();
        let beats = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&beats);
        let beat = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let heartbeat = host.heartbeat(Duration::from_secs(5), beat).unwrap();
        foreground.advance(Duration::from_secs(51));
        assert_eq!(beats.load(Ordering::Relaxed), 10);
        drop(heartbeat);
        foreground.advance(Duration::from_secs(51));
        assert_eq!(beats.load(Ordering::Relaxed), 10);
    }
}
