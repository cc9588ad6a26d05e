//! Briefs: a short one stands in its task, a long one in the home's `briefs/`, named after its digest.
//!
//! Promise: the file is durable before a fact names it, and is never written over with another text. One that no task came to name
//! stays: it is small, and the same text finds it again.

use netsky_disk::state;
use netsky_model::id::{BriefDigest, TaskId};
use netsky_model::task::{Brief, Task};

use super::{Board, Error, Result};

impl Board {
    /// A text as the brief of a task; a long one is kept in its file when this returns.
    ///
    /// # Errors
    /// It is empty or too long, or the disk refuses.
    pub fn keep_brief(&self, text: &str) -> Result<Brief> {
        let brief = Brief::of(text)?;
        if brief.text.is_none() {
            state::write(self.layout.brief(&brief.digest), text.as_bytes())?;
        }
        Ok(brief)
    }

    /// The text of a task's brief; none if it has none.
    ///
    /// # Errors
    /// Its file is gone, is not what it was, or does not read.
    pub fn brief(&self, task: &Task) -> Result<Option<String>> {
        let Some(brief) = &task.brief else { return Ok(None) };
        if let Some(text) = &brief.text {
            return Ok(Some(text.clone()));
        }
        let wrong = |why| wrong(&task.id, &brief.digest, why);
        let bytes = state::read(self.layout.brief(&brief.digest))?.ok_or_else(|| wrong("gone"))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("damaged"))?;
        if BriefDigest::of(&text) != brief.digest {
            return Err(wrong("damaged"));
        }
        Ok(Some(text))
    }
}

fn wrong(id: &TaskId, digest: &BriefDigest, why: &'static str) -> Error {
    Error::Brief { id: id.clone(), digest: digest.clone(), why }
}
