//! Export and import: the same tasks in another home, once, and all of them or none.

use netsky_model::task::{Event, How, State, Task};
use netsky_work::task::{Error, Imported};

use super::{Home, claim, draft, home, id};

/// A home with a task of each kind.
fn full() -> Home {
    let home = home();
    let board = home.board();
    let mut first = draft("first");
    first.brief = Some(board.keep_brief(&"long ".repeat(5_000)).expect("fits"));
    first.labels = ["x".parse().expect("a label")].into();
    first.repo = Some("https://example.org/x".to_owned());
    board.create(first).expect("made");
    let mut second = draft("second");
    second.after = [id("1")].into();
    second.brief = Some(board.keep_brief("short").expect("fits"));
    board.create(second).expect("made");
    board.act(&id("1"), Event::Closed { how: How::Done, why: Some("so".to_owned()) }).expect("open");
    home
}

fn text(home: &Home) -> String {
    let lines = home.board().export().expect("reads");
    let lines = lines.iter().map(|line| serde_json::to_string(line).expect("JSON") + "\n");
    lines.collect()
}

fn tasks(home: &Home) -> Vec<Task> {
    home.board().list().expect("reads")
}

#[test]
fn an_import_into_another_home_gives_the_same_tasks_and_a_repeat_changes_nothing() {
    let (here, there) = (full(), home());
    let text = text(&here);
    let imported = there.board().import(&text).expect("whole");
    assert_eq!(imported, Imported { imported: vec![id("1"), id("2")], known: vec![] });
    assert_eq!(tasks(&there), tasks(&here));
    let briefs = |home: &Home| -> Vec<_> {
        tasks(home).iter().map(|task| home.board().brief(task).expect("reads")).collect()
    };
    assert_eq!(briefs(&there), briefs(&here));
    // However it stands by now, it is the same task.
    there.board_of("agent7", 1).act(&id("2"), claim("agent7", 1)).expect("free");
    let told = there.told();
    let again = there.board().import(&text).expect("whole");
    assert_eq!(again, Imported { imported: vec![], known: vec![id("1"), id("2")] });
    assert_eq!(there.told(), told);
}

#[test]
fn an_import_that_was_cut_goes_on_when_it_is_repeated() {
    let (here, there) = (full(), home());
    let text = text(&here);
    let cut = text.lines().next().expect("a line");
    there.board().import(cut).expect("whole");
    assert_eq!(there.board().import(&text).expect("whole").imported, [id("2")]);
    assert_eq!(tasks(&there), tasks(&here));
}

#[test]
fn what_was_claimed_in_another_home_is_open_in_this_one() {
    let (here, there) = (full(), home());
    here.board_of("agent7", 1).act(&id("2"), claim("agent7", 1)).expect("free");
    there.board().import(&text(&here)).expect("whole");
    assert_eq!(there.board().get(&id("2")).expect("reads").expect("there").state, State::Open);
}

#[test]
fn an_import_with_one_wrong_line_imports_none_and_says_which() {
    let there = home();
    there.create("another");
    let good = r#"{"id":"a","title":"a"}"#;
    for (bad, line, why) in [
        ("nonsense", 2, "expected"),
        (r#"{"id":"b"}"#, 2, "missing field `title`"),
        (r#"{"id":"b","title":""}"#, 2, "the title is refused: it is empty"),
        (r#"{"id":"../b","title":"b"}"#, 2, "task id"),
        (r#"{"id":"b","title":"b","colour":"red"}"#, 2, "unknown field `colour`"),
        (r#"{"v":2,"id":"b","title":"b"}"#, 2, "newer than this program"),
        (r#"{"id":"a","title":"a"}"#, 2, "task a is in two lines"),
        (r#"{"id":"1","title":"b"}"#, 2, "another task 1 is there already"),
        (r#"{"id":"b","title":"b","after":["c"]}"#, 2, "it waits for c"),
        (r#"{"id":"b","title":"b","after":["b"]}"#, 2, "b after b"),
        (r#"{"id":"b","title":"b","repo":"-x"}"#, 2, "starts as an option"),
        (r#"{"id":"b","title":"b","brief":" "}"#, 2, "the brief is refused"),
    ] {
        let refused = there.board().import(&format!("{good}\n{bad}\n"));
        let Err(Error::Line { line: at, why: told }) = refused else { panic!("{bad}: {refused:?}") };
        assert!(at == line && told.contains(why), "{bad}: line {at}: {told}");
    }
    assert_eq!(there.told(), ["task.created 1"]);
    let forward = "{\"id\":\"b\",\"title\":\"b\",\"after\":[\"a\"]}\n";
    there.board().import(&format!("{forward}\n{good}\n")).expect("a line may wait for a later one");
}
