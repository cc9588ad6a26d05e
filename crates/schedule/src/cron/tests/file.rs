//! The owner's file: read entry by entry, and edited around what he wrote.

use std::fs;

use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;

use super::super::{
    CatchUp, EditError, Entries, EntryId, Kept, Known, MOST, NewEntry, Unusable, add, changes, coming,
    enable, envelope_id, load, missed, parse, remove,
};
use crate::Coming;

const FILE: &str = r#"# What the house does every day.
owner = "me"     # a key that nobody knows

# The first thing.
[[entries]]
id = "stand-up"      # by hand
agent = "7"
schedule = "0 11 * * MON-FRI"
prompt = """
What is new?
And what is not?"""
tz = "Europe/Berlin"
shade = "blue"

[other]
x = 1   # of somebody else's

# Below it.
[[entries]]
id = "cron-0a1b2c3d"
agent = "agent0"
schedule = "@daily"
prompt = "sweep"
catch_up = "skip"
catch_up_window = "90m"
enabled = false   # for now
created_utc = 2026-04-19T19:00:00Z
# The end.
"#;

fn in_a_home(test: impl FnOnce(&Layout)) {
    let temp = tempfile::tempdir().expect("a throwaway folder");
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).expect("a fresh home");
    test(&layout);
}

fn new() -> NewEntry {
    NewEntry {
        agent: AgentId::root(),
        schedule: "*/5 * * * *".to_owned(),
        prompt: "a \"quoted\" word\nand a line".to_owned(),
        tz: "UTC".to_owned(),
        catch_up: CatchUp::Once,
        window: "24h".to_owned(),
        created_utc: "2026-04-19T19:00:00Z".parse().expect("an instant"),
    }
}

fn id(text: &str) -> EntryId {
    text.parse().expect("an id")
}

fn broken(text: &str) -> Vec<String> {
    let Entries { broken, .. } = parse(text.as_bytes()).expect("a list of entries");
    broken.iter().map(ToString::to_string).collect()
}

#[test]
fn an_entry_has_what_is_written_and_what_is_not() {
    let Entries { good, broken } = parse(FILE.as_bytes()).expect("it reads");
    assert_eq!(broken, []);
    let [first, second] = &good[..] else { panic!("two: {good:?}") };
    assert_eq!((first.agent.as_str(), first.tz.as_str(), first.enabled), ("agent7", "Europe/Berlin", true));
    assert_eq!((first.prompt.as_str(), first.catch_up), ("What is new?\nAnd what is not?", CatchUp::Once));
    assert_eq!((first.window.as_secs(), first.created_utc, first.line), (86_400, None, 5));
    assert_eq!((second.catch_up, second.window.as_secs(), second.enabled), (CatchUp::Skip, 5_400, false));
    assert_eq!(
        (second.created_utc.map(|at| at.to_string()).as_deref(), second.line),
        (Some("2026-04-19T19:00:00Z"), 19)
    );
    // In one line each.
    let inline = "entries = [\n  { id = \"a\", agent = \"agent0\", schedule = \"@daily\", prompt = \"x\" },\n  { id = 1 },\n]\n";
    let Entries { good, broken } = parse(inline.as_bytes()).expect("it reads");
    assert_eq!(
        (good[0].line, broken[0].to_string().as_str()),
        (2, "cron.toml line 3: id is a text in quotes")
    );
}

#[test]
fn fm_cron_fire_corrupt_an_entry_that_does_not_read_is_told_with_its_line_and_the_others_count() {
    let entry = |key: &str, line: &str| {
        let mut lines = vec!["[[entries]]".to_owned()];
        for (known, value) in
            [("id", "\"b\""), ("agent", "\"agent0\""), ("schedule", "\"@daily\""), ("prompt", "\"x\"")]
        {
            lines.push(if known == key { line.to_owned() } else { format!("{known} = {value}") });
        }
        if !["id", "agent", "schedule", "prompt"].contains(&key) {
            lines.push(line.to_owned());
        }
        lines.join("\n")
    };
    for (key, line, at, told) in [
        ("id", "id = \"../x\"", 8, "id \"../x\" is not [a-z0-9]"),
        ("id", "", 7, "id is missing"),
        ("id", "id = \"a\"", 8, "the entry in line 1 has that id"),
        ("agent", "agent = \"Agent 0\"", 9, "Agent 0"),
        ("agent", "agent = 0", 9, "agent is a text in quotes"),
        ("schedule", "schedule = \"0 25 * * *\"", 10, "field 2 (hour) is \"25\""),
        ("prompt", "prompt = \"\"", 11, "prompt is empty"),
        ("tz", "tz = \"Mars/Olympus\"", 12, "tz \"Mars/Olympus\" is no zone"),
        ("tz", "tz = \"../../etc/passwd\"", 12, "is no zone"),
        ("catch_up", "catch_up = \"twice\"", 12, "is not once or skip"),
        ("catch_up_window", "catch_up_window = \"-1h\"", 12, "duration \"-1h\""),
        ("enabled", "enabled = \"yes\"", 12, "enabled is true or false"),
        ("created_utc", "created_utc = \"yesterday\"", 12, "created_utc is an instant"),
    ] {
        let good = "[[entries]]\nid = \"a\"\nagent = \"agent0\"\nschedule = \"@daily\"\nprompt = \"x\"\n\n";
        let text = format!("{good}{}\n", entry(key, line));
        let Entries { good, broken } = parse(text.as_bytes()).expect("a list of entries");
        assert_eq!(good.len(), 1, "{text}");
        let [broken] = &broken[..] else { panic!("one: {broken:?}\n{text}") };
        assert_eq!(broken.line, at, "{broken}\n{text}");
        assert!(broken.to_string().contains(told), "{broken}");
    }
    assert_eq!(broken("[[entries]]\n").len(), 1);
}

