//! The folder of loops, its index, and what is no loop.

use std::fs;

use netsky_disk::home::Home;
use netsky_model::id::AgentId;

use super::*;
use crate::loops::Look;

fn in_a_home(test: impl FnOnce(&Layout)) {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(folder.path().join("home"));
    Home::init(&layout).expect("made");
    test(&layout);
}

fn id(number: u32) -> LoopId {
    LoopId::from_random(number)
}

fn made(number: u32, interval: Option<u64>) -> Loop {
    let interval = interval.map(Duration::from_secs);
    Loop::new(id(number), AgentId::root(), "look".to_owned(), interval, &clock::stamp())
}

/// What is due, by a store of its own.
fn due(layout: &Layout) -> (Vec<LoopId>, Vec<Broken>) {
    let mut store = Store::open(layout).expect("opened");
    let due = store.due().expect("listed");
    store.close().expect("closed");
    due
}

fn create(layout: &Layout, entry: &Loop) {
    let mut store = Store::open(layout).expect("opened");
    assert!(store.create(entry).expect("written"));
    store.close().expect("closed");
}

#[test]
fn must_show_1_the_file_of_the_seed_reads_and_one_of_ours_has_its_keys() {
    in_a_home(|layout| {
        for (mode, interval) in [("dynamic", ""), ("fixed", "interval_secs = 900\n")] {
            let text = format!(
                "id = \"loop-7f3c2a10\"\nagent = \"agent0\"\ncreated_utc = \"2026-04-19T19:00:00Z\"\nmode = \"{mode}\" # or \"fixed\"\n\
                 prompt = \"check the merge queue\"\nnext_fire_utc = \"2026-04-19T19:25:00Z\"\n\
                 last_fire_utc = \"2026-04-19T18:35:00Z\" # optional\n{interval}"
            );
            fs::write(layout.loops().join("loop-7f3c2a10.toml"), &text).expect("written");
            let (loops, broken) = read_all(layout).expect("listed");
            assert_eq!((loops.len(), broken), (1, Vec::new()));
            let written = toml::to_string(&loops[0]).expect("text");
            let keys = |text: &str| -> Vec<String> {
                text.lines().filter_map(|line| Some(line.split_once(" =")?.0.to_owned())).collect()
            };
            assert_eq!(keys(&written), keys(&text), "the same keys in the same order");
            assert!(matches!(loops[0].look(&clock::stamp()), Look::Due(_)));
        }
    });
}

#[test]
fn keys_of_a_newer_program_stay_and_a_newer_version_is_left_alone() {
    in_a_home(|layout| {
        let mut text = toml::to_string(&made(1, Some(60))).expect("text");
        text.insert_str(0, "colour = \"red\"\n");
        let path = layout.loops().join(id(1).file());
        fs::write(&path, &text).expect("written");
        let mut store = Store::open(layout).expect("opened");
        let entry = store.get(id(1)).expect("it reads");
        store.save(&entry).expect("saved");
        assert!(fs::read_to_string(&path).expect("there").contains("colour = \"red\""));
        fs::write(&path, format!("v = 2\n{text}")).expect("written");
        let Err(Error::Broken(broken)) = store.get(id(1)) else { panic!("newer") };
        assert!(broken.fate == Fate::Stays && broken.why.contains("version 2"), "{broken}");
    });
}

