//! What `config.toml` says of where work lands: the gate, and repositories that have something of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// What must pass before anything lands; a key that is left out is taken from `[gate]`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// The command, by arguments; an empty one is none. `bin/check` of `main`, where there is one, if nobody says.
    pub command: Option<Vec<String>>,
    /// More files of the repository that judge.
    pub guards: Option<Vec<String>>,
    /// How long it may take: `"10m"`.
    #[serde(deserialize_with = "super::some_duration")]
    pub limit: Option<Duration>,
    /// Variables that it sees.
    pub env: BTreeMap<String, String>,
    /// Folders that it may read besides those of the system: toolchains.
    pub read: Option<Vec<PathBuf>>,
    /// Whether nothing lands where it cannot be shut in.
    pub strict: Option<bool>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // As of a slot: values of an environment are secrets until proved otherwise.
        let names: Vec<&String> = self.env.keys().collect();
        write!(f, "Gate({:?} within {:?} with {names:?})", self.command, self.limit)
    }
}

impl Gate {
    /// This one with what it leaves out taken from another.
    #[must_use]
    pub fn above(self, base: &Gate) -> Gate {
        let mut env = base.env.clone();
        env.extend(self.env);
        Gate {
            command: self.command.or_else(|| base.command.clone()),
            guards: self.guards.or_else(|| base.guards.clone()),
            limit: self.limit.or(base.limit),
            env,
            read: self.read.or_else(|| base.read.clone()),
            strict: self.strict.or(base.strict),
        }
    }
}

/// A repository that has something of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// Where it is: what work lands in.
    pub path: PathBuf,
    /// The address by which tasks name it, where they do not by its path.
    #[serde(default)]
    pub url: Option<String>,
    /// The branch that work lands on; `main` if none.
    #[serde(default)]
    pub main: Option<String>,
    /// What must pass.
    #[serde(default)]
    pub gate: Gate,
    /// Where `main` is pushed to after a landing: a remote of the repository by its name, a path or an address.
    #[serde(default)]
    pub push: Option<String>,
}

impl Repository {
    /// What reads and is of no use.
    pub(super) fn trouble(&self, name: &str) -> Option<String> {
        let is_relative = !self.path.is_absolute();
        is_relative.then(|| format!("[repositories.{name}] path is not absolute"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_of_a_repository_overrides_the_one_of_all_key_by_key() {
        let text = "[gate]\ncommand = [\"a\"]\nlimit = \"5m\"\nenv = { X = \"1\", Y = \"1\" }\nstrict = true\n\
            [repositories.r]\npath = \"/r\"\ngate.command = []\ngate.env = { X = \"2\" }\ngate.guards = [\"g\"]\n";
        let config = super::super::parse(text.as_bytes()).expect("valid");
        let gate = config.repositories["r"].gate.clone().above(&config.gate);
        assert_eq!((gate.command, gate.guards), (Some(Vec::new()), Some(vec!["g".to_owned()])));
        assert_eq!((gate.limit, gate.strict), (Some(Duration::from_secs(300)), Some(true)));
        assert_eq!((gate.env["X"].as_str(), gate.env["Y"].as_str()), ("2", "1"));
        assert!(!format!("{:?}", config.gate).contains('1'), "values of an environment are not shown");
    }

    #[test]
    fn what_is_no_repository_is_refused() {
        for (text, told) in [
            ("[repositories.r]\nurl = \"https://h/r\"\n", "missing field `path`"),
            ("[repositories.r]\npath = \"/r\"\npsuh = \"origin\"\n", "line 3: unknown field `psuh`"),
            ("[repositories.r.gate]\nlimit = \"soon\"\n", "line 2"),
        ] {
            let why = super::super::parse(text.as_bytes()).expect_err("refused");
            assert!(why.contains(told), "{why}");
        }
        let config = super::super::parse(b"[repositories.r]\npath = \"r\"\n").expect("reads");
        assert_eq!(config.unusable().as_deref(), Some("[repositories.r] path is not absolute"));
    }
}
