//! Tokens: a channel for two who do not know which of them comes first.

use fuchsine_driver::{Channel, DriverContext, Message, Status, Token};

use crate::told::{Checked, refused, same, telling};

pub(crate) async fn check(cx: &DriverContext) -> Checked {
    whoever_comes_first(cx).await?;
    nothing_is_received_before_it_is_there()?;
    an_end_that_is_dropped_is_told(cx).await?;
    a_registration_is_taken_back(cx).await
}

async fn whoever_comes_first(cx: &DriverContext) -> Checked {
    for is_registered_first in [true, false] {
        let (server, client) = Token::pair()?;
        let (near, far) = Channel::pair()?;
        let (teller, told) = telling();
        let register = move || server.register(&cx.dispatcher(), move |channel| teller.tell(channel)).map(drop);
        if is_registered_first {
            register().map_err(|refused| refused.status())?;
            client.transfer(far)?;
        } else {
            client.transfer(far)?;
            register().map_err(|refused| refused.status())?;
        }
        let far = told.next().await.ok_or(Status::NotFound)??;
        far.write(Message::from_bytes(b"nice to meet you")?)?;
        same("what came", near.read().await?.bytes(), b"nice to meet you")?;
    }
    Ok(())
}

fn nothing_is_received_before_it_is_there() -> Checked {
    let (server, client) = Token::pair()?;
    let error = refused("a reception of nothing", server.receive())?;
    same("why", error.status(), Status::NotFound)?;
    let server = error.into_inner();
    client.transfer(Channel::pair()?.0)?;
    server.receive()?;
    Ok(())
}

async fn an_end_that_is_dropped_is_told(cx: &DriverContext) -> Checked {
    let (server, client) = Token::pair()?;
    let (teller, told) = telling();
    server.register(&cx.dispatcher(), move |channel| teller.tell(channel)).map_err(|refused| refused.status())?;
    drop(client);
    let end = told.next().await.ok_or(Status::NotFound)?;
    same("the end of a token that is dropped", end.map(drop), Err(Status::Canceled))?;

    let (server, client) = Token::pair()?;
    drop(server);
    let (near, far) = Channel::pair()?;
    let error = refused("a transfer to nobody", client.transfer(far))?;
    same("why", error.status(), Status::PeerClosed)?;
    let (token, far) = error.into_inner();
    far.write(Message::from_bytes(b"alive")?)?;
    same("what came from what was refused", near.read().await?.bytes(), b"alive")?;
    let (teller, told) = telling();
    let error = refused("a registration for nobody", token.register(&cx.dispatcher(), move |_| teller.tell(())))?;
    same("why", error.status(), Status::PeerClosed)?;
    drop(error);
    same("what its callback tells", told.next().await, None)
}

async fn a_registration_is_taken_back(cx: &DriverContext) -> Checked {
    let (server, client) = Token::pair()?;
    let (teller, told) = telling();
    let registered = server.register(&cx.dispatcher(), move |_| teller.tell(()));
    let registered = registered.map_err(|refused| refused.status())?;
    same("a registration is taken back", registered.cancel(), Ok(()))?;
    same("what it tells", told.next().await, None)?;
    let error = refused("a transfer to what was taken back", client.transfer(Channel::pair()?.1))?;
    same("why", error.status(), Status::PeerClosed)
}
