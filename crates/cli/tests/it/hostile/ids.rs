//! A6: thousands of words that are no ids, wherever one is asked for or dropped; none is taken, and no path leaves the home.

use std::fs;

use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, LineageId, Nonce, RestartId, Sender};
use netsky_model::name::Name;
use netsky_sim::corpus::{self, Random};
use netsky_sim::element;

use super::things::{Outside, bounded};
use crate::bus_home::Home;
use crate::screen::{fed, netsky};

const MANY: usize = 2_000;

#[test]
fn a6_no_type_of_id_is_made_of_a_bad_one() {
    let mut random = Random::seeded(0xa6);
    for _ in 0..MANY {
        let bad = corpus::bad_id(&mut random);
        assert!(bad.parse::<AgentId>().is_err(), "{bad:?}");
        assert!(bad.parse::<EnvelopeId>().is_err(), "{bad:?}");
        assert!(bad.parse::<LineageId>().is_err(), "{bad:?}");
        assert!(bad.parse::<RestartId>().is_err(), "{bad:?}");
        assert!(bad.parse::<Sender>().is_err(), "{bad:?}");
        assert!(bad.parse::<Nonce>().is_err(), "{bad:?}");
        assert!(AgentId::from_shorthand(&bad).is_err(), "{bad:?}");
        assert!(format!("{bad}-0a1b2c3d").parse::<LineageId>().is_err(), "{bad:?}");
        for peer in [format!("peer:{bad}/agent0"), format!("peer:home/{bad}")] {
            assert!(peer.parse::<Sender>().is_err(), "{peer:?}");
        }
        for file in [
            format!("00000000000000000042-{bad}.json"),
            format!("00000000000000000042-{bad}.2.json"),
            format!("00000000000000000042-{bad}.1.g3.json"),
            format!("00000000000000000042-x.{bad}.json"),
            format!("00000000000000000042-x.1.{bad}.json"),
            format!("00000000000000000042-x.1.77.{bad}.0a1b2c3d.1.json"),
            format!("{bad}-x.json"),
        ] {
            // A word that is no id may be a part of a name that is one, as `x.2` is.
            let fits = Name::parse(&file).is_none_or(|name| name.to_string() == file && !file.contains('/'));
            assert!(fits, "{file:?}");
        }
    }
}

#[test]
fn a6_no_envelope_holds_a_bad_id() {
    let mut random = Random::seeded(0xa66);
    let whole = serde_json::json!({"from": "a", "text": "t", "ts": "2026-04-19T17:22:57Z"});
    for n in 0..MANY {
        let bad = corpus::bad_id(&mut random);
        let key = ["id", "from", "to", "reply_to"][n % 4];
        let mut envelope = whole.clone();
        envelope[key] = bad.clone().into();
        let bytes = serde_json::to_vec(&envelope).expect("JSON");
        assert!(Envelope::parse(&bytes).is_err(), "{key}: {bad:?}");
    }
}

/// Every place of the command line that takes an id, with the id as `{}`.
const PLACES: [&[&str]; 24] = [
    &["channel", "send", "--from=owner", "--", "{}", "x"],
    &["channel", "send", "agent0", "x", "--from={}"],
    &["channel", "send", "agent0", "x", "--from=owner", "--id={}"],
    &["channel", "send", "agent0", "x", "--from=owner", "--reply-to={}"],
    &["channel", "send", "--from=owner", "--create", "--", "{}", "x"],
    &["channel", "drain", "--", "{}"],
    &["channel", "wait", "--timeout=0s", "--", "{}"],
    &["channel", "list", "--", "{}"],
    &["channel", "show", "--", "{}", "x"],
    &["channel", "show", "--", "agent0", "{}"],
    &["channel", "ack", "--", "{}", "x"],
    &["channel", "ack", "--", "agent0", "{}"],
    &["channel", "release", "--", "{}", "x"],
    &["channel", "release", "--", "agent0", "{}"],
    &["channel", "forward", "--to=agent0", "--", "{}", "x"],
    &["channel", "forward", "--to=agent0", "--", "agent0", "{}"],
    &["channel", "forward", "--to={}", "--", "agent0", "x"],
    &["channel", "poison", "list", "--", "{}"],
    &["channel", "poison", "show", "--", "{}", "x"],
    &["channel", "poison", "retry", "--", "agent0", "{}"],
    &["attach", "--", "{}"],
    &["logs", "--", "{}"],
    &["restart", "--child={}", "--epoch=1"],
    &["status", "--", "{}"],
];

