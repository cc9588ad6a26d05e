//! `netsky check` on prepared homes: a whole one passes, each invariant broken on purpose is found by the file's name.

mod kernel;
mod live;
mod messages;
mod prepared;
mod verb;
