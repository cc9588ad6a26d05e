//! `config.toml`: what runs in which slot. The file is the user's; an unknown key is an error.
//!
//! What runs in a slot is read by `up` alone and kept in the desired state, so keepers never meet a broken file; the rest
//! keepers take from the last copy that read, which is kept as `config.good.toml`.

mod landing;
mod refusal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
pub use landing::{Gate, Repository};
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::budget;
use netsky_model::desired::Receipts;
use netsky_model::duration::unquoted as duration;
use netsky_model::feed;
use netsky_model::id::AgentId;
use netsky_model::paging::Paging;
use netsky_model::quota::Limits;
use netsky_model::restart;
use netsky_model::tending::Terms;
use serde::Deserialize;

/// The settings of a constellation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What every slot has unless it says otherwise.
    #[serde(default)]
    pub defaults: Slot,
    /// What single agents have.
    #[serde(default)]
    pub agents: BTreeMap<AgentId, Slot>,
    /// What an inbox takes.
    #[serde(default)]
    pub bus: Limits,
    /// What becomes of mail over time.
    #[serde(default)]
    pub mail: Terms,
    /// What the record keeps, and for how long.
    #[serde(default)]
    pub record: Record,
    /// When an agent that says nothing is said to hang.
    #[serde(default)]
    pub drivers: Bounds,
    /// What agents are told of themselves.
    #[serde(default)]
    pub prompts: Prompts,
    /// What is done about an agent that has work and makes no progress.
    #[serde(default)]
    pub hang: Hang,
    /// How the owner is reached.
    #[serde(default)]
    pub page: Paging,
    /// How the owner is told of what can wait.
    #[serde(default)]
    pub owner: feed::Terms,
    /// What this constellation is among those of its owner.
    #[serde(default)]
    pub constellation: Constellation,
    /// What a restart of agent0 does beside it.
    #[serde(default)]
    pub restart: restart::Terms,
    /// What loops have unless they say otherwise.
    #[serde(default)]
    pub loops: Loops,
    /// When the ticker looks.
    #[serde(default)]
    pub ticker: Ticker,
    /// What must pass before work lands.
    #[serde(default)]
    pub gate: Gate,
    /// Repositories that have something of their own, by names of the owner's.
    #[serde(default)]
    pub repositories: BTreeMap<String, Repository>,
    /// Clones that are started for tasks.
    #[serde(default)]
    pub clones: Clones,
    /// What agents may take in a day before the owner is told.
    #[serde(default)]
    pub budget: budget::Terms,
}

/// Clones that are started for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clones {
    /// How many may run before no more are started for tasks.
    pub most: u32,
}

impl Default for Clones {
    fn default() -> Clones {
        // Each is a program of hundreds of megabytes, and a bill.
        Clones { most: 8 }
    }
}

/// What a constellation is among those of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constellation {
    /// Whether it is the one that speaks to the owner.
    pub root: bool,
}

impl Default for Constellation {
    fn default() -> Constellation {
        Constellation { root: true }
    }
}

/// When the ticker looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ticker {
    /// When what loops and cron entries ask for comes.
    pub precision: Precision,
}

/// How exactly what is due comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// With the tick after it.
    #[default]
    Tick,
    /// Within a second or so.
    Exact,
}

/// What loops have unless they say otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loops {
    /// After how long they fire no more: `"30d"`; never if none.
    #[serde(deserialize_with = "some_duration")]
    pub expires: Option<Duration>,
}

/// What agents are told of themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prompts {
    /// Projects whose `.netsky/prompt.md` is told to agents that work in them: whoever can write there tells them what to do.
    pub trust: Vec<PathBuf>,
}

/// When an agent hangs that speaks for itself, and what is done about anybody who hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hang {
    /// How long one that has mail may neither read nor print: `"30m"`.
    #[serde(deserialize_with = "duration")]
    pub after: Duration,
    /// How long it may take to heed a nudge before the owner is told.
    #[serde(deserialize_with = "duration")]
    pub nudge: Duration,
    /// Whether it is ended after that, and comes back as after any death.
    pub restart: bool,
}

