//! `netsky cron` as people type it, and its tick under clocks that step, sleep and boot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use netsky_model::envelope::Envelope;
use netsky_model::id::EnvelopeId;
use serde_json::Value;

use crate::bus_home::Home;
use crate::screen::{Said, inside, netsky, program, said};

const HOUR: i64 = 60 * 60 * 1000;

/// A home, and the clocks that its programs see.
pub(crate) struct Clocked {
    pub(crate) home: Home,
    boot: &'static str,
}

impl Clocked {
    /// A home with these entries, which have begun.
    pub(crate) fn with(entries: &str) -> Clocked {
        let clocked = Clocked { home: Home::init(), boot: "0a1b2c3d" };
        fs::write(clocked.home.path().join("cron.toml"), entries).expect("written");
        for file in ["wall", "slept"] {
            fs::write(clocked.beside(file), "0").expect("written");
        }
        clocked.ok(&["cron", "tick"]);
        clocked
    }

    pub(crate) fn beside(&self, file: &str) -> PathBuf {
        self.home.path().with_file_name(file)
    }

    /// Has the wall clock be so far from the real one.
    pub(crate) fn wall(&self, millis: i64) {
        fs::write(self.beside("wall"), millis.to_string()).expect("written");
    }

    /// Has the machine have slept for so long in all.
    pub(crate) fn slept(&self, millis: i64) {
        fs::write(self.beside("slept"), millis.to_string()).expect("written");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(&self.home, args);
        command.env("NETSKY_WALL_OFFSET", self.beside("wall")).env("NETSKY_SLEPT", self.beside("slept"));
        command.env("NETSKY_BOOT_ID", self.boot);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&self.home, self.command(args).output().expect("the program starts"))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "netsky {args:?}: {}", said.out);
        said.out
    }

    /// What is kept of an entry, a line of it.
    fn kept(&self, id: &str, key: &str) -> Option<String> {
        let text = fs::read_to_string(self.home.path().join("state/cron-state.toml")).expect("kept");
        let (_, of) = text.split_once(&format!("[entries.{id}]\n"))?;
        let of = of.split("\n[").next()?;
        let value = of.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
        Some(value.trim_matches('"').to_owned())
    }

    fn next(&self, id: &str) -> jiff::Timestamp {
        self.kept(id, "next_fire_utc").expect("it counts").parse().expect("an instant")
    }

    /// All that ever was sent to agent0, in its order.
    pub(crate) fn told(&self) -> Vec<Envelope> {
        told(&self.home, "agent0")
    }

    /// agent0 has read all that waits.
    pub(crate) fn read(&self) {
        self.ok(&["channel", "drain", "agent0"]);
    }
}

pub(crate) fn told(home: &Home, agent: &str) -> Vec<Envelope> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["inbox", "claimed", "delivered", "acked"] {
        files.extend(
            home.files(agent, folder)
                .expect("read")
                .iter()
                .map(|file| home.channel(agent, folder).join(file)),
        );
    }
    files.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
    files.iter().map(|file| Envelope::parse(&fs::read(file).expect("there")).expect("whole")).collect()
}

pub(crate) fn entry(id: &str, schedule: &str, more: &str) -> String {
    format!(
        "[[entries]]\nid = \"{id}\"\nagent = \"agent0\"\nschedule = \"{schedule}\"\nprompt = \"do {id}\"\n{more}\n"
    )
}

fn missed(envelope: &Envelope) -> u64 {
    envelope.missed.unwrap_or(0)
}

/// The one envelope that was told for `slot`.
fn is_for(envelope: &Envelope, id: &str, slot: jiff::Timestamp) {
    let derived = EnvelopeId::derived(&["cron", id, &slot.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()]);
    assert_eq!(envelope.id.as_ref(), Some(&derived), "{id} at {slot}");
    let from = (envelope.from.as_str(), envelope.kind.as_deref(), envelope.thread.as_deref());
    assert_eq!(from, ("agentcron", Some("cron-tick"), Some(id)));
    assert_eq!((envelope.text.as_str(), envelope.verified), (format!("do {id}").as_str(), Some(true)));
}

/// Quarters from one instant to another.
fn quarters(from: jiff::Timestamp, to: jiff::Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs() / 900).expect("forward")
}

