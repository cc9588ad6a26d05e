//! What was asked of the figures, and whether each holds: a figure that is missed is named on the page, with by how much.
//!
//! A figure that no row of this run gives is named too. Leaves to others: why it is missed, which a profile shows.

use std::fmt::Write;

use super::agents::{ADDED, TOLD};
use super::landing::WHOLE;
use super::loops;
use super::pairs::Pair;
use super::record::{FILES, LINES};
use super::report::Figures;
use super::restarts::{NOTICED, NOTICED_BY_TICKS, SPAWNED, TICK, VERIFIED, VERIFIED_BY_TICKS, WATCHED};
use super::terminals::IDLE_SESSIONS;

/// A row is known by what ours does and what it is held against; a floor is named only where ours has several.
struct Asked {
    ours: &'static str,
    floor: &'static str,
    figure: Figure,
    limit: Limit,
}

/// What is read off a row.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    /// Ours by the floor.
    Ratio,
    /// The floor by ours: how many times its rate.
    Speed,
    /// Milliseconds of ours above the floor.
    Above,
    /// Milliseconds of ours, the median.
    Median,
    /// Milliseconds of ours that 99 of a hundred stay below.
    P99,
    /// So many rows, by the second.
    Rate(u64),
    /// MiB of memory for each; a figure beside the rows.
    Memory,
    /// Per cent of a core for all of these; a figure beside the rows.
    Core,
    /// Milliseconds of a core for one; a figure beside the rows.
    Tick,
}

impl Figure {
    /// Under which name a figure beside the rows is kept.
    pub(crate) fn of(self, what: &str) -> String {
        format!("{what}: {}", self.word())
    }

    fn word(self) -> &'static str {
        match self {
            Ratio => "ratio",
            Speed => "times the rate",
            Above => "above the floor",
            Median => "median",
            P99 => "p99",
            Rate(_) => "rows a second",
            Memory => "memory (PSS) for each",
            Core => "time of one core, of all",
            Tick => "time of a core for one",
        }
    }
}

/// What a figure may be.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Figure::{Above, Core, Median, Memory, P99, Rate, Ratio, Speed, Tick};
use Limit::{AtLeast, AtMost};

const BATCH: &str = "1,000 messages by one `channel send --batch`";
const WATCH: &str = "an idle `netsky channel watch`, from a message's send to its element";

const ASKED: [Asked; 32] = [
    asked("durable send inside a process", "", Ratio, AtMost(1.3)),
    asked("whole `netsky channel send`", "", Above, AtMost(6.0)),
    asked(BATCH, "1,000 durable sends inside a process, one by one", Speed, AtLeast(15.0)),
    asked(BATCH, "1,000 whole `netsky channel send`, one by one", Speed, AtLeast(15.0)),
    asked("one `channel drain` of 10,000 messages", "", Ratio, AtMost(1.5)),
    asked("whole `netsky channel send` in a home that has seen 100,000 messages", "", Ratio, AtMost(1.1)),
    asked(WATCH, "", Median, AtMost(2.0)),
    asked(WATCH, "", P99, AtMost(10.0)),
    asked("ingest of 200,000 lines of telemetry", "", Rate(LINES), AtLeast(50_000.0)),
    asked("ingest of 100,000 files of envelopes", "", Rate(FILES), AtLeast(50_000.0)),
    asked("whole `netsky query` with GROUP BY over 1,000,000 envelopes", "", Median, AtMost(300.0)),
    asked(
        "200 sessions started by `ostk kernel spawn`, one after another, each durable",
        "",
        Ratio,
        AtMost(1.0),
    ),
    asked("`ostk attach` to a full screen, from the start of the client", "", Ratio, AtMost(1.0)),
    asked("100 MB of mixed output (colours, UTF-8, erased lines), nobody attached", "", Ratio, AtMost(1.0)),
    asked("100 MB with a client attached, until it has shown the last word", "", Ratio, AtMost(1.0)),
    asked(IDLE_SESSIONS, "", Memory, AtMost(1.0)),
    asked(IDLE_SESSIONS, "", Core, AtMost(0.5)),
    asked(loops::IDLE, "", Median, AtMost(30.0)),
    asked(loops::BUSY, "", Ratio, AtMost(2.2)),
    asked(TOLD, "", Above, AtMost(5.0)),
    asked(ADDED, "", Memory, AtMost(4.0)),
    asked(NOTICED, "", Median, AtMost(50.0)),
    asked(NOTICED, "", P99, AtMost(500.0)),
    asked(SPAWNED, "", Above, AtMost(1000.0)),
    asked(VERIFIED, "", Above, AtMost(1000.0)),
    asked(NOTICED_BY_TICKS, "", P99, AtMost(1000.0)),
    asked(VERIFIED_BY_TICKS, "", Ratio, AtMost(1.0)),
    asked(TICK, "", Tick, AtMost(50.0)),
    asked(WATCHED, "", Core, AtMost(1.0)),
    asked(WHOLE[0], "", Ratio, AtMost(1.2)),
    asked(WHOLE[1], "", Ratio, AtMost(1.2)),
    asked(WHOLE[2], "", Ratio, AtMost(1.2)),
];