impl Default for Hang {
    fn default() -> Hang {
        // A build or a long answer takes minutes without a word.
        let [after, nudge] = [30, 10].map(|minutes| Duration::from_secs(minutes * 60));
        Hang { after, nudge, restart: false }
    }
}

/// When a driven agent that is at work and says nothing is said to hang. Nothing is ended for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// Silence of the model, before an answer or in the middle of one: `"180s"`.
    #[serde(deserialize_with = "duration")]
    pub silence: Duration,
    /// Silence after which the program is asked whether it listens.
    #[serde(deserialize_with = "duration")]
    pub probe: Duration,
    /// How long it may take to answer that.
    #[serde(deserialize_with = "duration")]
    pub answer: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        // Models think without a word for a minute or two; the loop of a program comes round many times a second.
        let [silence, probe, answer] = [180, 30, 15].map(Duration::from_secs);
        Bounds { silence, probe, answer }
    }
}

/// How long lines of telemetry are kept where nobody says otherwise: longer than any message.
const KEEP_TELEMETRY: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// What the record keeps.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// How long lines of telemetry are kept: `"90d"`.
    #[serde(deserialize_with = "duration")]
    pub keep_telemetry: Duration,
}

impl Default for Record {
    fn default() -> Record {
        Record { keep_telemetry: KEEP_TELEMETRY }
    }
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// What runs in a slot; a key that is left out is taken from the defaults.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Kind of program: `command`, `claude` or `codex`.
    pub runtime: Option<String>,
    /// Which model a driven program is asked to use.
    pub model: Option<String>,
    /// Program and arguments.
    pub argv: Option<Vec<String>>,
    /// Working folder.
    pub cwd: Option<PathBuf>,
    /// Further environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it acknowledges what it finished.
    pub receipts: Option<Receipts>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values of an environment are secrets until proved otherwise.
        let names: Vec<&String> = self.env.keys().collect();
        write!(f, "Slot({:?} {:?} in {:?} with {names:?})", self.runtime, self.argv, self.cwd)
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The file says something that no version of it means.
    #[error("read {path}: {why}")]
    Wrong {
        /// Which file.
        path: String,
        /// Line and reason, on one line.
        why: String,
    },
}

/// Settings that `up` would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", file.file_name().unwrap_or_default().display())]
pub struct Trouble {
    /// Which file.
    pub file: PathBuf,
    /// What is wrong with it, and what is used instead.
    pub why: String,
}

impl Config {
    /// Read the settings; a home without a file has the empty ones. What reads is kept as the good copy.
    ///
    /// # Errors
    /// The file is not understood: line and reason.
    pub fn load(layout: &Layout) -> Result<Config, ConfigError> {
        let Some(bytes) = state::read(layout.config())? else { return Ok(Config::default()) };
        let wrong = |why| ConfigError::Wrong { path: layout.config().display().to_string(), why };
        let config = parse(&bytes).map_err(wrong)?;
        if let Some(why) = config.unusable() {
            return Err(wrong(why));
        }
        if state::read(layout.good_config())?.as_ref() != Some(&bytes) {
            state::write(layout.good_config(), &bytes)?;
        }
        Ok(config)
    }

    /// The settings for whoever must go on: those that read, else the last copy that did, else the empty ones.
    pub fn last_good(layout: &Layout) -> Config {
        Config::last_good_or_tell(layout, drop)
    }

    /// The same; `tell` hears of it where there is a file and neither it nor a copy reads.
    pub fn last_good_or_tell(layout: &Layout, tell: impl FnOnce(Trouble)) -> Config {
        match state::exists(layout.config()) {
            Ok(false) => Config::default(),
            _ => read(layout.config()).or_else(|| read(layout.good_config())).unwrap_or_else(|| {
                Config::trouble(layout).map(tell);
                let page = Paging { stand_in: true, ..Paging::default() };
                Config { page, ..Config::default() }
            }),
        }
    }

