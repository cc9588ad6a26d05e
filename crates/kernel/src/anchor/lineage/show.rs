//! `lineage/show`: one lineage, and what it has behind it.

use serde_json::Value;

use super::carrier;
use crate::anchor::state::Anchor;
use crate::drain::State;
use crate::rpc::lineage::show::{Answer, Params};
use crate::rpc::{MAX_LINE, Refusal, SessionView};

/// Longest answer, with room for what a line has around it.
const LONGEST: usize = MAX_LINE - 4096;

pub(in crate::anchor) fn show(anchor: &Anchor, params: &Params) -> Result<Answer, Refusal> {
    let session = anchor.view(&carrier(anchor, &params.id)?)?;
    let (state, damaged) = match anchor
        .check_drain(&params.id)
        .and_then(|()| anchor.drain(&params.id, |drain| drain.state().clone()))
    {
        Ok(state) => (state, None),
        Err(error) => (State::default(), Some(error.to_string())),
    };
    let State { usage, messages, model, intents, .. } = state;
    let SessionView { name, lineage, generation, state, progress, .. } = session;
    Ok(fitted(Answer {
        id: lineage,
        session: name,
        generation,
        state,
        progress,
        usage,
        messages,
        model,
        intents,
        left_out: Vec::new(),
        damaged,
    }))
}

/// Without what a line does not hold with the rest.
fn fitted(mut answer: Answer) -> Answer {
    let is_too_long = |answer: &Answer| serde_json::to_vec(answer).is_ok_and(|bytes| bytes.len() > LONGEST);
    if is_too_long(&answer) {
        answer.intents.values_mut().for_each(|intent| intent.input = Value::Null);
        answer.left_out.push("intents.input".to_owned());
    }
    if is_too_long(&answer)
        && let Some(model) = &mut answer.model
    {
        model.config = Value::Null;
        answer.left_out.push("model.config".to_owned());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::anchor::state::about;
    use crate::anchor::table::Life;
    use crate::drain::{Model, OPEN_BYTES, Report, Turn};
    use crate::session::Keeper;

    #[test]
    fn a12_what_no_line_holds_of_a_lineage_is_left_out_and_said_so() {
        on_stage(async |anchor| {
            let meta = session("agent7", Keeper::Watchdog);
            anchor.put(meta.clone(), Life::Gone);
            let tell = |report: Report| {
                let taken = anchor.drain(&meta.lineage, |drain| drain.take("a", &meta, &report, None));
                taken.expect("it reads").expect("it fits");
                let shown = show(&anchor, &Params { id: about(&meta).lineage }).expect("known");
                let bytes = serde_json::to_vec(&shown).expect("plain").len();
                assert!(bytes <= LONGEST, "{bytes}");
                shown
            };
            let long = |bytes: usize| Value::from("x".repeat(bytes));
            let intent = |id: &str| {
                let (id, tool) = (id.to_owned(), "sh".to_owned());
                Report::Intent { id, tool, input: long(OPEN_BYTES / 2 - 64) }
            };
            assert!(tell(intent("a")).left_out.is_empty());
            let both = tell(intent("b"));
            assert_eq!((both.intents.len(), both.left_out), (2, vec!["intents.input".to_owned()]));
            let model = Model { config: long(MAX_LINE - 4096), ..Model::default() };
            let turn = tell(Report::Turn(Box::new(Turn { model: Some(model), ..Turn::default() })));
            assert_eq!(turn.left_out, ["intents.input", "model.config"]);
        });
    }
}
