//! A person at the terminal of a session: output from the worker's log, keys to its program.
//!
//! Promise: the session never notices whether somebody is attached, and the person's terminal is as it was,
//! however this ends: detached, ended, by a signal that can be caught, or a panic; also where only its output is that
//! terminal. With no keys at hand it only streams, until its input ends. With `read_only` nothing reaches the program,
//! not even the size of the window.
//!
//! A terminal is shown the screen as it is. Elsewhere, and by a worker that cannot show its screen, what was printed last is
//! shown first, without what would make the terminal answer into the session's input.
//! Left to others: the picture of the screen (`worker`), what lines of a program mean ([`Reader`]), what to tell the person
//! afterwards (`cli`).

mod circle;
mod keys;
mod modes;
mod pastes;
mod quiet;
mod reach;
mod reader;
mod rest;
mod signals;
mod terminal;

pub use keys::{BadKey, DetachKey};
pub use reach::{connect, successor};
pub use reader::{Reader, Typed, read};

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::layout::KernelLayout;
use netsky_disk::process::Signal;
use netsky_disk::wake::Wake;
use netsky_model::id::AgentId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::frame::{FromWorker, PICTURE_COLS, PICTURE_ROWS, Refusal, RefusalKind};
use crate::output_log::LogError;
use crate::session::{End, WorkerHello};
use crate::worker_client::{WorkerClient, WorkerError};
use circle::Circle;
use keys::Keys;
use modes::Modes;
use pastes::{Pastes, Piece, Silence};
use quiet::Quiet;
use terminal::Terminal;

/// How much of what was printed before is shown: a few full screens, in a blink.
const TAIL: u64 = 64 << 10;
/// Bytes of keys read at once; a paste comes in more pieces.
const KEYS: usize = 4096;
/// How long a worker may take to say what it refused of what was typed last; its loop comes round in milliseconds.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What to attach to, and how.
#[derive(Debug)]
pub struct Options {
    /// The kernel root.
    pub layout: KernelLayout,
    /// The session.
    pub name: AgentId,
    /// Look, but do not touch.
    pub read_only: bool,
    /// Which key leaves.
    pub detach: DetachKey,
}

/// How an attachment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// By the key, or because the input or output of this terminal ended. The session runs on.
    Detached,
    /// The same, and not everything that was typed is with the program.
    Untyped(Untyped),
    /// By a signal to this process. The session runs on.
    Signalled(i32),
    /// The session ended.
    Ended(End),
    /// The session's worker died; nobody has written down an end yet.
    WorkerDied,
}

/// What was typed and is not with the program; of several the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untyped {
    /// A key or a paste, whole: the program does not read, and what waits for it leaves no room.
    NoRoom,
    /// A paste, whole, as it was too long.
    TooLong,
    /// A paste, whole, that had not ended, or did not for so long that it was given up.
    Unended,
}

/// Why there was nothing to attach to, or the attachment broke.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no such session under this root.
    #[error("no session {name}")]
    NoSession {
        /// What was asked for.
        name: AgentId,
    },
    /// Its program has ended.
    #[error("session {name} does not run: {how}")]
    NotRunning {
        /// The session.
        name: AgentId,
        /// How it ended.
        how: End,
    },
    /// We are one of its own programs: its output would be its input.
    #[error("{name} cannot be attached to from inside itself: what it prints would be printed by it")]
    Itself {
        /// The session.
        name: AgentId,
    },
    /// What it prints came back to us.
    #[error(
        "{name} cannot be attached to from here: it is shown this terminal, so that what it prints comes back"
    )]
    Circle {
        /// The session.
        name: AgentId,
    },
    /// It is not for us to type into.
    #[error("{0}")]
    Refused(String),
    /// Its description cannot be read.
    #[error("{0}")]
    Meta(String),
    /// Its worker cannot be talked to.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Its log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Where its output goes takes no more, and is no terminal.
    #[error("write what it prints: {0}")]
    Output(std::io::Error),
    /// This terminal cannot be used.
    #[error("use this terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// Attach this process's standard input and output to a session until one of them ends; `client` is from [`connect`].