#[test]
fn must_show_5_a_sleep_of_eight_hours_is_one_envelope_that_tells_how_many_were_missed() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let due = clocked.next("q");
    assert_eq!(clocked.told().len(), 0);
    clocked.slept(8 * HOUR);
    clocked.ok(&["cron", "tick"]);
    let [envelope] = &clocked.told()[..] else { panic!("one: {:?}", clocked.told()) };
    is_for(envelope, "q", due);
    assert_eq!(missed(envelope), quarters(due, clocked.next("q")) - 1);
    assert!(matches!(missed(envelope), 31 | 32));
    clocked.ok(&["cron", "tick"]);
    assert_eq!(clocked.told().len(), 1, "at most one catch-up");
    assert!(!clocked.record().contains("clock-step"));
}

#[test]
fn must_show_5_another_boot_is_an_outage_like_a_sleep() {
    let mut clocked =
        Clocked::with(&(entry("q", "*/15 * * * *", "") + &entry("s", "*/15 * * * *", "catch_up = \"skip\"")));
    let due = clocked.next("q");
    clocked.boot = "ffffffff";
    // A quarter past some hour, so that nothing is due right now.
    let now = jiff::Timestamp::now();
    let quiet = due + jiff::SignedDuration::from_secs(8 * 60 * 60 + 450);
    clocked.wall((quiet.as_millisecond() - now.as_millisecond()).max(0));
    clocked.ok(&["cron", "tick"]);
    let told = clocked.told();
    let [envelope] = &told[..] else { panic!("one: {told:?}") };
    is_for(envelope, "q", due);
    assert_eq!((missed(envelope), clocked.kept("s", "missed").as_deref()), (32, Some("33")));
    assert!(!clocked.record().contains("clock-step"));
}

impl Clocked {
    fn record(&self) -> String {
        let logs = self.home.path().join("logs");
        let mut record = String::new();
        for file in fs::read_dir(logs).expect("there").flatten() {
            record.push_str(&fs::read_to_string(file.path()).unwrap_or_default());
        }
        record
    }
}

#[test]
fn must_show_5_three_hours_forward_are_caught_up_and_back_tell_nothing_again() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let due = clocked.next("q");
    clocked.wall(3 * HOUR);
    clocked.ok(&["cron", "tick"]);
    let told = clocked.told();
    let [envelope] = &told[..] else { panic!("one: {told:?}") };
    is_for(envelope, "q", due);
    assert!(matches!(missed(envelope), 11 | 12), "{}", missed(envelope));
    clocked.read();
    let next = clocked.next("q");
    // Back again: what was told is not told again, nor what comes before it.
    for back in [HOUR * 2, HOUR, 0] {
        clocked.wall(back);
        clocked.ok(&["cron", "tick"]);
        assert_eq!((clocked.told().len(), clocked.next("q")), (1, next), "{back}");
    }
    clocked.wall(2 * HOUR);
    clocked.ok(&["cron", "tick"]);
    clocked.wall(3 * HOUR + 15 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    assert!(!clocked.record().contains("clock-step"));
    let told = clocked.told();
    assert_eq!(told.len(), 2);
    is_for(&told[1], "q", next);
}

#[test]
fn must_show_5_a_day_back_and_hours_forward_are_steps_after_which_nothing_is_caught_up() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    clocked.slept(20 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    clocked.read();
    assert_eq!(clocked.told().len(), 1);
    for (by, times) in [(-24 * HOUR, 1), (-24 * HOUR + 4 * HOUR, 2), (30 * 24 * HOUR, 3)] {
        clocked.wall(by);
        let out = clocked.ok(&["cron", "tick"]);
        assert!(out.contains("the calendar was set by"), "{out}");
        assert_eq!(
            (clocked.told().len(), clocked.record().matches("clock-step").count()),
            (1, times),
            "{by}"
        );
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(by + 20 * 60 * 1000);
        let next = clocked.next("q").duration_since(now).as_secs();
        assert!((-5..=900).contains(&next), "it comes soon: {next}");
    }
    clocked.ok(&["cron", "tick"]);
    assert_eq!(clocked.record().matches("clock-step").count(), 3, "one for each step");
}

#[test]
fn fm_cron_fire_gone_a_file_that_is_away_for_a_tick_swallows_no_instant() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let (file, away) = (clocked.home.path().join("cron.toml"), clocked.beside("away"));
    clocked.slept(20 * 60 * 1000);
    fs::rename(&file, &away).expect("taken away");
    assert_eq!(clocked.ok(&["cron", "tick"]), "nothing is due\n");
    fs::rename(&away, &file).expect("put back");
    clocked.ok(&["cron", "tick"]);
    assert_eq!(clocked.told().len(), 1);
}