#[test]
fn the_index_says_what_the_files_say_whoever_changed_them() {
    in_a_home(|layout| {
        assert_eq!(due(layout), (Vec::new(), Vec::new()), "a home without loops");
        let at_once = |number| {
            let mut entry = made(number, None);
            entry.arm(&clock::stamp(), Duration::ZERO);
            entry
        };
        create(layout, &at_once(1));
        create(layout, &made(2, Some(900)));
        assert_eq!(due(layout).0, [id(1)]);
        // By a hand: another name, another text, and none.
        let path = |number| layout.loops().join(id(number).file());
        fs::write(path(3), toml::to_string(&at_once(3)).expect("text")).expect("written");
        assert_eq!(due(layout).0.len(), 2);
        fs::remove_file(path(1)).expect("there");
        assert_eq!(due(layout).0, [id(3)]);
        let mut store = Store::open(layout).expect("opened");
        store.remove(id(3)).expect("there");
        assert!(matches!(store.remove(id(3)), Err(Error::Unknown(_))));
        store.close().expect("closed");
        assert_eq!(due(layout).0, []);
        // In place, which no folder shows: at once by who says so.
        fs::write(path(2), toml::to_string(&at_once(2)).expect("text")).expect("written");
        let mut store = Store::open(layout).expect("opened");
        store.touched(id(2)).expect("it reads");
        store.close().expect("closed");
        assert_eq!(due(layout).0, [id(2)]);
        // What is no index, or one of another boot, is made anew.
        let index = layout.tick_folder().join("loops.index");
        for torn in [&b"nsloops1"[..], b"", &[0xff; 4000]] {
            fs::write(&index, torn).expect("written");
            assert_eq!(due(layout).0, [id(2)]);
        }
        let mut bytes = fs::read(&index).expect("there");
        bytes[32] ^= 1;
        // Whatever it says.
        bytes[64..].chunks_mut(40).for_each(|row| row[16..24].copy_from_slice(&i64::MAX.to_le_bytes()));
        fs::write(&index, bytes).expect("written");
        assert_eq!(due(layout).0, [id(2)]);
    });
}

#[test]
fn who_dies_between_a_file_and_its_row_leaves_an_index_that_is_made_anew() {
    in_a_home(|layout| {
        create(layout, &made(1, Some(900)));
        let mut store = Store::open(layout).expect("opened");
        assert!(store.due().expect("listed").0.is_empty());
        let mut entry = store.get(id(1)).expect("it reads");
        entry.arm(&clock::stamp(), Duration::ZERO);
        store.save(&entry).expect("saved");
        // As who is killed leaves it: open, and of no folder.
        drop(store);
        assert_eq!(due(layout).0, [id(1)]);
        // Also where the folder's clock is too coarse to show the change: before it the index says so itself.
        let mut store = Store::open(layout).expect("opened");
        assert_eq!(store.due().expect("listed").0, [id(1)]);
        let index =
            || Index::open(&Dir::open(layout.tick_folder()).expect("there"), "loops.index", &clock::stamp());
        let folder = version(&store.folder);
        assert!(index().expect("it reads").is_of(folder));
        store.step_out();
        assert!(!index().expect("it reads").is_of(folder));
    });
}

#[test]
fn must_show_7_what_is_no_loop_is_named_with_its_place_and_put_aside_and_the_others_are_due() {
    in_a_home(|layout| {
        let mut entry = made(1, None);
        entry.arm(&clock::stamp(), Duration::ZERO);
        create(layout, &entry);
        let good = toml::to_string(&entry).expect("text");
        let long = format!("{good}x = \"{}\"\n", "y".repeat(MAX_FILE as usize));
        for (name, text, why) in [
            ("loop-0000000a.toml", good.replace("agent = \"agent0\"", "agent = agent0"), "line 2, column"),
            ("loop-0000000b.toml", good.clone(), "its id is loop-00000001"),
            ("loop-0000000c.toml", good.replace("prompt", "promt"), "missing field"),
            ("loop-0000000d.toml", long, "over the limit"),
            ("mine.toml", good.clone(), "its name is not loop-<8 hex digits>.toml"),
        ] {
            fs::write(layout.loops().join(name), text).expect("written");
            let mut store = Store::open(layout).expect("opened");
            let (due, broken) = store.due().expect("listed");
            assert_eq!(due, [id(1)], "{name}");
            let [broken] = &broken[..] else { panic!("{name}: {broken:?}") };
            assert!(
                broken.name == name && broken.why.contains(why) && !broken.why.contains('\n'),
                "{broken}"
            );
            store.put_aside(broken).expect("moved");
            store.close().expect("closed");
            assert!(layout.loops().join(BROKEN).join(name).exists());
        }
        fs::write(layout.loops().join("notes.txt"), "mine").expect("written");
        fs::write(layout.loops().join(".loop-0000000e.toml.swp"), "an editor's").expect("written");
        assert_eq!(due(layout), (vec![id(1)], Vec::new()));
    });
}

