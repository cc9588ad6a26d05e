//! Words that are no ids, and names that try to pass for others.

use super::Random;

const PARTS: [&str; 34] = [
    "..",
    "../",
    "/",
    "\\",
    "\0",
    " ",
    "A",
    "é",
    "\u{202e}",
    "\n",
    "\r",
    "\t",
    "%2f",
    "%00",
    "~",
    "$HOME",
    "${PATH}",
    ".",
    "agent0",
    "-",
    "\u{1b}[2J",
    "`id`",
    "$(id)",
    "';--",
    "\"",
    "*",
    "?",
    "owner",
    "peer:",
    ":",
    "\u{200b}",
    "ａ",
    "/etc/passwd",
    "\u{feff}",
];

/// A word that is not of the form `[a-z0-9][a-z0-9-]{0,63}`, nor a peer's sender.
pub fn bad_id(random: &mut Random) -> String {
    loop {
        let text: String = match random.below(8) {
            0 => "a".repeat(65 + random.below(300)),
            1 => format!("-{}", random.pick(&["a", "rf", "-help", "-json", "0"])),
            2 => (0..1 + random.below(6)).map(|_| random.character()).collect(),
            3 => {
                // One wrong character in an id that is right otherwise.
                let mut right: Vec<char> = "agent0-0a1b2c3d".chars().collect();
                let at = random.below(right.len());
                right[at] = random.character();
                right.into_iter().collect()
            }
            _ => (0..1 + random.below(6)).map(|_| random.pick(&PARTS)).collect(),
        };
        let of_words = |text: &str| {
            let tame = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=64).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(tame)
        };
        let peer = text.strip_prefix("peer:").and_then(|rest| rest.split_once('/'));
        if !of_words(&text) && !peer.is_some_and(|(name, agent)| of_words(name) && of_words(agent)) {
            return text;
        }
    }
}

/// A name dressed up as another: case, look-alikes, blanks, what hides, what a C string ends at.
///
/// Never the name itself.
pub fn disguised(random: &mut Random, name: &str) -> String {
    const LOOKALIKES: [(char, &str); 10] = [
        ('a', "аɑａÀ"),
        ('c', "сｃ"),
        ('e', "еｅé"),
        ('g', "ɡｇ"),
        ('i', "іıｉ"),
        ('n', "ոｎñ"),
        ('o', "оο０"),
        ('p', "рｐ"),
        ('t', "тｔ"),
        ('y', "уｙ"),
    ];
    loop {
        let mut out: Vec<char> = name.chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(out.len());
            match random.below(5) {
                0 => out[at] = out[at].to_ascii_uppercase(),
                1 => {
                    let of = LOOKALIKES.iter().find(|(letter, _)| *letter == out[at]);
                    if let Some((_, twins)) = of {
                        let twins: Vec<char> = twins.chars().collect();
                        out[at] = random.pick(&twins);
                    }
                }
                2 => out.insert(
                    at,
                    random.pick(&['\u{200b}', '\u{ad}', '\u{202e}', '\u{301}', '\u{feff}', '\u{e0041}']),
                ),
                3 => out.push(random.pick(&['\0', ' ', '\n', '\t', '\r', '\u{a0}', '.', '/', '\u{1b}'])),
                _ => out.insert(0, random.pick(&[' ', '\n', '\0', '\u{feff}', '/', '@', '-'])),
            }
        }
        let out: String = out.into_iter().collect();
        if out != name {
            return out;
        }
    }
}
