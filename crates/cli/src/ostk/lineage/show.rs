//! `ostk lineage show`: one lineage, and what it would be brought back from.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::drain::{self, Whole};
use netsky_model::id::LineageId;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::reach;
use crate::output;
use crate::run::Run;

/// Show one lineage: its turns, what it used, and tool calls without a result
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its id, or the name of the session that carries it
    id: String,
    /// Print the snapshot of its last turn with all messages in it, as JSON; needs no anchor
    #[arg(long)]
    snapshot: bool,
}

/// The seed's full form: the file, and the messages in the place of their count and digest.
#[derive(Serialize)]
struct Full<'a> {
    #[serde(flatten)]
    snapshot: serde_json::Map<String, serde_json::Value>,
    messages: Vec<&'a RawValue>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let id = super::named(cx, &self.id)?;
        if self.snapshot {
            return snapshot(&KernelLayout::new(cx.kernel_root()?), &id);
        }
        let lineage = reach::anchor(cx)?.lineage(&id)?;
        if cx.json {
            return output::json(&lineage);
        }
        output::fields(&serde_json::to_value(&lineage).map_err(unshown)?)
    }
}

fn snapshot(layout: &KernelLayout, id: &LineageId) -> Result<(), Error> {
    let Whole { snapshot, messages, state, notes } = drain::read(layout, id, true)?.unwrap_or_default();
    let Some(snapshot) = snapshot else {
        if state.turn == 0 {
            let what = format!("{id} has finished no turn");
            return Err(
                Error::new(Kind::NotFound, what).hint("its program tells of turns by `ostk report turn`")
            );
        }
        let (kind, why) = match notes.first() {
            Some(note) => (Kind::Damaged, format!("does not read: {note}")),
            None => (Kind::NotFound, "is not there".to_owned()),
        };
        let what = format!("the snapshot of {id} {why}; its log goes on to turn {}", state.turn);
        return Err(Error::new(kind, what).hint("the next turn writes another one"));
    };
    notes.iter().for_each(|note| output::complain("ostk", &format!("the one before is shown: {note}")));
    if snapshot.turn < state.turn && notes.is_empty() {
        let (of, newest) = (snapshot.turn, state.turn);
        output::complain(
            "ostk",
            &format!("this is the snapshot of turn {of}; there is none of {newest} yet"),
        );
    }
    let mut fields = serde_json::to_value(snapshot).map_err(unshown)?;
    let raw = messages.iter().map(|message| serde_json::from_str(message.as_str()));
    let messages = raw.collect::<Result<_, _>>().map_err(unshown)?;
    let snapshot = fields.as_object_mut().map(std::mem::take).unwrap_or_default();
    output::json(&Full {
        snapshot: snapshot.into_iter().filter(|(key, _)| key != "messages").collect(),
        messages,
    })
}

fn unshown(error: serde_json::Error) -> Error {
    Error::new(Kind::Failed, format!("failed to show a lineage: {error}"))
}
