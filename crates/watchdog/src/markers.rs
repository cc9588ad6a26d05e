//! The markers of `state/`: what each means, who writes, reads and clears it, and how old it may become.
//!
//! Promise: every file that lies in `state/` has a row here, or is told of as nobody's. The tick prunes by this table, so that
//! no marker is forgotten.

use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::id::AgentId;
use serde::Serialize;

use crate::error::Result;
use crate::observe::ASKED;
use crate::prune::sweep;
use crate::quiet;
use crate::resume::archive_resume;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What ends a marker that nobody has cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Most {
    /// Nothing: it is a state, and stands until it changes.
    Stands,
    /// Its age.
    Age(Duration),
    /// Its age, by a look of the tick that knows whether somebody waits for it.
    Judged(Duration),
    /// What it says itself.
    Itself,
}

/// Where a marker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `state/<name>`.
    Alone(&'static str),
    /// `state/<agent>-<what>`.
    OfAgent(&'static str),
    /// `state/<agent>-<what><anything>`.
    OfAgentUntil(&'static str),
    /// Each file in `state/<folder>/`.
    Within(&'static str),
}

/// One row of the alphabet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    place: Place,
    /// What it says while it stands.
    meaning: &'static str,
    writer: &'static str,
    reader: &'static str,
    clearer: &'static str,
    pub(crate) most: Most,
}

const fn kind(
    place: Place,
    most: Most,
    meaning: &'static str,
    writer: &'static str,
    reader: &'static str,
    clearer: &'static str,
) -> Kind {
    Kind { place, meaning, writer, reader, clearer, most }
}

use Most::{Age, Itself, Judged, Stands};
use Place::{Alone, OfAgent, OfAgentUntil, Within};

/// Where drafts of crash handoffs lie.
const HANDOFFS: &str = "crash-handoffs";

/// All of them, in the order of the restart.
const ALPHABET: &[Kind] = &[
    kind(
        Alone("agentinfinity-ready"),
        Stands,
        "the watchdog session has started",
        "agentinfinity",
        "watchdog",
        "its next start",
    ),
    kind(
        Alone("agentinit-failures"),
        Age(DAY),
        "looks that found agentinfinity not ready",
        "watchdog",
        "watchdog",
        "a look that finds it ready",
    ),
    kind(
        Alone("agentinit-escalation"),
        Age(DAY),
        "agentinfinity cannot be started, and the owner is told",
        "watchdog",
        "netsky session up, watchdog (pages)",
        "a look that finds it ready",
    ),
    kind(
        Alone("netsky-loop-resume.txt"),
        Age(DAY),
        "what the last agent0 was doing, and what comes next",
        "netsky session down",
        "netsky session up",
        "netsky session up",
    ),
    kind(
        OfAgent("pane-hash"),
        Stands,
        "the last screen, and since when it is the same",
        "watchdog",
        "people",
        "the next tick",
    ),
    kind(
        OfAgent("hang-suspected"),
        Age(DAY),
        "no progress, and nothing excuses that",
        "watchdog",
        "watchdog (pages), netsky status",
        "progress",
    ),
    kind(
        OfAgentUntil("quiet-until-"),
        Itself,
        "no alarm of its silence until then",
        "netsky quiet",
        "watchdog, netsky status",
        "its time",
    ),
    kind(
        OfAgent("restart-attempts"),
        Stands,
        "starts of what had died",
        "watchdog",
        "watchdog, netsky status, netsky restart",
        "a life of 30 minutes, netsky up",
    ),
    kind(
        OfAgent("crashloop-suspected"),
        Age(DAY),
        "it keeps dying: one try an hour",
        "watchdog",
        "watchdog (pages)",
        "a life of 30 minutes, netsky up",
    ),
    kind(
        OfAgent("revive-failed"),
        Age(DAY),
        "its last restart was not verified",
        "watchdog",
        "watchdog, netsky status",
        "a verified restart",
    ),
    kind(
        Alone("restart-request"),
        Judged(ASKED),
        "a planned restart is asked for",
        "netsky restart",
        "watchdog",
        "the tick that claims it, or finds it too old for an agent0 that lives",
    ),
    kind(
        Alone("restart-request.processing"),
        Stands,
        "that restart is under way",
        "watchdog",
        "watchdog, restart child, netsky down",
        "its verification",
    ),
    kind(
        Alone("restart-inflight"),
        Stands,
        "a restart is under way",
        "watchdog",
        "watchdog, restart child, netsky status, netsky down",
        "its verification or failure",
    ),
    kind(
        Within("restart-status"),
        Stands,
        "how far a restart came; the newest 20",
        "restart child",
        "watchdog",
        "watchdog",
    ),
    kind(
        Within(HANDOFFS),
        Age(ARCHIVE),
        "what was known when agent0 died",
        "watchdog",
        "restart child",
        "its age",
    ),
    kind(
        Within("restart-archive"),
        Age(ARCHIVE),
        "logs and requests of restarts",
        "watchdog",
        "people",
        "its age",
    ),
    kind(
        Within("up"),
        Stands,
        "proof that a session is up",
        "netsky session up",
        "restart child, watchdog",
        "a tick once its session is over, netsky down",
    ),
    kind(Within("desired"), Stands, "what should run", "up, down", "watchdog", "up, down"),
    kind(
        Within("tick"),
        Stands,
        "what ticks keep for the next: the last of each kind, what stands, their locks",
        "ticker, watchdog",
        "watchdog, netsky status",
        "the next one",
    ),
];

/// How long logs, used requests and drafts are kept.
pub(crate) const ARCHIVE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What lies in `state/` and is no marker: the durable state of a part that knows it by itself.
const STATE: &[&str] = &[
    "answers",
    "clock",
    "cron-state.toml",
    "dispatches",
    "drivers",
    "harvest",
    "key",
    "loops",
    "owner",
    "pages",
    "prompts",
    "reserve",
    "reserve-retention",
    "tmp",
    "tokens",
    "usage",
];

/// A marker that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Marker {
    /// Its path below `state/`.
    pub id: String,
    /// Whom it is about.
    pub agent: Option<AgentId>,
    /// What it says; none of what is no marker of netsky's.
    pub meaning: Option<&'static str>,
    /// Who writes it.
    pub writer: Option<&'static str>,
    /// Who acts on it.
    pub reader: Option<&'static str>,
    /// Who or what clears it.
    pub clearer: Option<&'static str>,
    /// Seconds since it was written last, by the wall clock.
    pub age_s: u64,
    /// How old it may become, in seconds.
    pub most_age_s: Option<u64>,
    /// Whether it is older than that, or its time is over: the next tick removes it.
    pub is_past: bool,
}

impl Kind {
    /// The row of a file of `state/` itself, and whom it is about.
    pub(crate) fn of(name: &str) -> Option<(&'static Kind, Option<AgentId>)> {
        ALPHABET.iter().find_map(|kind| match kind.place {
            Alone(own) => (own == name).then_some((kind, None)),
            OfAgent(what) => Some((kind, Some(agent_of(name.strip_suffix(what)?)?))),
            OfAgentUntil(what) => Some((kind, Some(agent_of(name.split_once(what)?.0)?))),
            Within(_) => None,
        })
    }

    fn is_past(&self, layout: &Layout, name: &str, age: Duration) -> bool {
        match self.most {
            Stands | Judged(_) => false,
            Age(most) => age > most,
            Itself => quiet::is_over(&layout.state().join(name)),
        }
    }
}

/// `agent0-` names agent0.
fn agent_of(prefix: &str) -> Option<AgentId> {
    prefix.strip_suffix('-')?.parse().ok()
}

/// Every marker that stands, in the order of the alphabet, and behind them what is nobody's.
///
/// # Errors
/// The folder cannot be read; one that is not there has none.
pub fn markers(layout: &Layout) -> Result<Vec<Marker>> {
    let state = layout.state();
    let names = ages(layout, "")?;
    let mut found = Vec::new();
    for kind in ALPHABET {
        if let Within(folder) = kind.place {
            let files = ages(layout, folder)?.into_iter();
            let files = files.filter(|(name, _)| name != "tmp");
            found.extend(
                files.map(|(name, age)| marker(layout, Some(kind), None, format!("{folder}/{name}"), age)),
            );
            continue;
        }
        for (name, age) in &names {
            if let Some((of, agent)) = Kind::of(name)
                && std::ptr::eq(of, kind)
            {
                found.push(marker(layout, Some(kind), agent, name.clone(), *age));
            }
        }
    }
    let folders =
        ALPHABET.iter().filter_map(|kind| if let Within(folder) = kind.place { Some(folder) } else { None });
    let known: Vec<&str> = folders.chain(STATE.iter().copied()).collect();
    let strange = names.into_iter().filter(|(name, _)| {
        // What did not read was set aside under its name.
        let whole = name.split_once(".damaged-").map_or(name.as_str(), |(whole, _)| whole);
        let is_ours = known.contains(&whole) || name.ends_with(".lock") || Kind::of(whole).is_some();
        !is_ours && state::exists(state.join(name)).unwrap_or(true)
    });
    found.extend(strange.map(|(name, age)| marker(layout, None, None, name, age)));
    Ok(found)
}

fn marker(
    layout: &Layout,
    kind: Option<&'static Kind>,
    agent: Option<AgentId>,
    id: String,
    age: Duration,
) -> Marker {
    let most = kind.and_then(|kind| match kind.most {
        Age(most) | Judged(most) => Some(most.as_secs()),
        Stands | Itself => None,
    });
    Marker {
        agent,
        meaning: kind.map(|kind| kind.meaning),
        writer: kind.map(|kind| kind.writer),
        reader: kind.map(|kind| kind.reader),
        clearer: kind.map(|kind| kind.clearer),
        age_s: age.as_secs(),
        most_age_s: most,
        is_past: kind.is_some_and(|kind| kind.is_past(layout, &id, age)),
        id,
    }
}

/// Names in a folder of `state/`, with their ages.
fn ages(layout: &Layout, folder: &str) -> Result<Vec<(String, Duration)>> {
    match Dir::open(layout.state().join(folder)) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        opened => Ok(opened?
            .ages()?
            .into_iter()
            .map(|(name, age)| (name.to_string_lossy().into_owned(), age))
            .collect()),
    }
}

