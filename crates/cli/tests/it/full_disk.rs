//! FM-send-enospc on a file system that is really full: a refusal that leaves nothing, and mail that still moves.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs in a mount namespace of its own with a small file system in memory; says each exit code.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=512k,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
"$NETSKY" channel send agent0 before --from owner --id before >/dev/null || exit 97
"$NETSKY" channel send agent0 second --from owner --id second >/dev/null || exit 96
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" channel send agent0 no-room --from owner; echo "send $?"
"$NETSKY" channel send agent0 no-room --from owner --id chosen; echo "send --id $?"
echo "tmp: $(ls "$NETSKY_HOME/channels/agent/agent0/tmp")"
"$NETSKY" channel drain agent0 --max 1 >/dev/null; echo "drain $?"
"$NETSKY" channel ack agent0 before; echo "ack $?"
: > "$PLACE/fill"
"$NETSKY" channel send agent0 room --from owner --id chosen; echo "send --id $?"
"$NETSKY" channel list agent0 | awk 'NR > 1 {print $1, $2}'
"#;

/// As [`SCRIPT`], with the record made anew.
const RECORD: &str = r#"
mount -t tmpfs -o size=1m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
"$NETSKY" channel send agent0 before --from owner --id before >/dev/null || exit 97
"$NETSKY" ledger ingest >/dev/null || exit 96
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" ledger rebuild; echo "rebuild $?"
: > "$PLACE/fill"
"$NETSKY" ledger rebuild >/dev/null; echo "rebuild $?"
"#;

/// As [`SCRIPT`], with more finished mail than the slack of a log has room to tell of, and dead letters without pages, in a
/// home where nobody is wanted; what is set aside for a `down` is there and stays.
const RETENTION: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
umask 077
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
head -c 40000 /dev/zero | tr '\0' x > "$PLACE/text"
for n in $(seq 40); do
  "$NETSKY" channel send agent0 - --from owner --id "m$n" < "$PLACE/text" >/dev/null || exit 97
  "$NETSKY" channel ack agent0 "m$n" >/dev/null || exit 96
done
"$NETSKY" watchdog tick >/dev/null || exit 95
for n in $(seq 15); do
  cp "$PLACE/text" "$NETSKY_HOME/channels/agent/agent0/poison/dead-$n"
  echo why > "$NETSKY_HOME/channels/agent/agent0/poison/dead-$n.reason"
done
acked=$(date +%s)
until [ "$(date +%s)" -gt $((acked + 2)) ]; do sleep 0.1; done
echo '[mail]
keep_acked = "1s"
keep_poison = "1s"' > "$NETSKY_HOME/config.toml"
head -c 1048576 /dev/zero > "$NETSKY_HOME/state/reserve"
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" watchdog tick >&2; echo "tick $?"
echo "acked: $(ls "$NETSKY_HOME/channels/agent/agent0/acked" | wc -l)"
echo "poison: $(ls "$NETSKY_HOME/channels/agent/agent0/poison" | wc -l)"
"$NETSKY" query "SELECT COUNT(*) FROM pages" --csv | tail -n 1
(cd "$NETSKY_HOME/state" && stat -c "%n: %s" reserve reserve-retention)
"$NETSKY" check >&2; echo "check $?"
"#;

/// agent0 ends on a full disk.
const DOWN: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
agent0() { "$NETSKY" status | awk '$1 == "agent0" {print $6}'; }
"$NETSKY" up 0 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null || exit 97
cat /dev/zero > "$PLACE/fill" 2>/dev/null
pid=$(agent0)
"$NETSKY" status --json
# What was at work may free some, and a start that finds that room proves nothing.
for _ in $(seq 10); do cat /dev/zero >> "$PLACE/fill" 2>/dev/null; sleep 0.1; done
kill -9 "$pid"
for _ in $(seq 900); do test "$(agent0)" != "$pid" && break; sleep 0.1; done
# What was at work may free some.
for _ in $(seq 100); do
  cat /dev/zero >> "$PLACE/fill" 2>/dev/null
  said=$("$NETSKY" status --json)
  case $said in *"cannot be started"*) break;; esac
  sleep 0.1
done
echo "$said"
"$NETSKY" up 0 >/dev/null; echo "up $?" >&2
rm "$PLACE/fill"
"$NETSKY" status --json
"$NETSKY" down >/dev/null
"#;

