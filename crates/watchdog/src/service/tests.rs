//! Names, files and texts of the units; what systemd makes of them is looked at by the tests of the verbs.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::look::standing;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn plan(home: &str) -> Plan {
    let suffix = suffix(home, false);
    Plan {
        home: plain(home.into()).expect("plain"),
        program: "/opt/netsky".to_owned(),
        interval: MINUTE,
        suffix,
    }
}

#[test]
fn t27_two_homes_never_share_a_name_and_names_stay_short_and_plain() {
    let long = format!("/{}", "x".repeat(4000));
    let homes =
        ["/srv/a", "/srv/b/a", "/srv/a ", "/srv/$(id)", "/srv/a%h", "/", "/srv/ä", "/srv/A", &long].map(plan);
    let mut names: Vec<String> = Vec::new();
    for home in &homes {
        for manager in [Manager::Systemd, Manager::Launchd] {
            names.extend(home.files(manager).into_iter().map(|file| file.name));
        }
    }
    let all = names.len();
    assert!(
        names.iter().all(
            |name| name.len() < 80 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
        )
    );
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    assert_eq!(suffix("/srv/me/.netsky", true), "");
}

#[test]
fn a_path_that_no_unit_can_name_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    for path in ["/a\nExecStart=/bin/sh", "/a\tb", "/a\u{7f}"].map(PathBuf::from) {
        assert!(matches!(plain(path), Err(Error::Path { .. })));
    }
    for program in ["/a\"b", "/a'b", "/a\\b"].map(PathBuf::from) {
        assert!(Plan::new(&Layout::new("/srv/a"), program, MINUTE).is_err(), "systemd takes none of these");
    }
    assert!(plain(Path::new(std::ffi::OsStr::from_bytes(b"/a\xff")).to_owned()).is_err());
}

#[test]
fn a_file_is_known_as_ours_as_edited_and_as_anothers() {
    for manager in [Manager::Systemd, Manager::Launchd] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = plan("/srv/a").files(manager).remove(0);
        let path = folder.path().join(&file.name);
        let look = || standing(folder.path(), &file).expect("looked at");
        assert_eq!(look(), Standing::Missing);
        std::fs::write(&path, &file.text).expect("written");
        assert_eq!(look(), Standing::Current);
        let other = Plan { program: "/opt/other".to_owned(), ..plan("/srv/a") };
        let old =
            other.files(manager).into_iter().find(|file| file.text.contains("/opt/other")).expect("one");
        std::fs::write(&path, &old.text).expect("written");
        assert_eq!(look(), Standing::Older);
        for edited in [
            old.text.replace("other", "mine"),
            format!("{}more\n", old.text),
            format!("{} ", old.text.trim()),
        ] {
            std::fs::write(&path, edited).expect("written");
            assert_eq!(look(), Standing::Edited);
        }
        std::fs::write(&path, "[Service]\nExecStart=/bin/true\n").expect("written");
        assert_eq!(look(), Standing::Foreign);
        std::fs::write(&path, &plan("/srv/b").files(manager)[0].text).expect("written");
        assert_eq!(look(), Standing::Foreign, "the default home of another HOME has the same names");
        std::fs::remove_file(&path).expect("there");
        symlink("/dev/null", &path).expect("made");
        assert_eq!(look(), Standing::Foreign, "a masked unit");
        std::fs::remove_file(&path).expect("there");
        std::fs::create_dir(&path).expect("made");
        assert_eq!(look(), Standing::Foreign);
    }
}

/// Keys and values of a plist's only dictionary, as far as we write it; panics on what does not nest.
fn elements(xml: &str) -> Vec<(String, String)> {
    let (mut open, mut found, mut rest): (Vec<String>, Vec<(String, String)>, &str) = (vec![], vec![], xml);
    while let Some(at) = rest.find('<') {
        let text = rest[..at].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let end = at + rest[at..].find('>').expect("it is closed");
        let tag = &rest[at + 1..end];
        match tag.strip_prefix('/') {
            Some(name) => {
                assert_eq!(open.pop().as_deref(), Some(name), "{xml}");
                found.push((name.to_owned(), text));
            }
            None if tag.starts_with(['?', '!']) => {}
            None if tag.ends_with('/') => found.push((tag.trim_end_matches('/').to_owned(), String::new())),
            None => open.push(tag.split(' ').next().expect("a word").to_owned()),
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{xml}");
    found
}

#[test]
fn t27_the_agents_of_launchd_nest_and_say_the_very_paths_of_a_hostile_home() {
    let home = "/srv/a & <b>\"'$(id)%h]]>/home";
    for file in plan(home).files(Manager::Launchd) {
        let found = elements(&file.text);
        let has = |tag: &str, text: &str| found.contains(&(tag.to_owned(), text.to_owned()));
        assert!(has("string", home), "{found:?}");
        assert!(has("key", "AbandonProcessGroup") && has("true", ""), "who was started lives on");
        assert!(has("string", "/opt/netsky"), "{found:?}");
        let is_failsafe = file.name.contains("failsafe");
        assert_eq!(has("integer", "120"), is_failsafe);
        assert_eq!(has("key", "KeepAlive"), !is_failsafe);
        let looks = |(tag, text): &(String, String)| tag == "string" && text.contains("tick --failsafe || {");
        assert_eq!(found.iter().any(looks), is_failsafe, "a shell looks how it ended");
    }
}

#[test]
fn a_program_that_will_not_stay_is_told() {
    let of = |program: &str| Plan { program: program.to_owned(), ..plan("/srv/a") }.passing();
    assert!(of("/srv/me/netsky/target/release/netsky").is_some_and(|told| told.contains("a build's")));
    assert!(of("/tmp/netsky").is_some_and(|told| told.contains("a temporary one")));
    assert_eq!(of("/srv/me/.local/bin/netsky"), None);
}

#[test]
fn i10_the_watchdog_of_systemd_leaves_time_for_ticks_that_are_killed() {
    let text = |interval| {
        let plan = Plan { interval: Duration::from_secs(interval), ..plan("/srv/a") };
        plan.files(Manager::Systemd).pop().expect("the ticker").text
    };
    assert!(text(60).contains("WatchdogSec=300000ms\n"));
    assert!(text(600).contains("WatchdogSec=1380000ms\n"));
}
