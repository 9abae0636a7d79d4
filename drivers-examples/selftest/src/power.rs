//! Suspend and resume.

use fuchsine_driver::{Dispatcher, DriverContext, Irq, IrqEvent, Status};

use crate::told::{Broken, Checked, Teller, refused, same, telling};

pub(crate) async fn check(cx: &DriverContext) -> Checked {
    // Who checks must not be parked itself.
    let always_on = cx.dispatcher().always_on();
    same("which view it is", (always_on.is_always_on(), cx.dispatcher().is_always_on()), (true, false))?;
    let (checked, checking) = (always_on.clone(), cx.clone());
    let checking = always_on.spawn(async move {
        while_it_is_suspended(&checking, &checked).await?;
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

    let (suspended, quiet) = telling();
    cx.suspend(move |outcome| suspended.tell(outcome.is_ok()))?;
    same("how the suspend ended", quiet.next().await, Some(true))?;
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