/// A message comes to its last attempt on a full disk, and the record is asked for the first time.
const DEAD: &str = r#"
mount -t tmpfs -o size=3m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
"$NETSKY" channel send agent0 text --from owner --id dead >/dev/null || exit 97
for n in 1 2 3 4; do
  "$NETSKY" channel drain agent0 >/dev/null || exit 96
  "$NETSKY" channel release agent0 dead >/dev/null || exit 95
done
"$NETSKY" channel drain agent0 >/dev/null || exit 94
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" channel release agent0 dead >/dev/null; echo "release $?"
"$NETSKY" query "SELECT 1"; echo "query $?"
rm "$PLACE/fill"
"$NETSKY" watchdog tick >/dev/null; echo "tick $?"
"$NETSKY" channel poison show agent0 dead | grep -o "surfaced 5 times in vain"
"$NETSKY" query "SELECT COUNT(*) FROM pages" --csv; echo "query $?"
"$NETSKY" check >/dev/null; echo "check $?"
"#;

#[test]
fn fm_ack_enospc_a_dead_letter_of_a_full_disk_gets_its_reason_when_there_is_room() {
    let Some(Said { out, err, .. }) = apart(DEAD) else { return };
    let said: Vec<&str> = out.lines().collect();
    // The second page is of the disk, which is small.
    let wanted =
        ["release 6", "query 5", "tick 0", "surfaced 5 times in vain", "COUNT(*)", "2", "query 0", "check 0"];
    assert_eq!(said, wanted, "{err}");
    let line = err.lines().find(|line| line.contains("there is no database yet")).expect("said");
    assert!(
        line.contains("No space left on device") && line.ends_with("nothing was lost, make room and repeat"),
        "{line}"
    );
}

/// A damaged database is met on a full disk, and there is none where nothing may be written.
const DAMAGED: &str = r#"
mount -t tmpfs -o size=3m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 98
"$NETSKY" query "SELECT 1" >/dev/null || exit 97
head -c 40000 /dev/zero | tr '\0' x > "$NETSKY_HOME/meta.db"
cat /dev/zero > "$PLACE/fill" 2>/dev/null
"$NETSKY" query "SELECT 1" >/dev/null 2>&1; echo "query $?"
rm "$PLACE/fill"
"$NETSKY" query "SELECT 1" >/dev/null; echo "query $?"
"$NETSKY" query "SELECT 1" >/dev/null; echo "query $?"
rm "$NETSKY_HOME"/meta.db*
mount -o remount,ro "$PLACE" || exit 96
"$NETSKY" query "SELECT 1" >/dev/null; echo "query $?"
"#;

#[test]
fn fm_rebuild_enospc_erofs_damage_is_told_by_who_has_room_and_a_read_only_home_is_not_busy() {
    let Some(Said { out, err, .. }) = apart(DAMAGED) else { return };
    assert_eq!(out.lines().collect::<Vec<_>>(), ["query 5", "query 7", "query 0", "query 1"], "{err}");
    let said: Vec<&str> = err.lines().collect();
    let [damage, read_only] = said[..] else { panic!("{err}") };
    assert!(damage.contains("meta.db was damaged") && damage.contains("meta.db.damaged-1"), "{err}");
    assert!(read_only.contains("Read-only file system") && read_only.ends_with("make it writable"), "{err}");
}

/// What a script said.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    /// Where its file system was.
    place: PathBuf,
}

/// Runs a script in a mount namespace of its own, with `NETSKY` the program and `PLACE` the folder to mount on; none, and
/// told as skipped, where there may be no such namespace.
pub(crate) fn apart(script: &str) -> Option<Said> {
    const APART: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    let may = Command::new("unshare").args(APART).arg("true").stdin(Stdio::null()).output();
    if !may.as_ref().is_ok_and(|may| may.status.success()) {
        crate::skipped::skipped(&format!("a mount namespace of its own: {may:?}"));
        return None;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new("unshare")
        .args(APART)
        .args(["sh", "-c", script])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("NETSKY", env!("CARGO_BIN_EXE_netsky"))
        .env("PLACE", place.path())
        .stdin(Stdio::null())
        .output()
        .expect("it ran a moment ago");
    let [out, err] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("UTF-8"));
    Some(Said { out, err, place: place.path().to_owned() })
}

