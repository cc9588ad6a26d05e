//! FM-down-enospc: a `down` on a full disk ends everybody, or says whom it could not end.

use serde_json::Value;

use crate::full_disk::{Said, apart};

/// Runs in a mount namespace of its own with a small file system in memory, which agent0 fills.
const FULL: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 1 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" down; echo "down $?"
"$NETSKY" watchdog tick; echo "tick $?"
"$NETSKY" status --json
rm "$PLACE/fill"
"$NETSKY" down >/dev/null
"#;

#[test]
fn fm_down_enospc_a_full_disk_keeps_nobody_from_being_ended_for_good() {
    let Some(Said { out, err, .. }) = apart(FULL) else { return };
    let (said, status) = out.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{out}{err}"));
    assert!(said.contains("ended agent0, ") && said.contains("down 0\n"), "{out}{err}");
    assert!(said.ends_with("tick 0"), "{out}{err}");
    let status: Value = serde_json::from_str(status).expect("JSON");
    for agent in status["agents"].as_array().expect("a list") {
        assert!(agent["want"] == "stopped" && agent["pid"].is_null(), "{agent}");
    }
}

/// As [`FULL`], but the wish of agent1 does not read, and a first look for agent0 fails.
const BROKEN: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 1 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null
echo '{{' 1<> "$NETSKY_HOME/state/desired/agent1.json"
cat /dev/zero > "$PLACE/fill" 2>/dev/null
NETSKY_FAULT=watchdog.down.evict=error "$NETSKY" down; echo "down $?"
ls "$NETSKY_HOME/state" | grep -c '^reserve'
"$NETSKY" down; echo "down $?"
rm "$PLACE/fill"
"$NETSKY" down >/dev/null
"#;

#[test]
fn fm_down_enospc_beside_one_that_would_not_end_all_others_are_ended_and_the_room_is_kept_for_a_repeat() {
    let Some(Said { out, err, .. }) = apart(BROKEN) else { return };
    let problems: Vec<&str> = out.lines().take_while(|line| line.starts_with("problem: ")).collect();
    let [unread, full, why] = problems[..] else { panic!("{out}{err}") };
    assert!(unread.contains("desired/agent1.json") && full.contains("No space left"), "{out}");
    assert!(why.starts_with("problem: end ") && why.ends_with("(os error 5)"), "{out}");
    let (_, said) = out.split_once("(os error 5)\n").unwrap_or_else(|| panic!("{out}{err}"));
    // An end that could not be noted is told by the repeat too.
    let (first, repeat) = said.split_once("down 5\n2\n").unwrap_or_else(|| panic!("{out}{err}"));
    assert_eq!(first, "ended agent1, agentinfinity, netsky-ticker\n");
    assert!(repeat.contains("\nended agent0") && repeat.ends_with("\ndown 0\n"), "{out}");
    assert_eq!(err, "netsky: agent0 did not end; repeat `netsky down`\n");
}

/// Nobody serves, and the disk is full; then it is full once more, without a room set aside.
const NOBODY: &str = r#"
mount -t tmpfs -o size=8m,nr_inodes=1000,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" down; echo "down $?"
rm "$PLACE/fill"
"$NETSKY" up 0 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 97
"$NETSKY" watchdog tick >/dev/null
"$NETSKY" down >/dev/null || exit 96
cat /dev/zero > "$PLACE/fill" 2>/dev/null
# For the socket of an anchor there is no room either.
n=0; while touch "$PLACE/more-$n" 2>/dev/null; do n=$((n + 1)); done
"$NETSKY" down; echo "down $?"
rm "$NETSKY_HOME"/state/reserve*
cat /dev/zero > "$PLACE/more" 2>/dev/null
"$NETSKY" down; echo "down $?"
"$NETSKY" up 0; echo "up $?"
rm "$PLACE/fill" "$PLACE"/more*
"$NETSKY" down >/dev/null; echo "down $?"
"#;

#[test]
fn fm_down_enospc_where_nobody_runs_a_full_disk_is_no_trouble_of_a_down_and_an_up_names_it() {
    let Some(Said { out, err, .. }) = apart(NOBODY) else { return };
    let nothing = "nothing was running\ndown 0\n";
    assert_eq!(out, format!("{nothing}{nothing}{nothing}up 5\ndown 0\n"), "{err}");
    assert!(err.lines().count() == 1 && err.contains("no room to set aside for `netsky down`"), "{err}");
}

