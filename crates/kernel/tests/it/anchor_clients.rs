//! Clients that are broken, foreign, too many or too slow.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use netsky_kernel::client::{Client, ClientError, Follow};
use netsky_kernel::rpc::{EventKind, SessionState};
use serde_json::{Value, json};

use crate::anchor_world::*;

fn raw(world: &World) -> UnixStream {
    let stream = UnixStream::connect(world.layout().sock()).expect("an anchor serves");
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    stream
}

fn say(stream: &mut UnixStream, bytes: &[u8]) -> Value {
    stream.write_all(bytes).expect("written");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("answered");
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
}

#[test]
fn garbage_is_answered_and_hurts_nobody() {
    let mut world = World::new();
    let mut client = world.anchor();
    let epoch = client.hello().epoch;
    let mut stream = raw(&world);
    let cases: [(&[u8], &str); 12] = [
        (b"hello?\n", "malformed"),
        (b"\xff\xfe\x00\n", "malformed"),
        (b"[1,2,3]\n", "invalid-request"),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/ps\"}]\n", "invalid-request"),
        (b"{}\n", "invalid-request"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"kernel/ps\"}\n", "invalid-request"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/show\",\"params\":[\"agent0\"]}\n",
            "bad-params",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/ps\",\"params\":{\"all\":1}}\n", "bad-params"),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"kernel/ps\"}\n", "invalid-request"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/\\u001b[2J\"}\n", "unknown-method"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/show\",\"params\":{\"session\":\"../x\"}}\n",
            "bad-params",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/show\",\"params\":7}\n", "bad-params"),
    ];
    for (line, kind) in cases {
        let reply = say(&mut stream, line);
        assert_eq!(reply["error"]["data"]["kind"], kind, "{reply}");
        assert_eq!(reply["epoch"], json!(epoch));
        assert!(!reply.to_string().contains("\\u001b"), "{reply}");
    }
    let fine = say(
        &mut stream,
        b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"kernel/ps\",\"from_the_future\":1}\n",
    );
    assert_eq!((&fine["id"], &fine["result"]["sessions"]), (&json!("x"), &json!([])));
    // Half a line, then gone.
    stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth").expect("written");
    drop(stream);
    // Deep nesting must not overflow a stack.
    let mut deep = vec![b'['; 200_000];
    deep.push(b'\n');
    assert_eq!(say(&mut raw(&world), &deep)["error"]["data"]["kind"], "malformed");
    client.ps().expect("it serves on");
}

#[test]
fn what_is_no_request_has_the_code_that_json_rpc_gives_it_and_a_notification_no_answer() {
    let mut world = World::new();
    let _client = world.anchor();
    let mut stream = raw(&world);
    let cases: [(&[u8], i64, Value); 6] = [
        (b"{\n", -32700, Value::Null),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"kernel/ps\"}]\n", -32600, Value::Null),
        (b"{}\n", -32600, Value::Null),
        (b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"kernel/ps\"}\n", -32600, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/show\",\"params\":[\"a\"]}\n", -32602, json!(7)),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/kill\",\"params\":{\"session\":\"a\",\"gracee\":1}}\n",
            -32602,
            json!(7),
        ),
    ];
    for (line, code, id) in cases {
        let reply = say(&mut stream, line);
        assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(code), &id), "{reply}");
        if code == -32602 && line.windows(6).any(|word| word == b"gracee") {
            assert!(
                reply["error"]["message"].as_str().is_some_and(|why| why.contains("`gracee`")),
                "{reply}"
            );
        }
    }
    for (id, answered) in [
        ("9007199254740993", true),
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("123456789012345678901234567890", false),
        ("1.10", false),
        ("1e2", false),
        ("{}", false),
    ] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"kernel/ps\"}}\n");
        let reply = say(&mut stream, line.as_bytes());
        let (said, code) = (reply["id"].to_string(), reply["error"]["code"].as_i64());
        let wanted = if answered { (id, None) } else { ("null", Some(-32600)) };
        assert_eq!((said.as_str(), code), wanted, "{reply}");
    }
    // Done, or failed at, and not answered: what comes is the answer to the next.
    let spawn = json!({"jsonrpc": "2.0", "method": "session/spawn", "params": {"spec": sleeper("agent3")}});
    stream.write_all(format!("{spawn}\n").as_bytes()).expect("written");
    stream.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"kernel/fly\"}\n").expect("written");
    let fine = say(&mut stream, b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"kernel/ps\"}\n");
    assert_eq!((&fine["id"], &fine["result"]["sessions"][0]["name"]), (&json!("x"), &json!("agent3")));
}

