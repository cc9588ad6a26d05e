//! Mail that does not read when it is met, or not yet: what a rebuild would find comes in all the same.

use std::path::Path;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use rusqlite::Connection;

use crate::house::{House, Lying};

const BODIES: &str = "SELECT id, bytes, body FROM envelopes LEFT JOIN bodies ON envelope = n ORDER BY id";
const ERRORS: &str = "SELECT * FROM source_errors ORDER BY file";

/// Demands that the living record is what a rebuild makes.
#[track_caller]
fn is_as_rebuilt(house: &House) {
    let whole = |house: &House| (house.record(), house.ask(BODIES), house.ask(ERRORS));
    let living = whole(house);
    house.rebuild();
    assert_eq!(whole(house), living);
}

fn dead(house: &House, n: u64) -> (Lying, std::path::PathBuf) {
    let lying = house.turn(&house.send(7, n, "agent0", false), State::Poisoned, false);
    let folder = house.layout.folder(&lying.agent, State::Poisoned);
    let reason = folder.join(format!("{}.reason", lying.file));
    (lying, reason)
}

#[test]
fn i3_a_reason_that_is_written_late_comes_in() {
    let house = House::new();
    let (late, reason) = dead(&house, 1);
    std::fs::remove_file(&reason).expect("as if the disk had been full");
    house.ingest();
    assert_eq!(house.ask("SELECT reason FROM envelopes"), [["NULL"]]);
    std::fs::write(&reason, "five in vain\n").expect("writes");
    house.ingest();
    house.holds(&[late]);
    is_as_rebuilt(&house);
}

#[test]
fn i3_what_is_no_envelope_is_read_once_in_each_folder() {
    let house = House::new();
    let sent = house.send(7, 1, "agent0", false);
    let path = house.layout.folder(&sent.agent, State::Written).join(&sent.file);
    std::fs::write(&path, b"{\"from\":").expect("writes");
    assert_eq!(house.ingest().envelopes, 1);
    house.send(7, 2, "agent0", false);
    assert_eq!(house.ingest().envelopes, 1, "the other one alone");
    is_as_rebuilt(&house);
    house.turn(&sent, State::Claimed, false);
    house.ingest();
    is_as_rebuilt(&house);
    assert_eq!(house.ask(ERRORS).len(), 1, "where it is now");
}

#[test]
fn i3_what_could_not_be_read_is_read_before_and_behind_what_never_can_be() {
    let house = House::new();
    for n in 1..=250 {
        let (_, reason) = dead(&house, n);
        std::fs::remove_file(&reason).expect("goes");
        std::fs::create_dir(&reason).expect("no reason will ever be read here");
    }
    let (late, reason) = dead(&house, 1_000);
    std::fs::remove_file(&reason).expect("goes");
    house.ingest();
    std::fs::write(&reason, "five in vain\n").expect("writes");
    let known = format!("SELECT reason FROM envelopes WHERE file = '{}'", late.file);
    let looks = (0..1_000).take_while(|_| {
        let done = house.ingest();
        assert!(done.envelopes <= 101, "{} are tried again at one look", done.envelopes);
        house.ask(&known) == [["NULL"]]
    });
    assert!(looks.count() < 1_000, "its turn comes");
    is_as_rebuilt(&house);
}

#[test]
fn a_database_of_the_version_before_is_gone_on_with() {
    let house = House::new();
    house.send(7, 1, "agent0", false);
    house.ingest();
    let db = Connection::open(house.layout.meta_db()).expect("opens");
    db.execute_batch(
        "DROP VIEW tasks; DROP VIEW workspaces; DROP VIEW harvest_events; DROP VIEW owner_events;
         DROP VIEW owner_directives; DROP VIEW token_usage; DROP VIEW clone_dispatches;
         DROP INDEX envelopes_lacking; PRAGMA user_version = 1",
    )
    .expect("as it was");
    drop(db);
    assert!(!house.ingest().rebuilt);
    is_as_rebuilt(&house);
}

/// Waits until it can be told that a folder is as it was.
fn settle(folder: &Path) {
    while Dir::open(folder).expect("there").version().expect("looked at").is_none() {
        clock::pause(Duration::from_millis(20));
    }
}

/// Puts a file in the place of a folder while something is done.
fn shut(folder: &Path, meanwhile: impl FnOnce(&Path)) {
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).expect("moves");
    std::fs::write(folder, "no folder").expect("writes");
    meanwhile(&aside);
    std::fs::remove_file(folder).expect("goes");
    std::fs::rename(&aside, folder).expect("moves back");
}

const PLACES: &str = "SELECT id, state, file FROM envelopes WHERE to_agent = 'agent7' ORDER BY id";

