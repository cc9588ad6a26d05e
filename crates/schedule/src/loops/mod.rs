//! Loops: one file each in `state/loops/`, fixed ("every N seconds") or dynamic ("once, then wait to be rescheduled").

mod entry;
mod index;
mod step;
mod store;

pub use entry::{BROKEN, BadLoopId, DYNAMIC_DELAY, Loop, LoopId, MAX_PROMPT, Mode};
pub use step::{Fire, Look, Standing};
pub(crate) use store::missed;
pub use store::{
    Broken, Error, Fate, MAX_FILE, Store, changes, coming, is_any, read_all, read_one, set_aside,
};