    /// What is wrong with the file as it is now; none if all is well.
    pub fn trouble(layout: &Layout) -> Option<Trouble> {
        let parsed = match state::read(layout.config()) {
            Ok(bytes) => parse(&bytes?),
            Err(error) => Err(error.to_string()),
        };
        let why = match parsed {
            // What else stands there must not be lost for it: how long mail is kept, say.
            Ok(config) => format!("{}; it is used as it stands", config.unusable()?),
            Err(why) if read(layout.good_config()).is_some() => format!("{why}; the last good one is used"),
            Err(why) => format!("{why}; the defaults are used"),
        };
        Some(Trouble { file: layout.config(), why })
    }

    /// What reads and is of no use.
    fn unusable(&self) -> Option<String> {
        let mut slots = self.agents.values().chain([&self.defaults]);
        let is_empty = slots.any(|slot| slot.argv.as_ref().is_some_and(Vec::is_empty));
        let empty =
            || is_empty.then(|| "argv is empty: it begins with the program, or is left out".to_owned());
        let misplaced = || self.repositories.iter().find_map(|(name, repository)| repository.trouble(name));
        let zone = || {
            let is_none = TimeZone::get(&self.owner.tz).is_err();
            is_none.then(|| "[owner] tz is no zone that this machine knows".to_owned())
        };
        let owner = || self.owner.trouble().or_else(zone);
        let page = || self.page.trouble();
        let budget = || self.budget.trouble();
        self.bus.trouble().or_else(page).or_else(owner).or_else(budget).or_else(misplaced).or_else(empty)
    }

    /// The slot of an agent whose program was named by a command: the defaults say nothing of that.
    pub fn slot_by_hand(&self, agent: &AgentId) -> Slot {
        let own = self.agents.get(agent).cloned().unwrap_or_default();
        match own.runtime.is_some() || own.argv.is_some() {
            true => self.slot(agent),
            false => Slot { runtime: None, argv: None, model: own.model, ..self.slot(agent) },
        }
    }

    /// The slot of an agent with the defaults filled in.
    pub fn slot(&self, agent: &AgentId) -> Slot {
        let own = self.agents.get(agent).cloned().unwrap_or_default();
        let base = self.defaults.clone();
        let mut env = base.env;
        env.extend(own.env);
        // A model and a program are of one kind.
        let other_kind = own.runtime.as_ref().zip(base.runtime.as_ref()).is_some_and(|(own, all)| own != all);
        let (model, argv) = if other_kind { (None, None) } else { (base.model, base.argv) };
        Slot {
            runtime: own.runtime.or(base.runtime),
            model: own.model.or(model),
            argv: own.argv.or(argv),
            cwd: own.cwd.or(base.cwd),
            env,
            receipts: own.receipts.or(base.receipts),
        }
    }
}

fn read(path: PathBuf) -> Option<Config> {
    parse(&state::read(path).ok()??).ok()
}

fn parse(bytes: &[u8]) -> Result<Config, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let mut config: Config = toml::from_str(text).map_err(|error| refusal::told(text, &error))?;
    if config.owner.transports.is_empty() {
        config.owner.transports.clone_from(&config.page.transports);
    }
    (config.owner.root, config.page.muted) = (config.constellation.root, !config.constellation.root);
    if let Some(name) = config.agents.keys().find(|name| name.number().is_none()) {
        return Err(format!("[agents.{name}] is no slot: slots are agent0, agent1 and so on"));
    }
    let slots = config.agents.values().chain([&config.defaults]);
    for (key, value) in slots.flat_map(|slot| &slot.env) {
        if is_ours(key) {
            return Err(format!("env has {key}, which netsky itself sets"));
        }
        // No system can start a program with such a one.
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!(
                "env has {key:?}, which cannot be set: a name is not empty and has no `=`, neither has a NUL"
            ));
        }
    }
    Ok(config)
}

