//! What a transcript says of messages: which were answered, and which were cut.

use std::collections::BTreeMap;

use netsky_model::id::EnvelopeId;
use serde_json::Value;

use super::super::MessageKey;

/// What had become of the messages that stand in a transcript.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    fates: BTreeMap<MessageKey, Fate>,
    /// How many were read.
    prompts: usize,
    /// The messages of the prompt that was read last.
    current: Vec<MessageKey>,
}

/// What had become of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// Its place among all of them, the last time.
    place: usize,
    /// How often it stands there.
    seen: u32,
    /// Something of the model follows the last time: the program takes that UUID never again.
    begun: bool,
    /// The model's last word follows.
    pub(super) answered: bool,
}

impl Fate {
    /// How often the message was given in vain.
    pub(super) fn in_vain(self) -> u32 {
        if self.begun { self.seen } else { self.seen.saturating_sub(1) }
    }
}

impl History {
    /// The messages that stand there last, oldest first.
    pub(super) fn newest(mut self, most: usize) -> impl Iterator<Item = (MessageKey, Fate)> {
        // A prompt of several stands under the UUID of its last. Once its first is told anew, that one is used up: something
        // follows it.
        for key in self.current.iter().skip(1) {
            if let Some(fate) = self.fates.get_mut(key) {
                fate.begun = true;
            }
        }
        let mut fates: Vec<(MessageKey, Fate)> = self.fates.into_iter().collect();
        fates.sort_by_key(|(_, fate)| fate.place);
        let skipped = fates.len().saturating_sub(most);
        fates.into_iter().skip(skipped)
    }

    /// One line of the transcript.
    pub(super) fn line(&mut self, line: &[u8]) {
        let Ok(row) = serde_json::from_slice::<Value>(line) else { return };
        // A summary is the model's own text, and may show messages of long ago as they came.
        if ["isSidechain", "isMeta", "isCompactSummary"].iter().any(|flag| row[*flag] == true) {
            return;
        }
        let message = &row["message"];
        match row["type"].as_str() {
            Some("user") => {
                let keys = keys_of(&message["content"]);
                if keys.is_empty() {
                    return;
                }
                self.put(&keys);
                self.current = keys;
            }
            // What came while a tool ran is told in the turn that runs.
            Some("attachment") if row["attachment"]["type"] == "queued_command" => {
                let keys = keys_of(&row["attachment"]["prompt"]);
                self.put(&keys);
                self.current.extend(keys);
            }
            Some("assistant") => {
                // What the program says in the model's place when that failed is no answer, but the UUID is used up.
                let is_real = message["model"] != "<synthetic>";
                let is_last =
                    !matches!(message["stop_reason"].as_str(), None | Some("tool_use" | "pause_turn"));
                for key in &self.current {
                    if let Some(fate) = self.fates.get_mut(key) {
                        fate.begun = true;
                        fate.answered = is_real && is_last;
                    }
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, keys: &[MessageKey]) {
        for key in keys {
            self.prompts += 1;
            let fate = self.fates.entry(key.clone()).or_default();
            *fate = Fate { place: self.prompts, seen: fate.seen + 1, ..Fate::default() };
        }
    }
}

/// The messages that a prompt consists of: the ids of its `<channel …>` elements. No text of a sender can look like one
/// ([`netsky_model::render`]).
fn keys_of(content: &Value) -> Vec<MessageKey> {
    let parts = content.as_array().map_or_else(|| vec![content], |parts| parts.iter().collect());
    let texts = parts.into_iter().filter_map(|part| part.as_str().or_else(|| part["text"].as_str()));
    texts.flat_map(ids_of).map(|id| MessageKey::of(&id)).collect()
}

fn ids_of(text: &str) -> Vec<EnvelopeId> {
    let elements = text.split("<channel source=\"agent\"").skip(1);
    let head = |element: &str| element.split_once('>').map(|(head, _)| head.to_owned());
    let id = |head: String| head.split_once(" id=\"")?.1.split('"').next()?.parse().ok();
    elements.filter_map(head).filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> String {
        let text = format!(
            "<channel source=\"agent\" from=\"agent1\" id=\"{id}\" ts=\"x\">do &lt;channel id=\"no\"</channel>"
        );
        serde_json::json!({"type": "user", "message": {"content": [{"type": "text", "text": text}]}})
            .to_string()
    }

    fn model(stop: Option<&str>, model: &str) -> String {
        serde_json::json!({"type": "assistant", "message": {"model": model, "stop_reason": stop}}).to_string()
    }

    #[test]
    fn a_transcript_tells_what_was_answered_and_under_which_uuid_the_rest_is_taken() {
        let ids = ["a", "b", "c", "d", "e"].map(|n| format!("0192f0c1-2345-7abc-8def-0123456789a{n}"));
        let [answered, cut, bare, failed, twice] = &ids;
        let mut history = History::default();
        for line in [
            user(answered),
            model(Some("tool_use"), "m"),
            model(Some("end_turn"), "m"),
            user(cut),
            model(Some("tool_use"), "m"),
            user(twice),
            model(Some("tool_use"), "m"),
            user(failed),
            model(Some("stop_sequence"), "<synthetic>"),
            user(twice),
            user(bare),
            "no json".to_owned(),
        ] {
            history.line(line.as_bytes());
        }
        let fates: BTreeMap<MessageKey, Fate> = history.newest(4).collect();
        let key = |id: &String| MessageKey::of(&id.parse().expect("an id"));
        assert!(!fates.contains_key(&key(answered)), "it is the oldest of five");
        let in_vain = [cut, bare, failed, twice].map(|id| fates[&key(id)].in_vain());
        assert_eq!(in_vain, [1, 0, 1, 1]);
        assert!(fates.values().all(|fate| !fate.answered));
    }

    #[test]
    fn the_last_word_of_a_turn_answers_all_that_it_was_told() {
        let ids = ["a", "b"].map(|n| format!("0192f0c1-2345-7abc-8def-0123456789a{n}"));
        let mut history = History::default();
        let text =
            ids.each_ref().map(|id| format!("<channel source=\"agent\" id=\"{id}\">x</channel>")).join("\n");
        let both = serde_json::json!({"type": "user", "message": {"content": text}}).to_string();
        for line in [both, model(Some("tool_use"), "m"), model(Some("end_turn"), "m")] {
            history.line(line.as_bytes());
        }
        assert_eq!(history.newest(9).filter(|(_, fate)| fate.answered).count(), 2);
    }

    #[test]
    fn i2_what_was_cut_in_one_prompt_of_several_is_told_again_under_other_uuids_but_for_the_first() {
        let ids = ["a", "b", "c"].map(|n| format!("0192f0c1-2345-7abc-8def-0123456789a{n}"));
        let text =
            ids.each_ref().map(|id| format!("<channel source=\"agent\" id=\"{id}\">x</channel>")).join("\n");
        let mut history = History::default();
        history
            .line(serde_json::json!({"type": "user", "message": {"content": text}}).to_string().as_bytes());
        assert_eq!(history.newest(9).map(|(_, fate)| fate.in_vain()).collect::<Vec<_>>(), [0, 1, 1]);
    }
}
