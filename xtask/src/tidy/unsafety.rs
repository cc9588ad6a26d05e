//! Where `unsafe` may be said, and that lints are expected with a reason rather than allowed.

use super::{Offence, tokens};
use crate::tree::Source;

/// Crates that may say `unsafe` anywhere, with the reason.
const CRATES: &[(&str, &str)] =
    &[("disk", "the one door to the outside: what rustix marks unsafe is wrapped here once")];

/// Single files beyond those crates, with the reason.
const FILES: &[(&str, &str)] = &[
    ("crates/kernel/src/worker/pty.rs", "the controlling terminal of a program"),
    ("crates/kernel/src/worker/start.rs", "what runs between fork and exec"),
    ("crates/sim/src/power.rs", "the emergency stop of a file system, and a mount namespace for one thread"),
];

pub(crate) fn check(source: &Source) -> Vec<Offence> {
    let mut offences = Vec::new();
    let tokens = tokens::of(&source.text);
    let package = source.package().unwrap_or_default();
    let may = CRATES.iter().any(|(name, _)| *name == package)
        || FILES.iter().any(|(path, _)| *path == source.path)
        || source.is_test();
    for token in tokens.iter().filter(|token| token.text == "unsafe" && !may && !token.test) {
        let todo = "wrap the call in disk, or list the file with its reason in xtask/src/tidy/unsafety.rs";
        offences.push(Offence::new(&source.path, token.line, "unsafe outside its door", todo));
    }
    for triple in tokens.windows(3) {
        let inner = triple[0].text == "[" && triple[1].text == "allow" && triple[2].text == "(";
        if inner {
            let todo = "write #[expect(lint, reason = \"…\")], which complains when it is no longer needed";
            offences.push(Offence::new(&source.path, triple[1].line, "#[allow] hides for ever", todo));
        }
    }
    let may_not_forbid = ["disk", "kernel", "sim"].contains(&package);
    if source.path.ends_with("src/lib.rs")
        && !may_not_forbid
        && !source.text.contains("#![forbid(unsafe_code)]")
    {
        let todo = "write #![forbid(unsafe_code)] under the header";
        offences.push(Offence::new(&source.path, 1, "the crate does not forbid unsafe code", todo));
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn caught(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn unsafe_has_its_doors() {
        assert_eq!(caught("crates/bus/src/a.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(caught("crates/kernel/src/anchor.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(caught("crates/disk/src/a.rs", "fn f() { unsafe { g() } }"), 0);
        assert_eq!(caught("crates/bus/src/a.rs", "// unsafe\nfn unsafe_code() {}"), 0);
    }

    #[test]
    fn allow_is_caught_in_both_forms() {
        assert_eq!(caught("crates/disk/src/a.rs", "#[allow(dead_code)] fn f() {}"), 1);
        assert_eq!(caught("crates/disk/src/a.rs", "#![allow(dead_code)]"), 1);
        assert_eq!(caught("crates/disk/src/a.rs", "#[expect(dead_code, reason = \"x\")] fn f() {}"), 0);
    }

    #[test]
    fn a_library_that_does_not_forbid_is_caught() {
        assert_eq!(caught("crates/bus/src/lib.rs", "//! The bus.\n"), 1);
        assert_eq!(caught("crates/bus/src/lib.rs", "//! The bus.\n#![forbid(unsafe_code)]\n"), 0);
    }
}
