//! A throwaway home with mail in it, moved by hand as the bus moves it.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_ledger::{Cell, Facts, Ingested, Limits, Telemetry, ingest, query, rebuild};
use netsky_model::envelope::Envelope;
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::life::{STATES, State};
use netsky_model::name::{Key, Name, Stage};
use netsky_model::witness::{Transition, Witness};

pub(crate) struct House {
    _folder: tempfile::TempDir,
    pub(crate) layout: Layout,
    pub(crate) telemetry: Telemetry,
    pub(crate) facts: Facts,
}

/// An envelope as it lies in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Lying {
    pub(crate) agent: AgentId,
    pub(crate) key: Key,
    pub(crate) state: State,
    pub(crate) attempt: u32,
    pub(crate) file: String,
}

impl Lying {
    pub(crate) fn told(&self, from: Option<Sender>, reason: Option<&str>) -> Transition {
        Transition {
            agent: self.agent.clone(),
            id: self.key.id.clone(),
            hlc: self.key.hlc,
            to: self.state,
            attempt: self.attempt,
            from,
            generation: None,
            reason: reason.map(str::to_owned),
            cause: None,
        }
    }
}

impl House {
    pub(crate) fn new() -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        for folder in layout.folders() {
            Dir::create(folder).expect("made");
        }
        let (telemetry, facts) = (Telemetry::new(&layout), Facts::new(&layout));
        House { _folder: folder, layout, telemetry, facts }
    }

    fn place(&self, lying: &Lying) -> PathBuf {
        self.layout.folder(&lying.agent, lying.state).join(&lying.file)
    }

    /// A new envelope in the inbox; `told` says whether telemetry knows.
    pub(crate) fn send(&self, agent: u32, n: u64, from: &str, told: bool) -> Lying {
        self.send_as(agent, n, from, told, &format!("text {n}"))
    }

    /// One from agent0 that telemetry does not know, and what it says.
    pub(crate) fn send_text(&self, agent: u32, n: u64, text: &str) -> Lying {
        self.send_as(agent, n, "agent0", false, text)
    }

    fn send_as(&self, agent: u32, n: u64, from: &str, told: bool, text: &str) -> Lying {
        let agent = AgentId::numbered(agent);
        for state in STATES {
            Dir::create(self.layout.folder(&agent, state)).expect("made");
        }
        let key = Key { hlc: Hlc(n), id: format!("note-{n}").parse().expect("valid") };
        let from: Sender = from.parse().expect("valid");
        let ts = "2026-11-22T10:00:00Z".parse().expect("a time");
        let envelope = Envelope::new(key.id.clone(), from.clone(), agent.clone(), text.to_owned(), ts);
        let file = Name::fresh(key.clone()).to_string();
        let lying = Lying { agent, key, state: State::Written, attempt: 1, file };
        std::fs::write(self.place(&lying), envelope.to_bytes().expect("small")).expect("writes");
        self.tell(&lying, told, Some(from), None);
        lying
    }

    /// Moves an envelope as the bus would.
    pub(crate) fn turn(&self, lying: &Lying, to: State, told: bool) -> Lying {
        let attempt = lying.attempt + u32::from(to == State::Written);
        let stage = match to {
            State::Delivered | State::Acked => Stage::Taken(Generation(3)),
            _ => Stage::Waiting,
        };
        let file = Name { key: lying.key.clone(), attempt, stage }.to_string();
        let moved = Lying { state: to, attempt, file, ..lying.clone() };
        let reason = (to == State::Poisoned).then_some("five in vain");
        if let Some(reason) = reason {
            let path = format!("{}.reason", self.place(&moved).display());
            std::fs::write(path, format!("{reason}\n")).expect("writes");
        }
        std::fs::rename(self.place(lying), self.place(&moved)).expect("moves");
        self.tell(&moved, told, None, reason);
        moved
    }

    /// Removes it as retention does, which tells for good what it removes.
    pub(crate) fn retire(&self, lying: &Lying) {
        let name = Name::parse(&lying.file).expect("a name");
        let generation = match name.stage {
            Stage::Taken(generation) => Some(generation),
            _ => None,
        };
        let reason = (lying.state == State::Poisoned).then_some("five in vain");
        let told = Transition { generation, ..lying.told(None, reason) };
        self.telemetry.removed(&[told]).expect("told for good");
        self.remove(lying);
    }

    pub(crate) fn remove(&self, lying: &Lying) {
        std::fs::remove_file(self.place(lying)).expect("removes");
    }

    /// What was told until now was told `days` before today.
    pub(crate) fn age(&self, days: i64) -> PathBuf {
        let [now] = &self.logs()[..] else { panic!("one file of lines, of today") };
        let name = now.file_name().and_then(|name| name.to_str()).expect("text");
        let today = name.trim_start_matches("telemetry-").trim_end_matches(".jsonl");
        let today: jiff::civil::Date = today.parse().expect("a day");
        let then = today.checked_sub(jiff::Span::new().days(days)).expect("a day");
        let aged = self.layout.logs().join(format!("telemetry-{then}.jsonl"));
        std::fs::rename(now, &aged).expect("renamed");
        aged
    }

    fn tell(&self, lying: &Lying, told: bool, from: Option<Sender>, reason: Option<&str>) {
        if !told {
            return;
        }
        self.telemetry.saw(&lying.told(from, reason));
    }

    pub(crate) fn ingest(&self) -> Ingested {
        ingest(&self.layout, Duration::ZERO).expect("ingests").expect("nobody else does")
    }

    pub(crate) fn rebuild(&self) -> Ingested {
        rebuild(&self.layout, Duration::ZERO).expect("ingests").expect("nobody else does")
    }

    /// The answer to a question, cells as text.
    pub(crate) fn ask(&self, question: &str) -> Vec<Vec<String>> {
        let limits = Limits { rows: 100_000, time: Duration::from_secs(20) };
        let answer = query(&self.layout, question, limits).expect("answers").expect("there is a database");
        answer.rows.iter().map(|row| row.iter().map(shown).collect()).collect()
    }

    /// Asserts that a rebuild brings back what is there.
    #[track_caller]
    pub(crate) fn is_as_rebuilt(&self, what: &str) {
        let living = self.record();
        self.rebuild();
        assert_eq!(self.record(), living, "{what}");
    }

    /// What a rebuild must bring back: facts, and envelopes.
    pub(crate) fn record(&self) -> [Vec<Vec<String>>; 2] {
        let mail = "SELECT to_agent, hlc, id, state, attempt, reason, file, from_agent, source
                    FROM envelopes ORDER BY to_agent, hlc, id";
        [self.ask("SELECT * FROM facts ORDER BY seq"), self.ask(mail)]
    }

    /// Demands that the record has just these files.
    pub(crate) fn holds(&self, all: &[Lying]) {
        let said = |one: &Lying| {
            let reason = if one.state == State::Poisoned { "five in vain" } else { "NULL" };
            let words = [one.agent.as_str(), one.key.id.as_str(), one.state.word(), reason, &one.file];
            words.into_iter().map(str::to_owned).chain([one.attempt.to_string()]).collect()
        };
        let mut lying: Vec<Vec<String>> = all.iter().map(said).collect();
        lying.sort();
        let question =
            "SELECT to_agent, id, state, reason, file, attempt FROM envelopes WHERE file IS NOT NULL";
        let mut asked = self.ask(question);
        asked.sort();
        assert_eq!(asked, lying);
    }

    /// The files of lines.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.layout.logs()).expect("lists");
        files.map(|file| file.expect("listed").path()).filter(|path| path.is_file()).collect()
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Int(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Blob(bytes) => format!("{bytes:?}"),
    }
}
