//! What a power cut may leave, on examples small enough to be listed whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::hlc::SharedClock;
use netsky_disk::sim;
use netsky_model::hlc::Hlc;
use netsky_sim::memory::{Image, Memory, Model, POWER_CUTS, Rng};

/// Does something with two folders that are durable, and lists what a cut at its end may leave: each file as
/// `folder/name=what is in it`, with `0` for a zero byte and `+` for a sector full of one letter.
fn left(model: Model, act: impl FnOnce(&Dir, &Dir)) -> BTreeSet<String> {
    let memory = Memory::new(1);
    let _inside = sim::enter(memory.clone());
    let (a, b) = (Dir::create("/a").expect("made"), Dir::create("/b").expect("made"));
    act(&a, &b);
    let images = memory.disk().cuts(model, 256, &mut Rng::new(1));
    images.iter().map(listed).collect()
}

fn listed(image: &Image) -> String {
    let mut listed = Vec::new();
    for folder in ["/a", "/b"] {
        for (name, bytes) in image.files(Path::new(folder)) {
            let mut text: String = bytes
                .chunks(512)
                .map(|sector| match sector {
                    [0, ..] => "0".to_owned(),
                    [first, rest @ ..] if rest.len() == 511 && rest.iter().all(|b| b == first) => {
                        format!("{}+", char::from(*first))
                    }
                    other => String::from_utf8_lossy(other).into_owned(),
                })
                .collect();
            text.truncate(12);
            listed.push(format!("{}/{}={text}", &folder[1..], name.to_string_lossy()));
        }
    }
    listed.join(" ")
}

fn set<const N: usize>(states: [&str; N]) -> BTreeSet<String> {
    states.map(str::to_owned).into()
}

fn put(dir: &Dir, name: &str, bytes: &[u8]) {
    let (mut lines, _) = netsky_disk::lines::Lines::open(dir, name).expect("opened");
    lines.append(&bytes[..bytes.len() - 1]).expect("written");
}

#[test]
fn t1_a_file_that_nobody_synced_may_be_missing_empty_or_whole_and_in_the_worst_case_of_zeros() {
    let act = |a: &Dir, _: &Dir| put(a, "x", b"one\n");
    assert_eq!(left(Model::Ext4, act), set(["", "a/x=", "a/x=one\n"]));
    assert_eq!(left(Model::Xfs, act), set(["", "a/x=", "a/x=one\n"]));
    assert_eq!(left(Model::Worst, act), set(["", "a/x=", "a/x=0", "a/x=one\n"]));
}

#[test]
fn t1_a_synced_folder_keeps_the_name_and_not_the_bytes() {
    let act = |a: &Dir, _: &Dir| {
        put(a, "x", b"one\n");
        a.sync().expect("synced");
    };
    assert_eq!(left(Model::Ext4, act), set(["a/x=", "a/x=one\n"]));
    assert_eq!(left(Model::Worst, act), set(["a/x=", "a/x=0", "a/x=one\n"]));
}

#[test]
fn t1_a_synced_file_has_its_bytes_and_only_an_ordered_log_gives_it_its_name() {
    let act = |a: &Dir, _: &Dir| {
        put(a, "y", b"two\n");
        let (mut lines, _) = netsky_disk::lines::Lines::open(a, "x").expect("opened");
        lines.append(b"one").expect("written");
        lines.sync().expect("synced");
    };
    // The log has what came before the synced file too, but not its bytes.
    assert_eq!(left(Model::Ext4, act), set(["a/x=one\n a/y=", "a/x=one\n a/y=two\n"]));
    let worst = set([
        "",
        "a/x=one\n",
        "a/y=",
        "a/y=0",
        "a/y=two\n",
        "a/x=one\n a/y=",
        "a/x=one\n a/y=0",
        "a/x=one\n a/y=two\n",
    ]);
    assert_eq!(left(Model::Worst, act), worst);
}

#[test]
fn t1_a_rename_is_whole_and_its_target_folder_makes_it_durable() {
    let renamed = |a: &Dir, b: &Dir| {
        put(a, "x", b"one\n");
        let (lines, _) = netsky_disk::lines::Lines::open(a, "x").expect("opened");
        lines.sync().expect("synced");
        a.sync().expect("synced");
        a.rename("x", b, "y").expect("renamed");
    };
    for model in [Model::Ext4, Model::Xfs, Model::Worst] {
        assert_eq!(left(model, renamed), set(["a/x=one\n", "b/y=one\n"]), "{model:?}");
        let synced = |a: &Dir, b: &Dir| {
            renamed(a, b);
            b.sync().expect("synced");
        };
        assert_eq!(left(model, synced), set(["b/y=one\n"]), "{model:?}");
    }
}

