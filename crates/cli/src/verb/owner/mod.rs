//! `netsky owner`: the owner's side of the bus, and whether he can be reached.

use crate::run::verbs;

mod ack;
mod inbox;
mod send;
mod test;

verbs! {
    /// Your side of the messages: read, answer, and see whether you are reached
    Verb {
        Inbox(inbox::Args),
        Send(send::Args),
        Ack(ack::Args),
        Test(test::Args),
    }
}
