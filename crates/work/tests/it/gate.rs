//! The gate: whose it is, what it runs on, and how it is shut in (A22).

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use netsky_work::gate::{Command, Gate};
use netsky_work::harvest::{Job, Landed, Outcome, harvest};

use crate::support::{Bench, commit, git, landed};

/// Writes the repository's gate and commits it.
fn gate(folder: &Path, text: &str) {
    let at = folder.join("bin/check");
    fs::create_dir_all(at.parent().expect("a folder")).expect("made");
    fs::write(&at, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).expect("set");
    git(folder, &["add", "bin/check"]);
    git(folder, &["commit", "-q", "-m", "gate"]);
}

fn job(bench: &Bench) -> Job {
    let mut job = bench.job("t1");
    job.gate.command = Command::Usual;
    job
}

/// A bench whose `main` has such a gate, and work of one commit.
fn bench(text: &str) -> Bench {
    let bench = Bench::new();
    gate(&bench.repo, text);
    let clone = bench.workspace("t1");
    commit(&clone, "d", "of the agent\n", "work");
    bench
}

#[track_caller]
fn failed(outcome: Outcome) -> (Option<i32>, String) {
    match outcome {
        Outcome::GateFailed { status, log, .. } => (status, fs::read_to_string(log).expect("a log")),
        other => panic!("it did not fail: {other:?}"),
    }
}

#[test]
fn a22_what_the_gate_passes_lands_and_what_it_does_not_does_not() {
    let bench = bench(
        "cat a d; git log --format=%s origin/main..HEAD && git diff --name-only main && git rev-parse -q origin origin/HEAD >/dev/null && test -f pass",
    );
    let main = bench.main();
    let (status, log) = failed(harvest(&job(&bench)).expect("an outcome"));
    assert_eq!(status, Some(1));
    assert!(log.starts_with("netsky: sandbox = ") && log.ends_with("a 3\nof the agent\nwork\nd\n"), "{log}");
    assert_eq!(bench.main(), main);
    bench.assert_whole();
    commit(&bench.repo, "pass", "", "pass");
    let Landed { gate, .. } = landed(harvest(&job(&bench)).expect("an outcome"));
    assert!(gate.is_some());
    bench.assert_whole();
}

#[test]
fn a22_a_branch_that_touches_the_gate_needs_the_owner_and_is_judged_by_the_one_of_main() {
    let bench = Bench::new();
    gate(&bench.repo, "echo of main; exit 3");
    let clone = bench.workspace("t1");
    gate(&clone, "echo of the branch; exit 0");
    let main = bench.main();
    let Outcome::Refused(why) = harvest(&job(&bench)).expect("an outcome") else { panic!("not refused") };
    assert!(why.contains("bin/check"), "{why}");
    let mut allowed = job(&bench);
    allowed.gate.is_allowed = true;
    let (status, log) = failed(harvest(&allowed).expect("an outcome"));
    assert_eq!((status, log.lines().last()), (Some(3), Some("of main")));
    assert_eq!(bench.main(), main);
    // Neither is one that takes it away, or puts a folder's link in its place.
    git(&clone, &["reset", "-q", "--hard", "HEAD^"]);
    git(&clone, &["rm", "-q", "-r", "bin"]);
    symlink("/bin", clone.join("bin")).expect("linked");
    git(&clone, &["add", "bin"]);
    git(&clone, &["commit", "-q", "-m", "link"]);
    assert!(matches!(harvest(&job(&bench)).expect("an outcome"), Outcome::Refused(_)));
    bench.assert_whole();
}

