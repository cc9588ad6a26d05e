//! What can be left of a file's bytes that were written and not synced.

use std::rc::Rc;

use super::cut::Model;
use super::event::Data;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
/// What ext4 and XFS give room to at once.
const BLOCK: usize = 4096;

/// Every content that a power cut may leave of a file which was `durable` and had these changes since, of which the
/// first `sure` are kept: from the least to the whole, each once.
pub(super) fn left(durable: &[u8], changes: &[Rc<Data>], sure: usize, model: Model) -> Vec<Vec<u8>> {
    let mut file = durable.to_vec();
    changes[..sure].iter().for_each(|change| change.apply(&mut file));
    let mut left = vec![file.clone()];
    for change in &changes[sure..] {
        if let Data::Write { at, bytes } = &**change {
            torn(&file, *at, bytes, model, &mut left);
        }
        change.apply(&mut file);
        add(&mut left, file.clone());
    }
    // Where nothing is ordered any one of several may be what is missing.
    if model == Model::Worst && changes.len() - sure > 1 {
        for missing in sure..changes.len() {
            let mut file = durable.to_vec();
            let kept = changes.iter().enumerate().filter(|(at, _)| *at != missing);
            kept.for_each(|(_, change)| change.apply(&mut file));
            add(&mut left, file);
        }
    }
    if let Some(whole) = left.iter().position(|one| *one == file) {
        let whole = left.remove(whole);
        left.push(whole);
    }
    left
}

fn add(left: &mut Vec<Vec<u8>>, file: Vec<u8>) {
    if !left.contains(&file) {
        left.push(file);
    }
}

/// What half a write may leave.
fn torn(file: &[u8], at: usize, bytes: &[u8], model: Model, left: &mut Vec<Vec<u8>>) {
    let end = at + bytes.len();
    let grows = end > file.len();
    let mut put = |from: usize, to: usize, len: usize| {
        let mut torn = file.to_vec();
        torn.resize(torn.len().max(len), 0);
        let to = to.min(torn.len());
        if from < to {
            torn[from..to].copy_from_slice(&bytes[from - at..to - at]);
        }
        add(left, torn);
    };
    let unit = if grows && model != Model::Worst { BLOCK } else { SECTOR };
    let edges = (at / unit + 1..).map(|n| n * unit).take_while(|edge| *edge < end);
    for edge in edges {
        // The beginning is there, and the file ends with it.
        put(at, edge, edge);
        if !grows || model == Model::Worst {
            // The rest is there, or the room for it.
            put(edge, end, end);
            put(at, edge, end);
        }
    }
    if model == Model::Worst && grows {
        // Only the length.
        put(at, at, end);
    }
}
