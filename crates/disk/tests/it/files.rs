//! Durable writes, and what is refused when reading.

use std::os::unix::fs::{PermissionsExt, symlink};

use netsky_disk::fs::{Dir, Place, read_users_file, write_durable};
use netsky_disk::{ReadError, state};

fn home() -> (tempfile::TempDir, Dir, Dir) {
    let temp = tempfile::tempdir().unwrap();
    let tmp = Dir::create(temp.path().join("tmp")).unwrap();
    let box_ = Dir::create(temp.path().join("box")).unwrap();
    (temp, tmp, box_)
}

#[test]
fn t1_a_durable_write_leaves_nothing_in_tmp() {
    let (_temp, tmp, target) = home();
    write_durable(&tmp, &target, "a.json", b"one", Place::New).unwrap();
    assert_eq!(target.read("a.json", 100).unwrap(), b"one");
    assert!(tmp.names().unwrap().is_empty());
}

#[test]
fn fm_send_racers_a_name_that_is_taken_is_not_replaced() {
    let (_temp, tmp, target) = home();
    write_durable(&tmp, &target, "a.json", b"one", Place::New).unwrap();
    let refused = write_durable(&tmp, &target, "a.json", b"two", Place::New).unwrap_err();
    assert!(refused.is_exists());
    assert_eq!(target.read("a.json", 100).unwrap(), b"one");
    assert!(tmp.names().unwrap().is_empty(), "the loser cleans up");
    write_durable(&tmp, &target, "a.json", b"two", Place::Over).unwrap();
    assert_eq!(target.read("a.json", 100).unwrap(), b"two");
}

#[test]
fn what_stands_where_a_folder_should_be_is_named_not_what_is_below_it() {
    let (temp, ..) = home();
    let file = temp.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below/it")] {
        let told = Dir::open(path).unwrap_err().to_string();
        assert_eq!(told, format!("open folder {}: not a folder, move it away", file.display()));
    }
}

#[test]
fn a5_what_is_no_plain_file_of_ours_is_not_read() {
    let (temp, _tmp, target) = home();
    let at = |name: &str| target.path().join(name);
    std::fs::write(temp.path().join("secret"), b"s").unwrap();
    symlink(temp.path().join("secret"), at("link")).unwrap();
    std::fs::hard_link(temp.path().join("secret"), at("hard")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    std::fs::write(at("large"), vec![0; 101]).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("sock")).unwrap();
    for name in ["link", "folder", "fifo", "sock"] {
        assert!(matches!(target.read(name, 100), Err(ReadError::NotRegular)), "{name}");
    }
    assert!(matches!(target.read("hard", 100), Err(ReadError::Linked { links: 2 })));
    assert!(matches!(target.read("large", 100), Err(ReadError::TooLarge { size: 101, cap: 100 })));
}

#[test]
fn a5_what_is_no_plain_file_of_ours_is_neither_written_nor_locked() {
    let (temp, _tmp, target) = home();
    let at = |name: &str| target.path().join(name);
    let secret = temp.path().join("secret");
    std::fs::write(&secret, b"s\nhalf").unwrap();
    symlink(&secret, at("link")).unwrap();
    std::fs::hard_link(&secret, at("hard")).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), kind, mode, 0).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    for name in ["link", "hard", "fifo", "folder"] {
        assert!(target.open_file(name, rustix::fs::OFlags::RDWR).is_err(), "{name}");
        assert!(netsky_disk::fs::open_to_read(&at(name)).is_err(), "{name}");
        assert!(netsky_disk::lock::Lock::try_take(at(name)).is_err(), "{name}");
        assert!(netsky_disk::lines::Lines::open(&target, name).is_err(), "{name}");
        assert!(netsky_disk::lines::read(at(name)).is_err(), "{name}");
    }
    assert_eq!(std::fs::read(&secret).unwrap(), b"s\nhalf");
}

#[test]
fn a4_a_folder_that_lets_others_in_is_refused_and_not_changed() {
    let (_temp, _tmp, target) = home();
    std::fs::set_permissions(target.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Dir::open(target.path()).unwrap_err();
    assert!(refused.to_string().contains("mode 0755"), "{refused}");
    let mode = std::fs::metadata(target.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_claim_by_rename_has_one_winner() {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("s/request"), temp.path().join("s/request.processing"));
    std::fs::create_dir(temp.path().join("s")).unwrap();
    std::fs::set_permissions(temp.path().join("s"), std::fs::Permissions::from_mode(0o700)).unwrap();
    state::write(&from, b"x").unwrap();
    let wins: Vec<bool> = std::thread::scope(|scope| {
        let racers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| state::claim(&from, &to).unwrap_or(false))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(wins.iter().filter(|won| **won).count(), 1);
}

#[test]
fn epochs_only_rise_and_a_damaged_one_is_not_guessed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("epochs/anchor");
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8).map(|_| scope.spawn(|| state::next_epoch(&path, 0).unwrap())).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (1..=8).collect::<Vec<u64>>());
    assert_eq!(state::next_epoch(&path, 100).unwrap(), 101);
    std::fs::write(&path, b"").unwrap();
    assert!(state::next_epoch(&path, 0).is_err());
}

