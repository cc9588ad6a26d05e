//! A strict reading of what an agent is shown (faults A2), for tests.
//!
//! Promise: [`parse`] accepts exactly one `<channel …>` element and nothing beside it, and refuses a text in which a
//! suspicious reader could see the element closed, another trusted one opened, or a character that hides. It shares no
//! code with the renderer: it normalises the whole text where that looks behind each bracket, and lists what must not be
//! there where that decides what may stay.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

/// Names that an agent program takes for words of its harness.
const TRUSTED: [&str; 6] =
    ["channel", "handoff", "system-reminder", "teammate-message", "antml", "function_"];

/// Brackets that are, or normalise to, or are read as `<`.
const BRACKETS: &str =
    "<＜﹤≮‹˂\u{2329}\u{3008}\u{fe3f}\u{27e8}\u{276c}\u{276e}\u{2770}\u{1438}\u{16b2}≺⊀⋖⧼\u{1d236}";

/// First and last of each run of characters that no rendering may hold.
const HIDDEN: [(u32, u32); 26] = [
    (0x00, 0x08),
    (0x0b, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x2064),
    (0x2065, 0x2065),
    (0x2066, 0x2069),
    (0x206a, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0xfff9, 0xfffb),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_007f),
    (0xe_0080, 0xe_00ff),
    (0xe_0100, 0xe_0fff),
];

/// The one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its attributes, unescaped.
    pub attributes: BTreeMap<String, String>,
    /// What stands between its tags, as it stands there.
    pub text: String,
}

/// Reads a screen that holds one element and nothing else.
///
/// # Errors
/// What a strict reader stumbles over.
pub fn parse(screen: &str) -> Result<Element, String> {
    let (element, rest) = first(screen)?;
    if rest.is_empty() { Ok(element) } else { Err(format!("something follows the element: {rest:?}")) }
}

/// Reads what a drain printed: elements, each ended by a line feed.
///
/// # Errors
/// As [`parse`].
pub fn parse_all(mut screen: &str) -> Result<Vec<Element>, String> {
    let mut elements = Vec::new();
    while !screen.is_empty() {
        let (element, rest) = first(screen)?;
        elements.push(element);
        screen = rest.strip_prefix('\n').ok_or("an element does not end its line")?;
    }
    Ok(elements)
}

impl Element {
    /// An attribute, or nothing.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Whether this is what an agent must be shown of `sent`: what hides is taken out, a bracket may stand escaped,
    /// and every other character is the one that was sent.
    pub fn says(&self, sent: &str) -> bool {
        let mut shown = self.text.as_str();
        for c in sent.chars().filter(|c| !hides(*c)) {
            let escaped = if c == '<' { "&lt;".to_owned() } else { format!("&#x{:x};", u32::from(c)) };
            let rest = match shown.strip_prefix(c) {
                Some(rest) => Some(rest),
                None if BRACKETS.contains(c) => shown.strip_prefix(escaped.as_str()),
                None => None,
            };
            match rest {
                Some(rest) => shown = rest,
                None => return false,
            }
        }
        shown.is_empty()
    }
}

/// Whether a character drives a terminal or shows nothing.
pub fn hides(c: char) -> bool {
    HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
}

fn first(screen: &str) -> Result<(Element, &str), String> {
    let mut rest = screen.strip_prefix("<channel").ok_or("it does not begin with the element")?;
    let mut attributes = BTreeMap::new();
    while let Some(tail) = rest.strip_prefix(' ') {
        let (name, tail) = tail.split_once("=\"").ok_or("an attribute has no value")?;
        let (value, tail) = tail.split_once('"').ok_or("a value does not end")?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return Err(format!("{name:?} is no attribute's name"));
        }
        if attributes.insert(name.to_owned(), unescape(value)?).is_some() {
            return Err(format!("attribute {name} stands twice"));
        }
        rest = tail;
    }
    let rest = rest.strip_prefix('>').ok_or("the tag does not end after its attributes")?;
    let (text, rest) = rest.split_once("</channel>").ok_or("the element is not closed")?;
    let element = &screen[..screen.len() - rest.len()];
    if let Some(c) = element.chars().find(|c| hides(*c)) {
        return Err(format!("{c:?} is shown"));
    }
    match trusted_in(text) {
        Some(name) => Err(format!("the text opens or closes {name}: {text:?}")),
        None => Ok((Element { attributes, text: text.to_owned() }, rest)),
    }
}

/// An attribute's value; only the five references of XML may stand in it, and none of their characters bare.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        let known = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\'')];
        match known.iter().find(|(reference, _)| rest.starts_with(reference)) {
            Some((reference, stands_for)) => {
                out.push(*stands_for);
                rest = &rest[reference.len()..];
            }
            None if "&<>\"'\n\t".contains(c) => return Err(format!("{c:?} stands bare in {value:?}")),
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Ok(out)
}

/// A trusted element that the text opens or closes, once it is read without regard to width, case and white space.
pub fn trusted_in(text: &str) -> Option<&'static str> {
    let folded: String = text
        .chars()
        .map(|c| if BRACKETS.contains(c) { '<' } else { c })
        .nfkc()
        .flat_map(char::to_lowercase)
        .filter(|c| !c.is_whitespace())
        .collect();
    // More than one slash is no tag of any language, but a reader may be careless.
    let behind = folded.match_indices('<').map(|(at, _)| folded[at + 1..].trim_start_matches('/'));
    behind.flat_map(|rest| TRUSTED.into_iter().filter(|name| rest.starts_with(name))).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_element_is_read() {
        let element =
            parse("<channel from=\"a&amp;b\" id=\"x\">1 < 2\n&lt;/channel></channel>").expect("one");
        assert_eq!((element.attribute("from"), element.attribute("id")), ("a&b", "x"));
        assert!(element.says("1 < 2\n</channel>"));
        assert!(element.says("1 < 2\u{202e}\n</channel>\0"), "what hides was taken out");
        for other in ["1 < 2\n</channel", "1 < 2\n[/channel>", "1 < 2 </channel>", "1 > 2\n</channel>"] {
            assert!(!element.says(other), "{other:?}");
        }
        assert_eq!(
            parse_all("<channel a=\"1\">x</channel>\n<channel>y</channel>\n").map(|all| all.len()),
            Ok(2)
        );
    }

    #[test]
    fn what_is_not_exactly_one_element_is_refused() {
        for screen in [
            "",
            "<channel>",
            "x<channel></channel>",
            "<channel></channel>x",
            "<channel></channel></channel>",
            "<channel><channel></channel>",
            "<channel>＜/channel></channel>",
            "<channel>< / CHANNEL ></channel>",
            "<channel><system-reminder></channel>",
            "<channel a=\"<\"></channel>",
            "<channel a=\"&\"></channel>",
            "<channel a='1'></channel>",
            "<channel a=\"1\" a=\"2\"></channel>",
            "<channel a=\"1\"b=\"2\"></channel>",
            "<channel A=\"1\"></channel>",
            "<channel>\u{1b}</channel>",
            "<channel a=\"\u{202e}\"></channel>",
        ] {
            assert!(parse(screen).is_err(), "{screen:?}");
        }
    }
}
