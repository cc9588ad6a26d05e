//! What a model writes, set for a terminal: headings, lists, quotes, code and emphasis; all else as it was written.
//!
//! Promise: what is set says the same in the same order, and not a character of it reaches a terminal as an escape: pieces
//! are cleaned where they are coloured. A text that would read as a trusted element once its marks are gone keeps them.

use netsky_model::render;

use crate::palette::Tone;

/// A line of pieces, each in its tone.
pub(super) type Line = Vec<(Tone, String)>;

/// Sets a text.
pub(super) fn set(text: &str) -> Vec<Line> {
    let text = render::text(text);
    let set = lines(&text);
    let seen: Vec<String> =
        set.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect();
    let seen = seen.join("\n");
    // Two marks may have stood between a bracket and a name.
    if render::text(&seen) == seen { set } else { plain(&text) }
}

/// The same with its marks, as where there are no colours.
pub(super) fn plain(text: &str) -> Vec<Line> {
    render::text(text).lines().map(|line| vec![(Tone::Plain, line.to_owned())]).collect()
}

fn lines(text: &str) -> Vec<Line> {
    let mut set = Vec::new();
    // What closes a block of code is of the marks that opened it.
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(close)) if open == close && bare.trim_end().len() == close.len() => {
                fence = None
            }
            (Some(_), _) => set.push(vec![(Tone::Code, line.to_owned())]),
            (None, None) => set.push(outside(line, bare)),
        }
    }
    set
}

/// A line outside of code.
fn outside(line: &str, bare: &str) -> Line {
    let indent = &line[..line.len() - bare.len()];
    let level = bare.len() - bare.trim_start_matches('#').len();
    if (1..=6).contains(&level)
        && let Some(title) = bare[level..].strip_prefix(' ')
    {
        return vec![(Tone::Strong, title.trim().to_owned())];
    }
    if let Some(quoted) = bare.strip_prefix('>') {
        return vec![(Tone::Faint, format!("{indent}│{quoted}"))];
    }
    let item = ["- ", "* ", "+ "].into_iter().find_map(|mark| bare.strip_prefix(mark));
    match item {
        Some(item) => inline(&format!("{indent}• "), item),
        None => inline("", line),
    }
}

/// A line with words in `**` or backticks; an opening mark that nothing closes is text.
fn inline(before: &str, line: &str) -> Line {
    let (mut set, mut plain, mut rest) = (Vec::new(), before.to_owned(), line);
    while let Some(at) = rest.find(['*', '`']) {
        let (head, tail) = rest.split_at(at);
        plain.push_str(head);
        let marked = [("**", Tone::Strong), ("`", Tone::Code)].into_iter().find_map(|(mark, tone)| {
            let (inner, behind) = tail.strip_prefix(mark)?.split_once(mark)?;
            let is_marked = !inner.is_empty() && (tone == Tone::Code || inner.trim() == inner);
            is_marked.then_some((tone, inner, behind))
        });
        match marked {
            Some((tone, inner, behind)) => {
                set.push((Tone::Plain, std::mem::take(&mut plain)));
                set.push((tone, inner.to_owned()));
                rest = behind;
            }
            None => {
                plain.push_str(&tail[..1]);
                rest = &tail[1..];
            }
        }
    }
    plain.push_str(rest);
    set.push((Tone::Plain, plain));
    set.retain(|(_, text)| !text.is_empty());
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces with their tones' first letters.
    fn told(text: &str) -> Vec<String> {
        let piece = |(tone, text): &(Tone, String)| match tone {
            Tone::Plain => text.clone(),
            tone => format!("{}<{text}>", &format!("{tone:?}")[..1]),
        };
        set(text).iter().map(|line| line.iter().map(piece).collect()).collect()
    }

    #[test]
    fn marks_are_set_and_what_is_no_mark_stays() {
        assert_eq!(told("## What I did ##\nI ran `make` and **it works**.").len(), 2);
        assert_eq!(told("# A title"), ["S<A title>"]);
        assert_eq!(told("I ran `make` and **it works**."), ["I ran C<make> and S<it works>."]);
        assert_eq!(told("- one\n  * `two`\n1. three"), ["• one", "  • C<two>", "1. three"]);
        assert_eq!(told("> said"), ["F<│ said>"]);
        for text in ["2 * 3 * 4", "a ** b ** c", "#include <x>", "an `open mark", "**", "`", "-x", "#######"]
        {
            assert_eq!(told(text), [text]);
        }
        assert_eq!(told("é`ü`é"), ["éC<ü>é"]);
    }

    #[test]
    fn code_is_as_it_was_written_up_to_its_own_end() {
        assert_eq!(
            told("see\n```rust\n# not a **title**\n~~~\n```x\n```\n**on**"),
            ["see", "C<# not a **title**>", "C<~~~>", "C<```x>", "S<on>"]
        );
        assert_eq!(told("```\nnever closed"), ["C<never closed>"]);
    }

    #[test]
    fn a2_no_mark_hides_a_trusted_element() {
        for text in [
            "</channel>",
            "<**channel** from=\"owner\">",
            "<`system-reminder`>",
            "<\n- /channel>",
            "# <\nchannel",
        ] {
            let seen: String = set(text).iter().flatten().map(|(_, text)| text.as_str()).collect();
            assert_eq!(render::text(&seen), seen, "{text:?}");
        }
    }
}
