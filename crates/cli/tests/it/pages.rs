//! The floor: `netsky escalate`, ticks that send what is unsent, and what `status` says meanwhile.

use std::process::Output;

use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;

use crate::stage::{QUIET, Stage};

/// A home whose only transport appends to `taken`, while `up` is there.
fn floor() -> Stage {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let (up, taken) = (stage.outside("up"), stage.outside("taken"));
    let script = format!("test -e {} && cat >> {}", up.display(), taken.display());
    let config =
        format!("[[page.transports]]\nkind = \"command\"\nargv = [\"/bin/sh\", \"-c\", {script:?}]\n");
    std::fs::write(stage.home().join("config.toml"), config).expect("written");
    stage
}

fn taken(stage: &Stage) -> Vec<String> {
    let text = std::fs::read_to_string(stage.outside("taken")).unwrap_or_default();
    let key = |line: &str| {
        let page: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(format!("{} {}", page["key"].as_str()?, page["repeated"]))
    };
    text.lines().filter_map(key).collect()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn red(stage: &Stage) -> bool {
    stage.ok(&["status"]).contains("unsent, the oldest for")
}

#[test]
fn t27_must_show_6_with_every_transport_down_it_is_red_and_each_condition_is_paged_once_after() {
    let stage = floor();
    for key in ["one", "two", "one"] {
        assert_eq!(code(&stage.run(&["escalate", "text", "--key", key])), Some(5));
    }
    assert!(red(&stage));
    std::fs::write(stage.outside("up"), "").expect("written");
    assert!(stage.ok(&["watchdog", "tick"]).contains("started to send 2 pages"));
    stage.until("both are sent", |stage| (!red(stage)).then_some(()));
    stage.ok(&["watchdog", "tick"]);
    let mut all = taken(&stage);
    all.sort();
    assert_eq!(all, ["escalate/one false", "escalate/two false"]);
}

#[test]
fn t27_a_page_from_standard_input_is_told_whatever_it_holds() {
    let stage = floor();
    std::fs::write(stage.outside("up"), "").expect("written");
    let escalate = |text: &[u8]| {
        std::fs::write(stage.outside("text"), text).expect("written");
        let text = std::fs::File::open(stage.outside("text")).expect("opens");
        stage.command(&["escalate", "-"]).stdin(text).output().expect("starts")
    };
    let long = [b"the disk \xff fails\n".as_slice(), &[b'x'; 200_000]].concat();
    for text in [&long[..], b"short"] {
        let output = escalate(text);
        assert_eq!(code(&output), Some(0), "{output:?}");
    }
    let told = std::fs::read_to_string(stage.outside("taken")).expect("told");
    let texts: Vec<String> = told.lines().filter_map(text_of).collect();
    assert!(
        texts[0].starts_with("the disk \u{fffd} fails") && texts[0].chars().count() <= 1_000,
        "{texts:?}"
    );
    assert_eq!(texts[1..], ["short"]);
    let empty = escalate(b" \n");
    assert_eq!((code(&empty), empty.stdout.len()), (Some(2), 0), "{empty:?}");
}

fn text_of(line: &str) -> Option<String> {
    let page: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(page["text"].as_str()?.to_owned())
}

#[test]
fn doctor_says_that_pages_reach_nobody() {
    let stage = floor();
    let pages = |stage: &Stage| {
        let told: serde_json::Value =
            serde_json::from_slice(&stage.run(&["doctor", "--json"]).stdout).expect("one object");
        let all = told["checks"].as_array().expect("a list").clone();
        all.into_iter().find(|one| one["id"] == "pages").expect("it is looked at")
    };
    assert_eq!(pages(&stage)["state"], "good");
    assert_eq!(code(&stage.run(&["escalate", "text"])), Some(5));
    let told = pages(&stage);
    assert!(told["state"] == "bad" && told["what"].to_string().contains("1 pages are unsent: "), "{told}");
}

#[test]
fn i10_ticks_that_are_ended_in_the_middle_still_reach_the_owner() {
    let stage = floor();
    std::fs::write(stage.outside("up"), "").expect("written");
    stage.ok(&["up", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    stage.hold_triggers();
    // How often is the ticker's word, and it holds still.
    stage.edit("state/tick/ticker.json", |beat| beat["interval_ms"] = 20.into());
    stage.until("a page for ticks of which none ends", |stage| {
        let mut tick = stage.command(&["watchdog", "tick"]);
        let tick = tick.env("NETSKY_FAULT", "watchdog.tick.decided=kill").output().expect("starts");
        assert_eq!(code(&tick), None, "it is killed: {tick:?}");
        taken(stage).iter().any(|page| page.starts_with("tick ")).then_some(())
    });
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(
        taken(&stage).iter().filter(|page| page.starts_with("tick ")).count(),
        1,
        "{:?}",
        taken(&stage)
    );
}

#[test]
fn fm_owner_page_locked_with_the_record_locked_and_no_anchor_it_delivers_all_the_same() {
    let stage = floor();
    std::fs::write(stage.outside("up"), "").expect("written");
    let _held = Lock::try_take(Layout::new(stage.home()).record_lock()).expect("ours").expect("free");
    let output = stage.run(&["escalate", "text", "--key", "one"]);
    assert_eq!(code(&output), Some(6), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the page is no fact"), "{output:?}");
    assert_eq!(taken(&stage), ["escalate/one false"]);
}

#[test]
fn fm_owner_page_kill_at_each_point_loses_none_and_flags_what_it_repeats() {
    for (point, all) in [
        ("owner.page.recorded", &["escalate/one false"][..]),
        ("owner.page.begun", &["escalate/one true"]),
        ("owner.page.taken", &["escalate/one false", "escalate/one true"]),
    ] {
        let stage = floor();
        std::fs::write(stage.outside("up"), "").expect("written");
        let mut killed = stage.command(&["escalate", "text", "--key", "one"]);
        let killed = killed.env("NETSKY_FAULT", format!("{point}=kill")).output().expect("it starts");
        assert_eq!(code(&killed), None, "{point}: {killed:?}");
        stage.ok(&["watchdog", "pages"]);
        assert_eq!(taken(&stage), all, "{point}");
    }
}

#[test]
fn a_folder_that_never_was_a_home_gets_nothing_of_ours() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.home()).expect("made");
    std::fs::write(stage.home().join("theirs"), "x").expect("written");
    let (code, line) = stage.refused(&["escalate", "help"]);
    assert!(code != 0 && line.contains("home"), "{code} {line}");
    assert_eq!(stage.names(""), ["theirs"]);
}

#[test]
fn i10_a_page_of_a_home_that_lets_others_in_reaches_the_transports_once_it_does_not() {
    use std::os::unix::fs::PermissionsExt;
    let stage = floor();
    std::fs::write(stage.outside("up"), "").expect("written");
    let mode = |mode| {
        std::fs::set_permissions(stage.home(), std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode(0o755);
    let told = stage.run(&["escalate", "text", "--key", "one"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(code(&told) == Some(6) && said.contains("get it once that reads"), "{told:?}");
    assert_eq!(taken(&stage), [""; 0], "a program that others may have named is not run");
    mode(0o700);
    stage.ok(&["watchdog", "tick"]);
    stage.until("the transport has it", |stage| (taken(stage) == ["escalate/one true"]).then_some(()));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(taken(&stage).len(), 1);
}
