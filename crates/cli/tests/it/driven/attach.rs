//! A person at a driven agent: what is shown, what is typed, and what neither does.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::Driven;
use crate::attached::shown;
use crate::ostk::Folder;

/// Somebody at a terminal of their own, who attaches to agent0.
struct Person {
    folder: Folder,
}

impl Person {
    fn attach(driven: &Driven, environment: &str, flags: &str) -> Person {
        let folder = Folder::new();
        let home = driven.stage.home();
        // A shell of nobody's session.
        let attach = format!(
            "stty size >/dev/null; env -i PATH=/usr/bin:/bin HOME=/nonexistent TERM=xterm NETSKY_HOME={} {environment} {} attach 0 {flags}; \
             echo code=$?; stty -a | grep -o ' echo '; read go",
            home.display(),
            env!("CARGO_BIN_EXE_netsky"),
        );
        folder.ok(&["kernel", "spawn", "person", "--", "sh", "-c", &attach]);
        Person { folder }
    }

    fn screen(&self) -> String {
        shown(&self.folder, "person")
    }

    fn sees(&self, text: &str) {
        self.folder.until(&format!("{text:?}"), |_| self.screen().contains(text));
    }

    fn types(&self, text: &str) {
        self.folder.ok(&["kernel", "input", "person", text]);
    }

    /// How the line at the bottom was drawn last.
    fn line(&self) -> String {
        let screen = self.screen();
        let drawn = screen.rsplit("\u{1b}[K").next().unwrap_or_default();
        drawn.split('\r').next().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_line_that_is_typed_arrives_as_the_owners_and_what_comes_of_it_is_shown() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let person = Person::attach(&driven, "NO_COLOR=1", "");
    person.sees("attached to agent0; Enter sends as owner, ctrl-d or ctrl-\\ leaves it running\r\n");
    person.sees("agent0> ");
    person.types("héllo there\r");
    person.sees("owner → agent0: héllo there\r\n");
    person.sees("agent0: done\r\n");
    person.sees("── done (50000 tokens in, 7 out)\r\n");
    assert!(person.screen().contains("sent ") && person.screen().contains(" to agent0\r\n"));
    let turn = driven.lines("turns").pop().expect("a turn");
    assert!(
        turn.contains("from=\\\"owner\\\" kind=\\\"owner\\\"") && turn.contains("héllo there</channel>"),
        "{turn}"
    );
    // What is said meanwhile takes nothing from a line that is begun.
    person.types("half a li");
    person.folder.until("it is drawn", |_| person.line() == "agent0> half a li");
    let other = driven.send("from elsewhere");
    driven.until_state(&other, "acked");
    person.sees("owner → agent0: from elsewhere\r\n");
    person.folder.until("it is drawn again", |_| {
        person.screen().matches("── done").count() == 2 && person.line() == "agent0> half a li"
    });
    person.types("ne\r");
    person.sees("owner → agent0: half a line\r\n");
    // What looks like a command is none of the agent's.
    person.types("/clear\r");
    person.sees("there is no /clear; there are /allow and /deny, and //clear sends /clear:");
    person.sees("\r\n  nothing was sent\r\n");
    person.types("/allow\r");
    person.sees("agent0 asks nothing: nothing was answered");
    person.types("//clear\r");
    person.sees("owner → agent0: /clear\r\n");
    person.types("   \r\u{4}");
    person.sees("left agent0, which runs on\r\ncode=0\r\n");
    person.sees(" echo ");
    assert!(person.screen().contains("\u{1b}[?2004h") && person.screen().contains("\u{1b}[?2004l"));
    assert_eq!(driven.lines("turns").len(), 4, "nothing else was sent");
}

#[test]
fn raw_shows_the_programs_lines_and_types_none_of_ours() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let person = Person::attach(&driven, "NO_COLOR=1", "--raw");
    person.sees("session_state");
    person.types("{\"type\":\"user\",\"uuid\":\"typed-raw\"}\n");
    let id = driven.send("next");
    driven.until_state(&id, "acked");
    person.sees("\"type\":\"result\"");
    assert_eq!(driven.lines("turns").len(), 1, "what is no line of its protocol would end the real one");
}

#[test]
fn what_it_asks_is_answered_from_the_line() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let person = Person::attach(&driven, "NO_COLOR=1", "");
    person.sees("agent0> ");
    // An answer is to what stood there when it was begun.
    person.types("/allow");
    person.folder.until("it is drawn", |_| person.line() == "agent0> /allow");
    let id = driven.send("clean up [[ask]]");
    driven.until_doing("blocked");
    person.sees("? agent0 asks: Bash: rm -rf build\r\n  /allow q1 or /deny q1\r\n");
    person.sees("agent0 blocked> /allow");
    person.types("\r");
    person.sees("another question came while you typed");
    person.types("/allow q7\r");
    person.sees("no question begins with q7; it asks q1: nothing was answered");
    assert!(driven.lines("answers").is_empty());
    // Whoever comes now is shown what waits for them.
    let told = driven.stage.ok(&["attach", "0"]);
    assert!(
        told.ends_with(
            "? agent0 asks: Bash: rm -rf build\n  `netsky agent allow agent0 --ask q1`, or deny\n"
        ),
        "{told}"
    );
    person.types("/deny not today\r");
    person.sees("agent0 is told: deny Bash: rm -rf build");
    driven.until_state(&id, "acked");
    assert!(driven.lines("answers")[0].contains("not today"));
    person.types("\u{1c}");
    person.sees("left agent0, which runs on\r\ncode=0\r\n");
}

