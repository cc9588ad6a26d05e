//! Sessions: a start through the anchor, and how soon a killed agent is noticed.

use std::path::Path;

use anyhow::Result;

use super::Programs;
use super::pairs::Pair;

pub(crate) fn measure(_scratch: &Path, _programs: &Programs) -> Result<Vec<Pair>> {
    Ok(Vec::new())
}
