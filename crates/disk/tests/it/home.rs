//! The first run of a home, and what a home is recognised by.

use netsky_disk::home::{Home, Refused};
use netsky_disk::layout::Layout;
use netsky_disk::state;

#[test]
fn fm_init_two_racers_first_runs_at_once_make_one_home() {
    let temp = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let layout = Layout::new(temp.path().join(format!("home-{round}")));
        let answers: Vec<(Home, bool)> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..6).map(|_| scope.spawn(|| Home::init(&layout).unwrap())).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|(_, made)| *made).count(), 1);
        assert!(answers.iter().all(|(home, _)| home.home_id == answers[0].0.home_id), "{answers:?}");
    }
}

#[test]
fn a_home_reached_by_a_link_in_its_path_is_no_copy() {
    let temp = tempfile::tempdir().unwrap();
    let real = temp.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, temp.path().join("link")).unwrap();
    let (made, _) = Home::init(&Layout::new(real.join("home"))).unwrap();
    for path in ["link/home", "real/../real/home", "link/../link/home"] {
        let home = Home::open(&Layout::new(temp.path().join(path)));
        assert_eq!(home.unwrap().home_id, made.home_id, "{path}");
    }
    std::fs::rename(real.join("home"), real.join("moved")).unwrap();
    assert!(matches!(Home::open(&Layout::new(real.join("moved"))), Err(Refused::Copied { .. })));
}

#[test]
fn a_state_file_for_a_home_that_was_moved_makes_no_ghost_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).unwrap();
    std::fs::rename(layout.home(), temp.path().join("moved")).unwrap();
    assert!(state::write(layout.tick("watchdog"), b"{}").is_err());
    assert!(!layout.home().exists());
}

#[test]
fn a12_nothing_is_written_that_would_not_read_again_and_what_somebody_wrote_so_is_damage() {
    let temp = tempfile::tempdir().unwrap();
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).unwrap();
    let path = layout.tick("watchdog");
    state::write_json(&path, &"before").unwrap();
    let long = "x".repeat(1 << 20);
    let error = state::write_json(&path, &long).unwrap_err();
    assert!(error.to_string().contains("over the limit of 1048576; it stays as it was"), "{error}");
    assert!(state::create_json(layout.tick("cron"), &long).is_err());
    assert_eq!(state::read_json::<String>(&path).unwrap().as_deref(), Some("before"));
    std::fs::write(&path, format!("{long:?}")).unwrap();
    assert!(
        state::read_json::<String>(&path).unwrap_err().is_damage(),
        "it is set aside, and nobody is kept from work"
    );
}

#[test]
fn what_somebody_removed_of_a_home_is_made_again_by_its_init() {
    let temp = tempfile::tempdir().unwrap();
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).unwrap();
    std::fs::remove_dir_all(layout.state()).unwrap();
    let (_, made) = Home::init(&layout).unwrap();
    assert!(!made);
    state::write(layout.tick("watchdog"), b"{}").unwrap();
}

#[test]
fn a_newer_home_of_another_shape_is_newer_and_not_broken() {
    let temp = tempfile::tempdir().unwrap();
    let layout = Layout::new(temp.path().join("home"));
    Home::init(&layout).unwrap();
    std::fs::write(layout.home_json(), r#"{"format": 2, "id": {"of": "another shape"}}"#).unwrap();
    assert!(matches!(Home::open(&layout), Err(Refused::Newer { .. })));
    assert!(matches!(Home::init(&layout), Err(Refused::Newer { .. })));
    std::fs::write(layout.home_json(), r#"{"format": 1}"#).unwrap();
    assert!(matches!(Home::open(&layout), Err(Refused::Disk(_))));
}

#[test]
fn a_home_file_of_version_1_loads() {
    let bytes = include_bytes!("../../samples/home.v1.json");
    let home: Home = serde_json::from_slice(bytes).unwrap();
    let sample: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!((home.format, serde_json::to_value(&home).unwrap()), (1, sample));
}
