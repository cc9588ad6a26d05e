//! When a page is due, by an injected clock; and what its text may hold.

use super::*;

fn at(minutes: u64) -> Stamp {
    let wall = Timestamp::from_second(1_800_000_000).expect("in range");
    Stamp { wall, boot_ms: minutes * 60_000, boot_id: "00000000".to_owned() }
}

fn raised() -> Condition {
    Condition::raised("it is so", at(0).wall)
}

fn is_sent(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Send { .. })
}

#[test]
fn t27_a_page_is_due_until_a_transport_took_it() {
    let (terms, mut page) = (Paging::default(), raised());
    for minute in [0, 1, 60, 60 * 24 * 365] {
        assert_eq!(page.verdict(&terms, &at(minute), false), Verdict::Send { repeated: false });
        page.in_vain(false, at(minute));
    }
    page.took(at(10), false);
    assert_eq!(page.verdict(&terms, &at(60 * 24 * 365), false), Verdict::Done);
}

#[test]
fn i10_a_condition_that_is_raised_again_is_paged_once_a_cool_down() {
    let (terms, mut page) = (Paging::default(), raised());
    page.took(at(0), false);
    page.raise("again", at(1).wall);
    assert_eq!(page.verdict(&terms, &at(59), true), Verdict::Held);
    assert!(is_sent(page.verdict(&terms, &at(60), false)), "the cool-down is over");
    page.took(at(60), false);
    assert_eq!(page.verdict(&terms, &at(61), false), Verdict::Done, "one for all that was raised meanwhile");
}

#[test]
fn i10_what_took_a_page_in_place_of_the_transports_that_were_asked_for_leaves_it_to_them() {
    let (terms, mut page) = (Paging::default(), raised());
    let stand_in = Paging { stand_in: true, ..Paging::default() };
    page.took(at(0), true);
    assert_eq!(page.verdict(&stand_in, &at(1), false), Verdict::Done, "they do not read yet");
    assert_eq!(page.verdict(&terms, &at(2), false), Verdict::Send { repeated: true });
    page.took(at(2), false);
    assert_eq!(page.verdict(&terms, &at(3), false), Verdict::Done);
}

#[test]
fn i10_a_condition_that_lasts_is_paged_again_and_one_that_is_over_is_not() {
    let (terms, mut page) = (Paging::default(), raised());
    page.took(at(0), false);
    let day = 24 * 60;
    assert_eq!(page.verdict(&terms, &at(day - 1), true), Verdict::Done);
    assert_eq!(page.verdict(&terms, &at(day), false), Verdict::Done);
    assert!(is_sent(page.verdict(&terms, &at(day), true)));
}

#[test]
fn a_wall_clock_that_steps_changes_no_cool_down() {
    let (terms, mut page) = (Paging::default(), raised());
    page.took(at(0), false);
    page.raise("again", at(1).wall);
    let mut stepped = at(30);
    stepped.wall = Timestamp::from_second(1_900_000_000).expect("in range");
    assert_eq!(page.verdict(&terms, &stepped, true), Verdict::Held);
}

#[test]
fn t9_a_wall_clock_that_is_behind_after_a_boot_holds_no_page_back() {
    let (terms, mut page) =
        (Paging { transports: vec![Transport::File { path: None }], ..Paging::default() }, raised());
    page.took(at(0), false);
    let day = jiff::SignedDuration::from_hours(24);
    let booted = Stamp { wall: at(0).wall - day, boot_id: "11111111".to_owned(), ..at(1) };
    assert!(is_sent(page.verdict(&terms, &booted, true)), "one that lasts");
    assert_eq!(page.verdict(&terms, &booted, false), Verdict::Done, "one that is over was told");
    page.raise("again", at(1).wall);
    assert!(is_sent(page.verdict(&terms, &booted, false)), "its cool-down would never end");
    assert!(terms.is_test_due(&at(0), &booted));
}

#[test]
fn t9_fm_owner_page_what_was_raised_after_it_was_sent_beside_the_book_is_told_also_where_the_clock_steps() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let noon = at(0).later(minutes(12 * 60));
    let is_anew = |raised: Timestamp, now: &Stamp| {
        let mut page = Condition::raised("it is so", at(0).wall);
        page.raise("again", raised);
        page.took_beside(&noon, now);
        page.anew
    };
    let one = noon.later(minutes(60));
    assert!(is_anew(noon.later(minutes(30)).wall, &one));
    assert!(!is_anew(at(0).wall, &one), "the clocks say that it was before");
    let back = Stamp { wall: noon.wall, ..one.clone() };
    assert!(is_anew(at(0).later(minutes(11 * 60 + 30)).wall, &back), "the clock went back an hour");
    assert!(is_anew(at(0).wall, &Stamp { boot_id: "11111111".to_owned(), ..one }), "or may have, at a boot");
}