#[test]
fn a6_the_command_line_takes_no_bad_id() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "x"]).works();
    let outside = Outside::beside(&home);
    let mut random = Random::seeded(0xa666);
    let before = paths(&home);
    let mut tried = 0;
    while tried < 20 * PLACES.len() {
        // No argument of a program can hold a NUL: the batch below does.
        let bad = corpus::bad_id(&mut random);
        if bad.contains('\0') {
            continue;
        }
        let place = PLACES[tried % PLACES.len()];
        let args: Vec<String> = place.iter().map(|part| part.replace("{}", &bad)).collect();
        let said = netsky(&home, &args.iter().map(String::as_str).collect::<Vec<_>>());
        said.fails_with(2, &[]);
        tried += 1;
    }
    assert_eq!(paths(&home), before);
    outside.is_untouched("the command line");
}

#[test]
fn a6_a_batch_takes_no_bad_id() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "x", "--from", "owner", "--id", "x"]).works();
    let outside = Outside::beside(&home);
    let before = paths(&home);
    let mut random = Random::seeded(0xa6666);
    let lines: String = (0..MANY)
        .map(|n| {
            let mut line =
                serde_json::json!({"to": "agent0", "from": "owner", "text": "t", "create": n % 3 == 0});
            line[["to", "from", "id", "reply_to"][n % 4]] = corpus::bad_id(&mut random).into();
            format!("{line}\n")
        })
        .collect();
    let said = fed(&home, &["channel", "send", "--batch"], lines.as_bytes());
    assert_eq!(said.code, 2, "{}", said.err);
    assert_eq!(said.out.lines().count(), MANY, "one answer a line");
    assert!(!said.out.lines().any(|line| line.starts_with("sent")), "{}", said.out);
    assert_eq!(paths(&home), before);
    outside.is_untouched("a batch");
}

#[test]
fn a6_what_is_dropped_under_a_bad_name_or_with_a_bad_id_goes_aside_and_nowhere_else() {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "good", "--from", "owner"]).works();
    let outside = Outside::beside(&home);
    let inbox = home.channel("agent0", "inbox");
    let mut random = Random::seeded(0xa66666);
    let mut dropped = 0;
    for n in 0..MANY {
        let bad = corpus::bad_id(&mut random);
        let mut envelope = serde_json::json!({"from": "a", "text": "never", "ts": "2026-04-19T17:22:57Z"});
        let name = if n % 2 == 0 {
            let part: String = bad.chars().filter(|c| !"/\0".contains(*c)).collect();
            part.chars().take(50).collect::<String>() + ["", ".json", "-x.json"][n % 3]
        } else {
            envelope[["id", "from", "to", "reply_to"][n / 2 % 4]] = bad.into();
            format!("{n:020}-x{n}.json")
        };
        let path = inbox.join(&name);
        if name.is_empty() || name == "." || name == ".." || path.exists() {
            continue;
        }
        fs::write(path, envelope.to_string()).expect("ours");
        dropped += 1;
    }
    for folder in
        ["state/desired", "state/up", "state/restart-status", "state/tokens", "channels/agent", "record"]
    {
        for _ in 0..20 {
            let name: String =
                corpus::bad_id(&mut random).chars().filter(|c| !"/\0".contains(*c)).take(50).collect();
            let path = home.path().join(folder).join(name + ".json");
            fs::write(&path, "{}").expect("ours");
        }
    }
    for look in [&["status"][..], &["channel", "list", "agent0"], &["check"], &["watchdog", "tick"]] {
        bounded(&home, look);
    }
    let drained = bounded(&home, &["channel", "drain", "agent0"]);
    assert!(drained.out.contains(">good<") && !drained.out.contains("never"), "{}", drained.out);
    assert_eq!(home.files("agent0", "inbox").expect("there"), Vec::<String>::new(), "{}", drained.err);
    let mut poison = home.files("agent0", "poison").expect("there");
    assert!(!poison.iter().any(|name| name.chars().any(element::hides)), "{poison:?}");
    poison.retain(|name| !name.ends_with(".reason"));
    assert!(dropped > MANY / 2 && poison.len() == dropped, "{dropped} dropped, {} aside", poison.len());
    outside.is_untouched("what was dropped");
}

/// Every path of a home but its lines of telemetry.
fn paths(home: &Home) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![home.path()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("there") {
            let entry = entry.expect("readable");
            if entry.file_type().expect("its type").is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.retain(|path| !path.to_string_lossy().contains("/logs/"));
    found.sort();
    found
}
