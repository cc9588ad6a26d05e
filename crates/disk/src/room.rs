//! How much room is left on a file system.

use std::path::Path;

use crate::error::{Error, Result};

/// Bytes that this user may still write where `path` is; none where no file can be made any more. A quota is not seen.
///
/// # Errors
/// The system does not say.
pub fn room(path: impl AsRef<Path>) -> Result<u64> {
    let path = path.as_ref();
    let of = rustix::fs::statvfs(path).map_err(|e| Error::new("ask for the room at", path, e))?;
    // A file system that counts no files has room for any number.
    let is_out_of_files = of.f_files > 0 && of.f_favail == 0;
    Ok(if is_out_of_files { 0 } else { of.f_bavail.saturating_mul(of.f_frsize) })
}
