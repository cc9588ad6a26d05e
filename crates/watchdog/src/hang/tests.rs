//! Silences that are none of our business, and those that are: each told by what its looks see.

use jiff::Timestamp;

use super::*;

const TERMS: Hang =
    Hang { after: Duration::from_secs(30 * 60), nudge: Duration::from_secs(10 * 60), restart: false };
const MINUTE: Duration = Duration::from_secs(60);

/// What is seen, and when.
type Looks = Vec<(Stamp, Signals)>;

fn at(secs: u64) -> Stamp {
    let wall = Timestamp::from_second(1_790_000_000 + secs as i64).expect("in range");
    Stamp { wall, boot_ms: secs * 1000, boot_id: "b1".to_owned() }
}

/// An agent that speaks for itself, has mail, and does nothing.
fn still() -> Signals {
    Signals {
        generation: Generation(1),
        state: SessionState::Active,
        progress: Progress { bytes: 100, turns: 3 },
        has_work: true,
        phase: None,
        doing: None,
        quiet: None,
    }
}

fn driven(doing: Doing) -> Signals {
    Signals { doing: Some(doing), has_work: false, ..still() }
}

fn wedged(how: Wedge) -> Signals {
    driven(Doing::Wedged { how, why: how.words().to_owned() })
}

/// Everything that is done over looks at these seconds, with the minute of each.
fn done(terms: &Hang, looks: impl IntoIterator<Item = (Stamp, Signals)>) -> Vec<(u64, Act)> {
    let (mut kept, mut done): (Option<Watch>, Vec<(u64, Act)>) = (None, Vec::new());
    for (now, seen) in looks {
        let before = kept.take().filter(|watch| watch.generation == seen.generation);
        let verdict = judge(&seen, before.as_ref(), &now, (terms, &Bounds::default()));
        let mut watch = watch(&seen, before.as_ref(), &verdict, &now, MINUTE);
        if let (Verdict::Hangs { word, .. }, Some(hangs)) = (&verdict, &mut watch.hangs)
            && let Some(act) = due((hangs, word), seen.doing.is_some(), MINUTE, terms)
        {
            hangs.did = Some(act);
            done.push((now.boot_ms / 60_000, act));
        }
        kept = Some(watch);
    }
    done
}

/// A look each minute.
fn each_minute(minutes: u64, seen: impl Fn(u64) -> Signals) -> Looks {
    (0..minutes).map(|minute| (at(minute * 60), seen(minute))).collect()
}

#[test]
fn who_has_mail_and_does_nothing_is_suspected_nudged_and_paged_for_in_that_order_and_each_once() {
    let looks = || each_minute(300, |_| still());
    assert_eq!(done(&TERMS, looks()), [(31, Act::Suspect), (32, Act::Nudge), (41, Act::Page)]);
    let ending = Hang { restart: true, ..TERMS };
    assert_eq!(done(&ending, looks()).last(), Some(&(42, Act::End)), "only where the owner wants it");
}

#[test]
fn who_is_not_driven_or_refuses_is_paged_for_and_ended_by_nobody() {
    let ending = Hang { restart: true, ..TERMS };
    for how in [Wedge::Undriven, Wedge::Refused] {
        let acts = done(&ending, each_minute(300, |_| wedged(how)));
        assert_eq!(acts, [(0, Act::Suspect), (1, Act::Page)], "{how:?}");
        // Then it does hang: another hang, of which the owner hears before anything is ended.
        let acts = done(&ending, each_minute(300, |m| wedged(if m < 60 { how } else { Wedge::Stalled })));
        assert_eq!(acts[2..], [(60, Act::Suspect), (61, Act::Page), (62, Act::End)], "{how:?}");
    }
    let acts = done(&ending, each_minute(300, |_| driven(Doing::Starting)));
    assert!(acts.len() == 2 && acts[1].1 == Act::Page, "whom no driver comes to: {acts:?}");
}

