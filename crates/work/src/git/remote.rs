//! Where a repository is: a folder of this machine, or an address (A7).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::name::{BadName, bad_letters};

/// Longest of them.
const LONGEST: usize = 2000;

/// A repository that workspaces are cloned from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Remote {
    /// A folder, by its absolute path.
    Path(PathBuf),
    /// `https://…`, `ssh://…` or `user@host:path`; no helper, no secret in it.
    Url(String),
}

impl Remote {
    /// What was to be one, without what stands before its host: often a secret (A17).
    pub fn shown(text: &str) -> String {
        let end = [text.rfind('@'), text.rfind("%40")].into_iter().flatten().max();
        let shown = end.map_or_else(|| text.to_owned(), |at| format!("…{}", &text[at..]));
        // What an address asks for may be a secret, too.
        match shown.find(['?', '#']) {
            Some(at) if !text.starts_with('/') => format!("{}…", &shown[..at]),
            _ => shown,
        }
    }

    /// As git is given it.
    pub fn as_str(&self) -> &str {
        match self {
            // It was parsed from text.
            Remote::Path(path) => path.to_str().unwrap_or_default(),
            Remote::Url(url) => url,
        }
    }

    /// The folder; none of an address.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Remote::Path(path) => Some(path),
            Remote::Url(_) => None,
        }
    }
}

fn bad(text: &str) -> Option<&'static str> {
    if text.len() > LONGEST {
        return Some("it is too long");
    }
    if text.starts_with('-') {
        return Some("it starts as an option does");
    }
    if text.starts_with('/') {
        // A space is no harm in a path.
        let is_bad = text.chars().any(char::is_control) || bad_letters(&text.replace(' ', "")).is_some();
        return is_bad.then_some("it has a control character, or one that is not to be seen");
    }
    if let Some(why) = bad_letters(text) {
        return Some(why);
    }
    if text.contains(['?', '#']) {
        return Some("it asks for something by ? or #, and a secret there would be seen by all");
    }
    if text.contains("::") {
        return Some("it names a helper of git that runs programs");
    }
    let (place, rest) = match text.split_once("://") {
        Some(("https" | "ssh", rest)) => rest.split_once('/').unwrap_or((rest, "")),
        Some(_) => return Some("only https and ssh are used"),
        None => match text.split_once(':') {
            // A slip of the pen: as a host it would be kept with whatever stands behind it.
            Some((word, _))
                if ["http", "https", "ssh"].iter().any(|known| known.eq_ignore_ascii_case(word)) =>
            {
                return Some("an address has two slashes behind its first word");
            }
            Some((place, path)) if path.contains('@') && !place.contains('@') => {
                return Some(
                    "a secret in an address is seen by all: what is before @ belongs before the host",
                );
            }
            Some((place, path)) if !place.contains('/') => (place, path),
            _ => return Some("it is neither an absolute path nor an address"),
        },
    };
    let (user, host) = place.rsplit_once('@').unwrap_or(("", place));
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]".contains(c));
    if host.is_empty() || place.starts_with('-') || host.starts_with('-') || !is_name(host) {
        return Some("it names no host");
    }
    if user.contains(':') || (text.starts_with("https:") && !user.is_empty()) {
        return Some("a secret in an address is seen by all: let ssh or a proxy know it");
    }
    if !is_name(user) || rest.is_empty() || rest.starts_with('-') {
        return Some("it names no repository");
    }
    None
}

impl FromStr for Remote {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Remote, BadName> {
        match bad(text) {
            Some(why) => Err(BadName::of("repository", &Remote::shown(text), why)),
            None if text.starts_with('/') => Ok(Remote::Path(PathBuf::from(text))),
            None => Ok(Remote::Url(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Remote {
    type Error = BadName;
    fn try_from(text: String) -> Result<Remote, BadName> {
        text.parse()
    }
}

impl From<Remote> for String {
    fn from(remote: Remote) -> String {
        remote.as_str().to_owned()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a7_an_address_is_no_option_no_helper_and_holds_no_secret() {
        for bad in [
            "",
            "-u",
            "--upload-pack=touch x",
            "ext::sh -c touch% x",
            "ext::sh",
            "fd::17",
            "a/b",
            "./a",
            "../a",
            "file:///a",
            "git://host/a",
            "http://host/a",
            "ssh://-oProxyCommand=touch/x",
            "-oProxyCommand=x:y",
            "ssh://host",
            "ssh:///a",
            "https://user:secret@host/a",
            "https://token@host/a",
            "ssh://user:secret@host/a",
            "host:-x",
            "user@-host:x",
            "https://host/a b",
            "https:/me:secret@host/a",
            "HTTPS:/host/a",
            "git:/me:secret@host/a",
            "https://host/a?token=secret",
            "https://host/a#secret",
            "git@host:a?token=secret",
            "ssh:host/a",
            "https://host/a\nb",
            "/a\nb",
            "/a\x1b",
            "/a\u{202e}b",
            "https://ho$t/x",
        ] {
            assert!(bad.parse::<Remote>().is_err(), "{bad:?}");
        }
        for good in [
            "/a",
            "/a b/c",
            "https://host/a.git",
            "https://host:8443/a",
            "ssh://git@host:22/a",
            "git@host:a/b",
        ] {
            assert_eq!(good.parse::<Remote>().expect(good).as_str(), good);
        }
        assert!("/a".parse::<Remote>().expect("a path").path().is_some());
    }

    #[test]
    fn a17_a_refused_address_is_told_without_its_secret() {
        for secret in [
            "https://token@host/a",
            "https://x:token@host/a",
            "ssh://x:token@host/a",
            "http://token@host/a",
            "https://x:token%40host/a",
            "https://host/a?key=token",
        ] {
            let told = secret.parse::<Remote>().expect_err(secret).to_string();
            assert!(told.contains("host/a") && !told.contains("token"), "{told}");
        }
    }
}
