//! What a worker is told on its command line, and how an anchor says it: frozen like the socket's frames.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use netsky_model::id::{AgentId, Generation};

/// Which session of which kernel root to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// The kernel root.
    pub root: PathBuf,
    /// The session.
    pub name: AgentId,
    /// The generation that was reserved for this start.
    pub generation: Generation,
    /// How many files its program may hold open; none: as many as the worker.
    pub files: Option<u64>,
    /// Does nothing before it is let in ([`GATE`]).
    pub gate: bool,
}

/// What follows where the worker is started before its generation is reserved: it gets ready, and then reads one byte from
/// its standard input before it touches anything. Where that ends without one, so does the worker.
pub(crate) const GATE: [&str; 2] = ["--gate", "stdin"];

/// The words that follow the program's name: `__worker --root R --name N --generation G [--files F]`.
pub fn command_line(
    root: &Path,
    name: &AgentId,
    generation: Generation,
    files: Option<u64>,
) -> Vec<OsString> {
    let words: [&std::ffi::OsStr; 7] = [
        "__worker".as_ref(),
        "--root".as_ref(),
        root.as_ref(),
        "--name".as_ref(),
        name.as_str().as_ref(),
        "--generation".as_ref(),
        &OsString::from(generation.to_string()),
    ];
    let files = files.map(|files| ["--files".into(), files.to_string().into()]);
    words.iter().map(|word| (*word).to_owned()).chain(files.into_iter().flatten()).collect()
}

impl Args {
    /// Read the words after `__worker`. Unknown options are skipped with their value: a later anchor may say more
    /// than this worker knows.
    pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, String> {
        let (mut root, mut name, mut generation, mut files, mut gate) = (None, None, None, None, false);
        let mut words = words.into_iter();
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{} without a value", option.display()))?;
            let text = || value.to_str().ok_or_else(|| format!("{} is not text", option.display()));
            match option.to_str() {
                Some("--root") => root = Some(PathBuf::from(&value)),
                Some("--name") => name = Some(text()?.parse().map_err(|e| format!("{e}"))?),
                Some("--generation") => {
                    let number = text()?.parse().map_err(|_| "--generation is not a number".to_owned())?;
                    generation = Some(Generation(number));
                }
                Some("--files") => {
                    files = Some(text()?.parse().map_err(|_| "--files is not a number".to_owned())?);
                }
                Some("--gate") => gate = true,
                _ => {}
            }
        }
        let missing = |what: &str| format!("a worker needs --{what}");
        Ok(Args {
            root: root.ok_or_else(|| missing("root"))?,
            name: name.ok_or_else(|| missing("name"))?,
            generation: generation.ok_or_else(|| missing("generation"))?,
            files,
            gate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_anchor_says_a_worker_understands() {
        let name: AgentId = "agent7".parse().expect("valid");
        for files in [None, Some(1024)] {
            let words = command_line(Path::new("/r"), &name, Generation(3), files);
            assert_eq!(words[0], "__worker");
            let mut later: Vec<OsString> = words[1..].to_vec();
            later.extend(["--of-a-later-version".into(), "x".into()]);
            let gated = [words[1..].to_vec(), GATE.map(OsString::from).to_vec()].concat();
            for (words, gate) in [(words[1..].to_vec(), false), (later, false), (gated, true)] {
                let (root, name) = ("/r".into(), name.clone());
                let wanted = Args { root, name, generation: Generation(3), files, gate };
                assert_eq!(Args::parse(words).expect("understood"), wanted);
            }
        }
        assert!(Args::parse(["--root".into()]).is_err());
        assert!(Args::parse(["--name".into(), "../x".into()]).is_err());
    }
}
