//! What must hold of a disk, by what was promised. Looks at the image itself, through no code of the bus.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;
use netsky_model::hlc::Hlc;
use netsky_model::id::AgentId;
use netsky_model::life::{MAX_ATTEMPTS, STATES, State};
use netsky_model::name::Name;

use super::actor::{Done, first_word};
use super::history::{History, Key, Promise};
use crate::memory::Image;

/// Where messages are.
pub(super) type Places = BTreeMap<Key, (State, Name)>;

/// Agents that have a folder.
pub(super) fn agents(image: &Image, layout: &Layout) -> Vec<AgentId> {
    let names = image.list(layout.channels().as_path()).filter_map(|name| name.to_str()?.parse().ok());
    names.collect()
}

/// The highest place in the order that any name says.
pub(super) fn highest(image: &Image, layout: &Layout) -> Hlc {
    let mut highest = Hlc(0);
    for agent in agents(image, layout) {
        for state in STATES {
            let folder = layout.folder(&agent, state);
            let names = image.list(&folder).filter_map(|name| Name::parse(name.to_str()?));
            highest = names.map(|name| name.key.hlc).fold(highest, Hlc::max);
        }
    }
    highest
}

/// What must hold at any moment, before anybody recovers anything.
pub(super) fn image(image: &Image, layout: &Layout, history: &History) -> Done<Places> {
    let mut places = Places::new();
    for (agent, state) in agents(image, layout).iter().flat_map(|agent| STATES.map(|state| (agent, state))) {
        for (name, bytes) in image.files(&layout.folder(agent, state)) {
            let Some((key, name)) = file(image, layout, history, (agent, state), name, bytes)? else {
                continue;
            };
            if let Some((before, _)) = places.insert(key.clone(), (state, name)) {
                return Err(format!("{key} is {before} and {state} at once"));
            }
        }
    }
    for agent in &history.created {
        if !image.has(&layout.channel_tmp(agent)) {
            return Err(format!("{agent} was created, and its channel is not whole"));
        }
    }
    for (key, promise) in &history.promises {
        kept(image, layout, key, promise, places.get(key))?;
    }
    Ok(places)
}

/// One file of a channel: a whole message, or what somebody dropped.
fn file(
    image: &Image,
    layout: &Layout,
    history: &History,
    (agent, state): (&AgentId, State),
    file: &OsStr,
    bytes: &[u8],
) -> Done<Option<(Key, Name)>> {
    let text = file.to_string_lossy();
    let poisoned = state == State::Poisoned;
    if poisoned && text.ends_with(".reason") {
        return if bytes.len() > 1 { Ok(None) } else { Err(format!("{text} has no reason in it")) };
    }
    if poisoned && !image.has(&layout.folder(agent, state).join(format!("{text}.reason"))) {
        return Err(format!("{text} is a dead letter without a reason"));
    }
    let Some(name) = Name::parse(&text) else {
        let dropped = history.dropped.contains(&*text);
        return if dropped { Ok(None) } else { Err(format!("{text} is {state}, and no name of the bus")) };
    };
    let envelope = Envelope::parse(bytes).map_err(|e| format!("{text} is {state} and not whole: {e}"))?;
    if envelope.id.as_ref() != Some(&name.key.id) || envelope.to.as_ref() != Some(agent) {
        return Err(format!("{text} is {state} in the channel of {agent} and holds another message"));
    }
    if poisoned && name.attempt < MAX_ATTEMPTS {
        return Err(format!("{text} is a dead letter after {} attempts", name.attempt));
    }
    Ok(Some((first_word(&envelope.text), name)))
}

/// One promise.
fn kept(image: &Image, layout: &Layout, key: &Key, promise: &Promise, place: Option<&(State, Name)>) -> Done {
    let done = |id| image.has(&layout.channel_ids(&promise.agent).join(format!("{id}.done")));
    let Some((state, name)) = place else {
        return match &promise.chosen {
            _ if promise.sent => Err(format!("{key} was sent and is nowhere")),
            Some(id) if done(id) => Err(format!("{key} is marked as sent and is nowhere")),
            _ => Ok(()),
        };
    };
    let attempt = name.attempt;
    match state {
        _ if promise.acked && *state != State::Acked => Err(format!("{key} was acked and is {state}")),
        State::Acked if !promise.acking => Err(format!("{key} is acked, and nobody acked it")),
        State::Written if attempt <= promise.surfaced.max(promise.claimed) => {
            Err(format!("{key} was taken with attempt {}, and waits for attempt {attempt}", promise.claimed))
        }
        State::Claimed if promise.delivered && attempt <= promise.surfaced => {
            Err(format!("{key} was delivered, and is held with the same attempt"))
        }
        _ if attempt < promise.surfaced.max(promise.claimed) => {
            Err(format!("{key} was taken with attempt {}, and is {state} with {attempt}", promise.claimed))
        }
        _ => Ok(()),
    }
}

/// What must hold when everything was recovered, drained and acked.
pub(super) fn settled(image: &Image, layout: &Layout, history: &History) -> Done {
    let places = self::image(image, layout, history)?;
    for (key, (state, _)) in &places {
        if !matches!(state, State::Acked | State::Forwarded | State::Poisoned) {
            return Err(format!("{key} is {state} after everything was drained and acked"));
        }
    }
    for agent in agents(image, layout) {
        let folders =
            [State::Written, State::Claimed, State::Delivered].map(|state| layout.folder(&agent, state));
        for folder in folders.iter().chain([&layout.channel_tmp(&agent)]) {
            if let Some(left) = image.list(folder).next() {
                return Err(format!("{} is left in {}", left.to_string_lossy(), folder.display()));
            }
        }
    }
    Ok(())
}