#[test]
fn fm_loop_race_what_others_put_there_while_a_store_is_open_is_found_by_the_next() {
    in_a_home(|layout| {
        create(layout, &made(1, Some(900)));
        let mut entry = made(2, None);
        entry.arm(&clock::stamp(), Duration::ZERO);
        let text = toml::to_string(&entry).expect("text");
        let path = layout.loops().join(entry.id.file());
        // Before a change of the store's own, behind one, and beside none.
        for when in 0..3 {
            let mut store = Store::open(layout).expect("opened");
            assert!(store.due().expect("listed").0.is_empty());
            let mut own = || {
                let entry = store.get(id(1)).expect("it reads");
                store.save(&entry).expect("saved");
            };
            if when == 1 {
                own();
            }
            fs::write(&path, &text).expect("written");
            if when == 0 {
                own();
            }
            store.close().expect("closed");
            assert_eq!(due(layout).0, [id(2)], "{when}");
            fs::remove_file(&path).expect("there");
            assert!(due(layout).0.is_empty());
        }
    });
}

#[test]
fn fm_loop_fire_eio_an_index_that_is_none_keeps_no_loop_from_being_due() {
    in_a_home(|layout| {
        let mut entry = made(1, None);
        entry.arm(&clock::stamp(), Duration::ZERO);
        fs::create_dir(layout.tick_folder().join("loops.index")).expect("in its place");
        create(layout, &entry);
        assert_eq!(due(layout).0, [id(1)]);
        let mut store = Store::open(layout).expect("opened");
        store.remove(id(1)).expect("there");
        store.close().expect("closed");
        assert_eq!(due(layout).0, []);
    });
}

#[test]
fn what_writers_that_were_killed_left_is_swept() {
    in_a_home(|layout| {
        due(layout);
        let left = layout.loops().join("tmp").join("of-who-was-killed");
        fs::write(&left, "half of it").expect("written");
        create(layout, &made(1, Some(900)));
        fs::write(layout.loops().join("loop-00000002.toml"), "no loop").expect("written");
        due(layout);
        assert!(!left.exists());
    });
}

#[test]
fn what_would_not_be_read_again_is_not_written() {
    in_a_home(|layout| {
        let mut entry = made(1, None);
        // Each takes six bytes in the file.
        entry.prompt = "\u{1b}".repeat(13_000);
        let mut store = Store::open(layout).expect("opened");
        let refused = store.create(&entry).expect_err("too long").to_string();
        assert!(refused.contains("it would have 78") && refused.contains("bytes"), "{refused}");
        assert!(read_all(layout).expect("listed").0.is_empty());
    });
}

#[test]
fn the_next_loop_is_the_first_that_was_not_due_then_as_the_index_says() {
    in_a_home(|layout| {
        let secs = |layout: &Layout, since: &Stamp| match coming(layout, since) {
            Coming::In(left) => left.as_secs_f64().ceil() as u64,
            other => panic!("{other:?}"),
        };
        assert_eq!(coming(layout, &clock::stamp()), Coming::Unknown, "nobody has looked");
        due(layout);
        let now = clock::stamp();
        assert_eq!(coming(layout, &now), Coming::Never);
        let before = changes(layout);
        create(layout, &made(1, Some(600)));
        create(layout, &made(2, Some(60)));
        assert!(changes(layout) != before && changes(layout) == changes(layout));
        assert!((59..=61).contains(&secs(layout, &now)));
        let later = Stamp { boot_ms: now.boot_ms + 65_000, ..now.clone() };
        assert!((534..=536).contains(&secs(layout, &later)), "the other was due by then");
        fs::copy(layout.loops().join(id(1).file()), layout.loops().join("by-hand.toml")).expect("copied");
        assert_eq!(coming(layout, &now), Coming::Unknown);
    });
}