///
/// # Errors
/// Its worker or this terminal cannot be used.
pub fn attach(options: &Options, client: WorkerClient) -> Result<Left, AttachError> {
    Attached::new(options, client, None)?.until_left()
}

/// Whether a worker's picture is all there is to see in a window of that size, and has the keyboard as the program has put
/// it. A program that is asked to paint may lose what it will not paint again, as an editor its message: it is asked only
/// where the picture has less.
fn is_whole(hello: &WorkerHello, size: Option<(u16, u16)>) -> bool {
    hello.keyboard && size.is_none_or(|(rows, cols)| rows <= PICTURE_ROWS && cols <= PICTURE_COLS)
}

/// What standard input is to an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// A person's keys.
    Keys,
    /// No terminal: nothing is typed from it, and its end ends the attachment.
    Unused,
    /// It has ended, and what was printed until we came is still to be shown.
    Ended,
    /// Not looked at: a terminal whose output goes elsewhere, or whose typing has ended.
    Ignored,
}

impl Input {
    fn find() -> Input {
        match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) => Input::Keys,
            (true, false) => Input::Ignored,
            (false, _) => Input::Unused,
        }
    }
}

/// One attachment while it lasts.
struct Attached<'a> {
    options: &'a Options,
    client: WorkerClient,
    wake: Wake,
    /// Signals that came while output was written.
    pending: Vec<Signal>,
    /// Where output is shown, if that is one.
    terminal: Option<Terminal>,
    keys: Keys,
    pastes: Pastes,
    silence: Silence,
    untyped: Option<Untyped>,
    input: Input,
    /// Next offset to be shown.
    at: u64,
    /// Output before this offset is a replay.
    replay_end: u64,
    /// Whether output was asked for; a picture comes with it.
    following: bool,
    /// Whether its worker can show the screen of its program here.
    painted: bool,
    /// Output is passed by until the picture comes that was asked for.
    skips: bool,
    /// A replay that starts inside a line is shown from the next one on.
    in_line: bool,
    quiet: Quiet,
    modes: Modes,
    circle: Option<Circle>,
    /// Why what was to be shown could not be written, where that is no terminal and somebody still reads it.
    unwritten: Option<Errno>,
    /// Who understands the output, where it is not shown as it is.
    reader: Option<&'a mut dyn Reader>,
    /// Whether the reader knows that all was told it that was printed before we came.
    is_caught_up: bool,
}

impl<'a> Attached<'a> {
    fn new(
        options: &'a Options,
        client: WorkerClient,
        reader: Option<(u64, &'a mut dyn Reader)>,
    ) -> Result<Attached<'a>, AttachError> {
        let input = Input::find();
        let has_screen = std::io::stdout().is_terminal();
        let log = client.hello().log;
        let (from, reader) = match reader {
            Some((from, reader)) => (from, Some(reader)),
            None => (log.end.saturating_sub(TAIL).max(log.base), None),
        };
        // A program on pipes is typed to by lines, as this terminal is used to. A reader has a line of its own.
        let raw = input == Input::Keys && (client.hello().pty || reader.is_some());
        let wake = Wake::catch(&signals::caught(has_screen, raw))?;
        let terminal = if has_screen { Some(Terminal::enter(raw)?) } else { None };
        let painted = raw && client.hello().screen && reader.is_none();
        let mut leave = vec![options.detach];
        if options.read_only {
            leave.push(DetachKey::INTERRUPT);
        }
        let mut attached = Attached {
            options,
            client,
            wake,
            pending: Vec::new(),
            terminal,
            keys: Keys::new(leave),
            pastes: Pastes::default(),
            silence: Silence::default(),
            untyped: None,
            input,
            at: from,
            replay_end: log.end,
            following: !painted,
            painted,
            skips: false,
            in_line: from > log.base,
            quiet: Quiet::default(),
            modes: Modes::default(),
            // A reader prints nothing that was not understood, and that mark is nothing to understand.
            circle: if reader.is_some() { None } else { Circle::find() },
            unwritten: None,
            reader,
            is_caught_up: false,
        };
        if attached.reader.is_some() {
            attached.note_undo();
        }
        // The size first, so that the screen is painted in it.
        let size = attached.tell_size()?;
        if !painted || !is_whole(attached.client.hello(), size) {
            attached.ask_to_paint()?;
        }
        if painted {
            attached.client.screen()?;
        } else {
            attached.client.follow(from)?;
        }
        Ok(attached)
    }

