//! The screen of one attachment: the transcript above, the line that is typed below.

use std::collections::VecDeque;

use netsky_disk::clock;
use netsky_kernel::attach::{Reader, Typed};
use netsky_model::id::AgentId;
use netsky_runtime::driver::{Ask, AskKind};
use netsky_runtime::transcript::{Piece, Transcript};

use super::page::Page;
use super::prompt::{Done, ERASE, NO_PASTES, PASTES, Prompt};
use crate::context::Context;
use crate::error::Error;
use crate::palette::Tone;
use crate::verb::agent::answer;
use crate::verb::channel::send_as_owner;

/// Of what was said before, so many pieces are shown, …
const PIECES: usize = 60;
/// … of no more bytes than these together.
const BYTES: usize = 128 << 10;
/// So many characters of an id name the only question: fewer may be how an answer begins.
const NAMED: usize = 6;
/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;

/// What is shown, and how it came to be.
pub(super) struct View<'a> {
    cx: &'a Context,
    transcript: Transcript,
    page: Page,
    /// What was said before we came, the last of it; none once it is shown.
    before: Option<Before>,
    /// The line; none where nothing is typed.
    prompt: Option<Prompt>,
    /// Ids of what was asked when the line was begun: an answer is to what stood there.
    asked: Vec<String>,
}

/// The end of what was said, set.
#[derive(Default)]
struct Before {
    pieces: VecDeque<String>,
    bytes: usize,
    left_out: bool,
}

impl Before {
    fn push(&mut self, piece: String) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
        while self.pieces.len() > PIECES || (self.bytes > BYTES && self.pieces.len() > 1) {
            self.bytes -= self.pieces.pop_front().map_or(0, |piece| piece.len());
            self.left_out = true;
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn new(
        cx: &'a Context,
        transcript: Transcript,
        page: Page,
        prompt: Option<Prompt>,
    ) -> View<'a> {
        View { cx, transcript, page, before: Some(Before::default()), prompt, asked: Vec::new() }
    }

    /// The line as it was left.
    pub(super) fn into_prompt(self) -> Option<Prompt> {
        self.prompt
    }

    fn agent(&self) -> &AgentId {
        &self.page.agent
    }

    /// Shows what happened, or keeps it until all is read that was there before.
    fn show(&mut self, pieces: Vec<Piece>) -> Vec<u8> {
        let mut shown = String::new();
        for piece in &pieces {
            let set = self.page.set(piece);
            match &mut self.before {
                _ if set.is_empty() => {}
                // Whether it waits for an answer is known at the end.
                Some(_) if matches!(piece, Piece::Asked(_)) => {}
                Some(before) => before.push(set),
                None => shown.push_str(&set),
            }
        }
        // What it does stands before the line, and may have changed without a word.
        self.above(&shown)
    }

    /// What stands above the line, and the line again.
    fn above(&self, shown: &str) -> Vec<u8> {
        match &self.prompt {
            _ if self.before.is_some() => Vec::new(),
            None => shown.as_bytes().to_vec(),
            Some(prompt) => {
                let line = prompt.draw(&self.label(), self.page.columns.unwrap_or(COLUMNS));
                format!("{ERASE}{shown}{line}").into_bytes()
            }
        }
    }

    fn label(&self) -> String {
        let doing = self.transcript.doing();
        match doing.is_busy() {
            true => format!("{} {}> ", self.agent(), doing.word()),
            false => format!("{}> ", self.agent()),
        }
    }

    /// A line was entered; what is said of it.
    fn entered(&self, line: &str) -> String {
        let done = match line.strip_prefix('/') {
            _ if line.trim().is_empty() => return String::new(),
            None => self.send(line),
            Some(text) if text.starts_with('/') => self.send(text),
            Some(command) => {
                let (verb, words) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
                match verb {
                    "allow" => self.answer(true, words.trim()),
                    "deny" => self.answer(false, words.trim()),
                    _ => Ok(format!(
                        "there is no /{verb}; there are /allow and /deny, and //{verb} sends /{verb}: nothing was sent"
                    )),
                }
            }
        };
        match done {
            Ok(what) => self.page.say(Tone::Faint, &what),
            Err(error) => self.page.say(Tone::Bad, &error.to_string()),
        }
    }