/// Everybody was ended and nobody wanted any more, but no end could be noted; and the disk is full.
const UNNOTED: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 1 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
mkdir "$PLACE/before" && cp "$NETSKY_HOME"/.ostk/agents/*.meta "$PLACE/before" || exit 97
"$NETSKY" down >/dev/null || exit 96
cp "$PLACE"/before/*.meta "$NETSKY_HOME/.ostk/agents"
rm -f "$NETSKY_HOME"/state/reserve*
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" down; echo "down $?"
rm "$PLACE/fill"
"$NETSKY" down >/dev/null; echo "down $?"
"#;

#[test]
fn fm_down_enospc_who_is_dead_needs_no_down_whatever_was_noted() {
    let Some(Said { out, err, .. }) = apart(UNNOTED) else { return };
    assert_eq!(out, "nothing was running\ndown 0\ndown 0\n", "{err}");
}

/// Nobody is wanted any more, all live on, and neither the anchor nor a room set aside is there; as a `down` that was killed
/// may leave it.
const LEFT: &str = r#"
mount -t tmpfs -o size=8m,nr_inodes=1000,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 1 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null || exit 97
# Who looks after the anchor would tick when that dies, and end whom it finds unwanted; so would a tick that it has begun,
# which goes on when it is stopped itself.
rests() {
  grep -q '^State:[[:space:]]*T' "/proc/$1/status" || return 1
  for child in $(grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status); do
    grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "$child" && return 1
  done
  return 0
}
for one in agentinfinity netsky-ticker; do
  pid=$(grep -Eo '^  "pid": [0-9]+' "$NETSKY_HOME/.ostk/agents/$one.meta" | cut -d' ' -f4)
  kill -STOP "$pid" || exit 95
  for _ in $(seq 900); do rests "$pid" && break; sleep 0.1; done
  rests "$pid" || exit 94
done
mkdir "$PLACE/stopped"
for wish in "$NETSKY_HOME"/state/desired/*.json; do
  sed 's/"want": *"up"/"want": "stopped"/' "$wish" > "$PLACE/stopped/${wish##*/}"
done
rm -f "$NETSKY_HOME"/state/reserve*
cat /dev/zero > "$PLACE/fill" 2>/dev/null
kill -9 "$(grep -Eo '"pid":[0-9]+' "$NETSKY_HOME/.ostk/anchor.lock" | cut -d: -f2)"
# For the socket of another anchor there is no room either.
rm "$NETSKY_HOME/.ostk/ostk.sock"
n=0; while touch "$PLACE/more-$n" 2>/dev/null; do n=$((n + 1)); done
# In place: for a new file there is no room.
for wish in "$PLACE"/stopped/*; do
  dd if="$wish" of="$NETSKY_HOME/state/desired/${wish##*/}" conv=notrunc status=none || exit 96
done
cat /dev/zero >> "$PLACE/fill" 2>/dev/null
"$NETSKY" status --json
"$NETSKY" down; echo "down $?"
"$NETSKY" down; echo "down $?"
rm "$PLACE/fill" "$PLACE"/more-*
"$NETSKY" down >/dev/null; echo "down $?"
"#;

#[test]
fn fm_down_enospc_who_lives_is_ended_where_no_anchor_can_be_started() {
    let Some(Said { out, err, .. }) = apart(LEFT) else { return };
    let (status, said) = out.split_once('\n').unwrap_or_else(|| panic!("{out}{err}"));
    let ended = "ended agent0, agent1, agentinfinity, netsky-ticker\ndown 0\n";
    assert_eq!(said, format!("{ended}nothing was running\ndown 0\ndown 0\n"), "{err}");
    all_have_ended(status);
}

#[test]
fn fm_down_enospc_who_would_not_end_at_first_and_is_ended_by_an_anchor_has_ended() {
    let script = LEFT.replace("rm -f \"$NETSKY_HOME\"/state/reserve*\n", "").replacen(
        "\"$NETSKY\" down;",
        "NETSKY_FAULT=watchdog.down.evict=error \"$NETSKY\" down;",
        1,
    );
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let (status, said) = out.split_once('\n').unwrap_or_else(|| panic!("{out}{err}"));
    let ended = "ended agent0, agent1, agentinfinity, netsky-ticker\ndown 0\n";
    assert_eq!(said, format!("{ended}nothing was running\ndown 0\ndown 0\n"), "{err}");
    all_have_ended(status);
}

#[test]
fn fm_down_enospc_who_lives_and_bears_no_mark_is_told_of_and_ended_once_there_is_room() {
    let script = LEFT.replace("exec sleep", "exec env -i sleep");
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let (status, said) = out.split_once('\n').expect("the status");
    // What the marked ones free may be room enough for an anchor, which ends the others at once.
    let refused = "ended agentinfinity, netsky-ticker\ndown 5\n";
    let transcripts = [
        "ended agent0, agent1, agentinfinity, netsky-ticker\ndown 0\nnothing was running\ndown 0\ndown 0\n",
        &format!("{refused}ended agent0, agent1\ndown 0\ndown 0\n"),
        &format!("{refused}down 5\ndown 0\n"),
    ];
    assert!(transcripts.contains(&said), "{out}{err}");
    let refused = said.matches("down 5\n").count();
    assert_eq!(err, "netsky: agent0, agent1 did not end; repeat `netsky down`\n".repeat(refused));
    all_have_ended(status);
}