/// The anchor ends on a full disk, then agent0; the ticker lives on.
const NO_ANCHOR: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 0 --tick 10m -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null || exit 97
pid=$("$NETSKY" status | awk '$1 == "agent0" {print $6}')
cat /dev/zero > "$PLACE/fill" 2>/dev/null
says() {
  for _ in $(seq 100); do
    cat /dev/zero >> "$PLACE/fill" 2>/dev/null
    "$NETSKY" status | grep "^problem: $1" && return
    sleep 0.1
  done
}
anchor() { grep -Eo '"pid":[0-9]+' "$NETSKY_HOME/.ostk/anchor.lock" | cut -d: -f2; }
old=$(anchor)
kill -9 "$old"
for _ in $(seq 300); do
  test "$(anchor)" != "$old" && "$NETSKY" status | grep -q "^agent0 " && echo "another anchor" && break
  sleep 0.1
done
kill -9 "$pid"
says "agent0: "
says "agent0 cannot be started: "
rm "$PLACE/fill"
"$NETSKY" down >/dev/null
"#;

#[test]
fn on_a_full_disk_another_anchor_comes_and_status_says_who_comes_back_and_when() {
    let Some(Said { out, err, .. }) = apart(NO_ANCHOR) else { return };
    let lines: Vec<&str> = out.lines().collect();
    let [anchor, agent0, room] = lines[..] else { panic!("{out}{err}") };
    assert_eq!(anchor, "another anchor", "{err}");
    assert!(agent0.contains("next try with the next tick that comes to its end"), "{out}");
    assert!(room.contains("is full (") && room.ends_with("the next tick starts what is down"), "{out}");
}

#[test]
fn status_itself_says_that_agent0_is_down_for_want_of_room_and_what_to_do() {
    let Some(Said { out, err, .. }) = apart(DOWN) else { return };
    let told: Vec<bool> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["problems"].to_string())
        .map(|problems| {
            problems.contains("agent0 cannot be started: the disk of ")
                && problems.contains("make room and the next tick")
        })
        .collect();
    assert_eq!(told, [false, true, false], "alive, dead, with room: {out}{err}");
    assert!(err.contains("agent0 cannot be started: the disk of ") && err.contains("up 5\n"), "{err}");
}

#[test]
fn fm_send_enospc_the_record_says_that_the_disk_is_full_and_what_to_do() {
    let Some(Said { out, err, .. }) = apart(RECORD) else { return };
    assert_eq!(out.lines().collect::<Vec<_>>(), ["rebuild 5", "rebuild 0"], "{err}");
    assert!(err.lines().count() == 1 && err.contains("is full; nothing was lost, make room"), "{err}");
}

#[test]
fn fm_fact_append_enospc_what_was_kept_long_enough_goes_from_a_full_disk() {
    // Their pages have the room first; one more is the disk's own.
    goes_from_a_full_disk(RETENTION, "16");
}

#[test]
fn fm_fact_append_enospc_what_has_no_page_goes_from_a_full_disk_too() {
    goes_from_a_full_disk(&RETENTION.replace("seq 15", "seq 0"), "1");
}

fn goes_from_a_full_disk(script: &str, pages: &str) {
    let Some(Said { out, err, .. }) = apart(script) else { return };
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "tick 0",
            "acked: 0",
            "poison: 0",
            pages,
            "reserve: 1048576",
            "reserve-retention: 1048576",
            "check 0"
        ],
        "{err}"
    );
}

#[test]
fn fm_send_enospc_a_full_disk_refuses_a_send_and_still_moves_what_is_there() {
    let Some(Said { out, err, place }) = apart(SCRIPT) else { return };
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [
            "send 5",
            "send --id 5",
            "tmp: ",
            "drain 0",
            "acked before",
            "ack 0",
            "sent chosen to agent0",
            "send --id 0",
            "written second",
            "written chosen",
            "acked before",
        ],
        "{err}"
    );
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    for line in lines {
        assert!(line.starts_with("netsky: failed to "), "{line}");
        assert!(line.contains(place.to_str().expect("UTF-8")), "names the path: {line}");
        assert!(line.contains("No space left on device (os error 28)"), "{line}");
        assert!(line.ends_with("; nothing was lost, make room and repeat"), "{line}");
    }
}