    fn send(&self, text: &str) -> Result<String, Error> {
        let sent = send_as_owner(self.cx, self.agent(), text, None)?;
        Ok(format!("sent {} to {}", sent.id, self.agent()))
    }

    /// Answers what it asks: the question that is named, or the only one there is.
    fn answer(&self, allow: bool, words: &str) -> Result<String, Error> {
        let verb = if allow { "allow" } else { "deny" };
        let asks = self.transcript.asks();
        let (first, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let Ok(named) = Ask::find(asks, first) else {
            return Ok(format!("several questions begin with {first}: nothing was answered"));
        };
        // Where only one waits nobody has to name it, and an answer may begin as its id does.
        let is_meant = asks.len() > 1 || first.chars().count() >= NAMED;
        let named = named.filter(|ask| is_meant || ask.id == first);
        let (ask, words) = match (named, asks) {
            (Some(ask), _) => (ask, rest.trim()),
            (None, []) => return Ok(format!("{} asks nothing: nothing was answered", self.agent())),
            // A word for it means nothing, and may be an id that was mistyped.
            (None, [ask]) if allow && ask.kind == AskKind::Permission && !words.is_empty() => {
                return Ok(format!(
                    "no question begins with {first}; it asks {}: nothing was answered",
                    ask.id
                ));
            }
            (None, [ask]) if self.asked.contains(&ask.id) => (ask, words),
            (None, [_]) => {
                return Ok(
                    "another question came while you typed: look at it, and answer once more".to_owned()
                );
            }
            (None, _) => return Ok(format!("it asks several things: /{verb} and the beginning of an id")),
        };
        let words = (!words.is_empty()).then(|| words.to_owned());
        let asked = answer(self.cx, self.agent(), &ask.id, allow, words)?;
        Ok(format!("{} is told: {verb} {}", self.agent(), asked.text))
    }
}

impl Reader for View<'_> {
    fn output(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let pieces = self.transcript.take(offset, bytes, clock::wall());
        self.show(pieces)
    }

    fn gap(&mut self, from: u64, to: u64) -> Vec<u8> {
        let missing = to.saturating_sub(from);
        let said = self.page.say(Tone::Note, &format!("── {missing} bytes are no longer kept"));
        if let Some(before) = &mut self.before {
            before.push(said);
            let pieces = self.transcript.skip_to(to);
            return self.show(pieces);
        }
        let mut shown = self.above(&said);
        let pieces = self.transcript.skip_to(to);
        shown.extend(self.show(pieces));
        shown
    }

    fn caught_up(&mut self) -> Vec<u8> {
        let Some(before) = self.before.take() else { return Vec::new() };
        let mut shown = String::new();
        if self.prompt.is_some() {
            shown.push_str(PASTES);
        }
        if before.left_out {
            shown.push_str(&self.page.say(Tone::Faint, "── what was said before is not shown"));
        }
        shown.extend(before.pieces);
        for ask in self.transcript.asks() {
            shown.push_str(&self.page.asked(ask));
        }
        self.above(&shown)
    }

    fn keys(&mut self, bytes: &[u8]) -> Typed {
        let Some(prompt) = &mut self.prompt else { return Typed::default() };
        if prompt.is_empty() {
            self.asked = self.transcript.asks().iter().map(|ask| ask.id.clone()).collect();
        }
        let (mut typed, mut shown) = (Typed::default(), String::new());
        let all = prompt.take(bytes);
        for done in all {
            match done {
                Done::Line(line) => shown.push_str(&self.entered(&line)),
                Done::Leave => typed.leaves = true,
                Done::Interrupt => shown.push_str(&self.page.say(Tone::Faint, "ctrl-d leaves")),
                Done::Refused => shown.push('\u{7}'),
            }
        }
        typed.shown = self.above(&shown);
        typed
    }

    fn window(&mut self, columns: u16) -> Vec<u8> {
        self.page.columns = Some(columns.into());
        let mut shown = self.above("");
        if self.prompt.is_some() {
            // Whoever had the terminal meanwhile has undone it.
            shown.extend_from_slice(PASTES.as_bytes());
        }
        shown
    }

    fn undo(&self) -> Vec<u8> {
        match &self.prompt {
            Some(_) => format!("{ERASE}{NO_PASTES}").into_bytes(),
            None => Vec::new(),
        }
    }
}
