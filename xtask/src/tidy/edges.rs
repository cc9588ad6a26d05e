//! Crate edges: arrows point down, and siblings in a row never see each other.
//!
//! The tables are the shape of the house; a new edge is a decision, made here with a reason or not at all.

use cargo_metadata::{DependencyKind, Metadata};

use super::Offence;

/// Each crate of the house and the crates of the house that it may see.
const HOUSE: &[(&str, &[&str])] = &[
    ("netsky-model", &[]),
    ("netsky-disk", &["netsky-model"]),
    ("netsky-bus", &["netsky-model", "netsky-disk"]),
    ("netsky-kernel", &["netsky-model", "netsky-disk"]),
    ("netsky-ledger", &["netsky-model", "netsky-disk"]),
    ("netsky-owner", &["netsky-model", "netsky-disk", "netsky-ledger"]),
    ("netsky-schedule", &["netsky-model", "netsky-disk"]),
    ("netsky-runtime", &["netsky-model", "netsky-disk", "netsky-bus", "netsky-kernel", "netsky-ledger"]),
    (
        "netsky-work",
        &["netsky-model", "netsky-disk", "netsky-bus", "netsky-kernel", "netsky-ledger", "netsky-runtime"],
    ),
    (
        "netsky-watchdog",
        &[
            "netsky-model",
            "netsky-disk",
            "netsky-bus",
            "netsky-kernel",
            "netsky-ledger",
            "netsky-owner",
            "netsky-schedule",
            "netsky-runtime",
            "netsky-work",
        ],
    ),
    (
        "netsky",
        &[
            "netsky-model",
            "netsky-disk",
            "netsky-bus",
            "netsky-kernel",
            "netsky-ledger",
            "netsky-owner",
            "netsky-schedule",
            "netsky-runtime",
            "netsky-watchdog",
            "netsky-work",
        ],
    ),
];

/// Crates that are never part of what ships: only they may see everything, and nothing shipped may see them.
const NOT_SHIPPED: &[&str] = &["netsky-sim", "xtask"];

/// Packages from outside that only some crates may name, each with its reason.
const DOORS: &[(&str, &[&str], &str)] = &[
    ("tokio", &["netsky-kernel"], "async lives only in the anchor"),
    ("vt100", &["netsky-kernel"], "the model of a terminal is the worker's"),
    ("rustix", &["netsky-disk", "netsky-kernel", "netsky"], "system calls have one door, the pty a second"),
    (
        "libc",
        &["netsky-disk"],
        "rustix is the door to the system; its peer credentials have no place for a pid of 0",
    ),
    ("landlock", &["netsky-work"], "only a gate is shut in"),
    ("nix", &[], "ptrace is for the fault steppers of sim only"),
    ("ureq", &["netsky-owner"], "the owner is the only one who is reached over HTTP"),
    ("ring", &["netsky-owner"], "what a webhook is given is signed"),
    ("clap", &["netsky"], "only the cli knows verbs"),
    ("unicode-width", &["netsky"], "only the cli prints"),
    ("anyhow", &["netsky"], "libraries have typed errors"),
];

/// Features that put a simulation in the place of the machine, and the only crate that may ask for each. None is on in a
/// build of the whole workspace: what its tests run is what ships.
const SIMULATED: &[(&str, &str, Option<&str>)] =
    &[("netsky-disk", "sim", Some("netsky-sim")), ("netsky-sim", "memory", None)];

/// One line of a manifest.
#[derive(Default)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Only tests are built with it.
    pub(crate) dev: bool,
    pub(crate) optional: bool,
    pub(crate) features: Vec<String>,
}

/// Every declared dependency of every member, also optional and platform ones.
pub(crate) fn from_metadata(metadata: &Metadata) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata.workspace_packages() {
        for dependency in &package.dependencies {
            edges.push(Edge {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                dev: dependency.kind == DependencyKind::Development,
                optional: dependency.optional,
                features: dependency.features.clone(),
            });
        }
    }
    edges
}

