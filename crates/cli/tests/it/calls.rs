//! Must show 5 of issue 2 and L15: what a send asks of the disk, and what `--version` does not.

use netsky_sim::{Call, Ended, Errno, Moment, Point};

use crate::bus_home::Home;

/// The calls of one run from its first touch of the home on, each once, at its end.
fn calls(home: &Home, args: &[&str]) -> Vec<Point> {
    let trace = home.stepper(args.iter().copied()).points().expect("a run");
    assert!(matches!(trace.run.ended, Ended::Exited(_)), "{:?}", trace.run.ended);
    trace.points.into_iter().filter(|point| point.moment == Moment::Exit).collect()
}

fn holds(point: &Point, part: &str) -> bool {
    point.files.iter().any(|file| file.to_string_lossy().contains(part))
}

#[test]
fn l15_a_plain_send_syncs_its_file_once_and_after_the_rename_its_folder_once() {
    let home = Home::init();
    let send = ["channel", "send", "agent0", "hello", "--from", "owner"];
    home.netsky(send).expect("the first send makes the channel and the clock");
    let points = calls(&home, &send);
    let of = |call: Call| points.iter().filter(|point| point.call == call).collect::<Vec<_>>();
    let (syncs, renames) = (of(Call::Sync), of(Call::Rename));
    let [file, folder] = syncs[..] else { panic!("two syncs, not {syncs:?}") };
    let [rename] = renames[..] else { panic!("one rename, not {renames:?}") };
    assert!(holds(file, "/tmp/") && file.index < rename.index, "{file}");
    assert!(holds(rename, "/inbox/"), "{rename}");
    assert!(folder.files[0].ends_with("channels/agent/agent0/inbox"), "{folder}");
    assert!(folder.index > rename.index, "{folder}");
    assert!(of(Call::Mkdir).is_empty() && of(Call::Unlink).is_empty() && of(Call::Lock).is_empty());
}

#[test]
fn t1_an_init_syncs_the_folders_that_an_earlier_one_left_behind() {
    let home = Home::init();
    // As after a kill: every folder is there, and nobody knows whether it is durable.
    std::fs::remove_file(home.path().join("home.json")).expect("there");
    let points = calls(&home, &["init"]);
    let synced = |path: &std::path::Path| {
        points.iter().any(|point| point.call == Call::Sync && point.files.iter().any(|file| file == path))
    };
    for folder in ["", "state", "state/desired", "channels/agent", "logs", ".ostk"] {
        assert!(synced(&home.path().join(folder)), "{folder:?} of {points:#?}");
    }
    assert!(synced(&home.path().join("channels")), "also what only leads to another");
    assert!(synced(home.path().parent().expect("its parent")), "the home's own name");
}

#[test]
fn fm_send_emfile_is_tried_again() {
    let home = Home::init();
    let send = ["channel", "send", "agent0", "hello", "--from", "owner"];
    home.netsky(send).expect("the first send makes the channel and the clock");
    for file in ["/inbox", "/tmp", "/state/clock"] {
        let opens = |point: &Point| {
            point.call == Call::Open && point.files.iter().any(|path| path.ends_with(&file[1..]))
        };
        let outcome = home.stepper(send).fail_when(opens, Errno::EMFILE).expect("a run");
        assert!(outcome.hit.is_some(), "{file} is opened");
        assert_eq!(outcome.run.ended, Ended::Exited(0), "{file}: {}", outcome.run.stderr);
    }
    assert_eq!(home.files("agent0", "inbox").expect("there").len(), 4);
    assert_eq!(home.files("agent0", "tmp").expect("there").len(), 0);
}

#[test]
fn a_file_of_a_newer_format_is_looked_at_where_it_is() {
    let home = Home::init();
    home.netsky(["channel", "send", "agent0", "x", "--from", "owner"]).expect("it makes the channel");
    home.netsky(["channel", "drain", "agent0"]).expect("drained");
    let newer = r#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;
    let inbox = home.channel("agent0", "inbox");
    std::fs::write(inbox.join("00000000000000000042-x.json"), newer).expect("written");
    let trace = home.stepper(["channel", "drain", "agent0"]).points().expect("a run");
    assert_eq!(trace.run.ended, Ended::Exited(4), "{}", trace.run.stderr);
    assert!(trace.points.iter().any(|point| holds(point, "-x.json")), "it is looked at");
    // Held for a moment it would count as surfaced in vain whenever its holder died in that moment.
    assert!(trace.points.iter().all(|point| point.call != Call::Rename), "it is never held");
}

#[test]
fn version_and_help_and_usage_errors_open_nothing_of_the_home() {
    let home = Home::init();
    assert!(!calls(&home, &["channel", "list", "agent0"]).is_empty(), "a verb is seen to touch the home");
    let silent: [&[&str]; 6] = [
        &["--version"],
        &["-V"],
        &["--help"],
        &["channel", "send", "--help"],
        &["frobnicate"],
        &["channel", "drain", "../x"],
    ];
    for args in silent {
        let points = calls(&home, args);
        assert!(points.is_empty(), "{args:?} touches {}", points[0]);
    }
}
