//! `agents/<name>.meta` on disk.
//!
//! Promise: replaced durably; what does not read is reported with its kind, never overwritten here. Who may write when is
//! said at [`Meta`].

use netsky_disk::ReadError;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_model::id::AgentId;

use crate::session::{Meta, MetaError};

/// Why there is no description of a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetaFileError {
    /// The disk said no.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The file does not say what it must.
    #[error("read the description of {name}: {source}")]
    Meta {
        /// The session.
        name: AgentId,
        /// What is wrong with it.
        source: MetaError,
    },
}

impl MetaFileError {
    /// Whether a later program wrote it, in a format that is not known here.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, MetaFileError::Meta { source: MetaError::Newer { .. }, .. })
    }

    /// Whether it may read later as it is: the disk did not hand it out, or somebody else can reach it.
    pub(crate) fn may_pass(&self) -> bool {
        !self.is_damage() && !self.is_newer()
    }

    /// Whether the file says nothing that any program could read.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, MetaFileError::Meta { source: MetaError::Malformed(_), .. })
    }
}

/// Reads the description of a session; none if it is not there.
///
/// # Errors
/// It does not read, or is not about that session.
pub(crate) fn read(layout: &KernelLayout, name: &AgentId) -> Result<Option<Meta>, MetaFileError> {
    let folder = match Dir::open(layout.agents()) {
        // Nothing ever ran under this root.
        Err(error) if error.is_not_found() => return Ok(None),
        folder => folder?,
    };
    let bytes = match folder.read(format!("{name}.meta"), Meta::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(e)) if e.is_not_found() => return Ok(None),
        Err(ReadError::Io(e)) => return Err(e.into()),
        Err(e) => return Err(netsky_disk::Error::because("read", layout.meta(name), e.to_string()).into()),
    };
    let meta = Meta::parse(&bytes).map_err(|source| MetaFileError::Meta { name: name.clone(), source })?;
    if meta.spec.name != *name {
        let why = format!("it describes {}", meta.spec.name);
        return Err(netsky_disk::Error::because("trust", layout.meta(name), why).into());
    }
    Ok(Some(meta))
}

/// Replaces the description of a session durably.
///
/// # Errors
/// The disk said no; the former description is whole.
pub(crate) fn write(layout: &KernelLayout, meta: &Meta) -> netsky_disk::Result<()> {
    netsky_disk::state::write(layout.meta(&meta.spec.name), &meta.to_bytes())
}
