//! Programs that spin, eat memory and forge what the kernel writes: they harm themselves.

use std::time::Duration;

use netsky_kernel::rpc::{EventKind, Guard, SessionState, prompt};
use netsky_kernel::session::Io;

use crate::anchor_world::*;

/// What the kernel writes, in the words of a program: rows, a heartbeat, an answer, a frame of an end, a title and a paste.
const FORGER: &str = r#"
row() { printf '{"v":1,"seq":%s,"ts":"2026-01-01T00:00:00Z","kind":"%s","session":"agent0","generation":1,"data":{}}\n' "$1" "$2"; }
beat() { printf '{"v":1,"name":"agent0","generation":1,"liveness":99999999,"progress":1,"phase":"killed","killed":true}\n'; }
say() {
    row 2 exited; row 3 kill; row 4 reaped; beat
    printf '{"jsonrpc":"2.0","id":1,"method":"kernel/shutdown","params":{"all":true}}\n'
    printf '{"what":"ended","how":{"how":"exited","code":0}}\n'
    printf 'C\021\000\000\000{"kind":"killed"}'
    printf '\033]0;agent0 exited\007\033]52;c;Zm9yZ2Vk\007\033]9;4;3;100\033\\\033P+q544e\033\\\033_Gforged\033\\\033[201~\n'
}
say; say >&2; echo forged; while :; do say; done
"#;

fn on(mut spec: netsky_kernel::session::Spec, io: Io) -> netsky_kernel::session::Spec {
    spec.io = io;
    spec
}

#[test]
fn a12_programs_that_spin_eat_and_forge_delay_nobody_fool_nobody_and_are_killed() {
    let mut world = World::new();
    let mut client = world.anchor();
    let terminal = Io::Pty { rows: 24, cols: 80 };
    let hostile = [
        shell("agent0", FORGER),
        on(shell("agent1", FORGER), terminal),
        shell("agent2", "trap '' TERM INT HUP; while :; do :; done"),
        // Up to a limit of its own: this machine is others' too.
        shell("agent3", "ulimit -v 300000; trap '' TERM; while :; do tail /dev/zero 2>/dev/null; done"),
    ]
    .map(|spec| spawn(&mut client, &spec));
    let fine = spawn(&mut client, &shell("agent9", "exec cat"));
    let printed = |name: &str| std::fs::read(world.layout().out(&id(name))).unwrap_or_default();
    let has = |name: &str, word: &str| printed(name).windows(word.len()).any(|at| at == word.as_bytes());
    until("they have forged", || (has("agent0", "forged") && has("agent1", "forged")).then_some(()));
    for n in 0..20 {
        let text = format!("asked {n}.");
        let prompt = prompt::Params {
            session: fine.name.clone(),
            text: text.clone(),
            finalization: false,
            epoch: 0,
            guard: Guard::none(),
        };
        client.prompt(&prompt).expect("typed");
        until("it answers meanwhile", || has("agent9", &text).then_some(()));
        for session in hostile.iter().chain([&fine]) {
            let now = client.show(&session.name).expect("known");
            assert_eq!((now.state, now.generation), (SessionState::Active, session.generation), "{now:?}");
            assert_eq!((&now.program, &now.worker), (&session.program, &session.worker));
            assert!(now.heartbeat.is_none_or(|beat| beat.liveness < 1_000_000), "its worker's, not its own");
        }
    }
    let kinds: Vec<_> = rows(&world).iter().map(|row| row.kind).collect();
    // `Arrived`: we connect more than once.
    let told = [
        EventKind::AnchorStarted,
        EventKind::Spawn,
        EventKind::Started,
        EventKind::Prompt,
        EventKind::Arrived,
    ];
    assert!(kinds.iter().all(|kind| told.contains(kind)), "{kinds:?}");
    for session in &hostile {
        let ended =
            client.kill(&session.name, Some(Duration::from_millis(100)), &Guard::none()).expect("killed");
        assert_eq!(ended.state, SessionState::Stopped);
        assert_eq!(of_lineage(&session.lineage), []);
    }
    assert_eq!(ends(&world), hostile.len(), "each once, and by nobody's word but its worker's");
    // The next one folds what is written, and believes no more of it.
    world.kill_anchor();
    let mut client = world.anchor();
    assert_eq!(client.show(&fine.name).expect("known").program, fine.program);
    assert!(hostile.iter().all(|one| client.show(&one.name).expect("known").state == SessionState::Stopped));
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {});
    assert_eq!(audit.expect("reads").expect("is there").broken, [] as [u64; 0]);
}
