//! FM-kill-enospc: what is to be ended is ended on a full disk, with and without an anchor, and stays down; so does what
//! returns there by itself.

use crate::full_disk::{Said, apart};

/// Runs in a mount namespace of its own with a small file system in memory; sessions that their anchor keeps are killed on it.
const FULL: &str = r#"
mount -t tmpfs -o size=4m,mode=0700 none "$PLACE" || exit 99
cd "$PLACE"
ostk() { timeout 60 "$(dirname "$NETSKY")/ostk" "$@"; }
fill() { for n in $(seq 10); do cat /dev/zero >> "$PLACE/fill$n" 2>/dev/null; done; }
crash() { kill -9 "$(grep -Eo '"pid":[0-9]+' .ostk/anchor.lock | cut -d: -f2)"; }
short() { awk 'NR > 1 {print $1, $2}'; }
kills() {
  begun=$(date +%s%N)
  ostk kernel kill "$1" >/dev/null; echo "kill $?"
  test $((($(date +%s%N) - begun) / 1000000)) -lt 4000 && echo quickly
}
# Until the slack of each file is full as well.
full() {
  said=
  for _ in $(seq 100); do
    fill
    crash
    said="$said$(ostk kernel ps 2>&1 | grep -c "for room; until then")"
    case "$said" in *111) break;; esac
  done
}
export OSTK_REVIVE_MS=1000
for name in a1 a2 a3 a4; do ostk kernel spawn $name --keep -- sleep 100000 >/dev/null || exit 98; done
"#;

/// An anchor is there, then none, then it is lost before there is room.
const KILLS: &str = r#"
fill
kills a1
ostk kernel spawn b1 -- sleep 100000; echo "spawn $?"
ostk kernel rename a1 b1; echo "rename $?"
ostk report context 5 --session a3; echo "report $?"
crash
kills a2
ostk kernel ps | short
# As many as fill the slack of each file.
for _ in $(seq 25); do crash; ostk kernel ps >/dev/null; done
crash
rm fill*
ostk kernel ps | short
crash
fill
ostk kernel shutdown --all; echo "shutdown $?"
rm fill*
ostk kernel ps | short
ostk journal verify >/dev/null; echo "verify $?"
ostk journal tail --since 0 | grep -c " revive "
ostk kernel spawn a1 --keep -- sleep 100000 >/dev/null; echo "spawn $?"
ostk kernel shutdown --all >/dev/null
"#;

#[test]
fn fm_kill_enospc_what_is_killed_on_a_full_disk_ends_at_once_and_stays_down_whoever_dies_next() {
    let script = [FULL, KILLS].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let two_live = ["a1 stopped", "a2 stopped", "a3 active", "a4 active"];
    let all_down = ["a1 stopped", "a2 stopped", "a3 stopped", "a4 stopped"];
    let first = ["kill 0", "quickly", "spawn 5", "rename 5", "report 5", "kill 0", "quickly"];
    let stopped = ["the anchor stopped; 2 sessions ended, 0 live on", "shutdown 6"];
    let last = ["verify 0", "0", "spawn 0"];
    let wanted = [&first[..], &two_live, &two_live, &stopped, &all_down, &last].concat();
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
    assert!(err.contains("is full: ") && err.contains("it lists and kills, and starts nothing"), "{err}");
}

/// Nothing is set aside; then there is room again, before the anchor dies and after.
const NOWHERE: &str = r#"
ostk kernel spawn c1 --keep -- sh -c 'exit 1' >/dev/null
for _ in $(seq 600); do ostk journal tail --since 0 | grep -q '"after_ms":16000' && break; sleep 0.1; done
rm .ostk/owed
full
kills a1
kills c1
ostk kernel ps | short
crash
rm fill*
ostk kernel ps | short
rm -f .ostk/owed
full
kills c1
rm fill*
ostk kernel spawn b1 -- sleep 100000 >/dev/null; echo "spawn $?"
crash
ostk kernel ps | grep c1 | awk '{print $1, $2}'
ostk journal tail --since 0 | grep " c1.g" | tail -1 | awk '{print $3}'
ostk kernel shutdown --all >/dev/null
"#;

