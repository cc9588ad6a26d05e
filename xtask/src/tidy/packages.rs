//! What the lock file may hold: a bounded number of packages, known licences, one crypto stack at most.

use std::collections::BTreeSet;

use cargo_metadata::Metadata;

use super::Offence;

/// Packages in `Cargo.lock`, ours included. The lock held 97 at the end of the first slice and 104 with SQLite (the
/// library, its C code, and five small ones of theirs); schemars and five that it is made of brought it to 112: the
/// reference of the anchor's protocol is generated from its types, and tools for agents will need the same. The rest is room
/// for one small library, so that the next one is a decision and not an accident. ureq with rustls and ring brought it to 137:
/// pages go to webhooks and ntfy, which speak TLS; a third of these are for systems that we do not build for. croner and the derives that it is made of, toml_edit and our own
/// crate for schedules made it 150: fields of cron are read by Vixie's rules, and a person's comments in `cron.toml` survive.
/// landlock, what it is made of and our own crate for work made it 154: a gate runs what an agent wrote.
const MOST_PACKAGES: usize = 155;

/// Licences that fit `MIT OR Apache-2.0`.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    // The roots of TLS, which are data.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// A second crypto stack or TLS library would double what has to be watched; ring comes with the peers later.
const REFUSED: &[&str] = &["aws-lc-rs", "aws-lc-sys", "boring", "native-tls", "openssl", "openssl-sys"];

const LOCK: &str = "Cargo.lock";

/// What is known of one package of the lock.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) licence: Option<String>,
}

pub(crate) fn from_metadata(metadata: &Metadata) -> Vec<Package> {
    let describe = |package: &cargo_metadata::Package| Package {
        name: package.name.to_string(),
        licence: package.license.clone(),
    };
    metadata.packages.iter().map(describe).collect()
}

/// Offences among the packages.
pub(crate) fn check(packages: &[Package]) -> Vec<Offence> {
    let mut offences = Vec::new();
    if packages.len() > MOST_PACKAGES {
        offences.push(Offence::new(
            LOCK,
            1,
            format!("{} packages are locked, {MOST_PACKAGES} is the cap", packages.len()),
            "drop a dependency or a feature, or raise the cap with its reason",
        ));
    }
    for package in packages {
        if REFUSED.contains(&package.name.as_str()) {
            let what = format!("{} is a second crypto stack", package.name);
            offences.push(Offence::new(LOCK, 1, what, "choose the feature that does without it"));
        }
        let licence = package.licence.as_deref().unwrap_or("");
        if !allowed(licence) {
            let what = format!("{} has the licence {licence:?}", package.name);
            offences.push(Offence::new(LOCK, 1, what, "replace it, or add the licence with a reason"));
        }
    }
    offences
}

/// Whether an SPDX expression can be satisfied from the list: any side of an `OR`, every side of an `AND`.
fn allowed(expression: &str) -> bool {
    let known: BTreeSet<&str> = LICENCES.iter().copied().collect();
    // Old manifests write `MIT/Apache-2.0`; it has always meant `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut position = 0;
    !words.is_empty() && either(&words, &mut position, &known) && position == words.len()
}

fn either(words: &[&str], position: &mut usize, known: &BTreeSet<&str>) -> bool {
    let mut fits = both(words, position, known);
    while words.get(*position) == Some(&"OR") {
        *position += 1;
        fits |= both(words, position, known);
    }
    fits
}

fn both(words: &[&str], position: &mut usize, known: &BTreeSet<&str>) -> bool {
    let mut fits = single(words, position, known);
    while words.get(*position) == Some(&"AND") {
        *position += 1;
        fits &= single(words, position, known);
    }
    fits
}

fn single(words: &[&str], position: &mut usize, known: &BTreeSet<&str>) -> bool {
    let Some(word) = words.get(*position) else { return false };
    *position += 1;
    if *word == "(" {
        let fits = either(words, position, known);
        *position += 1;
        return fits;
    }
    if words.get(*position) == Some(&"WITH") {
        let exception = words.get(*position + 1).unwrap_or(&"");
        *position += 2;
        return known.contains(format!("{word} WITH {exception}").as_str());
    }
    known.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: Option<&str>) -> Package {
        Package { name: name.into(), licence: licence.map(Into::into) }
    }

    #[test]
    fn too_many_packages_are_caught() {
        let many = |count| (0..count).map(|_| package("small", Some("MIT"))).collect::<Vec<_>>();
        assert!(check(&many(MOST_PACKAGES)).is_empty());
        assert_eq!(check(&many(MOST_PACKAGES + 1)).len(), 1);
    }

    #[test]
    fn a_second_crypto_stack_is_caught() {
        assert_eq!(check(&[package("openssl-sys", Some("MIT"))]).len(), 1);
    }

    #[test]
    fn a_foreign_or_missing_licence_is_caught() {
        assert_eq!(check(&[package("copyleft", Some("GPL-3.0-only"))]).len(), 1);
        assert_eq!(check(&[package("silent", None)]).len(), 1);
    }

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        assert!(allowed("GPL-2.0 OR MIT"));
        assert!(!allowed("GPL-2.0 AND MIT"));
        assert!(allowed("(MIT OR GPL-2.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND (GPL-2.0 OR AGPL-3.0)"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
        assert!(!allowed("Apache-2.0 WITH Some-exception"));
        assert!(allowed("MIT/Apache-2.0"));
    }
}