/// Removes what is past its age, but for what the tick prunes by its readers.
pub(crate) fn prune(layout: &Layout, is_under_way: bool) -> Result<()> {
    for kind in ALPHABET {
        if let (Within(name), Age(most)) = (kind.place, kind.most)
            // What a restart under way hands over is spared, whatever its age.
            && !(is_under_way && name == HANDOFFS)
        {
            sweep(layout.state().join(name), most)?;
        }
    }
    let folder = Dir::make(layout.state())?;
    for (name, age) in folder.ages()? {
        let text = name.to_string_lossy();
        if Kind::of(&text).is_some_and(|(kind, _)| kind.is_past(layout, &text, age)) {
            if layout.loop_resume().ends_with(&name) {
                // Words of an agent are kept, however old.
                archive_resume(layout)?;
                continue;
            }
            // What is no file was not put there by us and stays.
            let _ = folder.remove(&name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_row_and_an_odd_one_has_none() {
        for (name, meaning, agent) in [
            ("agent0-hang-suspected", "no progress, and nothing excuses that", Some("agent0")),
            ("agent12-quiet-until-1790000000", "no alarm of its silence until then", Some("agent12")),
            ("agentinfinity-ready", "the watchdog session has started", None),
            ("agentinfinity-restart-attempts", "starts of what had died", Some("agentinfinity")),
            ("restart-request", "a planned restart is asked for", None),
        ] {
            let (kind, about) = Kind::of(name).expect(name);
            assert_eq!((kind.meaning, about.as_ref().map(AgentId::as_str)), (meaning, agent), "{name}");
        }
        for odd in [
            "hang-suspected",
            "nobody-hang-suspected-x",
            "-pane-hash",
            "up",
            "restart-request.old",
            "../agent0-pane-hash",
        ] {
            assert!(Kind::of(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn t25_what_is_netskys_own_is_nobody_elses_also_where_it_was_set_aside() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        netsky_disk::home::Home::init(&layout).expect("a fresh home");
        Dir::make(layout.harvests()).expect("made");
        for path in [layout.cron_state(), layout.restart_inflight(), layout.state().join("somebodys")] {
            std::fs::write(&path, "").expect("written");
            state::set_aside(&path).expect("aside");
        }
        let found = markers(&layout).expect("listed");
        let strange: Vec<&str> =
            found.iter().filter(|marker| marker.meaning.is_none()).map(|marker| marker.id.as_str()).collect();
        assert!(strange.len() == 1 && strange[0].starts_with("somebodys.damaged-"), "{strange:?}");
    }
}