#[test]
fn a_grace_over_its_limit_is_refused_by_name_and_nothing_is_done() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let mut stream = raw(&world);
    for call in [
        json!({"method": "session/kill", "params": {"session": "agent0", "grace_ms": 600_001}}),
        json!({"method": "kernel/shutdown", "params": {"all": true, "grace_ms": 4_294_967_295u32}}),
        json!({"method": "kernel/shutdown", "params": {"grace_ms": 600_001}}),
    ] {
        let mut line = call;
        (line["jsonrpc"], line["id"]) = (json!("2.0"), json!(1));
        let reply = say(&mut stream, format!("{line}\n").as_bytes());
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
        assert!(reply["error"]["message"].as_str().is_some_and(|why| why.contains("grace_ms")), "{reply}");
    }
    assert_eq!(client.show(&session.name).expect("it serves on").state, SessionState::Active);
    assert!(rows(&world).iter().all(|row| row.kind != EventKind::Kill), "nobody is to be down");
}

#[test]
fn a_line_over_the_limit_is_refused_and_its_connection_closed() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut stream = raw(&world);
    let mut reader = stream.try_clone().expect("a descriptor");
    let writer = std::thread::spawn(move || {
        // The anchor may close before it has taken all.
        let _ = stream.write_all(&vec![b'x'; 3 << 20]);
    });
    let mut said = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = reader.read_to_end(&mut said);
    writer.join().expect("no panic");
    assert!(String::from_utf8_lossy(&said).contains("too-large"), "{:?}", String::from_utf8_lossy(&said));
    client.ps().expect("it serves on");
}

/// Whatever a line of exactly the limit says is read; one byte more is refused, also before its end has come.
#[test]
fn a12_a_line_of_one_mebibyte_is_read_and_one_byte_more_is_refused() {
    let mut world = World::new();
    let mut client = world.anchor();
    let whole = vec![b'x'; 1 << 20];
    let kind = |rest: &[u8]| {
        let mut stream = raw(&world);
        stream.write_all(&whole).expect("written");
        let kind = say(&mut stream, rest)["error"]["data"]["kind"].clone();
        (kind, stream)
    };
    let (read, mut stream) = kind(b"\n");
    assert_eq!(read, "malformed", "it was read as a line");
    let served = say(&mut stream, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/ps\"}\n");
    assert_eq!(served["id"], 1, "the connection stays: {served}");
    for rest in [&b"x\n"[..], b"x"] {
        let (read, mut stream) = kind(rest);
        assert_eq!(read, "too-large", "{rest:?}");
        let mut more = Vec::new();
        // A reset after the answer is as good as an end.
        let _ = stream.read_to_end(&mut more);
        assert_eq!(more, b"", "it is closed");
    }
    client.ps().expect("it serves on");
}

#[test]
fn a12_who_is_turned_away_or_cut_off_leaves_one_line_in_the_log() {
    let mut world = World::new();
    let mut client = world.logged_anchor();
    let log = || std::fs::read_to_string(world.layout().log()).expect("reads");
    let lines = |word: &str| log().lines().filter(|line| line.contains(word)).count();
    let ours = format!("pid {}, uid {}", std::process::id(), rustix::process::geteuid().as_raw());
    let mut stream = raw(&world);
    for _ in 0..50 {
        say(&mut stream, b"hunter2\n");
    }
    let line = format!("ostk: line refused ({ours}): 7 bytes that are no request");
    assert!(log().contains(&line), "{}", log());
    assert_eq!(lines("line refused"), 1, "{}", log());
    assert!(!log().contains("hunter2"), "what was sent may be a secret");
    let mut long = raw(&world);
    // It may close before it has taken all.
    let _ = long.write_all(&vec![b'x'; 3 << 20]);
    let _ = long.read_to_end(&mut Vec::new());
    let line = format!("client cut off, its line is too long ({ours}): a line is over 1048576 bytes");
    assert!(log().contains(&line), "{}", log());
    let crowd: Vec<UnixStream> = (0..300).map(|_| raw(&world)).collect();
    client.ps().expect("whoever was there is served");
    let line = format!("client refused, all slots are taken ({ours}): 256 clients are connected already");
    until("it is told", || log().contains(&line).then_some(()));
    drop(crowd);
    client.shutdown(false).expect("it stops");
    until("the others are told at the end", || log().contains("line refused: 49 more").then_some(()));
    assert_eq!(lines("all slots are taken"), 2, "{}", log());
}

#[test]
fn a12_a_client_too_many_reads_why_it_is_refused() {
    let mut world = World::new();
    let mut client = world.anchor();
    let crowd: Vec<UnixStream> = (0..255).map(|_| raw(&world)).collect();
    client.ps().expect("whoever was there is served");
    for _ in 0..20 {
        let mut one_more = raw(&world);
        // It may be closed before it has taken anything; why was said before that.
        let _ = one_more.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/ps\"}\n");
        let mut said = String::new();
        BufReader::new(one_more).read_line(&mut said).expect("answered");
        let reply: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("not JSON: {said:?}"));
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32003)), "{reply}");
        let refused = Client::connect(&world.root).expect_err("there is no room");
        assert!(matches!(refused, ClientError::Full { .. }), "{refused:?}");
    }
    drop(crowd);
    until("there is room", || Client::connect(&world.root).ok());
}

