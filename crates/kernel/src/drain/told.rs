//! Calls that told something, by their names: what is told twice counts once.

use netsky_model::id::Generation;
use serde::{Deserialize, Serialize};

use super::Report;

/// A named call that told something: said again, it is the same call only of the same generation and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ToldForm")]
pub struct Told {
    /// Its name.
    pub request_id: String,
    /// Whose report it was.
    pub generation: Generation,
    /// The kind's word; empty in files of the first programs, which knew no more than the name.
    pub kind: String,
    /// blake3 of what was told, hex.
    pub digest: String,
}

/// As files have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToldForm {
    Name(String),
    Call { request_id: String, generation: Generation, kind: String, digest: String },
}

impl From<ToldForm> for Told {
    fn from(form: ToldForm) -> Told {
        match form {
            ToldForm::Name(request_id) => {
                let (kind, digest) = (String::new(), String::new());
                Told { request_id, generation: Generation::NONE, kind, digest }
            }
            ToldForm::Call { request_id, generation, kind, digest } => {
                Told { request_id, generation, kind, digest }
            }
        }
    }
}

impl Told {
    pub(crate) fn new(request_id: &str, generation: Generation, report: &Report) -> Told {
        let value = serde_json::to_value(report).expect("plain data with string keys becomes JSON");
        Told {
            request_id: request_id.to_owned(),
            generation,
            kind: report.word().to_owned(),
            digest: netsky_model::canonical::digest(&value),
        }
    }

    /// Whether the other one is this call, whatever it tells.
    pub(super) fn is_call(&self, other: &Told) -> bool {
        let same = self.generation == other.generation && self.kind == other.kind;
        self.request_id == other.request_id && (same || self.kind.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use netsky_disk::layout::KernelLayout;

    use super::*;
    use crate::drain::store::Taken;
    use crate::drain::{Drain, DrainError, Misfit, Turn};
    use crate::session::Meta;

    #[test]
    fn a_name_is_that_of_a_call_of_one_generation_and_kind_and_of_what_it_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = KernelLayout::new(folder.path());
        let sample = Meta::parse(include_bytes!("../../samples/meta.v1.json")).expect("the sample loads");
        let open = || Drain::open(&layout, &sample.lineage).expect("reads").0;
        let mut drain = open();
        let context = |used: u8| Report::Context { used: used.try_into().expect("a percentage") };
        let tell = |drain: &mut Drain, generation: u64, report: &Report| {
            let meta = Meta { generation: Generation(generation), ..sample.clone() };
            drain.take("anchor", &meta, report, Some("r1"))
        };
        let turn = Report::Turn(Box::default());
        for (generation, report, taken) in [
            (3, &turn, Taken::Whole),
            (3, &context(10), Taken::Whole),
            (3, &turn, Taken::Before),
            (4, &turn, Taken::Whole),
            (4, &turn, Taken::Before),
        ] {
            assert_eq!(
                tell(&mut drain, generation, report).expect("taken"),
                taken,
                "{generation} {report:?}"
            );
            drain = open();
        }
        assert_eq!(drain.state().turn, 2);
        let other = Report::Turn(Box::new(Turn { turn: Some(7), ..Turn::default() }));
        let refused = tell(&mut drain, 4, &other).expect_err("it says something else");
        assert!(matches!(refused, DrainError::Misfit(Misfit::OtherCall { .. })), "{refused}");
        assert_eq!(open().state().turn, 2);
        // A snapshot of the first programs knows names alone.
        let old: Told = serde_json::from_str("\"r9\"").expect("it reads");
        let mut state = drain.state().clone();
        state.remember(old);
        assert_eq!(state.has_told("r9", Generation(4), &turn), Ok(true));
    }
}