#[test]
fn fm_cron_fire_corrupt_what_is_no_list_of_entries_is_told_as_a_whole() {
    for (text, told) in [
        ("[[entries]\n", "line 1: "),
        ("\n\nentries = 3\n", "line 3: entries is a list of tables"),
        ("[entries]\nid = \"a\"\n", "line 1: entries is a list of tables"),
        ("entries = [\n1]\n", "line 2: an entry is a table"),
    ] {
        let why = parse(text.as_bytes()).expect_err(text);
        assert!(why.starts_with(told) && why.lines().count() == 1, "{text}: {why}");
    }
    assert!(parse(b"\xff\xfe").is_err());
    let many = "[[entries]]\n".repeat(MOST + 1);
    assert!(parse(many.as_bytes()).expect_err("too many").contains("1001 entries, over the limit of 1000"));
    assert!(parse(b"").expect("nothing").good.is_empty());
}

#[test]
fn what_people_wrote_around_an_entry_survives_edits() {
    in_a_home(|layout| {
        fs::write(layout.cron(), FILE).expect("written");
        let added = add(layout, &new()).expect("added");
        let text = fs::read_to_string(layout.cron()).expect("there");
        assert!(text.starts_with(FILE), "what was there is there, byte for byte:\n{text}");
        let entries = parse(text.as_bytes()).expect("it reads").good;
        assert_eq!(
            (entries.len(), entries[2].prompt.as_str(), &entries[2].id),
            (3, new().prompt.as_str(), &added)
        );
        remove(layout, &added, None).expect("removed");
        assert_eq!(fs::read_to_string(layout.cron()).expect("there").trim_end(), FILE.trim_end());
        enable(layout, &id("cron-0a1b2c3d"), true, None).expect("done");
        enable(layout, &id("stand-up"), false, None).expect("done");
        let text = fs::read_to_string(layout.cron()).expect("there");
        assert!(text.contains("enabled = true   # for now"), "{text}");
        assert_eq!(
            text.replace("enabled = true ", "enabled = false ")
                .replace("\nenabled = false\n", "\n")
                .trim_end(),
            FILE.trim_end()
        );
        remove(layout, &id("stand-up"), None).expect("removed");
        remove(layout, &id("cron-0a1b2c3d"), None).expect("removed");
        let text = fs::read_to_string(layout.cron()).expect("there");
        for kept in [
            "# What the house does",
            "# a key that",
            "# The first thing.",
            "# of somebody",
            "# Below it.",
            "# The end.",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert!(parse(text.as_bytes()).expect("it reads").good.is_empty());
    });
}

#[test]
fn a_list_in_one_line_is_edited_as_one() {
    in_a_home(|layout| {
        fs::write(layout.cron(), "entries = [] # none\n").expect("written");
        let added = add(layout, &new()).expect("added");
        enable(layout, &added, false, None).expect("done");
        let text = fs::read_to_string(layout.cron()).expect("there");
        assert!(
            text.contains("# none") && !parse(text.as_bytes()).expect("it reads").good[0].enabled,
            "{text}"
        );
        remove(layout, &added, None).expect("removed");
        assert_eq!(fs::read_to_string(layout.cron()).expect("there"), "entries = [] # none\n");
    });
}

#[test]
fn what_cannot_be_edited_stays_as_it_is() {
    in_a_home(|layout| {
        let twice = "[[entries]]\nid = \"a\"\n[[entries]]\nid = \"a\"\nagent = \"agent3\"\n[[entries]]\nid = \"b\"\nagent = \"3\"\n";
        fs::write(layout.cron(), twice).expect("written");
        assert!(matches!(remove(layout, &id("a"), None), Err(EditError::Several { count: 2, .. })));
        assert!(matches!(enable(layout, &id("c"), true, None), Err(EditError::NoEntry(_))));
        let others = AgentId::numbered(4);
        assert!(matches!(remove(layout, &id("b"), Some(&others)), Err(EditError::Others { .. })));
        assert_eq!(fs::read_to_string(layout.cron()).expect("there"), twice);
        remove(layout, &id("b"), Some(&AgentId::numbered(3))).expect("its own, which does not read");
        fs::write(layout.cron(), "[[entries]").expect("written");
        assert!(matches!(add(layout, &new()), Err(EditError::Unreadable(_))));
        let full = "[[entries]]\n".repeat(MOST);
        fs::write(layout.cron(), &full).expect("written");
        assert!(matches!(add(layout, &new()), Err(EditError::Full)));
        assert_eq!(fs::read_to_string(layout.cron()).expect("there"), full);
    });
}

#[test]
fn many_who_edit_at_once_lose_nothing() {
    in_a_home(|layout| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| drop(add(layout, &new()).expect("added"))));
            }
        });
        assert_eq!(load(layout).entries.good.len(), 20);
        let held = Lock::try_take(layout.cron_file_lock()).expect("ours");
        assert!(held.is_some(), "nobody keeps the lock");
    });
}