#[test]
fn while_the_one_before_waits_there_is_no_second_and_the_count_rises() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let first = clocked.next("q");
    for quarter in 1..=32 {
        clocked.slept(quarter * 15 * 60 * 1000);
        clocked.ok(&["cron", "tick"]);
    }
    let told = clocked.told();
    let [envelope] = &told[..] else { panic!("one: {told:?}") };
    is_for(envelope, "q", first);
    assert_eq!(clocked.kept("q", "missed").as_deref(), Some("31"));
    // Claimed it is still unread.
    let holder = clocked.command(&["channel", "watch", "agent0", "--", "/bin/sleep", "1000"]).spawn();
    let mut holder = holder.expect("starts");
    while clocked.home.files("agent0", "claimed").expect("read").is_empty() {
        netsky_disk::clock::pause(std::time::Duration::from_millis(20));
    }
    clocked.slept(33 * 15 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    assert_eq!((clocked.told().len(), clocked.kept("q", "missed").as_deref()), (1, Some("32")));
    holder.kill().expect("ours");
    holder.wait().expect("ended");
    clocked.read();
    clocked.slept(34 * 15 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    let told = clocked.told();
    assert_eq!((told.len(), missed(&told[1]), clocked.kept("q", "missed").as_deref()), (2, 0, Some("0")));
}

#[test]
fn must_show_8_an_agent_that_was_down_for_eight_hours_is_told_once_how_many_it_missed() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    for quarter in 1..=33 {
        clocked.slept(quarter * 15 * 60 * 1000);
        clocked.ok(&["cron", "tick"]);
    }
    assert_eq!((clocked.told().len(), clocked.kept("q", "missed").as_deref()), (1, Some("32")));
    let drained = clocked.ok(&["channel", "drain", "agent0"]);
    assert!(drained.contains(" missed=\"32\"") && drained.matches("<channel").count() == 1, "{drained}");
    clocked.slept(34 * 15 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    assert_eq!((clocked.told().len(), clocked.kept("q", "missed").as_deref()), (2, Some("0")));
    let drained = clocked.ok(&["channel", "drain", "agent0"]);
    assert!(!drained.contains("missed=") && drained.matches("<channel").count() == 1, "{drained}");
}

#[test]
fn t3_who_dies_between_the_envelope_and_the_state_leaves_what_came_since_to_the_next() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let first = clocked.next("q");
    clocked.slept(15 * 60 * 1000);
    let killed = clocked.command(&["cron", "tick"]).env("NETSKY_FAULT", "watchdog.cron.sent=kill").output();
    assert!(killed.expect("starts").status.code().is_none());
    assert_eq!((clocked.told().len(), clocked.next("q")), (1, first), "told, and not kept");
    clocked.read();
    clocked.slept(8 * HOUR);
    clocked.ok(&["cron", "tick"]);
    let told = clocked.told();
    let [one, other] = &told[..] else { panic!("two: {told:?}") };
    is_for(one, "q", first);
    is_for(other, "q", first + jiff::SignedDuration::from_mins(15));
    assert_eq!(missed(other), quarters(first, clocked.next("q")) - 2);
}

#[test]
fn t3_what_is_due_of_an_entry_that_was_just_made_is_kept_before_it_is_told() {
    let clocked = Clocked::with("");
    // It comes at a minute that passes between its making and the first tick.
    let add = clocked.ok(&["cron", "add", "* * * * *", "do it", "--json"]);
    let add: Value = serde_json::from_str(&add).expect("one object");
    let id = add["id"].as_str().expect("an id");
    clocked.slept(60 * 1000);
    let killed = clocked.command(&["cron", "tick"]).env("NETSKY_FAULT", "watchdog.cron.sent=kill").output();
    assert!(killed.expect("starts").status.code().is_none());
    let told = clocked.told();
    let [envelope] = &told[..] else { panic!("one: {told:?}") };
    let slot = clocked.next(id).to_string();
    assert_eq!(envelope.id, Some(EnvelopeId::derived(&["cron", id, &slot])), "the state says what is told");
    clocked.slept(20 * 60 * 1000);
    clocked.ok(&["cron", "tick"]);
    assert_eq!((clocked.told().len(), clocked.kept(id, "last_slot_utc")), (1, Some(slot)));
}

