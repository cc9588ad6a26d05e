//! Debug residue: what was meant for one afternoon does not land.

use super::{Offence, tokens};
use crate::tree::Source;

/// Macros that are never finished work.
const UNFINISHED: &[&str] = &["dbg", "todo", "unimplemented"];

/// Macros that print; only the faces do.
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Who prints: the cli to people, xtask to developers, sim the seed of a test.
const MAY_PRINT: &[&str] = &["cli", "xtask", "sim"];

/// Words that mark a place to come back to.
const MARKS: &[&str] = &["FIXME", "XXX"];

pub(crate) fn check(source: &Source) -> Vec<Offence> {
    let mut offences = Vec::new();
    let tokens = tokens::of(&source.text);
    let prints = source.is_test() || source.package().is_some_and(|name| MAY_PRINT.contains(&name));
    for pair in tokens.windows(2).filter(|pair| pair[1].text == "!") {
        let (name, line) = (pair[0].text.as_str(), pair[0].line);
        if UNFINISHED.contains(&name) {
            let what = format!("{name}! is debug residue");
            offences.push(Offence::new(&source.path, line, what, "finish it or take it out"));
        }
        if PRINTING.contains(&name) && !prints && !pair[0].test {
            let what = format!("{name}! outside the cli");
            offences.push(Offence::new(
                &source.path,
                line,
                what,
                "return what happened; only the cli prints",
            ));
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        let Some(mark) = unowned_mark(line) else { continue };
        let what = format!("{mark} without an issue");
        offences.push(Offence::new(&source.path, index + 1, what, "name the issue (#12) or settle it"));
    }
    offences
}

/// The mark that a comment begins with and that names no issue. Text that speaks of such marks is no mark.
fn unowned_mark(line: &str) -> Option<&'static str> {
    let (code, comment) = line.split_once("//")?;
    // Behind an odd number of quotes the slashes stand in a string.
    if code.replace("\\\"", "").matches('"').count() % 2 == 1 {
        return None;
    }
    let mut words = comment.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next()?;
    let mark = MARKS.iter().find(|mark| **mark == first)?;
    let owned =
        comment.split('#').skip(1).any(|after| after.starts_with(|digit: char| digit.is_ascii_digit()));
    if owned { None } else { Some(mark) }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn caught(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn unfinished_macros_are_caught_also_in_tests() {
        assert_eq!(caught("crates/bus/src/a.rs", "fn f() { dbg!(1); todo!() }"), 2);
        assert_eq!(caught("crates/bus/tests/it/a.rs", "fn f() { unimplemented!() }"), 1);
    }

    #[test]
    fn printing_is_for_the_cli() {
        assert_eq!(caught("crates/bus/src/a.rs", "fn f() { println!(); eprintln!() }"), 2);
        assert_eq!(caught("crates/cli/src/a.rs", "fn f() { println!() }"), 0);
        assert_eq!(caught("crates/bus/src/a.rs", "#[cfg(test)] mod t { fn f() { println!() } }"), 0);
    }

    #[test]
    fn a_mark_without_an_issue_is_caught() {
        assert_eq!(caught("crates/bus/src/a.rs", concat!("// FIX", "ME later\n")), 1);
        assert_eq!(caught("crates/bus/src/a.rs", concat!("// XX", "X\n")), 1);
        assert_eq!(caught("crates/bus/src/a.rs", concat!("// FIX", "ME (#12) later\n")), 0);
        assert_eq!(caught("crates/bus/src/a.rs", concat!("let a = 1; // FIX", "ME: two\n")), 1);
        assert_eq!(caught("crates/bus/src/a.rs", concat!("/// Counts each FIX", "ME of a file\n")), 0);
        assert_eq!(caught("crates/bus/src/a.rs", concat!("let a = \"x\\n// FIX", "ME y\";\n")), 0);
        assert_eq!(caught("crates/bus/src/a.rs", "let name = \"XXXXXX\"; // made by mkstemp\n"), 0);
    }
}
