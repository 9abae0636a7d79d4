//! Irqs: sources that trigger again and again.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fuchsine_driver::{DispatcherOptions, DriverContext, Irq, IrqEvent, Status};

use crate::told::{Checked, Teller, refused, same, telling};

pub(crate) async fn check(cx: &DriverContext) -> Checked {
    triggers_are_counted_and_wait_to_be_acknowledged(cx).await?;
    an_irq_has_one_handler(cx).await?;
    a_shutdown_is_told(cx).await?;
    a_descriptor_triggers(cx).await
}

/// What a handler was told.
type Event = Result<u64, Status>;

/// Tells the count, and acknowledges if asked to.
fn handler(teller: Teller<Event>, acknowledges: bool) -> impl FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static {
    move |outcome| match outcome {
        Ok(event) => {
            let count = event.count();
            if acknowledges {
                event.ack();
            }
            teller.tell(Ok(count));
        }
        Err(status) => teller.tell(Err(status)),
    }
}

async fn triggers_are_counted_and_wait_to_be_acknowledged(cx: &DriverContext) -> Checked {
    let (irq, trigger) = Irq::new(&cx.dispatcher())?;
    trigger.trigger();
    trigger.trigger();
    let (teller, told) = telling();
    let binding = irq.bind(&cx.dispatcher(), handler(teller, false))?;
    same("the triggers from before", told.next().await, Some(Ok(2)))?;
    trigger.trigger();
    fuchsine_driver::sleep(std::time::Duration::from_millis(1)).await?;
    same("an acknowledgement", binding.ack(), Ok(()))?;
    same("the one from meanwhile", told.next().await, Some(Ok(1)))?;
    same("one more", binding.ack(), Ok(()))?;
    same("one too many", binding.ack(), Err(Status::BadState))?;
    same("whether the handler runs that is unbound", binding.unbind(), Ok(false))?;
    trigger.trigger();
    same("what an unbound handler tells", told.next().await, None)?;
    same("an acknowledgement of nothing", binding.ack(), Err(Status::NotFound))?;
    same("a second end", binding.unbind(), Err(Status::NotFound))?;

    // What was triggered meanwhile is for the next one, which acknowledges by itself and goes on.
    let (teller, told) = telling();
    let binding = irq.bind(&cx.dispatcher(), handler(teller, true))?;
    same("the trigger for nobody", told.next().await, Some(Ok(1)))?;
    trigger.trigger();
    same("the next one", told.next().await, Some(Ok(1)))?;
    binding.unbind()?;
    Ok(())
}

async fn an_irq_has_one_handler(cx: &DriverContext) -> Checked {
    let (irq, _trigger) = Irq::new(&cx.dispatcher())?;
    let (first, _told) = telling();
    let binding = irq.bind(&cx.dispatcher(), handler(first, true))?;
    let (teller, told) = telling();
    let error = refused("a second handler", irq.bind(&cx.dispatcher(), handler(teller, true)))?;
    same("why", error.status(), Status::AlreadyExists)?;
    let mut second = error.into_inner();
    second(Err(Status::NotFound));
    same("what it tells when it is called by hand", told.next().await, Some(Err(Status::NotFound)))?;
    binding.unbind()?;
    Ok(())
}

async fn a_shutdown_is_told(cx: &DriverContext) -> Checked {
    let (irq, _trigger) = Irq::new(&cx.dispatcher())?;
    let short = cx.new_dispatcher(DispatcherOptions::new("short"))?;
    let (teller, told) = telling();
    // The binding may go: the irq stays bound.
    drop(irq.bind(&short, handler(teller, true))?);
    short.shutdown();
    same("the end of a binding", told.next().await, Some(Err(Status::Canceled)))?;
    same("what comes after it", told.next().await, None)
}

async fn a_descriptor_triggers(cx: &DriverContext) -> Checked {
    let (reader, mut writer) = UnixStream::pair()?;
    let mut reading = reader.try_clone()?;
    let irq = Irq::over(OwnedFd::from(reader))?;
    let (teller, told) = telling();
    let bound = irq.bind(&cx.dispatcher(), move |outcome: Result<IrqEvent<'_>, Status>| {
        let Ok(event) = outcome else { return };
        let mut byte = [0];
        let read = event.readiness().is_readable() && reading.read_exact(&mut byte).is_ok();
        event.ack();
        teller.tell(read.then_some(byte[0]));
    });
    match bound {
        Ok(binding) => {
            for byte in *b"ab" {
                writer.write_all(&[byte])?;
                same("what was read", told.next().await, Some(Some(byte)))?;
            }
            binding.unbind()?;
            Ok(())
        }
        // In virtual time nothing real can be waited for.
        Err(error) => same("why", error.status(), Status::NotSupported),
    }
}