#[test]
fn t4_an_entry_that_fails_or_does_not_read_keeps_no_other_from_being_told() {
    let entries = entry("lost", "*/15 * * * *", "").replace("agent0", "agent9")
        + &entry("broken", "0 25 * * *", "")
        + &entry("q", "*/15 * * * *", "");
    let clocked = Clocked { home: Home::init(), boot: "0a1b2c3d" };
    fs::write(clocked.home.path().join("cron.toml"), entries).expect("written");
    clocked.wall(0);
    clocked.slept(0);
    let out = clocked.ok(&["cron", "tick"]);
    assert!(
        out.contains("warning: cron.toml line 10: broken: schedule \"0 25 * * *\": field 2 (hour)"),
        "{out}"
    );
    let due = clocked.next("lost");
    clocked.slept(20 * 60 * 1000);
    let Said { code, err, .. } = clocked.run(&["cron", "tick"]);
    assert_eq!((code, err.as_str()), (1, "netsky: lost: agent9 has no channel; the next tick tries again\n"));
    is_for(&clocked.told()[0], "q", due);
    assert_eq!(clocked.kept("lost", "last_error").as_deref(), Some("agent9 has no channel"));
    let listed: Value = serde_json::from_str(&clocked.ok(&["cron", "list", "--json"])).expect("one object");
    let [lost, q, broken] = &listed["entries"].as_array().expect("a list")[..] else {
        panic!("three: {listed}")
    };
    assert_eq!(
        (&lost["last_error"], &lost["next"][0]["utc"]),
        (&"agent9 has no channel".into(), &due.to_string().into())
    );
    assert!(q["last_error"].is_null() && q["next"].as_array().expect("three").len() == 3);
    assert_eq!((&broken["id"], &broken["line"]), (&"broken".into(), &10.into()));
    let table = clocked.ok(&["cron", "list"]);
    let row = |id: &str| table.lines().find(|line| line.starts_with(id)).expect(id).to_owned();
    assert!(
        row("broken").contains("line 10: schedule") && row("lost").contains("agent9 has no channel"),
        "{table}"
    );
    // Once its target is there, it is told of the instant that was due.
    clocked.home.netsky(["channel", "send", "agent9", "x", "--from", "agent0", "--create"]).expect("sent");
    clocked.ok(&["cron", "tick"]);
    let told = told(&clocked.home, "agent9");
    is_for(told.iter().find(|envelope| envelope.thread.is_some()).expect("told"), "lost", due);
    assert_eq!(clocked.kept("lost", "last_error"), None);
}

#[test]
fn fm_cron_fire_corrupt_a_file_that_does_not_read_is_one_page_and_the_last_good_one_counts() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let file = clocked.home.path().join("cron.toml");
    let due = clocked.next("q");
    let pages = || {
        let facts = fs::read_to_string(clocked.home.path().join("record/facts-1.jsonl")).unwrap_or_default();
        facts.matches("\"condition\":\"cron-file\"").count()
    };
    fs::write(&file, "[[entries").expect("written");
    let out = clocked.ok(&["cron", "tick"]);
    assert!(
        out.contains("paged: cron.toml: line 1: ") && out.contains("; the last good one is used"),
        "{out}"
    );
    clocked.slept(20 * 60 * 1000);
    let out = clocked.ok(&["cron", "tick"]);
    assert!(out.contains("warning: cron.toml: line 1: ") && !out.contains("paged"), "{out}");
    is_for(&clocked.told()[0], "q", due);
    fs::write(&file, "[[entries # another way").expect("written");
    clocked.ok(&["cron", "tick"]);
    assert_eq!(pages(), 1, "one until it reads again");
    let (refused, listed) = (clocked.run(&["cron", "add", "@daily", "x"]), clocked.ok(&["cron", "list"]));
    assert!(refused.code == 1 && refused.err.contains("mend it first; nothing was changed"), "{refused:?}");
    assert!(listed.starts_with("warning: cron.toml: line 1: ") && listed.contains("\nq "), "{listed}");
    fs::write(&file, entry("q", "*/15 * * * *", "")).expect("written");
    assert_eq!(clocked.ok(&["cron", "tick"]), "nothing is due\n");
    fs::write(&file, "[[entries").expect("written");
    clocked.ok(&["cron", "tick"]);
    assert_eq!(pages(), 2, "and each time once");
    assert_eq!(clocked.told().len(), 1);
}

