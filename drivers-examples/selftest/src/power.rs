//! Suspend and resume.

use fuchsine_driver::net::{Interest, Listener, Readiness, Stream};
use fuchsine_driver::{Dispatcher, DriverContext, Irq, IrqEvent, Status};

use crate::told::{Broken, Checked, Teller, refused, same, telling};

pub(crate) async fn check(cx: &DriverContext) -> Checked {
    // Who checks must not be parked itself.
    let always_on = cx.dispatcher().always_on();
    same("which view it is", (always_on.is_always_on(), cx.dispatcher().is_always_on()), (true, false))?;
    let (checked, checking) = (always_on.clone(), cx.clone());
    let checking = always_on.spawn(async move {
        while_it_is_suspended(&checking, &checked).await?;
        what_comes_by_a_socket_wakes_it(&checking, &checked).await?;
        a_resume_before_the_end_is_told(&checking).await
    })?;
    checking.await?
}

/// Posts something that tells that it ran.
fn post(dispatcher: &Dispatcher, teller: &Teller<&'static str>, says: &'static str) -> Result<(), Broken> {
    let teller = teller.clone();
    Ok(dispatcher.post_task(move |_| teller.tell(says))?)
}

async fn while_it_is_suspended(cx: &DriverContext, always_on: &Dispatcher) -> Checked {
    let (button, press) = Irq::new(&cx.dispatcher())?;
    let (teller, told) = telling();
    let pressed = teller.clone();
    let binding = button.bind(&cx.dispatcher(), move |outcome: Result<IrqEvent<'_>, Status>| {
        if let Ok(event) = outcome {
            event.ack();
            pressed.tell("pressed");
        }
    })?;
    let vector = cx.add_wake_vector(&button)?;
    let (asking, waking) = (teller.clone(), cx.clone());
    cx.on_resume_request(move || {
        asking.tell("asked");
        waking.resume();
    })?;
    same("whether it can be resumed", (cx.is_suspended(), cx.resume()), (false, false))?;

    suspended(cx).await?;
    same("whether it is suspended", cx.is_suspended(), true)?;
    let error = refused("a second suspend", cx.suspend(|_| ()))?;
    same("why", error.status(), Status::AlreadyExists)?;
    let error = refused("a wake vector that comes too late", cx.add_wake_vector(&button))?;
    same("why", error, Status::BadState)?;
    post(&cx.dispatcher(), &teller, "parked")?;
    post(always_on, &teller, "always on")?;
    same("what runs", told.next().await, Some("always on"))?;

    press.trigger();
    for (expected, what) in [("asked", "what comes first"), ("pressed", "then"), ("parked", "last")] {
        same(what, told.next().await, Some(expected))?;
    }
    same("whether it is suspended now", cx.is_suspended(), false)?;
    cx.clear_resume_request();
    drop(vector);
    binding.unbind()?;
    drop(teller);
    same("what is left of it", told.next().await, None)
}

/// A listener and a stream are wake vectors: first a connection wakes the driver, then what comes over it.
async fn what_comes_by_a_socket_wakes_it(cx: &DriverContext, always_on: &Dispatcher) -> Checked {
    let listener = Listener::bind_on(&cx.dispatcher(), "127.0.0.1:0").map_err(|error| error.into_status())?;
    let (teller, told) = telling();
    let (asking, waking) = (teller.clone(), cx.clone());
    cx.on_resume_request(move || {
        asking.tell("asked");
        waking.resume();
    })?;
    let expected = [("asked", "what comes first"), ("by the socket", "then"), ("parked", "last")];

    let vector = cx.add_wake_vector(&listener)?;
    let connected = teller.clone();
    let tell =
        move |ready: Result<Readiness, Status>| connected.tell(if ready.is_ok() { "by the socket" } else { "no" });
    listener.begin_wait(&cx.dispatcher(), tell)?;
    suspended(cx).await?;
    post(&cx.dispatcher(), &teller, "parked")?;
    let (client, address) = (always_on.clone(), listener.local_address().to_owned());
    let client = client.spawn(async move { Stream::connect(&address).await })?.await?.map_err(|e| e.into_status())?;
    for (expected, what) in expected {
        same(what, told.next().await, Some(expected))?;
    }
    let (stream, _) = listener.try_accept()?;
    drop((vector, listener));

    let vector = cx.add_wake_vector(&stream)?;
    let arrived = teller.clone();
    let tell = move |ready: Result<Readiness, Status>| arrived.tell(if ready.is_ok() { "by the socket" } else { "no" });
    stream.begin_wait(&cx.dispatcher(), Interest::READABLE, tell)?;
    suspended(cx).await?;
    post(&cx.dispatcher(), &teller, "parked")?;
    same("how much is sent", client.try_write(b"wake up")?, 7)?;
    for (expected, what) in expected {
        same(what, told.next().await, Some(expected))?;
    }
    cx.clear_resume_request();
    drop(vector);
    drop(teller);
    same("what is left of it", told.next().await, None)
}

/// Suspends the driver, and waits until that is so.
async fn suspended(cx: &DriverContext) -> Checked {
    let (suspended, quiet) = telling();
    cx.suspend(move |outcome| suspended.tell(outcome.is_ok()))?;
    same("how the suspend ended", quiet.next().await, Some(true))
}

async fn a_resume_before_the_end_is_told(cx: &DriverContext) -> Checked {
    // A callback that suspends is waited for, so it can resume before that.
    let (teller, told) = telling();
    let (suspending, outcome) = (cx.clone(), teller.clone());
    cx.dispatcher().post_task(move |_| {
        let suspended = suspending.suspend(move |end| outcome.tell(end.is_ok()));
        teller.tell(suspended.is_ok());
        teller.tell(suspending.resume());
    })?;
    same("whether it is accepted", told.next().await, Some(true))?;
    same("whether it is resumed", told.next().await, Some(true))?;
    same("how that ended", told.next().await, Some(false))?;
    same("what comes then", told.next().await, None)
}