#[test]
fn t14_a_torn_last_line_is_cut_before_the_next() {
    let (_temp, _tmp, target) = home();
    std::fs::write(target.path().join("j.jsonl"), b"{\"a\":1}\n{\"a\":").unwrap();
    let (mut lines, cut) = netsky_disk::lines::Lines::open(&target, "j.jsonl").unwrap();
    assert_eq!(cut, 5);
    lines.append(b"{\"a\":2}").unwrap();
    let read = netsky_disk::lines::read(target.path().join("j.jsonl")).unwrap();
    assert_eq!(read, [b"{\"a\":1}".to_vec(), b"{\"a\":2}".to_vec()]);
}

#[test]
fn t14_zeros_after_a_power_cut_are_cut_however_many_and_no_line_with_them() {
    let (_temp, _tmp, target) = home();
    let path = target.path().join("j.jsonl");
    for torn in [&b""[..], b"{\"a\":"] {
        let mut bytes = b"{\"a\":1}\n{\"a\":2}\n".to_vec();
        bytes.extend_from_slice(torn);
        std::fs::write(&path, &bytes).unwrap();
        let zeros = 5 * 1024 * 1024;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(bytes.len() as u64 + zeros)
            .unwrap();
        let (mut lines, cut) = netsky_disk::lines::Lines::open(&target, "j.jsonl").unwrap();
        assert_eq!(cut, torn.len() as u64 + zeros);
        lines.append(b"{\"a\":3}").unwrap();
        assert_eq!(netsky_disk::lines::read(&path).unwrap().len(), 3);
    }
}

#[test]
fn t14_a_large_file_without_a_line_is_refused_and_left() {
    let (_temp, _tmp, target) = home();
    let path = target.path().join("j.jsonl");
    let size = 5 * 1024 * 1024;
    for bytes in [vec![b'x'; size], vec![0; size], [b"x\n".to_vec(), vec![b'x'; size]].concat()] {
        std::fs::write(&path, &bytes).unwrap();
        let refused = netsky_disk::lines::Lines::open(&target, "j.jsonl").unwrap_err();
        assert!(refused.to_string().contains("left as it is"), "{refused}");
        assert!(std::fs::read(&path).unwrap() == bytes, "nothing was cut");
    }
    std::fs::write(&path, b"{\"torn").unwrap();
    assert_eq!(netsky_disk::lines::Lines::open(&target, "j.jsonl").unwrap().1, 6);
}

#[test]
fn t14_beside_other_writers_a_torn_end_becomes_a_line_of_its_own() {
    let (_temp, _tmp, target) = home();
    std::fs::write(target.path().join("j.jsonl"), b"{\"a\":1}\n{\"a\":").unwrap();
    for n in 2..4 {
        let mut lines = netsky_disk::lines::Lines::open_shared(&target, "j.jsonl").unwrap();
        lines.append(format!("{{\"a\":{n}}}").as_bytes()).unwrap();
    }
    let read = netsky_disk::lines::read(target.path().join("j.jsonl")).unwrap();
    assert_eq!(read, [&b"{\"a\":1}"[..], b"{\"a\":", b"{\"a\":2}", b"{\"a\":3}"]);
}

#[test]
fn l6_a_listing_that_shows_a_name_shows_every_older_one() {
    const FILES: usize = 3000;
    // On the disk of the build: file systems in memory list in the order of arrival anyway.
    let temp = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tmp = Dir::create(temp.path().join("tmp")).unwrap();
    let inbox = Dir::create(temp.path().join("inbox")).unwrap();
    // Spread over the hash order of the folder by what follows the number.
    let name = |number: usize| format!("{number:05}-{:08x}", number.wrapping_mul(2_654_435_769) as u32);
    fn whole<'a>(names: impl Iterator<Item = &'a std::ffi::OsStr>, name: impl Fn(usize) -> String) -> bool {
        names.enumerate().all(|(at, found)| found.to_str() == Some(name(at).as_str()))
    }
    let (mut looks, mut gaps) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..FILES {
                std::fs::write(tmp.path().join("x"), b"").unwrap();
                tmp.rename("x", &inbox, name(number)).unwrap();
            }
        });
        while !writer.is_finished() {
            looks += 1;
            gaps += usize::from(!whole(inbox.raw_names().unwrap().iter().map(|n| n.as_os_str()), name));
            let settled = inbox.settled_names(None, usize::MAX).unwrap();
            assert!(whole(settled.iter(), name), "a gap after {looks} looks");
        }
    });
    println!("{looks} looks, of which a single listing had {gaps} gaps");
}

#[test]
fn what_is_no_file_of_ours_is_told_with_a_way_out() {
    let (temp, _tmp, target) = home();
    let at = |name: &str| target.path().join(name);
    std::fs::write(temp.path().join("one"), b"{}").unwrap();
    std::fs::hard_link(temp.path().join("one"), at("two")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let why = |name: &str| state::read(at(name)).unwrap_err().source.to_string();
    assert_eq!(why("two"), "has 2 hard links, put a copy of it in its place");
    assert_eq!(why("folder"), "not a regular file, move it away or put a plain file in its place");
}

#[test]
fn a5_a_file_that_grows_after_it_was_looked_at_is_read_whole_and_never_past_the_cap() {
    // Its size is said to be 0 whatever is in it.
    let grown = std::path::Path::new("/proc/self/maps");
    if !grown.exists() {
        return;
    }
    let text = read_users_file(grown, 1024 * 1024).unwrap();
    assert!(text.len() > 100 && text.ends_with(b"\n"), "{} bytes", text.len());
    assert!(matches!(read_users_file(grown, 100), Err(ReadError::TooLarge { size: 101, cap: 100 })));
}