#[test]
fn fm_ingest_a_folder_that_does_not_open_is_listed_and_what_is_known_of_its_mail_stays() {
    let house = House::new();
    let [moves, goes] = [1, 2].map(|n| house.send(7, n, "agent0", false));
    house.turn(&house.send(7, 3, "agent0", false), State::Claimed, false);
    house.send(8, 4, "agent0", false);
    let [inbox, claimed] =
        [State::Written, State::Claimed].map(|state| house.layout.folder(&moves.agent, state));
    house.ingest();
    let known = house.ask(PLACES);
    shut(&claimed, |aside| {
        std::fs::rename(inbox.join(&moves.file), aside.join(&moves.file)).expect("claimed");
        house.remove(&goes);
        house.send(8, 5, "agent0", false);
        settle(&inbox);
        let done = house.ingest();
        assert!(done.shut.is_some_and(|why| why.contains("agent7/claimed")), "{:?}", house.ask(ERRORS));
        assert_eq!((done.errors, done.envelopes), (1, 1), "and the rest came in");
        assert_eq!(house.ask(PLACES), known);
        assert_eq!(&house.ask(ERRORS)[0][..2], ["channels/agent/agent7/claimed", "0"]);
        let done = house.ingest();
        assert_eq!((done.shut.is_some(), done.errors), (true, 0), "as long as it holds");
    });
    assert_eq!(house.ingest().shut, None);
    assert_eq!((house.ask(PLACES).len(), house.ask(ERRORS).len()), (2, 0));
    is_as_rebuilt(&house);
    let known = house.ask(PLACES);
    shut(&house.layout.channel(&moves.agent), |_| {
        house.send(8, 6, "agent0", false);
        let done = house.ingest();
        assert_eq!((done.shut.is_some(), done.errors, done.envelopes), (true, 1, 1));
        assert_eq!(house.ask(PLACES), known);
        assert_eq!(&house.ask(ERRORS)[0][..2], ["channels/agent/agent7", "0"]);
    });
    assert_eq!(house.ingest().shut, None);
    is_as_rebuilt(&house);
    std::fs::remove_dir_all(house.layout.channel(&moves.agent)).expect("goes");
    house.ingest();
    assert_eq!(house.ask(PLACES).len(), 0, "what is gone is gone");
    is_as_rebuilt(&house);
}

#[test]
fn a5_a_link_in_the_place_of_an_agents_folder_is_not_followed_and_is_listed() {
    let (house, other) = (House::new(), House::new());
    other.send(7, 1, "agent0", false);
    house.send(8, 2, "agent0", false);
    let [theirs, link] = [&other, &house].map(|house| house.layout.channel(&AgentId::numbered(7)));
    std::os::unix::fs::symlink(theirs, &link).expect("made");
    let done = house.ingest();
    assert!(done.shut.is_some_and(|why| why.contains("channels/agent/agent7")));
    assert_eq!(house.ask("SELECT to_agent FROM envelopes"), [["agent8"]]);
    assert_eq!(&house.ask(ERRORS)[0][..2], ["channels/agent/agent7", "0"]);
    is_as_rebuilt(&house);
    std::fs::remove_file(&link).expect("goes");
    assert_eq!(house.ingest().shut, None);
    assert_eq!(house.ask(ERRORS).len(), 0, "what went is listed no more");
    is_as_rebuilt(&house);
}

#[test]
fn fm_ingest_fm_rebuild_what_is_no_file_of_refused_rows_but_has_its_name_is_listed_and_stops_nothing() {
    let house = House::new();
    let known = house.send(7, 1, "agent0", true);
    let odd = |day: u8| house.layout.logs().join(format!("meta-db-errors-2026-01-0{day}.jsonl"));
    std::fs::create_dir(odd(1)).expect("made");
    std::os::unix::fs::symlink("nowhere", odd(2)).expect("made");
    let done = house.ingest();
    assert_eq!((done.errors, done.envelopes, done.unread), (2, 1, None));
    assert_eq!(house.ask(ERRORS).len(), 2);
    assert_eq!(house.ingest().errors, 0, "as long as it holds");
    is_as_rebuilt(&house);
    std::fs::remove_dir(odd(1)).expect("goes");
    std::fs::remove_file(odd(2)).expect("goes");
    std::fs::write(odd(2), "").expect("writes");
    house.ingest();
    assert_eq!(house.ask(ERRORS).len(), 0, "neither what is gone nor what reads");
    house.holds(&[known]);
    is_as_rebuilt(&house);
}

#[test]
fn fm_ingest_a_plain_file_among_the_agents_folders_is_nobody() {
    let house = House::new();
    let notes = house.layout.channels().join("notes");
    std::fs::write(&notes, "mine").expect("writes");
    let sent = house.send(7, 1, "agent0", false);
    let done = house.ingest();
    assert_eq!((done.shut, done.errors, done.envelopes), (None, 0, 1));
    is_as_rebuilt(&house);
    // Where telemetry knows an agent it is the place of its mail, also for a rebuild.
    house.send(9, 2, "agent0", true);
    shut(&house.layout.channel(&AgentId::numbered(9)), |_| {
        assert!(house.rebuild().shut.is_some_and(|why| why.contains("channels/agent/agent9")));
    });
    let empty = house.send(8, 3, "agent0", false);
    house.remove(&empty);
    assert!(house.ingest().shut.is_none());
    shut(&house.layout.channel(&empty.agent), |_| assert!(house.ingest().shut.is_some()));
    assert!(house.ingest().shut.is_none());
    // Nor is a file in the place of an agent that was there and left nothing.
    let folder = house.layout.channel(&sent.agent);
    std::fs::remove_dir_all(&folder).expect("goes");
    house.ingest();
    let known = "SELECT count(*) FROM sources WHERE name LIKE 'channels/agent/agent7/%'";
    assert_eq!(house.ask(known), [["0"]], "it is not looked at for ever");
    std::fs::write(&folder, "mine").expect("writes");
    assert!(house.ingest().shut.is_none());
    is_as_rebuilt(&house);
    // What takes its place again is as new.
    std::fs::remove_file(&folder).expect("goes");
    house.send(7, 4, "agent0", false);
    assert_eq!(house.ingest().envelopes, 1);
    is_as_rebuilt(&house);
}