#[test]
fn a22_the_owners_command_and_what_else_judges() {
    let bench = Bench::new();
    commit(&bench.repo, "rules", "main's\n", "rules");
    let clone = bench.workspace("t1");
    commit(&clone, "d", "of the agent\n", "work");
    let mut given = job(&bench);
    given.gate.command = Command::Given(["sh", "-c", "grep -q 'of the agent' d"].map(str::to_owned).into());
    given.gate.guards = vec!["rules".to_owned()];
    given.is_dry = true;
    let outcome = harvest(&given).expect("an outcome");
    assert!(matches!(outcome, Outcome::WouldLand { commits: 1, gate: Some(_) }), "{outcome:?}");
    commit(&clone, "rules", "the agent's\n", "rules");
    assert!(matches!(harvest(&given).expect("an outcome"), Outcome::Refused(_)));
    // Whom its owner lets pass is judged with the guard that it brings.
    given.gate.is_allowed = true;
    given.gate.command = self::given(&["sh", "-c", "grep -q \"the agent's\" rules"]);
    let outcome = harvest(&given).expect("an outcome");
    assert!(matches!(outcome, Outcome::WouldLand { gate: Some(_), .. }), "{outcome:?}");
    // `main` has no gate of its own.
    assert_eq!(landed(harvest(&job(&bench)).expect("an outcome")).gate, None);
}

#[track_caller]
fn refused(outcome: Outcome) -> String {
    match outcome {
        Outcome::Refused(why) => why,
        other => panic!("not refused: {other:?}"),
    }
}

fn given(words: &[&str]) -> Command {
    Command::Given(words.iter().map(|word| (*word).to_owned()).collect())
}

#[test]
fn a22_a_guard_is_a_folder_whole_and_one_that_main_has_not_is_said_to_be_none() {
    let bench = Bench::new();
    commit(&bench.repo, "tools/a", "1\n", "a");
    commit(&bench.repo, "tools/deep/z", "1\n", "z");
    let clone = bench.workspace("t1");
    commit(&clone, "tools/deep/z", "2\n", "of the agent");
    let mut job = job(&bench);
    job.is_dry = true;
    job.gate.command = given(&["true"]);
    // One within another hides neither.
    for guards in [&["tools/"][..], &["./tools"], &["tools", "tools/a"], &["tools/a", "tools//deep/"]] {
        job.gate.guards = guards.iter().map(|guard| (*guard).to_owned()).collect();
        let why = refused(harvest(&job).expect("an outcome"));
        assert!(why.contains("the branch touches tools"), "{guards:?}: {why}");
        assert!(why.contains("`netsky task harvest t1 --allow-gate-change`"), "it says what to do: {why}");
    }
    for typo in ["tool/", "", "/tools", "../tools", "tools/b"] {
        job.gate.guards = vec!["tools/a".to_owned(), typo.to_owned()];
        let why = refused(harvest(&job).expect("an outcome"));
        assert!(why.contains("guards") && why.contains("config.toml") && why.contains(typo), "{why}");
        // No branch is let by over it.
        job.gate.is_allowed = true;
        assert!(matches!(harvest(&job).expect("an outcome"), Outcome::Refused(_)), "{typo}");
        job.gate.is_allowed = false;
    }
    job.gate.guards = vec!["tools/a".to_owned()];
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::WouldLand { .. }));
}

#[test]
fn a22_a_file_that_the_command_names_judges_as_main_has_it() {
    let bench = Bench::new();
    commit(&bench.repo, "ci/run.sh", "echo of main; exit 3\n", "gate");
    commit(&bench.repo, "ci/other", "1\n", "other");
    let clone = bench.workspace("t1");
    commit(&clone, "ci/run.sh", "exit 0\n", "of the agent");
    let mut job = job(&bench);
    job.is_dry = true;
    for script in ["ci/run.sh", "./ci/run.sh", "ci/../ci/run.sh"] {
        job.gate.command = given(&["sh", script]);
        let why = refused(harvest(&job).expect("an outcome"));
        assert!(why.contains("ci/run.sh"), "{why}");
    }
    job.gate.command = given(&["sh", "./ci/run.sh"]);
    job.gate.is_allowed = true;
    let (status, log) = failed(harvest(&job).expect("an outcome"));
    assert_eq!((status, log.lines().last()), (Some(3), Some("of main")));
    job.gate.is_allowed = false;
    // A folder is what is judged: nothing in it is the command's.
    job.gate.command = given(&["ls", "ci"]);
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::WouldLand { .. }));
    // A new folder is what is judged, too; a new file may not come with the branch: `make test` makes nothing where there is a `test`.
    commit(&clone, "docs/x", "", "docs");
    job.gate.command = given(&["ls", "docs"]);
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::WouldLand { .. }));
    commit(&clone, "test", "", "test");
    job.gate.command = given(&["true", "test"]);
    let why = refused(harvest(&job).expect("an outcome"));
    assert!(why.contains("touches test"), "{why}");
}