const fn asked(ours: &'static str, floor: &'static str, figure: Figure, limit: Limit) -> Asked {
    Asked { ours, floor, figure, limit }
}

impl Asked {
    fn is_of(&self, pair: &Pair) -> bool {
        pair.name == self.ours && (self.floor.is_empty() || pair.floor_name == self.floor)
    }

    /// What it came to; none where no row gives it.
    fn measured(&self, figures: &Figures) -> Option<f64> {
        if matches!(self.figure, Memory | Core | Tick) {
            return figures.beside(&self.figure.of(self.ours));
        }
        let pair = figures.pairs().find(|pair| self.is_of(pair))?;
        let (ours, floor) = (pair.ours.median.as_secs_f64(), pair.floor.median.as_secs_f64());
        Some(match self.figure {
            Ratio => ours / floor,
            Speed => floor / ours,
            Above => (ours - floor) * 1e3,
            Median => ours * 1e3,
            P99 => pair.ours.p99.as_secs_f64() * 1e3,
            Rate(rows) => rows as f64 / ours,
            Memory | Core | Tick => return None,
        })
    }

    /// By which part of the limit a figure misses it; none if it holds.
    fn missed(&self, figure: f64) -> Option<f64> {
        let over = match self.limit {
            AtMost(limit) => figure / limit - 1.0,
            AtLeast(limit) => 1.0 - figure / limit,
        };
        (over > 0.0).then_some(over)
    }

    fn what(&self) -> String {
        let against = if self.floor.is_empty() { String::new() } else { format!(", against {}", self.floor) };
        self.figure.of(&format!("{}{against}", self.ours))
    }

    fn shown(&self, figure: f64) -> String {
        match self.figure {
            Ratio | Speed => format!("{figure:.2}"),
            Above | Median | P99 | Tick => format!("{figure:.2} ms"),
            Rate(_) => format!("{figure:.0}"),
            Memory => format!("{figure:.2} MiB"),
            Core => format!("{figure:.2} %"),
        }
    }
}

/// The table of what was asked: each figure, and whether it holds.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = String::from("| asked | limit | measured | |\n| --- | ---: | ---: | --- |\n");
    for asked in &ASKED {
        let limit = match asked.limit {
            AtMost(limit) => format!("≤ {}", asked.shown(limit)),
            AtLeast(limit) => format!("≥ {}", asked.shown(limit)),
        };
        let (figure, verdict) = match asked.measured(figures) {
            None => ("–".to_owned(), "not measured in this run".to_owned()),
            Some(figure) => (asked.shown(figure), said(asked.missed(figure))),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {limit} | {figure} | {verdict} |", asked.what());
    }
    text
}