type Named = Vec<(&'static str, Looks)>;

const LONG: u64 = 5 * 60;

fn moves(bytes: u64) -> Signals {
    Signals { progress: Progress { bytes, turns: 0 }, ..still() }
}

fn phase(word: &str, until: u64) -> Signals {
    Signals { phase: Some((word.to_owned(), Some(at(until * 60)))), ..still() }
}

/// Each silence that is no hang: what its looks see over five hours.
fn false_alarms() -> Named {
    [moving(), excused(), unwatched(), clock_steps(), driven_ones(), lengths()].concat()
}

fn moving() -> Named {
    let turns = |m| Signals { progress: Progress { bytes: 0, turns: m / 29 }, ..still() };
    let read = |m: u64| Signals { has_work: m % 40 > 12, ..moves(m / 40) };
    let late = |m: u64| Signals { has_work: m == 200, ..moves(m / 202) };
    let missed = |m: u64| match m % 9 {
        4 => Signals { state: SessionState::Hung, ..moves(m) },
        _ => moves(m),
    };
    let over = |m| Signals { progress: Progress { bytes: m, turns: 0 }, ..phase("building", 10) };
    let anew = |m| Signals { generation: Generation(m / 15 + 1), ..still() };
    vec![
        ("it prints now and then", each_minute(LONG, |m| moves(m / 25))),
        ("it only ends turns", each_minute(LONG, turns)),
        ("mail comes and is read within the time", each_minute(LONG, read)),
        ("mail comes to who was silent without any, and is read", each_minute(LONG, late)),
        ("a worker that misses one look", each_minute(LONG, missed)),
        ("a phase with a time that is long over, and it moves", each_minute(LONG, over)),
        ("a new incarnation each quarter of an hour", each_minute(LONG, anew)),
    ]
}

fn excused() -> Named {
    let quiet = |why: &str, seen: Signals| Signals { quiet: Some(why.to_owned()), ..seen };
    vec![
        ("idle by design: no mail", each_minute(LONG, |_| Signals { has_work: false, ..still() })),
        ("a long build that said so", each_minute(LONG, |_| phase("building", LONG + 1))),
        ("a build that says so anew", each_minute(LONG, |m| phase("building", (m / 30 + 1) * 30 + 5))),
        ("a quiet window", each_minute(LONG, |_| quiet("the owner sleeps", still()))),
        ("a quiet window over a wedge", each_minute(LONG, |_| quiet("I look", wedged(Wedge::Frozen)))),
    ]
}

fn unwatched() -> Named {
    let boots = |n: u64| (Stamp { boot_id: format!("b{n}"), ..at(n * 3600) }, still());
    let wakes = |n: u64| [0, 60].map(|later| (at(n * 28_800 + later), still()));
    vec![
        ("the observer looks each 50 minutes only", (0..20).map(|n| (at(n * 3000), still())).collect()),
        ("a laptop that sleeps between two looks", (0..20).map(|n| (at(n * 28_800), still())).collect()),
        ("a laptop that wakes for a minute each eight hours", (0..20).flat_map(wakes).collect()),
        ("a machine that is booted anew between looks", (0..20).map(boots).collect()),
    ]
}

/// The wall clock steps in the middle, both ways; the boot clock goes on.
fn clock_steps() -> Named {
    let steps = [("−3 h", -10_800), ("+3 h", 10_800), ("−1 day", -86_400), ("+1 day", 86_400)];
    let stepped = |step: i64| {
        let looks = each_minute(LONG, |m| moves(m / 20)).into_iter().enumerate();
        let step_at = |n: usize| if n > 100 { step } else { 0 };
        let wall =
            |n, now: &Stamp| Timestamp::from_second(now.wall.as_second() + step_at(n)).expect("in range");
        looks.map(|(n, (now, seen))| (Stamp { wall: wall(n, &now), ..now }, seen)).collect()
    };
    steps.map(|(name, step)| (name, stepped(step))).into()
}

fn driven_ones() -> Named {
    let throttled = |until| Doing::Throttled { until, why: "overloaded".to_owned() };
    let odd = |m: u64| if m % 7 == 3 { wedged(Wedge::Stalled) } else { driven(Doing::Working) };
    let burst = |m: u64| (0..20).map(move |n| (at(m * 60 + n), odd(m)));
    let mut all = vec![
        ("driven: one bad look among good ones", each_minute(LONG, odd)),
        ("driven: a bad moment at which many ticks come at once", (0..LONG).flat_map(burst).collect()),
    ];
    let met = |m: u64, from: u64, until: u64| match m {
        m if m < from => driven(Doing::Working),
        m if m < until => driven(Doing::Starting),
        _ => driven(Doing::Idle),
    };
    all.push(("driven: it starts", each_minute(LONG, |m| met(m, 0, 29))));
    all.push(("driven: it works for hours, and is met anew", each_minute(LONG, |m| met(m, 200, 229))));
    for (name, doing) in [
        ("driven: idle", Doing::Idle),
        ("driven: the model thinks for long", Doing::WaitingForModel),
        ("driven: the model speaks", Doing::Working),
        ("driven: a tool runs for hours", Doing::ToolRunning { tool: "Bash".to_owned() }),
        ("driven: a permission waits for the owner", Doing::Blocked { on: "Bash: rm -rf build".to_owned() }),
        ("driven: overloaded, with a time", throttled(Some(at(9000).wall))),
        ("driven: overloaded, without one", throttled(None)),
        (
            "driven: keys that do not hold have a page of their own",
            Doing::FailedAuth { why: "401".to_owned() },
        ),
        ("driven: it is down, and the tick starts it", Doing::Down),
    ] {
        all.push((name, each_minute(LONG, |_| driven(doing.clone()))));
    }
    all
}

/// Silences of every length below a hang, and looks that a slow disk makes late.
fn lengths() -> Named {
    let short = [1, 5, 10, 15, 20, 25, 26, 27, 28, 29].map(|silence| {
        ("a silence that ends before it is a hang", each_minute(LONG, |m| moves(m / (silence + 1))))
    });
    let late = [61, 70, 80, 90, 100, 110, 115, 119, 120, 121].map(|late| {
        ("looks come late, and it moves", (0..200).map(|n| (at(n * late), moves(n / 10))).collect())
    });
    short.into_iter().chain(late).collect()
}

#[test]
fn must_show_5_whom_its_driver_waits_for_is_not_undriven_however_short_the_bound_of_others() {
    let short = Hang { after: MINUTE, ..TERMS };
    let acts = done(&short, each_minute(10, |_| driven(Doing::Starting)));
    assert_eq!(acts, [(7, Act::Suspect), (8, Act::Page)], "two times three minutes of silence");
}

#[test]
fn must_show_5_no_silence_that_something_excuses_is_called_a_hang() {
    let all = false_alarms();
    assert!(all.len() >= 50, "{}", all.len());
    for (name, looks) in all {
        let acts = done(&Hang { restart: true, ..TERMS }, looks);
        // A single odd look may be written down; nothing is ever done about it.
        assert!(acts.iter().all(|(_, act)| *act == Act::Suspect), "{name}: {acts:?}");
    }
}

/// Each hang, what its looks see, and the minute within which the owner is told.
fn hangs() -> Vec<(&'static str, Looks, u64)> {
    let long = 300;
    let mut all = vec![
        ("it has mail and stands still", each_minute(long, |_| still()), 41),
        (
            "it stands still after an hour of work",
            each_minute(long, |m| Signals { progress: Progress { bytes: m.min(60), turns: 0 }, ..still() }),
            60 + 42,
        ),
        (
            "its phase says no time",
            each_minute(long, |_| Signals { phase: Some(("building".to_owned(), None)), ..still() }),
            41,
        ),
        (
            "its phase is over",
            each_minute(long, |_| Signals {
                phase: Some(("building".to_owned(), Some(at(60 * 60)))),
                ..still()
            }),
            60 + 42,
        ),
        (
            "its quiet window is over",
            each_minute(long, |m| Signals { quiet: (m < 60).then(|| "a nap".to_owned()), ..still() }),
            60 + 42,
        ),
        (
            "mail comes to who does not read any more",
            each_minute(long, |m| Signals { has_work: m >= 60, ..still() }),
            60 + 42,
        ),
        (
            "its worker gives no sign of life",
            each_minute(long, |_| Signals { state: SessionState::Hung, ..still() }),
            11,
        ),
        (
            "its worker gives none, and it has no mail",
            each_minute(long, |_| Signals { state: SessionState::Hung, has_work: false, ..still() }),
            11,
        ),
        (
            "the machine slept, and it stands still for all that",
            (0..200).map(|n| (at(n * 60 + if n > 20 { 30_000 } else { 0 }), still())).collect(),
            500 + 20 + 43,
        ),
        ("no driver ever comes to it", each_minute(long, |_| driven(Doing::Starting)), 32),
        (
            "nor to one that prints",
            each_minute(long, |m| Signals { doing: Some(Doing::Starting), ..moves(m) }),
            32,
        ),
        ("looks come late, and it stands still", (0..200).map(|n| (at(n * 100), still())).collect(), 45),
    ];
    for how in [Wedge::NoAnswer, Wedge::Stalled, Wedge::PingsOnly, Wedge::Frozen, Wedge::Deaf, Wedge::Unheard]
    {
        all.push((how.word(), each_minute(long, |_| wedged(how)), 1));
        let probed = |m| Signals { progress: Progress { bytes: m, turns: 0 }, ..wedged(how) };
        all.push(("it hangs, and what it is asked moves its bytes", each_minute(long, probed), 1));
        // What it hangs in changes its name, and is one hang.
        all.push((
            "it hangs in one way and then in another",
            each_minute(long, |m| if m < 2 { wedged(how) } else { wedged(Wedge::Frozen) }),
            1,
        ));
    }
    all
}

#[test]
fn must_show_5_each_hang_is_a_page_within_its_bound_and_one_page() {
    let all = hangs();
    assert!(all.len() >= 20, "{}", all.len());
    for (name, looks, bound) in all {
        let acts = done(&TERMS, looks);
        let pages: Vec<u64> = acts.iter().filter(|(_, act)| *act == Act::Page).map(|(at, _)| *at).collect();
        assert!(matches!(pages[..], [at] if at <= bound), "{name}: {acts:?}, due by {bound}");
        assert!(acts.iter().all(|(_, act)| *act != Act::End), "{name}: {acts:?}");
    }
}

#[test]
fn a_hang_that_is_over_and_comes_again_is_another_one() {
    let acts = done(
        &TERMS,
        each_minute(200, |m| Signals {
            progress: Progress { bytes: u64::from(m >= 100), turns: 0 },
            ..still()
        }),
    );
    assert_eq!(acts.iter().filter(|(_, act)| *act == Act::Page).count(), 2, "{acts:?}");
}
