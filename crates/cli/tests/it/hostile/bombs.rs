//! A12: what is too large, too deep or too many costs no more memory than what is not.

use std::fs::{self, File};
use std::path::Path;

use crate::bus_home::Home;
use crate::cost::cost;
use crate::screen::netsky;

/// Most memory over what the same verbs need in a home without a bomb, in KiB.
const OVER_BASE: u64 = 64 * 1024;

/// The verbs that read what others may have put there.
const VERBS: [&[&str]; 6] = [
    &["channel", "send", "agent0", "x", "--from", "owner"],
    &["channel", "list", "agent0"],
    &["channel", "show", "agent0", "bomb"],
    &["status"],
    &["check"],
    &["channel", "drain", "agent0", "--max", "5"],
];

/// The most memory that a run ever had, in KiB.
fn peak(home: &Home, args: &[&str]) -> u64 {
    cost(home, args, Path::new("/dev/null")).0.memory
}

fn home() -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "good", "--from", "owner", "--id", "good"]).works();
    netsky(&home, &["watchdog", "tick"]).works();
    home
}

fn highest(home: &Home) -> u64 {
    VERBS.iter().map(|args| peak(home, args)).max().unwrap_or(0)
}

#[test]
fn a12_a_gigabyte_in_the_place_of_any_file_is_not_read() {
    let base = highest(&home());
    for (folder, name) in [
        ("channels/agent/agent0/inbox", "00000000000000000042-bomb.json"),
        ("channels/agent/agent0/inbox", "bomb"),
        ("channels/agent/agent0/claimed", "00000000000000000042-bomb.1.4194303.1.00000000.1.json"),
        ("channels/agent/agent0/delivered", "00000000000000000042-bomb.1.g3.json"),
        ("channels/agent/agent0/acked", "00000000000000000042-bomb.1.g3.json"),
        ("channels/agent/agent0/poison", "00000000000000000042-bomb.json"),
        ("channels/agent/agent0/poison", "00000000000000000042-bomb.json.reason"),
        ("channels/agent/agent0/ids", "good"),
        ("state/desired", "agent0.json"),
        ("state", "restart-request"),
        ("state", "restart-inflight"),
        ("state/tick", "watchdog.json"),
        ("", "config.toml"),
        ("", "home.json"),
    ] {
        let home = home();
        let folder = home.path().join(folder);
        File::create(folder.join(name)).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
        let peak = highest(&home);
        assert!(peak < base + OVER_BASE, "{name} in {}: {peak} KiB, {base} without", folder.display());
    }
}

/// JSON that is a bomb to who builds it in memory, or follows it down.
fn bombs() -> [(&'static str, String); 5] {
    let head = r#""from":"a","ts":"2026-04-19T17:22:57Z""#;
    let keys = |count: usize| (0..count).map(|n| format!(",\"{n}\":0")).collect::<String>();
    [
        ("deep lists", format!("{{{head},\"text\":{}0{}}}", "[".repeat(100_000), "]".repeat(100_000))),
        ("deep objects", format!("{{{head},\"x\":{}", "{\"a\":".repeat(40_000))),
        ("keys over the cap", format!("{{{head},\"text\":\"t\"{}}}", keys(100_000))),
        ("keys under the cap", format!("{{{head},\"text\":\"t\"{}}}", keys(26_000))),
        ("one number", format!("{{{head},\"text\":\"t\",\"x\":{}}}", "9".repeat(250_000))),
    ]
}

#[test]
fn a12_depth_and_keys_and_numbers_cost_little() {
    let base = highest(&home());
    for (what, text) in bombs() {
        let home = home();
        for (folder, name) in [
            ("channels/agent/agent0/inbox", "00000000000000000042-bomb.json"),
            ("channels/agent/agent0/delivered", "00000000000000000041-old.1.g3.json"),
            ("state/desired", "agent0.json"),
            ("state/tick", "watchdog.json"),
            ("state", "restart-inflight"),
        ] {
            fs::write(home.path().join(folder).join(name), &text).expect("ours");
        }
        let peak = highest(&home);
        assert!(peak < base + OVER_BASE, "{what}: {peak} KiB, {base} without");
    }
}

#[test]
fn a12_a_hundred_thousand_small_files_cost_little() {
    let base = highest(&home());
    let home = home();
    let fill = |folder: &Path, count: usize, ending: &str| {
        for n in 0..count {
            File::create(folder.join(format!("{n:020}-x{n}{ending}"))).expect("room for it");
        }
    };
    // Each of the inbox is put aside for good, which takes its time.
    fill(&home.channel("agent0", "inbox"), 10_000, ".json");
    fill(&home.channel("agent0", "delivered"), 90_000, ".1.g3.json");
    for args in VERBS {
        let peak = peak(&home, args);
        // `check` holds every file of a home against every other, and says of each what is wrong with it.
        let most = if args == ["check"] { 2 * OVER_BASE } else { OVER_BASE };
        assert!(peak < base + most, "{args:?}: {peak} KiB, {base} without");
    }
}