#[test]
fn a22_a_gate_that_is_no_program_is_not_run() {
    let bench = Bench::new();
    fs::create_dir(bench.repo.join("bin")).expect("made");
    symlink("/bin/true", bench.repo.join("bin/check")).expect("linked");
    git(&bench.repo, &["add", "bin"]);
    git(&bench.repo, &["commit", "-q", "-m", "link"]);
    commit(&bench.workspace("t1"), "d", "of the agent\n", "work");
    assert!(matches!(harvest(&job(&bench)).expect("an outcome"), Outcome::Refused(_)));
    let mut missing = job(&bench);
    missing.gate.command = Command::Given(vec!["no-such-program".to_owned()]);
    let outcome = harvest(&missing).expect("an outcome");
    let Outcome::Refused(why) = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("no-such-program"), "{why}");
    let mut nobody = job(&bench);
    nobody.gate = Gate { command: Command::Given(vec!["true".to_owned()]), ..Gate::default() };
    assert!(harvest(&nobody).is_err(), "nobody is there to run it");
}

#[test]
fn a22_at_its_limit_all_of_a_gate_ends_whatever_it_made_of_itself() {
    let bench = bench(
        "setsid sleep 1000 & echo pid $!\n\
         env -i setsid sh -c 'sleep 1000 & echo pid $!; wait' &\n\
         OSTK_APART=1 setsid sleep 1000 & echo pid $!\n\
         sleep 1000 & echo pid $!\nwait",
    );
    let mut slow = job(&bench);
    slow.gate.limit = Duration::from_secs(3);
    let (status, log) = failed(harvest(&slow).expect("an outcome"));
    assert_eq!(status, None);
    assert!(log.contains("ended after 3 s"), "{log}");
    let pids: Vec<u32> = log.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect();
    assert_eq!(pids.len(), 4, "{log}");
    for pid in pids {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!command.contains("sleep"), "{pid} lives on");
    }
}

#[test]
fn a22_what_a_gate_leaves_behind_ends_with_it() {
    let bench = bench("env -i OSTK_APART=1 setsid sleep 1000 >/dev/null 2>&1 & echo pid $!");
    let mut job = job(&bench);
    job.is_dry = true;
    assert!(matches!(harvest(&job).expect("an outcome"), Outcome::WouldLand { .. }));
    let log = fs::read_to_string(bench.layout.harvests().join("t1.gate.log")).expect("a log");
    let pid = log.lines().find_map(|line| line.strip_prefix("pid ")).expect("a pid");
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!command.contains("sleep"), "{pid} lives on");
}

#[test]
fn a22_what_a_gate_makes_of_its_files_is_not_what_lands() {
    let bench = bench(
        "echo changed > d; git -c user.name=x -c user.email=x commit -qam changed; git update-ref refs/heads/main HEAD",
    );
    landed(harvest(&job(&bench)).expect("an outcome"));
    assert_eq!(fs::read_to_string(bench.repo.join("d")).expect("read"), "of the agent\n");
    bench.assert_whole();
}

/// What a gate tries, and prints what it can.
const TRIES: &str = r#"
can() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "can $name"; else echo "cannot $name"; fi; }
can write-here touch here
can write-home touch "$HOME/x"
can write-tmp touch "$TMPDIR/x"
can write-outside touch "$OUTSIDE/written"
can write-pick sh -c 'echo x > ../pick.git/config'
can read-key cat "$OUTSIDE/key"
can list-home ls "$OUTSIDE"
can read-process cat "/proc/$OUTSIDE_PID/environ"
can kill-outside kill -0 "$OUTSIDE_PID"
can devnull sh -c 'echo x > /dev/null'
can git git status
can tcp perl -e 'use IO::Socket::INET; exit(IO::Socket::INET->new(PeerAddr=>"127.0.0.1:$ENV{TCP}",Timeout=>2)?0:1)'
perl -e 'use IO::Socket::INET; my $s=IO::Socket::INET->new(PeerAddr=>"127.0.0.1:$ENV{UDP}",Proto=>"udp"); $s && $s->send("out")'
can loopback perl -e 'use IO::Socket::INET; my $l=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1") or exit 1; my $p=$l->sockport; exit(IO::Socket::INET->new(PeerAddr=>"127.0.0.1:$p",Timeout=>2)?0:1)'
env
"#;