#[test]
fn fm_cron_fire_corrupt_the_last_file_that_read_stands_in_for_one_that_does_not() {
    in_a_home(|layout| {
        let loaded = load(layout);
        assert!(loaded.is_nothing() && loaded.entries.good.is_empty());
        fs::write(layout.cron(), FILE).expect("written");
        let loaded = load(layout);
        loaded.keep(layout).expect("kept");
        for broken in [&b"[[entries"[..], b"\xff", &[b'#'; 2 << 20]] {
            fs::write(layout.cron(), broken).expect("written");
            let loaded = load(layout);
            let why = loaded.trouble.as_deref().expect("told");
            assert!(why.ends_with("; the last good one is used"), "{why}");
            assert_eq!(loaded.entries.good.len(), 2);
            loaded.keep(layout).expect("nothing to keep");
        }
        assert_eq!(fs::read_to_string(layout.good_cron()).expect("kept"), FILE);
        fs::remove_file(layout.good_cron()).expect("there");
        let loaded = load(layout);
        assert!(
            loaded.trouble.expect("told").ends_with("; no entry is in force")
                && loaded.entries.good.is_empty()
        );
        // Of a file that was removed nothing comes back.
        for _ in 0..2 {
            fs::write(layout.cron(), FILE).expect("written");
            load(layout).keep(layout).expect("kept");
            fs::remove_file(layout.cron()).expect("there");
            load(layout).keep(layout).expect("let go");
            assert!(!layout.good_cron().exists());
            assert_eq!(fs::read_to_string(layout.removed_cron()).expect("for people"), FILE);
        }
        fs::write(layout.cron(), "[[entries").expect("written");
        assert!(load(layout).entries.good.is_empty());
        // What is no plain file of ours is not followed.
        fs::remove_file(layout.cron()).expect("there");
        std::os::unix::fs::symlink("/etc/passwd", layout.cron()).expect("made");
        assert!(load(layout).trouble.is_some());
    });
}

#[test]
fn fm_cron_fire_power_an_empty_file_beside_a_good_copy_is_none_that_the_owner_wrote() {
    in_a_home(|layout| {
        fs::write(layout.cron(), "\n").expect("written");
        assert!(load(layout).trouble.is_none(), "there never was an entry");
        fs::write(layout.cron(), FILE).expect("written");
        load(layout).keep(layout).expect("kept");
        fs::write(layout.cron(), "").expect("cut off");
        let loaded = load(layout);
        let why = loaded.trouble.as_deref().expect("told");
        assert!(
            why.contains("it is empty; remove it where no entry is wanted; the last good one is used"),
            "{why}"
        );
        loaded.keep(layout).expect("nothing to keep");
        assert_eq!(fs::read_to_string(layout.good_cron()).expect("kept"), FILE);
        let refused =
            enable(layout, &id("stand-up"), false, None).expect_err("nothing is made of it").to_string();
        assert!(
            refused.contains("it is empty") && fs::read(layout.cron()).expect("there").is_empty(),
            "{refused}"
        );
        // Whose last entry a verb removed has none that was lost.
        fs::write(
            layout.cron(),
            "[[entries]]\nid = \"a\"\nagent = \"agent0\"\nprompt = \"x\"\nschedule = \"@daily\"\n",
        )
        .expect("written");
        load(layout).keep(layout).expect("kept");
        remove(layout, &"a".parse().expect("an id"), None).expect("removed");
        assert_eq!(fs::read_to_string(layout.cron()).expect("there").trim(), "");
        let loaded = load(layout);
        assert!(loaded.trouble.is_none() && loaded.entries.good.is_empty(), "{loaded:?}");
    });
}