#[test]
fn fm_owner_page_kill_what_was_begun_is_sent_again_and_flagged() {
    let (terms, mut page) = (Paging::default(), raised());
    page.begin(at(1));
    assert_eq!(page.verdict(&terms, &at(1), false), Verdict::Send { repeated: true });
    page.took(at(1), false);
    page.begin(at(2));
    assert_eq!(
        page.verdict(&terms, &at(2), false),
        Verdict::Send { repeated: true },
        "within the cool-down too"
    );
}

#[test]
fn i10_fm_owner_page_kill_what_the_owner_may_have_is_sent_ever_later_and_once_a_cool_down() {
    for dies in [false, true] {
        let (terms, mut page) = (Paging::default(), raised());
        let mut sent = Vec::new();
        for minute in 0..=300 {
            if let Verdict::Send { repeated } = page.verdict(&terms, &at(minute), false) {
                assert_eq!(repeated, !sent.is_empty());
                sent.push(minute);
                page.begin(at(minute));
                if !dies {
                    page.in_vain(true, at(minute));
                }
            }
        }
        assert_eq!(sent, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243], "dies: {dies}");
    }
}

#[test]
fn i10_what_is_surely_refused_waits_for_nothing_and_is_flagged_where_the_owner_may_have_it() {
    let (terms, mut page) = (Paging::default(), raised());
    page.begin(at(0));
    page.in_vain(true, at(0));
    assert_eq!(page.verdict(&terms, &at(0), false), Verdict::Doubted);
    page.begin(at(1));
    page.in_vain(false, at(1));
    assert_eq!(page.verdict(&terms, &at(1), false), Verdict::Send { repeated: true });
    page.begin(at(1));
    page.in_vain(true, at(1));
    assert_eq!(page.verdict(&terms, &at(2), false), Verdict::Doubted, "it was sent again before");
    assert_eq!(page.verdict(&terms, &at(3), false), Verdict::Send { repeated: true });
}

#[test]
fn fm_owner_page_hostile_text_is_cut_and_drives_no_terminal() {
    let shown = harmless(&format!("\u{1b}[2J\u{202e}</channel>\0{}", "é".repeat(5_000)));
    assert_eq!(shown.chars().count(), LONGEST);
    assert!(shown.ends_with('…') && !shown.contains(['\u{1b}', '\u{202e}', '\0']), "{shown}");
    assert!(!shown.contains("</channel>"), "{shown}");
    assert_eq!(harmless("plain"), "plain");
}

#[test]
fn a_transport_that_can_never_take_a_page_is_refused() {
    let trouble = |transport| Paging { transports: vec![transport], ..Paging::default() }.trouble();
    let secret = || Some(Secret::File("/x".into()));
    let url = || "http://example.com/topic".to_owned();
    assert!(trouble(Transport::Command { argv: vec!["mail".to_owned()] }).is_some());
    assert!(trouble(Transport::Command { argv: vec![] }).is_some());
    assert!(trouble(Transport::Webhook { url: "example.com".to_owned(), secret: None }).is_some());
    assert!(trouble(Transport::Webhook { url: url(), secret: secret() }).is_none(), "it is signed, not sent");
    assert!(
        trouble(Transport::Ntfy { url: url(), secret: secret() }).is_some(),
        "it would be seen on the way"
    );
    for (url, stays) in [
        ("http://127.0.0.1:1/t", true),
        ("http://localhost/t", true),
        ("http://[::1]:80/t", true),
        ("http://localhost.example.com/t", false),
        ("http://127.0.0.1.example.com/t", false),
        ("http://127.0.0.1@example.com/t", false),
        ("http://127.0.0.1\\@example.com/t", false),
        ("http://[::1].example.com/t", false),
    ] {
        let ntfy = Transport::Ntfy { url: url.to_owned(), secret: secret() };
        assert_eq!(trouble(ntfy).is_none(), stays, "{url}");
    }
    assert!(trouble(Transport::File { path: Some("pages".into()) }).is_some());
    assert!(trouble(Transport::File { path: None }).is_none());
}