fn all_have_ended(status: &str) {
    let status: Value = serde_json::from_str(status).expect("JSON");
    for agent in status["agents"].as_array().expect("a list") {
        let pid = agent["pid"].as_u64().expect("it lived then");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{agent}");
    }
}

/// A message that nobody acks was shown by four agents that a `down` ended, and by a fifth.
const FIVE: &str = r#"
mount -t tmpfs -o size=8m,nr_inodes=1000,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
reader='netsky session up; while netsky channel wait $NETSKY_AGENT; do netsky channel drain $NETSKY_AGENT; sleep 1; done'
up() { "$NETSKY" up 0 --tick 10m -- sh -c "$reader" >/dev/null || exit 98; }
life() { "$NETSKY" channel list agent0 | awk 'NR > 1 {print $1}'; }
shown() { for _ in $(seq 900); do test "$(life)" = delivered && return; sleep 0.1; done; exit 97; }
"$NETSKY" init >/dev/null
"$NETSKY" channel send agent0 often --from owner --id often >/dev/null || exit 96
for _ in 1 2 3 4; do up; shown; "$NETSKY" down >/dev/null || exit 95; done
up; shown
pid=$("$NETSKY" status | awk '$1 == "agent0" {print $6}')
"#;

/// Behind [`FIVE`]: nothing is set aside, then something.
const NO_ROOM: &str = r#"
# A tick may have room for both again in between.
"$NETSKY" watchdog tick >/dev/null || exit 94
for _ in $(seq 300); do
  ls "$NETSKY_HOME/state" | grep -q '^reserve' || break
  rm -f "$NETSKY_HOME"/state/reserve*
  cat /dev/zero >> "$PLACE/fill" 2>/dev/null
  sleep 0.3
done
ls "$NETSKY_HOME/state" | grep -q '^reserve' && exit 93
"$NETSKY" down; echo "down $?"
kill -0 "$pid" && echo "agent0 lives"
rm "$PLACE/fill"
"$NETSKY" watchdog tick >/dev/null || exit 94
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" down >/dev/null; echo "down $?"
life
"#;

#[test]
fn fm_down_enospc_ends_nobody_where_nothing_is_set_aside_and_counts_against_no_message() {
    let script = [FIVE, NO_ROOM].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    assert_eq!(out, "down 5\nagent0 lives\ndown 0\nwritten\n", "{err}");
    assert!(err.lines().count() == 1 && err.contains("No space left on device"), "{err}");
}

/// Behind [`FIVE`]: the `down` is killed when it has ended everybody; the next finds a full disk.
const ENDED: &str = r#"
anchor=$(grep -Eo '"pid":[0-9]+' "$NETSKY_HOME/.ostk/anchor.lock" | cut -d: -f2)
NETSKY_FAULT=watchdog.down.ended=kill "$NETSKY" down
kill -0 "$pid" 2>/dev/null && exit 93
for _ in $(seq 900); do kill -0 "$anchor" 2>/dev/null || break; sleep 0.1; done
kill -0 "$anchor" 2>/dev/null && exit 92
rm -f "$NETSKY_HOME"/state/reserve*
cat /dev/zero > "$PLACE/fill" 2>/dev/null
# For the socket of another anchor there is no room either.
n=0; while touch "$PLACE/more-$n" 2>/dev/null; do n=$((n + 1)); done
"$NETSKY" down; echo "down $?"
life
"#;

#[test]
fn fm_down_enospc_kill_what_a_down_that_died_had_ended_counts_against_no_message() {
    let script = [FIVE, ENDED].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    assert_eq!(out, "nothing was running\ndown 0\nwritten\n", "{err}");
}

/// Behind [`FIVE`]: the `down` is killed when it has ended everybody for the room that it needs.
const KILLED: &str = r#"
cat /dev/zero > "$PLACE/fill" 2>/dev/null
NETSKY_FAULT=watchdog.down.room=kill "$NETSKY" down
kill -0 "$pid" 2>/dev/null && exit 93
rm "$PLACE/fill"
for _ in $(seq 900); do
  "$NETSKY" watchdog tick >/dev/null 2>&1
  now=$("$NETSKY" status | awk '$1 == "agent0" {print $5}')
  test "$now" = 6 && break
  sleep 0.1
done
"$NETSKY" channel list agent0 --state poisoned --json
"$NETSKY" down >/dev/null; echo "down $?"
"#;

#[test]
fn fm_down_enospc_kill_a_down_that_died_when_it_had_made_room_counts_against_no_message() {
    let script = [FIVE, KILLED].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    assert!(out.contains("\"envelopes\":[]") && out.ends_with("down 0\n"), "{out}{err}");
}
