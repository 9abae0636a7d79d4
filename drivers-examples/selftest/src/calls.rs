//! Calls over channels: a request, and the one reply to it.

use std::time::Duration;

use fuchsine_driver::{Channel, DispatcherOptions, DriverContext, HandleKind, Instant, Message, Status, Token, spawn};

use crate::told::{Broken, Checked, refused, same, telling};

/// Long enough for nothing, and short enough for a test.
const SOON: Duration = Duration::from_millis(5);

pub(crate) async fn check(cx: &DriverContext) -> Checked {
    replies_come_to_their_calls().await?;
    handles_go_with_a_request(cx).await?;
    a_call_ends_at_its_deadline().await?;
    a_call_is_taken_back(cx).await?;
    a_closed_peer_ends_a_call(cx).await?;
    a_shutdown_ends_a_call(cx).await?;
    a_thread_may_wait_for_a_reply(cx).await
}

/// Sends back what comes, two requests at a time and the later one first.
async fn serve(server: Channel) -> Result<(), Status> {
    loop {
        let requests = [server.read().await?, server.read().await?];
        for request in requests.iter().rev() {
            server.write(Message::from_bytes(request.bytes())?.in_reply_to(request.txid()))?;
        }
    }
}

async fn replies_come_to_their_calls() -> Checked {
    let (client, server) = Channel::pair()?;
    drop(spawn(serve(server))?);
    let ask = |bytes: &[u8]| Ok::<_, Broken>(client.call_async(Message::from_bytes(bytes)?, Instant::INFINITE));
    let (first, second) = (ask(b"first")?, ask(b"second")?);
    let (second, first) = both(second, first).await;
    same("the first reply", first?.bytes(), b"first")?;
    same("the second reply", second?.bytes(), b"second")?;
    same("what is left to read", client.try_read().map(drop), Err(Status::ShouldWait))
}

