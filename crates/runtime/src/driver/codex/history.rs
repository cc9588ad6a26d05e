//! What a rollout says of messages: which were in a turn that ended well.

use std::collections::BTreeMap;

use serde_json::Value;

use super::MessageKey;

/// What had become of the messages that stand in a rollout.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    /// Messages of turns that have not ended.
    open: BTreeMap<String, Vec<MessageKey>>,
    /// Messages of turns that ended well, oldest first.
    finished: Vec<MessageKey>,
}

impl History {
    /// The messages that were dealt with, oldest first.
    pub(super) fn finished(self) -> Vec<MessageKey> {
        self.finished
    }

    /// One line of the rollout.
    pub(super) fn line(&mut self, line: &[u8]) {
        let Ok(row) = serde_json::from_slice::<Value>(line) else { return };
        let event = &row["payload"];
        let Some(turn) = event["turn_id"].as_str().filter(|_| row["type"] == "event_msg") else { return };
        match event["type"].as_str() {
            Some("item_completed") if event["item"]["type"] == "UserMessage" => {
                let key = event["item"]["client_id"].as_str().and_then(|id| id.parse().ok());
                self.open.entry(turn.to_owned()).or_default().extend(key);
            }
            Some("task_complete") => {
                let messages = self.open.remove(turn).unwrap_or_default();
                if event["error"].is_null() {
                    self.finished.extend(messages);
                }
            }
            // Also what is told to end writes this down: nobody may have wanted the turn stopped.
            Some("turn_aborted") => {
                self.open.remove(turn);
            }
            _ => {}
        }
    }
}
