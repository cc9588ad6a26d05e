//! What was put before a program, as people read it: the element that a message was rendered to, taken apart again.
//!
//! Who says what is the program's word, as all that is read here; a message's own record is in its channel.

use netsky_model::id::Sender;

use super::Text;

const OPEN: &str = "<channel ";
const CLOSE: &str = "</channel>";

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Its id and how often it was told, as they stand there; none where it is no message of a channel.
    pub id: Option<(String, u32)>,
    /// Who sent it; none where it is no message of a channel.
    pub from: Option<String>,
    /// It may have been put before the program already, so many times with this one.
    pub again: Option<u32>,
    /// The home does not vouch for its sender.
    pub unverified: bool,
    /// What it says.
    pub text: Text,
}

/// The messages in a prompt. A message's text holds no end of its element; so each ends where the next end stands.
pub(super) fn read(prompt: &str) -> Vec<Told> {
    let mut all = Vec::new();
    let mut rest = prompt.trim();
    while !rest.is_empty() {
        let element = rest.strip_prefix(OPEN).and_then(|inner| {
            let (inner, behind) = inner.split_once(CLOSE)?;
            let (attributes, text) = inner.split_once('>')?;
            Some((attributes, text, behind))
        });
        let Some((attributes, text, behind)) = element else {
            let from = rest.starts_with("[netsky] ").then(|| "netsky".to_owned());
            all.push(Told { from, text: rest.to_owned().into(), ..Told::default() });
            break;
        };
        let get = |key: &str| attribute(attributes, key);
        let attempt = get("attempt").and_then(|attempt| attempt.parse().ok());
        all.push(Told {
            id: get("id").map(|id| (id, attempt.unwrap_or(1))),
            // A name is one, whatever a program says.
            from: get("from").filter(|from| from.parse::<Sender>().is_ok()),
            again: (get("redelivered").as_deref() == Some("true")).then(|| attempt.unwrap_or(2)),
            unverified: get("verified").as_deref() == Some("false"),
            text: text.to_owned().into(),
        });
        rest = behind.trim_start();
    }
    all
}

/// The value of an attribute. No value holds a quotation mark or a bracket: they are written as entities.
fn attribute(attributes: &str, key: &str) -> Option<String> {
    let mut parts = attributes.split('"');
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if name.trim().trim_end_matches('=') == key {
            let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
            return Some(entities.iter().fold(value.to_owned(), |text, (entity, c)| text.replace(entity, c)));
        }
    }
    None
}