#[test]
fn a12_who_follows_an_anchor_that_has_no_slot_for_it_waits_for_one() {
    let mut world = World::new();
    let mut client = world.anchor();
    let crowd: Vec<UnixStream> = (0..255).map(|_| raw(&world)).collect();
    client.ps().expect("whoever was there is served");
    let mut rows = Follow::all(&world.root, 0);
    assert_eq!(rows.next(Some(Duration::from_millis(200))).expect("it waits"), None);
    drop(crowd);
    let first = rows.next(Some(LONG)).expect("there is room").expect("a row");
    assert_eq!((first.seq, first.kind), (1, EventKind::AnchorStarted));
}

#[test]
fn a_client_that_never_reads_delays_nobody() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    let mut deaf = raw(&world);
    deaf.set_nonblocking(true).expect("a socket");
    let mut ask = br#"{"jsonrpc":"2.0","id":1,"method":"kernel/ps"}"#.to_vec();
    ask.push(b'\n');
    // Until neither side takes any more.
    let mut full = 0;
    while full < 20 {
        match deaf.write_all(&ask) {
            Ok(()) => full = 0,
            Err(_) => full += 1,
        }
        client.hello();
        client.ps().expect("answers");
    }
}

#[test]
fn a_program_without_descriptors_to_spare_delays_clients_and_lives() {
    let mut world = World::new();
    let serve = world.serve();
    let mut limited = std::process::Command::new("/bin/sh");
    limited.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(serve.get_program()).args(serve.get_args());
    let client = world.anchor_by(limited);
    let first = client.hello().clone();
    drop(client);
    let crowd: Vec<UnixStream> =
        (0..100).filter_map(|_| UnixStream::connect(world.layout().sock()).ok()).collect();
    assert!(crowd.len() >= 64);
    drop(crowd);
    let mut client = until("it serves again", || Client::connect(&world.root).ok());
    assert_eq!(*client.hello(), first, "it is the same anchor");
    spawn(&mut client, &sleeper("agent0"));
}

#[test]
fn a_root_of_any_length_is_served() {
    let long: PathBuf = std::iter::repeat_n("a-folder-with-a-long-name", 8).collect();
    let mut world = World::named(long.join(".ostk").to_str().expect("text"));
    assert!(world.layout().sock().as_os_str().len() > 200);
    std::fs::create_dir_all(world.root.parent().expect("a folder")).expect("made");
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    client
        .kill(&session.name, Some(std::time::Duration::ZERO), &netsky_kernel::rpc::Guard::none())
        .expect("killed");
}

#[test]
fn a_stale_socket_is_in_nobodys_way() {
    let mut world = World::new();
    netsky_disk::fs::Dir::create(&world.root).expect("made");
    drop(std::os::unix::net::UnixListener::bind(world.layout().sock()).expect("bound"));
    assert!(world.layout().sock().exists());
    world.anchor().ps().expect("answers");
}

#[test]
fn a4_a_root_that_is_open_to_others_or_a_link_is_refused() {
    let world = World::new();
    netsky_disk::fs::Dir::create(&world.root).expect("made");
    std::fs::set_permissions(&world.root, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let refused = world.serve().output().expect("it runs");
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("0755"), "{refused:?}");
    assert_eq!(std::fs::read_dir(&world.root).expect("reads").count(), 0, "nothing was written");
    std::fs::set_permissions(&world.root, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let link = world.root.with_file_name("link");
    std::os::unix::fs::symlink(&world.root, &link).expect("made");
    let mut serve = std::process::Command::new(PROGRAM);
    let refused = serve.arg("serve").arg("--root").arg(&link).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}

#[test]
fn a4_another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        crate::skipped::skipped("root: a process of another user");
        return;
    }
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let folder = world.root.parent().expect("a folder").to_owned();
    // The other user must be able to run the probe and to reach the root's folder, but for the root itself.
    let probe = folder.join("probe");
    // By a process of its own: what others start here meanwhile must not hold it open to write when it is started.
    let copied = std::process::Command::new("cp").arg(PROGRAM).arg(&probe).status();
    assert!(copied.expect("cp runs").success());
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    open(&folder, 0o755);
    let (code, said) = as_nobody(&world.root, &probe);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("denied"), "{said}");
    // Even if somebody opened folder and socket, the anchor looks at who calls.
    open(&world.root, 0o755);
    open(&world.layout().sock(), 0o777);
    let (code, said) = as_nobody(&world.root, &probe);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("not the owner"), "{said}");
    // So does a worker: it does not even greet.
    let socket = world.layout().worker_sock(&session.name);
    open(&world.layout().agents(), 0o755);
    open(&socket, 0o777);
    let (code, said) = greeted_as_nobody(&socket, &probe);
    assert_eq!((code, said.as_str()), (1, "\n"), "nothing is said to another user");
    let us = std::process::Command::new(&probe).arg("greeting").arg(&socket).output().expect("it runs");
    assert!(us.status.success(), "{us:?}");
    open(&world.layout().agents(), 0o700);
    open(&world.root, 0o700);
    client.ps().expect("it serves its owner");
}
