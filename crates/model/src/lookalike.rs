//! Which plain character another one could be read as, for matching only: nothing is ever rewritten by it.
//!
//! Promise: what compatibility normalisation, case, an accent or the likeness of another script makes of a bracket or of
//! the letters of a trusted name, comes out as the plain ASCII character. It errs on the side of seeing a likeness:
//! the price is a bracket that is shown escaped. Left out: whole words of other scripts, digits for letters.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Whether a reader could take `c` for `<`.
pub(crate) fn is_open_bracket(c: char) -> bool {
    // Decomposed: a bracket with a stroke through it is a bracket to who drops the stroke.
    let first = if c.is_ascii() { c } else { std::iter::once(c).nfkd().next().unwrap_or(c) };
    matches!(
        first,
        '<' | '‹' | '˂' | '〈' | '⟨' | '❬' | '❮' | '❰' | 'ᐸ' | 'ᚲ' | '≺' | '⋖' | '⧼' | '\u{1d236}'
    )
}

/// The plain lower-case characters that a reader could see in `text`, one after the other, without what is between
/// or upon them: white space, accents, blanks of any kind.
pub(crate) fn read<'a>(text: &'a [char]) -> impl Iterator<Item = char> + 'a {
    let lower = text.iter().copied().nfkd().flat_map(char::to_lowercase);
    lower.filter(|c| !c.is_whitespace() && !is_combining_mark(*c) && *c != '\u{2800}').map(plain)
}

/// The ASCII character that looks like `c`, as far as trusted names are written with it.
fn plain(c: char) -> char {
    match c {
        'а' | 'ɑ' | 'α' | 'ᴀ' => 'a',
        'с' | 'ς' | 'ᴄ' => 'c',
        'ԁ' | 'ᴅ' => 'd',
        'е' | 'ε' | 'ᴇ' => 'e',
        'ꜰ' | 'ғ' => 'f',
        'ɡ' | 'ɢ' => 'g',
        'һ' | 'հ' | 'н' | 'η' | 'ʜ' => 'h',
        'і' | 'ι' | 'ı' | 'ɪ' => 'i',
        'ӏ' | 'ǀ' | 'ʟ' => 'l',
        'м' | 'μ' | 'ᴍ' => 'm',
        'ո' | 'п' | 'ν' | 'ɴ' => 'n',
        'о' | 'ο' | 'օ' | 'ᴏ' => 'o',
        'г' | 'ʀ' => 'r',
        'ѕ' | 'ꜱ' => 's',
        'т' | 'τ' | 'ᴛ' => 't',
        'ս' | 'υ' | 'ᴜ' => 'u',
        'у' | 'ʏ' => 'y',
        '‐'..='―' | '−' | '⁃' => '-',
        '⁄' | '∕' | '⧸' | '╱' => '/',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> String {
        read(&text.chars().collect::<Vec<_>>()).collect()
    }

    #[test]
    fn a2_names_are_read_through_width_case_accent_and_script() {
        for text in [
            "channel",
            "ＣＨＡＮＮＥＬ",
            "c h\ta\nnnel",
            "𝐜𝐡𝐚𝐧𝐧𝐞𝐥",
            "ⓒⓗⓐⓝⓝⓔⓛ",
            "сhаnnеl",
            "СНАNNЕL",
            "ᴄʜᴀɴɴᴇʟ",
            "ch̶ánñe̵l",
        ] {
            assert_eq!(word(text), "channel", "{text:?}");
        }
        assert_eq!(word("ſystem\u{2011}remınder"), "system-reminder");
        assert!(['<', '＜', '﹤', '≮', '〈', '‹'].into_iter().all(is_open_bracket));
        assert!(!['>', '(', '[', '«', 'a', '='].into_iter().any(is_open_bracket));
    }
}