/// Whether the system has Landlock: rules are made, and nobody is held to them.
fn is_landlock_here() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_all(ABI::V1)).and_then(|rules| rules.create()).is_ok()
}

/// Whether a network namespace is to be had, as another program sees it.
fn is_network_left() -> bool {
    let tried = std::process::Command::new("unshare").args(["-r", "-n", "true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
fn a22_a17_a_gate_sees_no_home_and_no_key_and_reaches_no_network() {
    let bench = bench(TRIES);
    let outside = bench.temp.path();
    fs::write(outside.join("key"), "secret\n").expect("written");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut bystander = std::process::Command::new("/bin/cat");
    let mut bystander = bystander.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut job = job(&bench);
    job.is_dry = true;
    job.gate.set = [
        ("OUTSIDE", outside.to_str().expect("text").to_owned()),
        ("OUTSIDE_PID", bystander.id().to_string()),
        ("TCP", tcp.local_addr().expect("an address").port().to_string()),
        ("UDP", udp.local_addr().expect("an address").port().to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let outcome = harvest(&job).expect("an outcome");
    drop(bystander.stdin.take());
    bystander.wait().expect("ours");
    let Outcome::WouldLand { gate: Some(shut), .. } = outcome else { panic!("{outcome:?}") };
    let log = fs::read_to_string(bench.layout.harvests().join("t1.gate.log")).expect("a log");
    assert!(log.starts_with(&format!("netsky: sandbox = {shut}\n")), "{log}");
    assert_eq!(shut.hides_files(), is_landlock_here(), "what the system has is used");
    if is_network_left() {
        assert!(shut.hides_network(), "{shut}");
    }
    let can = |what: &str| log.lines().any(|line| line == format!("can {what}"));
    for what in ["write-here", "write-home", "write-tmp", "devnull", "git"] {
        assert!(can(what), "{what}: {log}");
    }
    if shut.hides_files() {
        for what in ["write-outside", "write-pick", "read-key", "list-home", "read-process", "kill-outside"] {
            assert!(!can(what), "{what}: {log}");
        }
        assert!(!outside.join("written").exists());
    }
    if shut.hides_network() {
        assert!(!can("tcp") && can("loopback"), "{log}");
        udp.set_nonblocking(true).expect("set");
        assert!(udp.recv(&mut [0; 8]).is_err(), "no datagram comes out");
    }
    // Nothing of our own surroundings is there.
    assert!(!log.contains("CARGO_MANIFEST_DIR="), "{log}");
}

#[test]
fn a_gate_that_says_much_keeps_the_beginning_and_the_end() {
    let bench = bench("echo first; yes | head -c 3000000; echo last; exit 1");
    let (_, log) = failed(harvest(&job(&bench)).expect("an outcome"));
    assert!(log.len() < 600_000 && log.contains("first\n") && log.ends_with("last\n"), "{}", log.len());
    assert!(log.contains("bytes are left out here"));
}

/// The order comes by standard input; one that does not read runs nothing.
#[test]
fn a_gate_without_an_order_is_not_run() {
    let mut helper = std::process::Command::new(crate::support::HELPER);
    helper.arg("gate").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = helper.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"{}").expect("it reads");
    let mut said = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("read");
    assert_eq!(child.wait().expect("ours").code(), Some(125));
    assert!(said.starts_with("netsky: the gate was not run: "), "{said}");
}

/// What a gate tries on what listens outside and on somebody's terminal, and on its own.
const REACHES: &str = r#"
can() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "can $name"; else echo "cannot $name"; fi; }
can foreign-socket perl -e 'use IO::Socket::UNIX; exit(IO::Socket::UNIX->new(Peer=>$ENV{SOCKET})?0:1)'
can foreign-root perl -e 'use IO::Socket::UNIX; exit(IO::Socket::UNIX->new(Peer=>"/proc/$ENV{HOLDER}/root$ENV{SOCKET}")?0:1)'
can foreign-terminal sh -c 'echo x > "$TERMINAL"'
can foreign-terminal-read sh -c ': < "$TERMINAL"'
can tty test -e /dev/tty
can run ls /run
can own-socket perl -e 'use IO::Socket::UNIX; my $at="$ENV{TMPDIR}/s"; my $l=IO::Socket::UNIX->new(Local=>$at,Listen=>1) or exit 1; exit(IO::Socket::UNIX->new(Peer=>$at)?0:1)'
can own-terminal perl -e 'open(my $m,"+<","/dev/ptmx") or exit 1; my $z=pack("i",0); ioctl($m,0x40045431,$z) or exit 2; my $n=pack("i",0); ioctl($m,0x80045430,$n) or exit 3; open(my $s,"+<","/dev/pts/".unpack("i",$n)) or exit 4; syswrite($s,"x") or exit 5; sysread($m,my $x,1) or exit 6'
can shared-memory touch /dev/shm/x
can shell-words sh -c 'cat < /dev/null > /dev/zero && head -c 1 /dev/urandom > /dev/full || test $? = 1'
can inherited-fd sh -c 'echo x | cat /dev/stdin | grep -q x'
can git sh -c 'git log -1 && git status && git cat-file -e HEAD:a'
can links /bin/sh -c 'test -x /bin/sh && test -x /usr/bin/env'
can here sh -c 'test "$(pwd)" = "$(cd . && pwd -P)" && test -f a'
"#;

/// A terminal that somebody has open: who holds it until its input ends, and its path.
fn terminal() -> (std::process::Child, String) {
    let open = r#"open(my $m,"+<","/dev/ptmx") or exit 1; my $z=pack("i",0); ioctl($m,0x40045431,$z) or exit 2;
        my $n=pack("i",0); ioctl($m,0x80045430,$n) or exit 3; $|=1; print "/dev/pts/".unpack("i",$n)."\n"; <STDIN>"#;
    let mut holder = std::process::Command::new("perl");
    holder.args(["-e", open]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut holder = holder.spawn().expect("it starts");
    let mut path = String::new();
    let out = holder.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut path).expect("read");
    (holder, path.trim().to_owned())
}

/// Whether mounts of its own are to be had, as another program sees it.
fn are_mounts_left() -> bool {
    let mut tried = std::process::Command::new("unshare");
    tried
        .args(["-r", "-n", "-m", "mount", "-t", "tmpfs", "x", "/proc"])
        .output()
        .is_ok_and(|tried| tried.status.success())
}

#[test]
fn a10_a22_a_gate_reaches_no_socket_and_no_terminal_but_its_own() {
    let bench = bench(REACHES);
    let socket = bench.temp.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let (mut holder, terminal) = terminal();
    assert!(terminal.starts_with("/dev/pts/"), "{terminal}");
    let mut job = job(&bench);
    job.is_dry = true;
    job.gate.set = [
        ("SOCKET", socket.to_str().expect("text").to_owned()),
        ("TERMINAL", terminal),
        ("HOLDER", holder.id().to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let outcome = harvest(&job).expect("an outcome");
    drop(holder.stdin.take());
    holder.wait().expect("ours");
    let Outcome::WouldLand { gate: Some(shut), .. } = outcome else { panic!("{outcome:?}") };
    let log = fs::read_to_string(bench.layout.harvests().join("t1.gate.log")).expect("a log");
    let can = |what: &str| log.lines().any(|line| line == format!("can {what}"));
    assert!(shut.hides_sockets() || !are_mounts_left(), "what the system has is used: {log}");
    for what in ["own-socket", "shared-memory", "shell-words", "inherited-fd", "git", "links", "here"] {
        assert!(can(what), "{what}: {log}");
    }
    if shut.hides_sockets() {
        for what in ["foreign-socket", "foreign-root", "run", "tty"] {
            assert!(!can(what), "{what}: {log}");
        }
        assert!(can("own-terminal"), "{log}");
    }
    if shut.hides_sockets() || shut.hides_files() {
        assert!(!can("foreign-terminal") && !can("foreign-terminal-read"), "{log}");
    }
}
