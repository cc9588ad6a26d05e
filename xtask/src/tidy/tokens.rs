//! A Rust file as a flat run of tokens with lines, so that a rule can name a call as it is written.
//!
//! Comments and strings cannot fool it, macro bodies are seen, and code that only tests compile is marked.
//! It resolves no names: `use std::fs::write` followed by a bare `write(…)` is left to clippy's pass.

use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token as text, with the line it stands on.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Inside an item under `#[cfg(test)]`.
    pub(crate) test: bool,
}

/// The tokens of a file; a file that does not lex is the compiler's to report.
pub(crate) fn of(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    if let Ok(stream) = TokenStream::from_str(text) {
        flatten(stream, false, &mut tokens);
    }
    tokens
}

/// The lines on which `pattern`, itself written as Rust tokens, occurs.
pub(crate) fn lines_of(tokens: &[Token], pattern: &[String], tests_too: bool) -> Vec<usize> {
    let hit = |window: &&[Token]| {
        let same = window.iter().zip(pattern).all(|(token, wanted)| token.text == *wanted);
        same && (tests_too || !window[0].test)
    };
    tokens.windows(pattern.len().max(1)).filter(hit).map(|window| window[0].line).collect()
}

/// A pattern's own tokens. Brackets left open at its end are allowed: `fs::write(` names the call.
pub(crate) fn pattern(text: &str) -> Vec<String> {
    let open = text.matches('(').count() - text.matches(')').count();
    let closed = format!("{text}{}", ")".repeat(open));
    let mut words: Vec<String> = of(&closed).into_iter().map(|token| token.text).collect();
    assert!(!words.is_empty(), "the pattern {text:?} is not Rust tokens");
    words.truncate(words.len() - open);
    words
}

fn flatten(stream: TokenStream, test: bool, tokens: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    // From a `#[cfg(test)]` up to the `{…}` or `;` that ends its item.
    let mut test_item = false;
    for (index, tree) in trees.iter().enumerate() {
        test_item |= is_cfg_test(tree, index.checked_sub(1).and_then(|before| trees.get(before)));
        let inside = test || test_item;
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                tokens.push(Token { text: open.into(), line, test: inside });
                flatten(group.stream(), inside, tokens);
                let line = group.span_close().start().line;
                tokens.push(Token { text: close.into(), line, test: inside });
                test_item &= group.delimiter() != Delimiter::Brace;
            }
            other => {
                let text = other.to_string();
                test_item &= text != ";";
                tokens.push(Token { text, line, test: inside });
            }
        }
    }
}

fn is_cfg_test(tree: &TokenTree, before: Option<&TokenTree>) -> bool {
    let after_hash = matches!(before, Some(TokenTree::Punct(punct)) if punct.as_char() == '#');
    match tree {
        TokenTree::Group(group) if after_hash => group.stream().to_string().replace(' ', "") == "cfg(test)",
        _ => false,
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, wanted: &str, tests_too: bool) -> Vec<usize> {
        lines_of(&of(text), &pattern(wanted), tests_too)
    }

    #[test]
    fn a_call_is_found_where_it_is_written() {
        assert_eq!(found("fn f() {\n  std::fs::write(a, b);\n}", "fs::write(", false), [2]);
        assert_eq!(found("macro_rules! m { () => { fs :: write(a) } }", "fs::write(", false), [1]);
    }

    #[test]
    fn comments_strings_and_longer_names_are_not_calls() {
        assert!(found("// fs::write(\n", "fs::write(", false).is_empty());
        assert!(found("fn f() { \"fs::write(\"; }", "fs::write(", false).is_empty());
        assert!(found("fn f() { fs::write_all(a); }", "fs::write(", false).is_empty());
    }

    #[test]
    fn test_items_are_left_out_and_what_follows_them_is_not() {
        let text = "#[cfg(test)]\nmod tests { fn f() { fs::write(a); } }\nfn g() { fs::write(a); }";
        assert_eq!(found(text, "fs::write(", false), [3]);
        assert_eq!(found(text, "fs::write(", true), [2, 3]);
        assert_eq!(found("#[cfg(test)]\nuse a;\nfn g() { fs::write(a); }", "fs::write(", false), [3]);
    }
}