/// Names by which an agent is told who it is.
fn is_ours(key: &str) -> bool {
    key.starts_with("NETSKY_") || key.starts_with("OSTK_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_overrides_the_defaults_key_by_key() {
        let text = "[defaults]\nargv = [\"a\"]\nenv = { X = \"1\", Y = \"1\" }\n[agents.agent1]\nargv = [\"b\"]\nenv = { X = \"2\" }\n";
        let config = parse(text.as_bytes()).expect("valid");
        let slot = config.slot(&AgentId::numbered(1));
        assert_eq!(slot.argv, Some(vec!["b".to_owned()]));
        assert_eq!((slot.env["X"].as_str(), slot.env["Y"].as_str()), ("2", "1"));
        assert_eq!(config.slot(&AgentId::root()).argv, Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_model_and_a_program_are_the_defaults_of_one_kind() {
        let slot = |text: &str| parse(text.as_bytes()).expect("valid").slot(&AgentId::numbered(1));
        let claude = "[defaults]\nruntime = \"claude\"\nmodel = \"big\"\nargv = [\"c\"]\n[agents.agent1]\n";
        let other = slot(&format!("{claude}runtime = \"codex\"\n"));
        assert_eq!((other.model, other.argv), (None, None));
        for same in ["runtime = \"claude\"\n", ""] {
            let slot = slot(&format!("{claude}{same}"));
            assert_eq!((slot.model.as_deref(), slot.argv), (Some("big"), Some(vec!["c".to_owned()])));
        }
        let of_any = slot("[defaults]\nmodel = \"big\"\n[agents.agent1]\nruntime = \"codex\"\n");
        assert_eq!(of_any.model.as_deref(), Some("big"));
    }

    #[test]
    fn a_slot_that_cannot_be_and_a_name_of_ours_are_refused() {
        let why = |text: &str| parse(text.as_bytes()).expect_err("refused");
        assert!(why("[agents.agnet1]\nargv = [\"a\"]\n").contains("[agents.agnet1] is no slot"));
        assert!(why("[defaults.env]\nNETSKY_HOME = \"/x\"\n").contains("env has NETSKY_HOME"));
        assert!(why("[agents.agent3.env]\nOSTK_NAME = \"x\"\n").contains("env has OSTK_NAME"));
        assert!(why("[defaults]\nenv = { \"a=b\" = \"/x\" }\n").contains("env has \"a=b\", which cannot"));
        assert!(why("[defaults.env]\n\"\" = \"x\"\n").contains("env has \"\""));
        assert!(why("[defaults.env]\na = \"\\u0000\"\n").contains("env has \"a\""));
    }

    #[test]
    fn a24_limits_that_are_none_are_refused_and_lose_nothing_else_of_the_file() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        netsky_disk::home::Home::init(&layout).expect("a fresh home");
        let load = |text: &str| {
            std::fs::write(layout.config(), format!("[record]\nkeep_telemetry = \"7d\"\n[bus]\n{text}\n"))
                .expect("written");
            Config::load(&layout)
        };
        for (text, told) in [
            ("inbox_envelopes = 0", "[bus] inbox_envelopes is 0 and must be 1 or more"),
            ("inbox_bytes = 0", "[bus] inbox_bytes is 0 and must be 1"),
            ("share_percent = 0", "[bus] share_percent is 0 and must be 1 to 100"),
            ("share_percent = 101", "[bus] share_percent is 101 and must"),
            ("reserve_percent = 100", "[bus] reserve_percent is 100 and must be 0 to 99"),
            ("rate_per_second = 0", "[bus] rate_per_second is 0 and must be 1"),
            ("burst = 0", "[bus] burst is 0 and must be 1"),
            ("inbox_envelopes = 3", "leave a sender 25 % of 3 envelopes and 67108864 bytes"),
            (
                "inbox_bytes = 50\nshare_percent = 100\nreserve_percent = 99",
                "1 % of 10000 envelopes and 50 bytes",
            ),
        ] {
            let why = load(text).expect_err("refused").to_string();
            assert!(why.contains(told), "{text}: {why}");
            assert!(!layout.good_config().exists());
            let why = Config::trouble(&layout).expect("told").why;
            assert!(why.contains(told) && why.ends_with("; it is used as it stands"), "{text}: {why}");
            let used = Config::last_good(&layout).record.keep_telemetry;
            assert_eq!(used, Duration::from_secs(7 * 24 * 60 * 60));
        }
        for text in ["inbox_envelopes = 4", "inbox_envelopes = 1\nshare_percent = 100\nreserve_percent = 0"] {
            load(text).expect("one envelope of a sender");
            assert_eq!(Config::trouble(&layout), None);
        }
    }

    #[test]
    fn an_unknown_key_names_its_line() {
        let why = parse(b"[defaults]\n\nargs = [\"a\"]\n").expect_err("unknown");
        assert!(why.starts_with("line 3: unknown field `args`"), "{why}");
    }

    #[test]
    fn the_precision_of_the_ticker_is_one_of_two_words() {
        let precision = |text: &str| parse(text.as_bytes()).map(|config| config.ticker.precision);
        assert_eq!(precision(""), Ok(Precision::Tick));
        assert_eq!(precision("[ticker]\n"), Ok(Precision::Tick));
        assert_eq!(precision("[ticker]\nprecision = \"tick\"\n"), Ok(Precision::Tick));
        assert_eq!(precision("[ticker]\nprecision = \"exact\"\n"), Ok(Precision::Exact));
        for wrong in ["precision = \"1s\"", "precision = \"Exact\"", "precision = 1", "exact = true"] {
            let why = precision(&format!("[ticker]\n{wrong}\n")).expect_err(wrong);
            assert!(why.starts_with("line 2: "), "{why}");
        }
    }

    #[test]
    fn a_program_of_no_words_is_refused() {
        let config = parse(b"[agents.agent1]\nargv = []\n").expect("reads");
        let why = config.unusable().expect("told");
        assert!(why.starts_with("argv is empty"), "{why}");
    }

    #[test]
    fn a_broken_file_leaves_the_limits_as_they_were() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        netsky_disk::home::Home::init(&layout).expect("a fresh home");
        let said = |config: &str| {
            std::fs::write(layout.config(), config).expect("written");
            Config::last_good(&layout).bus.inbox_envelopes
        };
        assert_eq!(Config::last_good(&layout).bus, Limits::default());
        assert_eq!(said("[bus]\ninbox_envelopes = 7\n"), 7);
        Config::load(&layout).expect("understood");
        assert_eq!(said("[bus]\ninbox_envelopes = 8\n[defaults]\nargv = [\"x\"]\n"), 8);
        assert_eq!(said("[bus]\ninbox_envelops = 9\n"), 7, "the last good copy");
        let told = || Config::trouble(&layout).expect("told").why;
        assert!(told().ends_with("; the last good one is used"), "{}", told());
        std::fs::remove_file(layout.good_config()).expect("there");
        assert_eq!(said("[bus"), 10_000);
        assert!(told().ends_with("; the defaults are used"), "{}", told());
    }

    #[test]
    fn a_broken_file_leaves_keepers_the_last_good_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        netsky_disk::fs::Dir::create(layout.home()).expect("made");
        assert_eq!(Config::last_good(&layout).record.keep_telemetry, KEEP_TELEMETRY);
        std::fs::write(layout.config(), "[record]\nkeep_telemetry = \"7d\"\n").expect("writes");
        Config::load(&layout).expect("reads");
        std::fs::write(layout.config(), "[record]\nkeep_telemetry = \"for ever\"\n").expect("writes");
        let why = Config::load(&layout).expect_err("no duration").to_string();
        assert!(why.contains("line 2"), "{why}");
        assert_eq!(Config::last_good(&layout).record.keep_telemetry, Duration::from_secs(7 * 24 * 60 * 60));
    }
}