#[test]
fn fm_kill_enospc_where_no_room_was_set_aside_a_worker_keeps_the_kill_and_what_nobody_keeps_is_said() {
    let script = [FULL, NOWHERE].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let live = ["a1 stopped", "a2 active", "a3 active", "a4 active", "c1 exited"];
    let wanted = [
        &["kill 0", "quickly", "kill 6", "quickly"][..],
        &live,
        &live,
        &["kill 6", "quickly", "spawn 0", "c1 exited", "kill"],
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted.concat(), "{err}");
    assert!(err.contains("that c1 is to stay down is written nowhere: the disk is full; make room"), "{err}");
}

/// Anchors begin until the file of the heads has no room for one more; then the last of them stops with room.
const HALF: &str = r#"
heads=.ostk/heads/heads.jsonl
fill
for _ in $(seq 25); do crash; ostk kernel ps >/dev/null 2>&1; done
before=$(wc -l < $heads)
test $((4096 - $(stat -c %s $heads) % 4096)) -lt "$(tail -1 $heads | wc -c)" && echo "no room for a head"
rm fill*
ostk kernel shutdown >/dev/null; echo "shutdown $?"
echo "heads $(($(wc -l < $heads) - before))"
ostk journal verify >/dev/null; echo "verify $?"
ostk kernel shutdown --all >/dev/null
"#;

#[test]
fn t14_half_a_head_that_a_full_disk_took_is_cut_before_the_next_one_of_the_same_anchor() {
    let script = [FULL, HALF].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let wanted = ["no room for a head", "shutdown 0", "heads 1", "verify 0"];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
}

/// An anchor stops with rows that have no room, and one ends everything.
const STOPS: &str = r#"
full
stops() {
  said=$(ostk kernel shutdown "$@" 2>&1); echo "shutdown $?"
  echo "$said" | grep -c "for room that this anchor waits for no more, so they are written nowhere; what is to stay down"
}
stops
full
stops --all
rm fill*
ostk kernel ps | short
ostk kernel shutdown --json
"#;

#[test]
fn fm_kill_enospc_rows_that_have_no_room_when_an_anchor_stops_are_told() {
    let script = [FULL, STOPS].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let all_down = ["a1 stopped", "a2 stopped", "a3 stopped", "a4 stopped"];
    let wanted =
        [&["shutdown 6", "1", "shutdown 6", "1"][..], &all_down, &[r#"{"ended":[],"left":[]}"#]].concat();
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
}

/// Programs return on the full disk: one is watched by its anchor, which is lost before there is room, one by nobody.
const RETURNS: &str = r#"
runs() { ostk kernel spawn "$1" -- sh -c "until test ! -e $PLACE/$1; do sleep 0.1; done; exit 3" >/dev/null || exit 97; }
while_active() { for _ in $(seq 300); do ostk "$@" 2>/dev/null | grep -q "$name *active" || break; sleep 0.1; done; }
table() { grep -Eo "r[12] +[a-z]+" | tr -s " "; }
touch r1 r2
runs r1
runs r2
full
name=r1
rm r1
while_active kernel ps
ostk kernel ps | table
crash
name=r2
rm r2
while_active status
ostk status | table
ostk kernel ps | table
rm fill*
ostk kernel spawn b1 -- sleep 100000 >/dev/null; echo "spawn $?"
ostk kernel ps | table
ostk journal tail --since 0 | grep -c " revive "
ostk journal tail --since 0 | grep -c " exited "
ostk journal verify >/dev/null; echo "verify $?"
ostk kernel shutdown --all >/dev/null
"#;

#[test]
fn fm_kill_enospc_what_returns_on_a_full_disk_has_ended_whoever_dies_next() {
    let script = [FULL, RETURNS].concat();
    let Some(Said { out, err, .. }) = apart(&script) else { return };
    let (first, both) = (["r1 exited", "r2 active"], ["r1 exited", "r2 exited"]);
    let wanted = [&first[..], &both, &both, &["spawn 0"], &both, &["0", "2", "verify 0"]].concat();
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
}
