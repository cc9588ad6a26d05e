//! `state/key`: 32 random bytes with which a home vouches for who sent what.
//!
//! Promise: made once, with the home, readable by this user alone; never replaced, whatever becomes of it: what the old one
//! signed would read as forged. Where there is no usable key nothing is vouched for, and all else goes on.

use crate::error::Result;
use crate::layout::Layout;
use crate::{random, state};

/// The home's key; none where there is none, or none of the right length.
///
/// # Errors
/// It is there and cannot be read.
pub fn load(layout: &Layout) -> Result<Option<[u8; 32]>> {
    Ok(state::read(layout.key())?.and_then(|bytes| bytes.try_into().ok()))
}

/// Makes the home's key, if nobody did before.
pub(crate) fn create(layout: &Layout) -> Result<()> {
    state::create(layout.key(), &random::key()).map(drop)
}