#[test]
fn what_the_tick_keeps_is_written_and_read_again_and_a_newer_one_is_left_alone() {
    in_a_home(|layout| {
        assert_eq!(Kept::read(layout).expect("nothing"), Kept { v: 1, ..Kept::default() });
        let sample = "v = 1\n\n[looked]\nwall = \"2026-04-19T19:00:00Z\"\nboot_ms = 5\nboot_id = \"0a1b2c3d\"\n\n\
            [entries.a]\nschedule = \"@daily in UTC\"\nnext_fire_utc = \"2026-04-20T00:00:00Z\"\nmissed = 3\nuntold = 1\n\
            last_error = \"no\"\nshade = \"blue\"\n";
        fs::write(layout.cron_state(), sample).expect("written");
        let kept = Kept::read(layout).expect("it reads");
        let known = kept.of(&id("a")).expect("kept");
        assert_eq!((known.missed, known.untold, known.last_error.as_deref()), (3, 1, Some("no")));
        kept.write(layout).expect("written");
        assert_eq!(Kept::read(layout).expect("it reads"), kept);
        for (text, is_newer) in [("v = 2\n", true), ("v = \"x\"\n", false), ("nothing", false), ("", false)] {
            fs::write(layout.cron_state(), text).expect("written");
            let unusable = Kept::read(layout).expect_err(text);
            assert_eq!(matches!(unusable, Unusable::Newer(2)), is_newer, "{unusable}");
            assert_eq!(unusable.to_string().lines().count(), 1);
        }
    });
}

#[test]
fn must_show_8_what_passed_while_one_was_not_read_is_said_of_that_one_and_of_no_other() {
    in_a_home(|layout| {
        let slot = |text: &str| -> jiff::Timestamp { text.parse().expect("an instant") };
        let (told, other) = (slot("2026-04-19T19:00:00Z"), slot("2026-04-19T19:15:00Z"));
        let known = |missed, untold| Known { missed, untold, ..Known::default() };
        let broken = Known { last_error: Some("no [entries.a] \"".to_owned()), ..known(9, 0) };
        let entries = [("a", known(32, 2)), ("b", broken), ("c", known(2, 2)), ("aa", known(7, 0))];
        let said = |entry: &str| Some(envelope_id(&id(entry), told));
        let entries = entries.map(|(id, known)| (id.to_owned(), Known { last_id: said(id), ..known })).into();
        let of = |entry: &str, slot| missed(layout, entry, &envelope_id(&id("a"), slot));
        assert_eq!(of("a", told), None, "nothing is kept");
        Kept { v: 1, entries, ..Kept::default() }.write(layout).expect("written");
        assert_eq!(of("a", told), Some(30), "but for what the next one tells");
        assert_eq!(
            (of("a", other), of("aa", told), of("d", told), of("../a", told)),
            (None, None, None, None)
        );
        let of = |entry: &str| missed(layout, entry, &envelope_id(&id(entry), told));
        assert_eq!((of("b"), of("c"), of("aa")), (Some(9), None, Some(7)));
    });
}

#[test]
fn the_next_entry_is_the_first_that_was_not_due_then() {
    in_a_home(|layout| {
        let at = |text: &str| -> jiff::Timestamp { text.parse().expect("an instant") };
        let known = |next: &str| Known { next_fire_utc: Some(at(next)), ..Known::default() };
        let since = Stamp { wall: at("2026-04-19T19:00:00Z"), boot_ms: 5, boot_id: "0a1b2c3d".to_owned() };
        assert_eq!(coming(layout, &since), Coming::Never);
        let entries = [
            ("failed", known("2026-04-19T18:59:00Z")),
            ("due", known("2026-04-19T19:00:00Z")),
            ("next", known("2026-04-19T19:00:03Z")),
            ("later", known("2026-04-19T20:00:00Z")),
            ("disabled", Known::default()),
        ];
        let entries = entries.map(|(id, known)| (id.to_owned(), known)).into();
        let before = changes(layout);
        Kept { v: 1, entries, ..Kept::default() }.write(layout).expect("written");
        assert_eq!(coming(layout, &since), Coming::In(std::time::Duration::from_secs(3)));
        assert!(changes(layout) != before && changes(layout) == changes(layout));
        fs::write(layout.cron_state(), "nothing").expect("written");
        assert_eq!(coming(layout, &since), Coming::Unknown);
    });
}
