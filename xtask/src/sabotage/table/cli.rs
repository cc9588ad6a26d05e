//! What `cli` safeguards.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[Safeguard {
    name: "what is printed is no element",
    faults: "A2",
    file: "crates/cli/src/output.rs",
    find: "answered(put(&render::text(text)))",
    replace: "answered(put(&render::plain(text)))",
    package: "netsky",
    target: IT,
    test: "hostile::render::a10_a2_no_face_shows_what_drives_a_terminal_or_a_harness",
}];