#[test]
fn t1_names_are_lost_in_order_by_a_log_and_in_any_order_in_the_worst_case() {
    let act = |a: &Dir, b: &Dir| {
        put(a, "x", b"\n");
        put(b, "y", b"\n");
        a.sync().expect("synced");
        b.sync().expect("synced");
        for (dir, name) in [(a, "x"), (b, "y")] {
            let (lines, _) = netsky_disk::lines::Lines::open(dir, name).expect("opened");
            lines.sync().expect("synced");
        }
        a.remove("x").expect("removed");
        b.remove("y").expect("removed");
    };
    let ordered = set(["a/x=\n b/y=\n", "b/y=\n", ""]);
    assert_eq!(left(Model::Ext4, act), ordered);
    assert_eq!(left(Model::Xfs, act), ordered);
    assert_eq!(left(Model::Worst, act), set(["a/x=\n b/y=\n", "b/y=\n", "a/x=\n", ""]));
}

#[test]
fn t1_a_replaced_file_is_the_old_or_the_new_one_on_ext4_and_may_be_empty_elsewhere() {
    let act = |a: &Dir, b: &Dir| {
        write_durable(a, b, "x", b"old", Place::New).expect("written");
        put(a, "new", b"new\n");
        a.rename_over("new", b, "x").expect("renamed");
        b.sync().expect("synced");
    };
    assert_eq!(left(Model::Ext4, act), set(["b/x=new\n"]));
    assert_eq!(left(Model::Xfs, act), set(["b/x=", "b/x=new\n"]));
}

#[test]
fn t1_a_write_is_torn_at_sectors() {
    let three = [vec![b'1'; 512], vec![b'2'; 512], b"3\n".to_vec()].concat();
    let act = |a: &Dir, _: &Dir| {
        put(a, "x", &three);
        a.sync().expect("synced");
    };
    // One block: on a file system with a log it is there or not.
    assert_eq!(left(Model::Xfs, act), set(["a/x=", "a/x=1+2+3\n"]));
    let worst = left(Model::Worst, act);
    for torn in ["a/x=", "a/x=000", "a/x=1+", "a/x=1+2+", "a/x=1+00", "a/x=02+3\n", "a/x=1+20", "a/x=1+2+3\n"]
    {
        // `1+20`: the second sector as a whole, the third not yet.
        let torn = torn.replace("1+20", "1+2+0");
        assert!(worst.contains(&torn), "{torn} in {worst:?}");
    }
}

#[test]
fn t1_a_durable_write_is_there_whole_in_every_model_and_before_that_not_at_all() {
    for model in [Model::Ext4, Model::Xfs, Model::Worst] {
        let whole = left(model, |a, b| write_durable(a, b, "x", &[b'z'; 2048], Place::New).expect("written"));
        assert_eq!(whole, set(["b/x=z+z+z+z+"]), "{model:?}");
    }
}

/// The wall's time is lost with the power, and no name is left that would tell how far the clock was.
#[test]
fn t5_the_ceiling_alone_keeps_the_clock_above_every_reading_after_a_cut() {
    for later in [Duration::ZERO, Duration::from_secs(11 * 60)] {
        let memory = Memory::new(1);
        let read = |memory: &Rc<Memory>| {
            let _inside = sim::enter(memory.clone());
            let clock = SharedClock::open(&Dir::create("/a").expect("made")).expect("opened");
            clock.next(|| Ok(Hlc(0))).expect("read")
        };
        read(&memory);
        memory.pass(later);
        let last = read(&memory);
        // Each cut draws whether the word that is in no sync survives.
        for (model, seed) in POWER_CUTS.into_iter().flat_map(|model| (0..8).map(move |seed| (model, seed))) {
            for image in memory.disk().cuts(model, 256, &mut Rng::new(seed)) {
                let booted = Memory::booted(image, &memory.era(), Duration::from_secs(3600));
                assert!(read(&booted) > last, "{model:?}, {later:?} after the first reading");
            }
        }
    }
}

#[test]
fn more_states_than_are_asked_for_are_sampled_with_both_ends() {
    let memory = Memory::new(1);
    let _inside = sim::enter(memory.clone());
    let dir = Dir::create("/a").expect("made");
    for nth in 0..12 {
        put(&dir, &format!("f{nth:02}"), b"x\n");
    }
    let cuts = |seed| {
        let images = memory.disk().cuts(Model::Worst, 100, &mut Rng::new(seed));
        images.iter().map(Image::digest).collect::<Vec<_>>()
    };
    let some = cuts(5);
    assert!(some.len() > 50 && some.len() <= 100, "{}", some.len());
    assert_eq!(some, cuts(5), "a seed decides");
    assert_ne!(some, cuts(6));
    assert!(some.contains(&memory.disk().live().digest()), "everything may be there");
}