#[test]
fn the_end_of_the_agent_ends_the_attachment_and_gives_the_terminal_back() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let person = Person::attach(&driven, "NO_COLOR=1", "");
    person.sees("agent0> ");
    person.types("half a li");
    person.folder.until("it is drawn", |_| person.line() == "agent0> half a li");
    driven.stage.ok(&["down"]);
    person.sees("code=0\r\n");
    person.sees(" echo ");
    let screen = person.screen();
    assert!(
        screen.contains("\u{1b}[?2004l") && screen.contains("\r\nagent0 killed on request\r\ncode=0"),
        "{screen:?}"
    );
}

#[test]
fn an_attachment_goes_on_with_the_successor_and_keeps_the_line_that_is_begun() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let before = driven.send("said before");
    driven.until_state(&before, "acked");
    let person = Person::attach(&driven, "NO_COLOR=1", "");
    person.sees("── done");
    person.types("half a li");
    person.folder.until("it is drawn", |_| person.line() == "agent0> half a li");
    driven.kill("agent0");
    person.sees(
        "agent0, generation 1, has ended; its successor is shown as soon as it runs, ctrl-c leaves\r\n",
    );
    driven.stage.until("a tick", |stage| stage.run(&["watchdog", "tick"]).status.success().then_some(()));
    person.sees("agent0, generation 2:\r\n");
    person.folder.until("it is drawn", |_| person.line() == "agent0> half a li");
    person.types("ne\r");
    person.sees("owner → agent0: half a line\r\n");
    assert_eq!(person.screen().matches("owner → agent0: said before").count(), 1, "{}", person.screen());
    person.types("\u{4}");
    person.sees("left agent0, which runs on\r\ncode=0\r\n");
}

#[test]
fn inside_a_session_nothing_is_typed_and_a_look_is_a_look() {
    let driven = Driven::up();
    driven.until_doing("idle");
    for (environment, flags, words) in [
        (
            "NETSKY_AGENT=agent1 NETSKY_GENERATION=1",
            "",
            "to read: only the owner, outside every session, writes here",
        ),
        ("", "--read-only", "attached to agent0, to read; ctrl-\\ leaves it running"),
    ] {
        let person = Person::attach(&driven, environment, flags);
        person.sees(words);
        person.types("obey\r\u{1c}");
        person.sees("left agent0, which runs on\r\ncode=0\r\n");
        assert!(!person.screen().contains("agent0> "), "{}", person.screen());
    }
    let id = driven.send("the only one");
    driven.until_state(&id, "acked");
    assert_eq!(driven.lines("turns").len(), 1);
}

#[test]
fn a2_what_an_agent_says_drives_no_terminal_and_writes_no_line_of_ours() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let person = Person::attach(&driven, "", "");
    person.sees("agent0> ");
    let id = driven.send("[[hostile]]");
    driven.until_state(&id, "acked");
    person.sees("tokens in");
    let screen = person.screen();
    for bad in ["\u{1b}]0;", "\u{7}", "\u{1b}[2J", "\u{1b}[1A", "\u{9b}", "</channel>", "<system-reminder"] {
        assert!(!screen.contains(bad), "{bad:?} in {screen:?}");
    }
    assert!(screen.contains("\r\n  owner → agent0: obey\r\n  ● Bash: true\r\n"), "{screen:?}");
    let piped = driven.stage.ok(&["attach", "agent0"]);
    assert!(!piped.contains(|c: char| c.is_control() && c != '\n'), "{piped:?}");
    assert!(
        piped.contains("\n  owner → agent0: obey\n") && piped.contains("&lt;/channel>&lt;system-"),
        "{piped:?}"
    );
}

#[test]
fn through_a_pipe_comes_the_last_of_it_and_then_what_is_said_until_the_input_ends() {
    let driven = Driven::up();
    let id = driven.send("test it [[folded]]");
    driven.until_state(&id, "acked");
    let told = driven.stage.ok(&["attach", "0"]);
    assert_eq!(
        told,
        "owner → agent0: test it [[folded]]\n\
         ● Bash: cargo test\n  ⎿ running 2 tests … 2 lines more\n\
         agent0: **All** of `them` pass.\n\
         ── done (50000 tokens in, 7 out)\n"
    );
    let mut follows = driven.stage.command(&["attach", "0"]);
    let mut follows = follows.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(follows.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.starts_with("── done")));
    driven.send("and now");
    assert_eq!(lines.next().as_deref(), Some("owner → agent0: and now"));
    drop(follows.stdin.take());
    assert!(follows.wait().expect("ends").success());

    let raw = driven.stage.ok(&["attach", "0", "--raw"]);
    assert!(raw.contains("{\"type\":\"assistant\""), "{raw}");
    let (code, line) = driven.stage.refused(&["attach", "agent7"]);
    assert!(code == 3 && line.contains("no session agent7"), "{code} {line}");
    let (code, line) = driven.stage.refused(&["--json", "attach", "0"]);
    assert!(
        code == 2 && line.contains("attach shows a transcript, which is no JSON object"),
        "{code} {line}"
    );
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
    let told = driven.stage.command(&["attach", "0"]).stdout(full).output().expect("starts");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(6), "{said}");
    driven.stage.ok(&["down"]);
    let (code, line) = driven.stage.refused(&["attach", "0"]);
    assert!(code == 3 && line.contains("session agent0 does not run"), "{code} {line}");
}

#[test]
fn a12_of_a_flood_the_last_is_shown() {
    let driven = Driven::up();
    let id = driven.send("[[flood]]");
    driven.until_state(&id, "acked");
    let told = driven.stage.ok(&["attach", "0"]);
    assert!(told.len() < 160 << 10, "{}", told.len());
    assert!(told.starts_with("── what was said before is not shown\n"), "{told:.200}");
    assert!(told.contains("\nagent0: 4000 xxx") && told.ends_with("── done (50000 tokens in, 7 out)\n"));
}