/// Both, polled together.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    use std::task::Poll;
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(|cx| {
        if left.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            right = Some(value);
        }
        match (left.take(), right.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (left, right) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

async fn handles_go_with_a_request(cx: &DriverContext) -> Checked {
    let (client, server) = Channel::pair()?;
    let ((near, far), (one, other)) = (Channel::pair()?, Token::pair()?);
    let mut request = Message::from_bytes(b"with handles")?;
    request.push(far);
    request.push(one);
    let (teller, told) = telling();
    let asked = client.begin_call(&cx.dispatcher(), request, Instant::INFINITE, move |reply| teller.tell(reply));
    asked.map_err(|refused| refused.status())?;
    let mut request = server.read().await?;
    same("the request", request.bytes(), b"with handles")?;
    same("whether it is one", request.txid().is_some(), true)?;
    let mut handles = request.take_handles();
    let kinds: Vec<_> = handles.iter().map(|handle| handle.kind()).collect();
    same("the handles", kinds, vec![HandleKind::Channel, HandleKind::Token])?;
    let token = handles.pop().and_then(|handle| handle.into_token_end().ok()).ok_or(Status::WrongType)?;
    let far = handles.pop().and_then(|handle| handle.into_channel_end().ok()).ok_or(Status::WrongType)?;
    token.transfer(far)?;
    other.receive()?.write(Message::from_bytes(b"through a token")?)?;
    same("what came through it", near.read().await?.bytes(), b"through a token")?;
    server.write(Message::new().in_reply_to(request.txid()))?;
    let reply = told.next().await.ok_or(Status::NotFound)??;
    same("an empty reply", (reply.len(), reply.txid()), (0, None))
}

async fn a_call_ends_at_its_deadline() -> Checked {
    let (client, server) = Channel::pair()?;
    let late = client.call_async(Message::from_bytes(b"hello?")?, Instant::now() + SOON).await;
    let error = refused("a call that nobody answers", late)?;
    same("its end", (error.status(), error.into_request().is_some()), (Status::TimedOut, false))?;
    let request = server.read().await?;
    server.write(Message::from_bytes(b"late")?.in_reply_to(request.txid()))?;
    same("a late reply", client.try_read().map(drop), Err(Status::ShouldWait))?;
    server.write(Message::from_bytes(b"no reply")?)?;
    same("what is none", client.read().await?.bytes(), b"no reply")
}

async fn a_call_is_taken_back(cx: &DriverContext) -> Checked {
    let (client, server) = Channel::pair()?;
    let (teller, told) = telling();
    let asked = client.begin_call(&cx.dispatcher(), Message::new(), Instant::INFINITE, move |_| teller.tell(()));
    let asked = asked.map_err(|refused| refused.status())?;
    same("a call is taken back", asked.cancel(), Ok(()))?;
    same("what it tells", told.next().await, None)?;
    same("once more", asked.cancel(), Err(Status::NotFound))?;
    // A future that is dropped does the same.
    let given_up = fuchsine_driver::timeout(SOON, client.call_async(Message::new(), Instant::INFINITE)).await;
    same("a call that is given up", given_up.map(drop), Err(Status::TimedOut))?;
    for _ in 0..2 {
        let request = server.read().await?;
        server.write(Message::new().in_reply_to(request.txid()))?;
    }
    same("what is left of them", client.try_read().map(drop), Err(Status::ShouldWait))
}

async fn a_closed_peer_ends_a_call(cx: &DriverContext) -> Checked {
    let (client, server) = Channel::pair()?;
    let (teller, told) = telling();
    let waits = teller.clone();
    let asked = client.begin_call(&cx.dispatcher(), Message::new(), Instant::INFINITE, move |reply| waits.tell(reply));
    asked.map_err(|refused| refused.status())?;
    drop(server);
    let end = told.next().await.ok_or(Status::NotFound)?;
    same("the end of a call to a peer that closes", end.map(drop), Err(Status::PeerClosed))?;

    let mut request = Message::from_bytes(b"whole")?;
    let (near, far) = Channel::pair()?;
    request.push(far);
    let asked = client.begin_call(&cx.dispatcher(), request, Instant::INFINITE, move |reply| teller.tell(reply));
    let error = refused("a call to nobody", asked)?;
    same("why", error.status(), Status::PeerClosed)?;
    let (mut request, call) = error.into_inner();
    same("the request that comes back", request.bytes(), b"whole")?;
    drop(call);
    same("what its callback tells", told.next().await.is_none(), true)?;
    let far = request.take_handles().pop().and_then(|handle| handle.into_channel_end().ok());
    far.ok_or(Status::WrongType)?.write(Message::from_bytes(b"alive")?)?;
    same("what came from it", near.read().await?.bytes(), b"alive")
}

async fn a_shutdown_ends_a_call(cx: &DriverContext) -> Checked {
    let (client, _server) = Channel::pair()?;
    let short = cx.new_dispatcher(DispatcherOptions::new("short"))?;
    let (teller, told) = telling();
    let asked = client.begin_call(&short, Message::new(), Instant::INFINITE, move |reply| teller.tell(reply));
    asked.map_err(|refused| refused.status())?;
    short.shutdown();
    let end = told.next().await.ok_or(Status::NotFound)?;
    same("the end of a call at a shutdown", end.map(drop), Err(Status::Canceled))
}

async fn a_thread_may_wait_for_a_reply(cx: &DriverContext) -> Checked {
    let (client, server) = Channel::pair()?;
    let error = refused("a call that would block", client.call(Message::from_bytes(b"may I?")?, Instant::INFINITE))?;
    same("why", error.status(), Status::BadState)?;
    same("its request", error.into_request().map(|request| request.bytes().to_vec()), Some(b"may I?".to_vec()))?;

    drop(spawn(serve(server))?);
    let patient = cx.new_dispatcher(DispatcherOptions::new("patient").allow_sync_calls())?;
    let (silent, _nobody) = Channel::pair()?;
    let asked = patient.spawn(async move {
        let other = client.begin_call(
            &fuchsine_driver::current().ok_or(Status::BadState)?,
            Message::from_bytes(b"other")?,
            Instant::INFINITE,
            |_| (),
        );
        other.map_err(|refused| refused.status())?;
        let reply = client.call(Message::from_bytes(b"and so on")?, Instant::INFINITE)?;
        let late = silent.call(Message::new(), Instant::now() + SOON).map(drop);
        let late = late.map_err(|error| (error.status(), error.into_request().is_some()));
        Ok::<_, Status>((reply.bytes().to_vec(), late))
    })?;
    let (reply, late) = asked.await??;
    same("what it was told", reply, b"and so on".to_vec())?;
    same("what nobody told it", late, Err((Status::TimedOut, false)))?;
    patient.shutdown();
    Ok(())
}