#[test]
fn fm_cron_fire_corrupt_a_state_that_says_nothing_is_set_aside_and_begins_anew() {
    let clocked = Clocked::with(&entry("q", "*/15 * * * *", ""));
    let state = clocked.home.path().join("state");
    fs::write(state.join("cron-state.toml"), "nothing").expect("written");
    clocked.slept(8 * HOUR);
    let Said { code, err, .. } = clocked.run(&["cron", "tick"]);
    assert!(
        code == 7 && err.contains("is damaged") && err.contains("every entry begins anew"),
        "{code} {err}"
    );
    assert_eq!(clocked.told().len(), 0);
    assert!(clocked.kept("q", "next_fire_utc").is_some());
    let aside = fs::read_dir(&state).expect("there").flatten();
    assert_eq!(aside.filter(|file| file.file_name().to_string_lossy().contains("toml.damaged-")).count(), 1);
    let newer = "v = 2\nmarks = 3\n";
    fs::write(state.join("cron-state.toml"), newer).expect("written");
    let Said { code, err, .. } = clocked.run(&["cron", "tick"]);
    assert!(code == 1 && err.contains("newer than this program"), "{code} {err}");
    assert_eq!(fs::read_to_string(state.join("cron-state.toml")).expect("there"), newer);
}

#[test]
fn without_entries_a_tick_makes_nothing() {
    let home = Home::init();
    let all = |home: &Home| {
        let folders =
            ["", "state", "state/tick"].map(|folder| fs::read_dir(home.path().join(folder)).expect("there"));
        folders.into_iter().flat_map(|folder| folder.flatten().map(|file| file.path())).collect::<Vec<_>>()
    };
    let before = all(&home);
    assert_eq!(netsky(&home, &["cron", "tick"]).out, "nothing is due\n");
    assert_eq!(netsky(&home, &["cron", "list"]).out, "no cron entry is there\n");
    assert_eq!(all(&home), before);
}

fn refused(said: &Said, code: i32, words: &str) {
    assert!(said.code == code && said.err.contains(words) && said.err.lines().count() == 1, "{said:?}");
}

#[test]
fn a16_a_session_changes_its_own_entries_and_agent0_those_of_all() {
    let home = Home::init();
    for agent in ["agent3", "agent4"] {
        home.netsky(["channel", "send", agent, "x", "--from", "agent0", "--create"]).expect("sent");
    }
    let add = |said: Said| {
        assert_eq!(said.code, 0, "{said:?}");
        said.out.split(' ').next().expect("its id").to_owned()
    };
    let own = add(inside(&home, "agent3", &["cron", "add", "@daily", "mine"]));
    let root = add(netsky(&home, &["cron", "add", "@daily", "the root's"]));
    let file = fs::read_to_string(home.path().join("cron.toml")).expect("there");
    assert!(file.contains("agent = \"agent3\"") && file.contains("agent = \"agent0\""), "{file}");
    refused(
        &inside(&home, "agent3", &["cron", "add", "@daily", "x", "--agent", "agent0"]),
        4,
        "this session is agent3",
    );
    refused(
        &inside(&home, "agent3", &["cron", "add", "@daily", "x", "--agent", "4"]),
        4,
        "this session is agent3",
    );
    for verb in ["remove", "enable", "disable"] {
        refused(
            &inside(&home, "agent3", &["cron", verb, &root]),
            4,
            "is of agent0, and this session is agent3",
        );
        refused(
            &inside(&home, "agent4", &["cron", verb, &own]),
            4,
            "is of agent3, and this session is agent4",
        );
    }
    assert_eq!(
        fs::read_to_string(home.path().join("cron.toml")).expect("there"),
        file,
        "nothing was changed"
    );
    assert_eq!(inside(&home, "agent3", &["cron", "disable", &own]).out, format!("{own} is disabled\n"));
    assert_eq!(inside(&home, "agent0", &["cron", "enable", &own]).out, format!("{own} is enabled\n"));
    assert_eq!(inside(&home, "agentinfinity", &["cron", "remove", &own]).out, format!("{own} is removed\n"));
    let theirs = add(inside(&home, "agent0", &["cron", "add", "@daily", "x", "--agent", "3"]));
    assert_eq!(netsky(&home, &["cron", "remove", &theirs]).code, 0);
}

