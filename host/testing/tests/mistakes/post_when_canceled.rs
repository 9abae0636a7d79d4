//! A courier brings back what it carries when it is shut down, by a task that it posts, and its stop waits for that. The
//! mistake: a dispatcher that shuts down accepts no task any more.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use fuchsine_driver::{Driver, DriverContext, StartError, StopError};
use parking_lot::Mutex;

use super::support::listen;
use super::*;

/// Set once, and waited for.
#[derive(Default)]
struct Flag(Mutex<(bool, Option<Waker>)>);

impl Flag {
    fn set(&self) {
        let mut state = self.0.lock();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub(crate) struct Courier<const FIXED: bool> {
    carried: Arc<Mutex<Vec<Arc<Flag>>>>,
}

impl<const FIXED: bool> Driver for Courier<FIXED> {
    const NAME: &'static str = "courier";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (home, carried) = (cx.dispatcher(), Arc::new(Mutex::new(Vec::new())));
        let all = Arc::clone(&carried);
        listen(&cx, "parcels", move |_, _| {
            let (brought, home_again) = (Arc::new(Flag::default()), home.clone());
            all.lock().push(Arc::clone(&brought));
            let carry = home.post_after(Duration::from_millis(5), move |outcome| {
                if outcome.is_ok() || FIXED {
                    return brought.set();
                }
                // It cannot be delivered any more, so it is brought back.
                drop(home_again.post_task(move |_| brought.set()));
            });
            drop(carry);
        })
        .await?;
        Ok(Courier { carried })
    }

    async fn stop(self) -> Result<(), StopError> {
        let carried = self.carried.lock().clone();
        for brought in carried {
            brought.wait().await;
        }
        Ok(())
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("parcels"));
    let Some(parcels) = line(rt, &harness, "parcels") else { return end(harness) };
    parcels.send(b"parcel 1");
    harness.advance(Duration::from_millis(10));
    parcels.send(b"parcel 2");
    harness.advance(Duration::from_millis(10));
    end(harness);
}