/// Offences among the edges.
pub(crate) fn check(edges: &[Edge]) -> Vec<Offence> {
    edges.iter().filter_map(judge).collect()
}

fn judge(edge: &Edge) -> Option<Offence> {
    let offend = |why: &str| {
        let file = manifest(&edge.from);
        let todo = format!("drop the dependency ({why})");
        Some(Offence::new(&file, 1, format!("{} must not depend on {}", edge.from, edge.to), todo))
    };
    let asked = SIMULATED
        .iter()
        .find(|(of, feature, _)| edge.to == *of && edge.features.iter().any(|f| f == feature));
    if let Some((_, feature, may)) = asked
        && (*may != Some(edge.from.as_str()) || !edge.optional)
    {
        return offend(&format!(
            "its feature {feature:?} stays out of every build that does not ask for it by name"
        ));
    }
    if NOT_SHIPPED.contains(&edge.from.as_str()) {
        return None;
    }
    if NOT_SHIPPED.contains(&edge.to.as_str()) {
        let tests_may = edge.dev && edge.to == "netsky-sim";
        return if tests_may { None } else { offend("it is not shipped") };
    }
    let Some((_, may)) = HOUSE.iter().find(|(name, _)| *name == edge.from) else {
        return offend("the crate is missing from the table in xtask/src/tidy/edges.rs");
    };
    let ours = HOUSE.iter().any(|(name, _)| *name == edge.to);
    if ours && !may.contains(&edge.to.as_str()) {
        return offend("arrows point down and siblings never see each other");
    }
    let (_, doors, why) = DOORS.iter().find(|(name, _, _)| *name == edge.to)?;
    if doors.contains(&edge.from.as_str()) || edge.dev {
        return None;
    }
    offend(why)
}

fn manifest(package: &str) -> String {
    match package.strip_prefix("netsky-") {
        Some(folder) => format!("crates/{folder}/Cargo.toml"),
        None if package == "netsky" => "crates/cli/Cargo.toml".into(),
        None => format!("{package}/Cargo.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(from: &str, to: &str, dev: bool) -> bool {
        !check(&[Edge { from: from.into(), to: to.into(), dev, ..Edge::default() }]).is_empty()
    }

    #[test]
    fn a_simulation_is_never_part_of_a_build_by_default() {
        let caught = |from: &str, to: &str, feature: &str, optional| {
            let features = vec![feature.to_owned()];
            !check(&[Edge { from: from.into(), to: to.into(), dev: false, optional, features }]).is_empty()
        };
        assert!(caught("netsky-bus", "netsky-disk", "sim", true));
        assert!(caught("netsky-sim", "netsky-disk", "sim", false));
        assert!(caught("xtask", "netsky-sim", "memory", true));
        assert!(!caught("netsky-sim", "netsky-disk", "sim", true));
    }

    #[test]
    fn an_arrow_up_or_sideways_is_caught() {
        assert!(caught("netsky-disk", "netsky-bus", false));
        assert!(caught("netsky-bus", "netsky-kernel", false));
        assert!(caught("netsky-kernel", "netsky-ledger", true), "tests do not see siblings either");
        assert!(!caught("netsky-watchdog", "netsky-runtime", false));
    }

    #[test]
    fn what_is_not_shipped_stays_out_of_what_is() {
        assert!(caught("netsky", "netsky-sim", false));
        assert!(caught("netsky-bus", "xtask", true));
        assert!(!caught("netsky-bus", "netsky-sim", true));
        assert!(!caught("xtask", "netsky-kernel", false));
    }

    #[test]
    fn an_outside_package_has_its_door() {
        assert!(caught("netsky-watchdog", "tokio", false));
        assert!(caught("netsky-bus", "rustix", false));
        assert!(!caught("netsky-kernel", "tokio", false));
    }

    #[test]
    fn an_unknown_crate_is_caught() {
        assert!(caught("netsky-utils", "serde", false));
    }
}
