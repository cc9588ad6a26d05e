//! Nothing in the tree names a folder of one machine.

use super::Offence;
use crate::tree::Source;

/// Beginnings of paths that exist on somebody's machine only. Written in halves, so that this file is clean.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("../sha", "red/"),
    concat!("artifact", "ory"),
];

/// Who stands for everybody in samples and documents.
const NOBODY: &str = concat!("/ho", "me/someone");

pub(crate) fn check(source: &Source) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let Some(found) = MACHINE.iter().find(|path| stands_alone(line, path)) else { continue };
        let what = format!("{found:?} names one machine");
        offences.push(Offence::new(
            &source.path,
            index + 1,
            what,
            "use a relative path or a throwaway folder",
        ));
    }
    offences
}

/// True when the path begins a word; in the middle of a longer path it is a folder of ours.
fn stands_alone(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        if line[at..].starts_with(NOBODY) {
            return false;
        }
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "._-}>~$".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_machine_path_is_caught_and_a_relative_one_is_not() {
        let offender = concat!("cd /wo", "rk/netsky");
        assert_eq!(check(&source("README.md", offender)).len(), 1);
        assert_eq!(check(&source("README.md", concat!("see crates/ho", "me/src"))).len(), 0);
        assert_eq!(check(&source("README.md", "mkdir /tmp/x")).len(), 0);
        assert_eq!(check(&source("README.md", concat!("/ho", "me/me/.netsky"))).len(), 1);
        assert_eq!(check(&source("README.md", concat!("/ho", "me/someone/.netsky"))).len(), 0);
    }
}