    /// Goes on until it is left.
    fn until_left(mut self) -> Result<Left, AttachError> {
        let left = match self.run() {
            // What looked like a terminal that takes no more was a signal.
            Ok(Left::Detached) => Ok(self.pending_end().unwrap_or_else(|| self.detached())),
            left => left,
        };
        // First the person's terminal, then whatever is to be said about it.
        self.terminal = None;
        self.unwritten.take().map_or(left, |error| Err(AttachError::Output(error.into())))
    }

    fn is_raw(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_raw)
    }

    fn run(&mut self) -> Result<Left, AttachError> {
        loop {
            while let Some(frame) = self.client.buffered()? {
                if let Some(left) = self.show(frame)? {
                    return Ok(left);
                }
            }
            if self.at >= self.replay_end && !self.catch_up() {
                return Ok(Left::Detached);
            }
            if self.input == Input::Ended && self.at >= self.replay_end {
                return Ok(Left::Detached);
            }
            let [signalled, typed, said] = match self.pending.is_empty() {
                true => self.wait()?,
                false => [true, false, false],
            };
            if signalled && let Some(left) = self.signals()? {
                return Ok(left);
            }
            if said && !self.client.read()? {
                return self.after_the_worker();
            }
            if typed {
                if let Some(left) = self.typed()? {
                    return Ok(left);
                }
            } else if !signalled && self.keys.in_paste() && self.silence.next().is_none() {
                self.keys.give_up_paste();
                if self.pastes.give_up() {
                    self.refused(Untyped::Unended);
                }
                self.end_readers_paste();
            }
        }
    }

    /// Wait for a signal, a key, the worker or the end of a look for more of a paste; which of them came.
    fn wait(&mut self) -> Result<[bool; 3], AttachError> {
        let stdin = std::io::stdin();
        let mut fds = vec![self.wake.as_fd(), self.client.as_fd()];
        if matches!(self.input, Input::Keys | Input::Unused) {
            fds.push(stdin.as_fd());
        }
        let mut polled: Vec<PollFd<'_>> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Nobody types into a paste for ever whose end is lost.
        let waits = self.keys.in_paste().then(|| self.silence.next().unwrap_or_default());
        let waits = waits.and_then(|waits| Timespec::try_from(waits).ok());
        match poll(&mut polled, waits.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(AttachError::Terminal(e.into())),
        }
        let came = |index: usize| polled.get(index).is_some_and(|fd: &PollFd<'_>| !fd.revents().is_empty());
        let came = [came(0), came(2), came(1)];
        self.silence.look(clock::boot());
        Ok(came)
    }

    /// Tell the program how large the window is, and what was told; one of the same size it does not notice.
    fn tell_size(&mut self) -> Result<Option<(u16, u16)>, AttachError> {
        if self.reader.is_some() {
            return Ok(self.tell_reader_size());
        }
        if !self.is_raw() || self.options.read_only {
            return Ok(None);
        }
        let size = terminal::size();
        if let Some((rows, cols)) = size {
            self.client.resize(rows, cols)?;
        }
        Ok(size)
    }

    /// Have the program paint, for want of a picture.
    fn ask_to_paint(&mut self) -> Result<(), AttachError> {
        if self.is_raw() && !self.options.read_only && self.reader.is_none() {
            self.client.signal(Signal::WINCH.as_raw())?;
        }
        Ok(())
    }

    fn typed(&mut self) -> Result<Option<Left>, AttachError> {
        let mut bytes = [0; KEYS];
        let read = match rustix::io::read(std::io::stdin(), &mut bytes[..]) {
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            // The terminal is gone.
            Err(_) => return Ok(Some(Left::Detached)),
        };
        if self.input == Input::Unused {
            self.input = if read == 0 { Input::Ended } else { Input::Unused };
            return Ok(None);
        }
        if read == 0 {
            // On pipes an end-of-file key only ends the typing.
            self.input = Input::Ignored;
            return Ok(self.is_raw().then_some(Left::Detached));
        }
        if !self.keys.are_leaving(&bytes[..read]) {
            self.silence.end();
        }
        let (forward, leaves) = self.keys.take(&bytes[..read]);
        if let Some(reader) = &mut self.reader {
            let typed = reader.keys(&forward);
            self.write(&typed.shown);
            return Ok((leaves || typed.leaves).then_some(Left::Detached));
        }
        if !self.options.read_only {
            for piece in self.pastes.take(&forward) {
                match piece {
                    Piece::Keys(keys) => self.client.input_whole(0, &keys)?,
                    Piece::TooLong => self.refused(Untyped::TooLong),
                }
            }
        }
        Ok(leaves.then_some(Left::Detached))
    }

    /// Something is not typed: what a terminal does then is ring. Once it is left, the person is told.
    fn refused(&mut self, what: Untyped) {
        self.untyped = Some(what);
        self.write(b"\x07");
    }

    /// How it was left, by the key or with this terminal.
    fn detached(&mut self) -> Left {
        if self.input == Input::Keys && self.reader.is_none() && self.client.probe(LAST_WORD).is_ok() {
            // By then it has said what it refused of what was typed last.
            while let Ok(Some(frame)) = self.client.buffered() {
                if matches!(frame, FromWorker::Refused(refusal) if refusal.kind.is_untyped()) {
                    self.untyped = Some(Untyped::NoRoom);
                }
            }
        }
        let unended = self.pastes.is_open().then_some(Untyped::Unended);
        unended.or(self.untyped).map_or(Left::Detached, Left::Untyped)
    }

    fn show(&mut self, frame: FromWorker) -> Result<Option<Left>, AttachError> {
        match frame {
            FromWorker::Output { offset, bytes } => {
                if self.circle.as_mut().is_some_and(|circle| circle.is_closed_by(&bytes)) {
                    return Err(AttachError::Circle { name: self.options.name.clone() });
                }
                if self.skips {
                    return Ok(None);
                }
                if let Some(reader) = &mut self.reader {
                    self.at = offset + bytes.len() as u64;
                    let shown = reader.output(offset, &bytes);
                    return Ok((!self.write(&shown)).then_some(Left::Detached));
                }
                let shown = self.print(offset, &bytes);
                Ok((!shown).then_some(Left::Detached))
            }
            FromWorker::Screen { offset, bytes } => {
                if !self.following {
                    // The picture begins with an empty screen: what the person had on theirs goes up, to be found there.
                    let (rows, _) = terminal::size().unwrap_or_default();
                    self.write(&vec![b'\n'; rows.into()]);
                }
                // From here on everything is live.
                (self.replay_end, self.in_line, self.following, self.skips) = (0, false, true, false);
                let shown = self.print(offset.saturating_sub(bytes.len() as u64), &bytes);
                self.at = offset;
                Ok((!shown).then_some(Left::Detached))
            }
            FromWorker::Gap { to, .. } if self.painted => self.paint_anew(to),
            FromWorker::Gap { from, to } => {
                self.at = to;
                if let Some(reader) = &mut self.reader {
                    let shown = reader.gap(from, to);
                    return Ok((!self.write(&shown)).then_some(Left::Detached));
                }
                let missing = to.saturating_sub(from);
                let shown = self.write(format!("\r\n[{missing} bytes are no longer kept]\r\n").as_bytes());
                Ok((!shown).then_some(Left::Detached))
            }
            FromWorker::Exit(end) => Ok(Some(self.rest()?.unwrap_or(Left::Ended(end)))),
            FromWorker::Refused(refusal) if refusal.kind.is_untyped() => {
                self.refused(Untyped::NoRoom);
                Ok(None)
            }
            FromWorker::Refused(refusal) if refusal.kind == RefusalKind::Busy => {
                Err(WorkerError::Refused(refusal).into())
            }
            // It has no picture of its screen any more; what was printed last is the next best.
            FromWorker::Refused(Refusal { kind: RefusalKind::NotHere, .. })
                if !self.following || self.skips =>
            {
                (self.following, self.painted, self.skips) = (true, false, false);
                self.ask_to_paint()?;
                self.client.follow(self.at)?;
                Ok(None)
            }
            FromWorker::Refused(_) | FromWorker::Alive(_) | FromWorker::Typed { .. } => Ok(None),
        }
    }

    /// Has the screen shown as it is: what is no longer kept may have changed any of its modes, and what is may begin in the
    /// midst of a sequence.
    fn paint_anew(&mut self, to: u64) -> Result<Option<Left>, AttachError> {
        // Not up to there: where no picture comes, what is missing is said.
        self.at = self.at.min(to);
        if std::mem::replace(&mut self.skips, true) {
            return Ok(None);
        }
        if !is_whole(self.client.hello(), terminal::size()) {
            self.ask_to_paint()?;
        }
        self.client.screen()?;
        let undo = self.modes.undo();
        self.modes = Modes::default();
        self.note_undo();
        Ok((!self.write(&undo)).then_some(Left::Detached))
    }

    /// What is undone at the end is what the session's program has done by now.
    fn note_undo(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.undo = self.reader.as_ref().map_or_else(|| self.modes.undo(), |reader| reader.undo());
        }
    }

    /// Print output; false when nobody takes it any more.
    fn print(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.at = offset + bytes.len() as u64;
        let replayed = usize::try_from(self.replay_end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (old, new) = bytes.split_at(replayed.min(bytes.len()));
        let mut shown = Vec::with_capacity(bytes.len());
        if let Some(circle) = &mut self.circle {
            shown.extend_from_slice(circle.first());
        }
        let old = if self.in_line {
            let line = old.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            self.in_line = line.is_none();
            &old[line.unwrap_or(old.len())..]
        } else {
            old
        };
        self.quiet.take(old, &mut shown);
        if !new.is_empty() {
            self.in_line = false;
            self.quiet.finish(&mut shown);
            shown.extend_from_slice(new);
        }
        if self.terminal.is_some() {
            self.modes.see(&shown);
            self.note_undo();
        }
        self.write(&shown)
    }

    /// Write to this terminal; false when it is gone, or when a signal ends the wait for one that takes nothing.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let stdout = std::io::stdout();
        let mut rest = bytes;
        while !rest.is_empty() {
            let screen = self.terminal.as_ref().map_or(stdout.as_fd(), AsFd::as_fd);
            let mut polled =
                [PollFd::from_borrowed_fd(screen, PollFlags::OUT), PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            let [takes, signalled] = polled.map(|fd| !fd.revents().is_empty());
            if signalled {
                self.pending.extend(self.wake.take());
                if self.pending_end().is_some() {
                    return false;
                }
            }
            if !takes {
                continue;
            }
            match rustix::io::write(screen, &rest[..rest.len().min(terminal::PIECE)]) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => {
                    self.unwritten = Some(error).filter(|e| self.terminal.is_none() && *e != Errno::PIPE);
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
