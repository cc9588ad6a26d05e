//! `settings` of a kernel root: what its user wants otherwise than usual, a line each.
//!
//! ```text
//! # comments and empty lines are passed over
//! LIMIT revival_policy revive|reap|ask
//! LIMIT heartbeat_idle 30s
//! LIMIT heartbeat_hung 90s
//! LIMIT reap_after 24h
//! ```
//!
//! Promise: a file with a line that is not understood says nothing at all: the last good one goes on.

use std::time::Duration;

use netsky_model::duration;
use serde::{Deserialize, Serialize};

/// Most bytes of the file.
pub const MAX_BYTES: u64 = 64 * 1024;
/// Beats that may be missing before a session counts as idle (30 s at the usual 10) …
const IDLE: u32 = 3;
/// … and as hung (90 s).
const HUNG: u32 = 9;
/// How long what has ended stands in the process table: until somebody who comes back the next day has seen it.
const REAP_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// A bound below so many beats would call a worker silent that has not had the time to speak.
const FEWEST: u32 = 3;

/// What becomes of a lineage whose process was taken from it: by a crash of its worker, a reboot, a hang, a signal that
/// nobody asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevivalPolicy {
    /// It is brought back at its last turn.
    #[default]
    Revive,
    /// It is put aside.
    Reap,
    /// Nothing starts until somebody has said which of the two.
    Ask,
}

/// After how long a silence a live session counts as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Idle.
    pub idle: Duration,
    /// Hung.
    pub hung: Duration,
}

impl Bounds {
    /// What is usual where a worker beats once in `period`.
    pub fn usual(period: Duration) -> Bounds {
        Bounds { idle: period * IDLE, hung: period * HUNG }
    }
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Of lineages that are the anchor's to revive and were not asked to be kept whatever happens.
    pub revival_policy: RevivalPolicy,
    /// Of heartbeats.
    pub heartbeat: Bounds,
    /// After how long an ended session is put aside by itself.
    pub reap_after: Duration,
}

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadSetting {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl Settings {
    /// What holds where nothing is said.
    pub fn usual(period: Duration) -> Settings {
        let heartbeat = Bounds::usual(period);
        Settings { revival_policy: RevivalPolicy::default(), heartbeat, reap_after: REAP_AFTER }
    }

    /// Reads the text of a file; `period` is the time between two heartbeats.
    ///
    /// # Errors
    /// The first line that is not understood, or whose bound contradicts another.
    pub fn parse(text: &str, period: Duration) -> Result<Settings, BadSetting> {
        let mut settings = Settings::usual(period);
        let mut bound_at = 0;
        for (n, line) in text.lines().enumerate() {
            let bad = |why: String| BadSetting { line: n + 1, why };
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["LIMIT", "revival_policy", policy] => {
                    settings.revival_policy = revival(policy).map_err(bad)?
                }
                ["LIMIT", "heartbeat_idle", bound] => {
                    settings.heartbeat.idle = beats(bound, period).map_err(bad)?;
                    bound_at = n + 1;
                }
                ["LIMIT", "heartbeat_hung", bound] => {
                    settings.heartbeat.hung = beats(bound, period).map_err(bad)?;
                    bound_at = n + 1;
                }
                ["LIMIT", "reap_after", after] => {
                    settings.reap_after = duration::parse(after).map_err(|error| bad(error.to_string()))?;
                }
                ["LIMIT", key, _] => return Err(bad(format!("there is no limit {key}"))),
                _ => return Err(bad("it is not LIMIT, a name and a value".to_owned())),
            }
        }
        // Of the whole file: whichever bound stands first, the other one may follow it.
        if settings.heartbeat.idle >= settings.heartbeat.hung {
            let why = "heartbeat_idle must be shorter than heartbeat_hung".to_owned();
            return Err(BadSetting { line: bound_at, why });
        }
        Ok(settings)
    }
}

fn revival(word: &str) -> Result<RevivalPolicy, String> {
    match word {
        "revive" => Ok(RevivalPolicy::Revive),
        "reap" => Ok(RevivalPolicy::Reap),
        "ask" => Ok(RevivalPolicy::Ask),
        other => Err(format!("revival_policy is revive, reap or ask, not {other}")),
    }
}

fn beats(text: &str, period: Duration) -> Result<Duration, String> {
    let bound = duration::parse(text).map_err(|error| error.to_string())?;
    let least = period * FEWEST;
    if bound < least {
        return Err(format!(
            "a worker beats every {}; {text} is less than {FEWEST} beats",
            duration::human(period)
        ));
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    fn parse(text: &str) -> Result<Settings, BadSetting> {
        Settings::parse(text, PERIOD)
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let usual = Settings::usual(PERIOD);
        assert_eq!(parse(""), Ok(usual));
        assert_eq!(parse("# LIMIT revival_policy ask\n\n"), Ok(usual));
        assert_eq!((usual.heartbeat.idle.as_secs(), usual.heartbeat.hung.as_secs()), (30, 90));
        let said = parse(
            "LIMIT revival_policy ask # until I have looked\nLIMIT\theartbeat_hung  5m\nLIMIT reap_after 7d",
        )
        .expect("reads");
        let heartbeat = Bounds { hung: Duration::from_secs(300), ..usual.heartbeat };
        assert_eq!(
            said,
            Settings { revival_policy: RevivalPolicy::Ask, heartbeat, reap_after: 7 * REAP_AFTER }
        );
    }

    #[test]
    fn bounds_are_judged_together_in_whatever_order_they_stand() {
        let lines = ["LIMIT heartbeat_idle 2m", "LIMIT heartbeat_hung 10m"];
        let said = parse(&lines.join("\n")).expect("reads").heartbeat;
        assert_eq!((said.idle.as_secs(), said.hung.as_secs()), (120, 600));
        assert_eq!(parse(&[lines[1], lines[0]].join("\n")).expect("reads").heartbeat, said);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (line, text) in [
            (1, "revival_policy ask"),
            (2, "\nLIMIT revival_policy"),
            (1, "LIMIT revival_policy maybe"),
            (1, "LIMIT revival_policy ask reap"),
            (1, "limit revival_policy ask"),
            (1, "LIMIT revivalpolicy ask"),
            (1, "LIMIT heartbeat_idle soon"),
            (1, "LIMIT heartbeat_idle 29s"),
            (1, "LIMIT heartbeat_idle 90s"),
            (2, "LIMIT heartbeat_idle 80s\nLIMIT heartbeat_hung 80s"),
            (1, "LIMIT heartbeat_hung 30s"),
            (1, "LIMIT reap_after never"),
        ] {
            assert_eq!(parse(text).map_err(|bad| bad.line), Err(line), "{text}");
        }
    }
}
