//! `netsky service`: what is written, for which home, and what is left alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stage::Stage;

/// A name of a home that every syntax on the way has a meaning for.
pub(super) const HOSTILE: &str = "ho me %h%%i $HOME ${PATH} \"q\" 'a' \\x41 ; && $(id) é #x";

/// The files that would be installed, as names and texts.
pub(super) fn printed(stage: &Stage, args: &[&str]) -> Vec<(String, String)> {
    let said = stage.ok(&[&["service", "print", "--json"], args].concat());
    let said: Value = serde_json::from_str(&said).expect("one JSON object");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    said["files"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| (text(&file["name"]), text(&file["text"])))
        .collect()
}

pub(super) fn folder(stage: &Stage) -> PathBuf {
    stage.outside(".config/systemd/user")
}

pub(super) fn files(stage: &Stage) -> Vec<String> {
    let entries = std::fs::read_dir(folder(stage)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A stand-in for the user's systemd, which notes what it is told and answers with this code.
fn stand_in(stage: &Stage, code: u8) -> (PathBuf, impl Fn() -> Vec<String>) {
    let (bin, noted) = (stage.outside("bin"), stage.outside("noted"));
    std::fs::create_dir_all(&bin).expect("made");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >>{}\ntest {code} = 0 || echo no bus for you\nexit {code}\n",
        noted.display()
    );
    std::fs::write(bin.join("systemctl"), script).expect("written");
    std::fs::set_permissions(bin.join("systemctl"), PermissionsExt::from_mode(0o755)).expect("ours");
    let read = move || {
        let text = std::fs::read_to_string(&noted).unwrap_or_default();
        let _ = std::fs::remove_file(&noted);
        text.lines().map(|line| line.trim_start_matches("--user ").to_owned()).collect()
    };
    (bin, read)
}

/// Exit code, answer and complaint of a run that finds its programs there.
pub(super) fn with(stage: &Stage, bin: &Path, args: &[&str]) -> (i32, String, String) {
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let ran = stage.command(args).env("PATH", path).output().expect("starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (ran.status.code().expect("an exit"), text(ran.stdout), text(ran.stderr))
}

#[test]
fn t27_systemd_understands_every_line_of_the_units_of_plain_and_hostile_homes() {
    for name in ["home", HOSTILE] {
        let stage = Stage::named(name);
        let units = stage.outside("units");
        std::fs::create_dir(&units).expect("made");
        let mut verify = Command::new("systemd-analyze");
        verify.args(["--user", "verify"]).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        verify.env("HOME", stage.outside("")).env("XDG_RUNTIME_DIR", stage.outside(""));
        verify.env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
        for (name, text) in printed(&stage, &["--systemd"]) {
            std::fs::write(units.join(&name), text).expect("written");
            verify.arg(units.join(name));
        }
        match verify.output() {
            Ok(said) => {
                let words = [said.stdout, said.stderr].concat();
                let words = String::from_utf8_lossy(&words);
                assert!(said.status.success() && words.is_empty(), "{words}");
            }
            // `./check` installs it.
            Err(error) if std::env::var_os("CHECK_SKIPPED").is_some() => panic!("systemd-analyze: {error}"),
            Err(error) => crate::skipped::skipped(&format!("systemd-analyze: {error}")),
        }
    }
}

#[test]
fn an_install_is_whole_said_and_the_same_the_second_time() {
    let stage = Stage::new();
    let (bin, noted) = stand_in(&stage, 0);
    let (code, said, _) = with(&stage, &bin, &["service", "install"]);
    assert_eq!((code, said.matches("wrote ").count()), (0, 4), "{said}");
    assert!(said.contains("is a build's"), "a warning: {said}");
    let texts = printed(&stage, &[]);
    for (name, text) in &texts {
        assert_eq!(std::fs::read_to_string(folder(&stage).join(name)).expect("written"), *text);
    }
    let (ticker, timer) = (&texts[3].0, &texts[2].0);
    let begun =
        ["daemon-reload".to_owned(), format!("enable {ticker} {timer}"), format!("restart {ticker} {timer}")];
    assert_eq!(noted(), begun);
    let (code, said, _) = with(&stage, &bin, &["service", "install"]);
    assert_eq!((code, said.matches("unchanged ").count()), (0, 4), "{said}");
    assert_eq!(noted(), begun, "what runs may be of files before: it was told so late, or not at all");
    let (code, said, _) = with(&stage, &bin, &["service", "install", "--tick", "30s", "--no-start"]);
    assert_eq!((code, said.matches("changed ").count(), noted().len()), (0, 4, 0), "{said}");
    assert!(said.contains(&format!("changed {}", folder(&stage).join(ticker).display())), "{said}");
    assert_eq!(files(&stage).len(), 4, "nothing else is left there");
    let (code, said, _) = with(&stage, &bin, &["service", "uninstall"]);
    assert_eq!((code, said.matches("removed ").count()), (0, 4), "{said}");
    assert_eq!(noted(), [format!("disable --now {timer} {ticker}"), "daemon-reload".to_owned()]);
    assert!(files(&stage).is_empty());
    assert!(with(&stage, &bin, &["service", "uninstall"]).1.contains("nothing of it is installed"));
    let ended = [format!("show --property=FragmentPath --value {ticker}"), format!("stop {timer} {ticker}")];
    assert_eq!(noted()[..2], ended, "what an uninstall without a manager left");
}

#[test]
fn t27_a_file_that_was_edited_or_is_anothers_is_named_and_left() {
    let stage = Stage::new();
    let (bin, noted) = stand_in(&stage, 0);
    with(&stage, &bin, &["service", "install"]);
    noted();
    let page = folder(&stage).join(&printed(&stage, &[])[0].0);
    for (text, why) in [("[Service]\nExecStart=/bin/true\n", "is not of netsky"), ("# mine\n", "was edited")]
    {
        let text = if why == "was edited" {
            format!("{text}{}", printed(&stage, &[])[0].1)
        } else {
            text.to_owned()
        };
        std::fs::write(&page, &text).expect("written");
        for verb in [&["service", "install", "--tick", "5s"][..], &["service", "uninstall"]] {
            let (code, said, line) = with(&stage, &bin, verb);
            assert_eq!((code, said.as_str()), (4, ""), "{line}");
            assert!(line.contains(why) && line.contains(&page.display().to_string()), "{line}");
            let forced = if verb.contains(&"install") { "replaces it" } else { "removes it" };
            assert!(line.contains(&format!("--force, which {forced}; nothing was changed")), "{line}");
            assert!(line.lines().count() == 1 && noted().is_empty(), "{line}");
            assert_eq!(std::fs::read_to_string(&page).expect("left"), text);
        }
    }
    assert!(
        !std::fs::read_to_string(folder(&stage).join(&printed(&stage, &[])[3].0))
            .expect("there")
            .contains(" 5000ms")
    );
    assert_eq!(with(&stage, &bin, &["service", "install", "--force"]).0, 0);
    // Of another home, and of nobody here.
    let beside = folder(&stage).join("netsky-ticker-other-01234567.service");
    std::fs::write(&beside, "[Service]\n").expect("written");
    assert_eq!(with(&stage, &bin, &["service", "uninstall"]).0, 0);
    assert_eq!(files(&stage), ["netsky-ticker-other-01234567.service"]);
}

#[test]
fn a_manager_that_does_not_answer_is_told_with_the_commands_for_later() {
    let stage = Stage::new();
    let (bin, _) = stand_in(&stage, 1);
    let (code, said, line) = with(&stage, &bin, &["service", "install"]);
    assert_eq!((code, said.matches("wrote ").count()), (5, 4), "{said}");
    let ticker = &printed(&stage, &[])[3].0;
    for words in ["no bus for you", "run: systemctl --user daemon-reload && systemctl --user enable ", ticker]
    {
        assert!(line.contains(words), "{words:?} in {line}");
    }
    assert_eq!(line.lines().count(), 1, "{line}");
    // By hand, as its manager would have.
    let wants = folder(&stage).join("default.target.wants");
    std::fs::create_dir(&wants).expect("made");
    std::os::unix::fs::symlink("../x", wants.join(ticker)).expect("made");
    let (code, said, line) = with(&stage, &bin, &["service", "uninstall"]);
    assert_eq!((code, said.matches("removed ").count()), (5, 4), "{line}");
    assert!(
        line.contains(&format!("systemctl --user stop {} {ticker} && ", printed(&stage, &[])[2].0)),
        "{line}"
    );
    assert_eq!(std::fs::read_dir(&wants).expect("there").count(), 0, "nothing starts at the next login");
}

#[test]
fn bad_input_is_one_line_and_writes_nothing() {
    let stage = Stage::new();
    let mut inside = stage.command(&["service", "install"]);
    let inside = inside.env("NETSKY_AGENT", "agent0").env("NETSKY_GENERATION", "1").output().expect("starts");
    assert_eq!(inside.status.code(), Some(4), "the owner's");
    let mut newline = stage.command(&["service", "install"]);
    let newline = newline.env("NETSKY_HOME", "/srv/a\nExecStart=/bin/sh").output().expect("starts");
    assert_eq!(newline.status.code(), Some(2));
    let line = String::from_utf8(newline.stderr).expect("text");
    assert!(line.lines().count() == 1 && line.contains("control character"), "{line}");
    for args in [
        &["service", "install", "--tick", "1ms"][..],
        &["service"],
        &["service", "print", "--systemd", "--launchd"],
    ] {
        assert_eq!(stage.refused(args).0, 2, "{args:?}");
    }
    assert!(files(&stage).is_empty());
    // A link in the place of the folder's parent is the user's way to keep his settings elsewhere.
    std::fs::create_dir_all(stage.outside("dotfiles/user")).expect("made");
    std::fs::create_dir_all(stage.outside(".config")).expect("made");
    std::os::unix::fs::symlink("../dotfiles", stage.outside(".config/systemd")).expect("made");
    stage.ok(&["service", "install", "--no-start"]);
    assert_eq!(std::fs::read_dir(stage.outside("dotfiles/user")).expect("there").count(), 4);
}

#[test]
fn status_and_doctor_say_how_it_stands() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let status = |stage: &Stage| -> Value {
        serde_json::from_str(&stage.ok(&["service", "status", "--json"])).expect("JSON")
    };
    let doctor = |stage: &Stage| {
        let said: Value = serde_json::from_slice(&stage.run(&["doctor", "--json"]).stdout).expect("JSON");
        let checks = said["checks"].as_array().expect("a list").clone();
        checks.into_iter().find(|one| one["id"] == "service").expect("looked at")["state"].clone()
    };
    assert_eq!((status(&stage)["installed"].clone(), doctor(&stage)), (false.into(), "note".into()));
    stage.ok(&["service", "install", "--no-start"]);
    let seen = status(&stage);
    assert_eq!((&seen["installed"], &seen["enabled"]), (&true.into(), &false.into()), "{seen}");
    assert!(stage.ok(&["service", "status"]).contains("it is not enabled"));
    assert_eq!(doctor(&stage), "note");
    for (target, name) in [("default", 3), ("timers", 2)] {
        let wants = folder(&stage).join(format!("{target}.target.wants"));
        std::fs::create_dir(&wants).expect("made");
        std::os::unix::fs::symlink("../x", wants.join(&printed(&stage, &[])[name].0)).expect("made");
    }
    assert_eq!((status(&stage)["enabled"].clone(), doctor(&stage)), (true.into(), "good".into()));
    stage.ok(&["tick", "--failsafe"]);
    assert_eq!(status(&stage)["failsafe"]["outcome"], "nobody is wanted");
    assert!(stage.ok(&["service", "status"]).contains("the failsafe ran "));
}
