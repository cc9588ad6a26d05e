//! Why `config.toml` does not read, by line and key.
//!
//! Promise: no value is shown, as any text may be a secret at the wrong place. Keys are.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// How the words begin that show the value that was met; it ends with the last [`EXPECTED`].
const SHOWING: [&str; 4] = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant "];
const EXPECTED: &str = ", expected ";

/// Line, key and reason, on one line.
pub(super) fn told(text: &str, error: &Error) -> String {
    let (message, span) = (error.message(), error.span().unwrap_or_default());
    if !SHOWING.iter().any(|start| message.starts_with(start)) {
        let key = if is_ours(message) { met(text, &span, "") } else { None };
        return said(text, span.start, key, message);
    }
    let (shown, expected) = message.rsplit_once(EXPECTED).unwrap_or((message, "another value"));
    said(text, span.start, met(text, &span, shown), &format!("expected {expected}"))
}

/// Of a value, which our own words do not name.
fn is_ours(message: &str) -> bool {
    message.starts_with("expected ") || message.starts_with("the duration ")
}

fn said(text: &str, at: usize, met: Option<(String, usize)>, why: &str) -> String {
    let (key, at) = met.map_or((String::new(), at), |(key, at)| (format!("{key}: "), at));
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    format!("line {line}: {key}{}", why.replace('\n', ", "))
}

/// The key of the value that was met, and where that is: what stands there, or what was shown, once, within what stands there.
fn met(text: &str, span: &Range<usize>, shown: &str) -> Option<(String, usize)> {
    let root = DeTable::parse(text).ok()?;
    let all = values(String::new(), root.get_ref());
    // An array of tables stands where its first one does.
    let mut there = all.iter().filter(|(_, value)| value.span() == *span);
    let outer = there.next()?;
    let inner = there.next_back().unwrap_or(outer);
    let within = with_inner(outer.0.clone(), outer.1);
    let mut is_it = within.iter().filter(|(_, value)| match value.get_ref() {
        DeValue::String(text) => {
            [format!("{text:?}"), format!("`{text}`")].iter().any(|t| shown.ends_with(t))
        }
        _ => text.get(value.span()).is_some_and(|text| shown.ends_with(&format!("`{text}`"))),
    });
    let (key, value) = match (is_it.next(), is_it.next()) {
        (Some(only), None) => only,
        _ => inner,
    };
    Some((key.clone(), value.span().start))
}

/// Every value of a table, with its keys.
fn values<'v, 't>(before: String, table: &'v DeTable<'t>) -> Vec<(String, &'v Spanned<DeValue<'t>>)> {
    table.iter().flat_map(|(key, value)| with_inner(format!("{before}{}", key.get_ref()), value)).collect()
}

fn with_inner<'v, 't>(
    key: String,
    value: &'v Spanned<DeValue<'t>>,
) -> Vec<(String, &'v Spanned<DeValue<'t>>)> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => values(format!("{key}."), table),
        DeValue::Array(array) => array.iter().flat_map(|value| with_inner(key.clone(), value)).collect(),
        _ => Vec::new(),
    };
    [(key, value)].into_iter().chain(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a7_what_does_not_read_is_told_by_line_and_key_and_no_value_is_shown() {
        let ntfy = "[[page.transports]]\nkind = \"ntfy\"\nurl = \"https://h/t\"\n";
        let secret = format!("{ntfy}secret = \"CANARY, expected `more`\"\n");
        let second = format!("{ntfy}{ntfy}secret = 77077\n");
        let time = "expected a whole number above 0 with ms, s, m, h or d (such as 2s or 15m)";
        for (text, told) in [
            (secret.as_str(), "line 4: page.transports.secret: expected `file` or `command`"),
            (&second, "line 7: page.transports.secret: expected "),
            (
                "[[page.transports]]\n\nkind = \"CANARY\"\n",
                "line 3: page.transports.kind: expected one of `command`",
            ),
            ("[agents.agent1]\n\nenv = \"API=CANARY\"\n", "line 3: agents.agent1.env: expected a map"),
            ("[agents.agent1.env]\nAPI = 77077\n", "line 2: agents.agent1.env.API: expected a string"),
            ("agents.agent1.argv = [\"a\",\n 77077]\n", "line 2: agents.agent1.argv: expected a string"),
            ("[page]\ncool_down = \"CANARY\"\n", &format!("line 2: page.cool_down: {time}")),
            (
                "[page]\ncool_down = \"77077077077077077d\"\n",
                "line 2: page.cool_down: the duration is too long",
            ),
            ("[mail]\nkeep_poison = \"CANARY\"\n", &format!("line 2: mail.keep_poison: {time}")),
            ("[hang]\nafter = \"CANARY\"\n", &format!("line 2: hang.after: {time}")),
            ("[owner]\ndigest = \"CANARY\"\n", &format!("line 2: owner.digest: {time}")),
            ("[owner]\nquiet = [\"CANARY\"]\n", "line 2: owner.quiet: expected a part of a day"),
            ("[ticker]\nprecision = \"CANARY\"\n", "line 2: ticker.precision: expected `tick` or `exact`"),
            ("[clones]\nmost = -77077\n", "line 2: clones.most: expected u32"),
            ("[defaults]\nruntime = CANARY\n", "line 2: "),
            ("[defaults]\nsecret = \"CANARY\"\n", "line 2: unknown field `secret`, expected one of"),
        ] {
            let why = parse(text.as_bytes()).expect_err("refused");
            assert!(why.starts_with(told), "{why}, not {told}");
            assert!(!why.contains("CANARY") && !why.contains("77077"), "{why}");
        }
        let zone = parse(b"[owner]\ntz = \"CANARY\"\n").expect("reads").unusable().expect("told");
        assert!(zone.starts_with("[owner] tz is no zone") && !zone.contains("CANARY"), "{zone}");
    }
}