#[test]
fn what_is_typed_wrong_is_one_line_and_changes_nothing() {
    let home = Home::init();
    let long = "x".repeat(41 * 1024);
    for (args, code, words) in [
        (
            &["cron", "add", "0 25 * * *", "x"][..],
            2,
            "field 2 (hour) is \"25\": Number out of bounds; it takes 0 to 23",
        ),
        (&["cron", "add", "0 11 * *", "x"], 2, "it has 4 fields and takes 5"),
        (&["cron", "add", "0 0 30 2 *", "x"], 2, "it names no day that ever comes"),
        (&["cron", "add", "@daily", ""], 2, "prompt is empty"),
        (&["cron", "add", "@daily", &long], 2, "over the limit of 40960"),
        (&["cron", "add", "@daily", "x", "--tz", "Mars"], 2, "is no zone"),
        (&["cron", "add", "@daily", "x", "--catch-up", "twice"], 2, "is not once or skip"),
        (&["cron", "add", "@daily", "x", "--window", "soon"], 2, "soon"),
        (&["cron", "add", "@daily", "x", "--agent", "../x"], 2, "../x"),
        (&["cron", "add", "@daily", "x", "--agent", "agent9"], 4, "no agent agent9 is known"),
        (&["cron", "remove", "nobody"], 3, "no cron entry is nobody"),
        (&["cron", "enable", "../x"], 2, "is not [a-z0-9]"),
        (&["cron", "next", "* * * * MONDAY"], 2, "field 5 (day of week)"),
        (&["cron", "next", "@daily", "--count", "0"], 2, "0"),
    ] {
        refused(&netsky(&home, args), code, words);
    }
    assert!(!home.path().join("cron.toml").exists());
    let next =
        netsky(&home, &["cron", "next", "*/20 9-17 * * mon-fri", "--tz", "Europe/Berlin", "--count", "2"])
            .out;
    assert!(
        next.contains("every 20th one") && next.contains("9 to 17") && next.contains("MON to FRI"),
        "{next}"
    );
    let json = netsky(&home, &["cron", "next", "0 12 * * *", "--json", "--count", "3"]).out;
    let json: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!((json["next"].as_array().map(Vec::len), &json["fields"][1]["says"]), (Some(3), &"12".into()));
}

#[test]
fn what_somebody_writes_while_a_verb_edits_is_not_lost() {
    let home = Home::init();
    let file = home.path().join("cron.toml");
    let by_hand = "# by hand\n".to_owned() + &entry("q", "@daily", "");
    for before in [None, Some("# old\n")] {
        let _ = fs::remove_file(&file);
        before.iter().for_each(|text| fs::write(&file, text).expect("written"));
        let mut edit = program(&home, &["cron", "add", "@daily", "x"]);
        let edit = edit.env("NETSKY_FAULT", "schedule.cron.edited=stop").spawn().expect("starts");
        let process = netsky_disk::process::identify_child(edit.id()).expect("not waited for");
        while !netsky_disk::process::is_stopped(&process) {
            netsky_disk::clock::pause(std::time::Duration::from_millis(10));
        }
        fs::write(&file, &by_hand).expect("written");
        netsky_disk::process::signal(&process, netsky_disk::process::Signal::CONT).expect("ours");
        let said = said(&home, edit.wait_with_output().expect("it ends"));
        assert_eq!(said.code, 0, "{said:?}");
        let text = fs::read_to_string(&file).expect("there");
        assert!(text.starts_with(&by_hand) && text.contains("prompt = \"x\""), "{text}");
    }
    let left = fs::read_dir(home.path().join("tmp")).expect("there").count();
    assert_eq!(left, 0, "nothing is left beside it");
}

/// So many entries, each due once in a quarter.
fn many(count: usize) -> String {
    (0..count).map(|at| entry(&format!("e{at:04}"), "*/15 * * * *", "")).collect()
}

#[test]
fn must_show_3_of_ten_thousand_instants_eight_ticks_at_once_tell_each_once() {
    let (entries, instants) = (1_000, 10);
    let clocked = Clocked::with(&many(entries));
    let mut ids = std::collections::BTreeSet::new();
    for instant in 1..=instants {
        clocked.slept(instant * 15 * 60 * 1000);
        let ticks: Vec<_> =
            (0..8).map(|_| clocked.command(&["cron", "tick"]).spawn().expect("starts")).collect();
        for tick in ticks {
            let said = said(&clocked.home, tick.wait_with_output().expect("it ends"));
            assert_eq!((said.code, said.err.as_str()), (0, ""));
        }
        let told = clocked.told();
        assert_eq!(told.len(), entries, "instant {instant}");
        for envelope in told {
            assert_eq!(missed(&envelope), 0);
            assert!(ids.insert(envelope.id), "told twice");
        }
        // As if they were read, and gone after their time.
        for file in clocked.home.files("agent0", "inbox").expect("read") {
            fs::remove_file(clocked.home.channel("agent0", "inbox").join(file)).expect("ours");
        }
    }
    assert_eq!(ids.len(), entries * instants as usize);
}