fn said(missed: Option<f64>) -> String {
    match missed {
        None => "holds".to_owned(),
        Some(part) => format!("**missed by {:.1} %**", part * 100.0),
    }
}

/// The same for programs.
pub(crate) fn data(figures: &Figures) -> Vec<serde_json::Value> {
    let row = |asked: &Asked| {
        let measured = asked.measured(figures);
        let (word, limit) = match asked.limit {
            AtMost(limit) => ("at_most", limit),
            AtLeast(limit) => ("at_least", limit),
        };
        serde_json::json!({
            "what": asked.what(), word: limit, "measured": measured.map(|figure| (figure * 100.0).round() / 100.0),
            "holds": measured.map(|figure| asked.missed(figure).is_none()),
        })
    };
    ASKED.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::pairs::Spread;
    use super::super::report::Measured;
    use super::*;

    fn pair(name: &str, floor_name: &str, floor: u64, ours: u64) -> Pair {
        let spread = |millis| {
            let median = Duration::from_millis(millis);
            Spread { median, p90: median, p99: median * 2 }
        };
        let (name, floor_name) = (name.to_owned(), floor_name.to_owned());
        Pair { name, floor_name, rounds: 1, floor: spread(floor), ours: spread(ours) }
    }

    #[test]
    fn a_figure_that_is_missed_is_named_with_by_how_much_and_one_that_is_not_measured_too() {
        let files = "ingest of 100,000 files of envelopes";
        let pairs = [pair(files, "x", 1, 2_078), pair(WATCH, "y", 1, 3), pair(BATCH, ASKED[3].floor, 30, 1)];
        let beside = [(Memory, 1.25), (Core, 0.37)].map(|(figure, value)| (figure.of(IDLE_SESSIONS), value));
        let measured = Measured { pairs: pairs.into(), text: String::new(), figures: beside.into() };
        let mut figures = Figures::default();
        figures.put("x", measured);
        let text = table(&figures);
        for line in [
            "| ingest of 100,000 files of envelopes: rows a second | ≥ 50000 | 48123 | **missed by 3.8 %** |",
            "from a message's send to its element: median | ≤ 2.00 ms | 3.00 ms | **missed by 50.0 %** |",
            "from a message's send to its element: p99 | ≤ 10.00 ms | 6.00 ms | holds |",
            "against 1,000 whole `netsky channel send`, one by one: times the rate | ≥ 15.00 | 30.00 | holds |",
            "| 200 idle sessions: memory (PSS) for each | ≤ 1.00 MiB | 1.25 MiB | **missed by 25.0 %** |",
            "| 200 idle sessions: time of one core, of all | ≤ 0.50 % | 0.37 % | holds |",
            "| durable send inside a process: ratio | ≤ 1.30 | – | not measured in this run |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let data = data(&figures);
        assert_eq!((&data[9]["holds"], &data[9]["at_least"]), (&false.into(), &50_000.0.into()));
        assert_eq!((&data[15]["holds"], &data[16]["measured"]), (&false.into(), &0.37.into()));
        assert_eq!((&data[0]["holds"], data.len()), (&serde_json::Value::Null, ASKED.len()));
    }

    #[test]
    fn every_row_that_is_asked_for_is_one_of_the_bench() {
        let sources = [
            include_str!("mail.rs"),
            include_str!("bus.rs"),
            include_str!("wake.rs"),
            include_str!("record.rs"),
            include_str!("terminals.rs"),
            include_str!("agents.rs"),
            include_str!("restarts.rs"),
            include_str!("loops.rs"),
            include_str!("landing.rs"),
        ];
        for asked in &ASKED {
            for name in [asked.ours, asked.floor] {
                assert!(sources.iter().any(|source| source.contains(name)), "no row is named {name:?}");
            }
        }
    }
}
