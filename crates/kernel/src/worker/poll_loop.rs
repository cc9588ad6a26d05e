//! The worker's life: one loop over the program, the clients, the signals and the clock.
//!
//! Promise: nothing in here blocks but the poll itself and the few durable writes of the meta file. Each round
//! reads a bounded piece from everybody who has something.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_disk::wake::Wake;
use netsky_disk::{clock, fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::clients::{Clients, Request};
use super::ending::{Ending, Verdict};
use super::heartbeat::Heart;
use super::input::Input;
use super::pty;
use super::questions::Questions;
use super::record::Record;
use super::screen::Screen;
use super::wires::{Source, Wires};
use crate::frame::{Form, FromWorker, Refusal, RefusalKind, ToWorker};
use crate::output_log::OutputLog;
use crate::paste;
use crate::session::{End, Pulse, WorkerHello};

/// Bytes of output read in one round; a terminal gives at most 4 KiB at once, a pipe 64 KiB.
const READ: usize = 64 << 10;
/// Grace of a worker that is itself told to end (SIGTERM at the shutdown of the machine).
const OWN_GRACE: Duration = Duration::from_secs(5);
/// How long clients may take what is left once the end is on disk; a slower one reads the log.
const LINGER: Duration = Duration::from_millis(500);
/// How long to try again to record an end on a disk that refuses; then the anchor finds a dead worker, and its
/// last word.
const RECORD: Duration = Duration::from_secs(10);
/// Pause between these tries.
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for the end of output after the tree is gone: only somebody else's copy of an end keeps it open.
const DRAIN: Duration = Duration::from_secs(1);
/// How soon to look again at a terminal that nobody has open: the program may open it anew.
const TERMINAL_PAUSE: Duration = Duration::from_millis(100);

/// The session's files beside its record.
pub(super) struct Files {
    pub(super) out: OutputLog,
    /// Only with pipes.
    pub(super) err: Option<OutputLog>,
    pub(super) agents: Dir,
    /// The socket's name in `agents`.
    pub(super) socket: String,
}

/// One running worker.
pub(super) struct Worker {
    pub(super) lock: Lock,
    pub(super) wake: Wake,
    pub(super) record: Record,
    pub(super) files: Files,
    pub(super) wires: Wires,
    /// Only with a terminal.
    pub(super) screen: Option<Screen>,
    pub(super) questions: Questions,
    /// Until when nobody has the terminal open, as far as we know.
    pub(super) terminal_quiet_until: Duration,
    pub(super) input: Input,
    pub(super) ending: Ending,
    pub(super) clients: Clients,
    pub(super) heart: Heart,
    pub(super) hello: WorkerHello,
}

/// What a ready descriptor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Wake,
    Listener,
    Output(Source),
    Input,
    Client(u64),
}

impl Worker {
    /// Hold the program to its end and report it; returns the exit code.
    pub(super) fn run(mut self) -> i32 {
        // A child may have ended before its signal was caught.
        self.ending.reap();
        let verdict = loop {
            let now = clock::boot();
            if self.heart.beat(now, self.pulse()) && self.is_lost() {
                // Nobody wanted it down: what keeps it may bring it back.
                self.ending.terminate(now, Duration::ZERO);
            }
            if let Some(verdict) = self.ending.advance(now) {
                break verdict;
            }
            let wait = self.due(now).saturating_sub(now);
            let woken = self.poll(now, wait);
            // It may have slept for long: what comes now begins now.
            let now = clock::boot();
            for (token, flags) in woken {
                self.handle(token, flags, now);
            }
            self.clients.pump(&self.files.out, self.screen.as_ref(), None);
        };
        self.close(verdict)
    }

    /// Whether nobody can find this session any more: what is not in its root is reachable by nobody, and nothing keeps
    /// a second worker of its name out.
    fn is_lost(&self) -> bool {
        !self.lock.has_its_name().unwrap_or(true)
    }

    fn pulse(&self) -> Pulse {
        match () {
            () if self.ending.is_running() => Pulse::Running,
            () if self.ending.is_in_grace() => Pulse::Killing,
            () => Pulse::Draining,
        }
    }

    fn due(&self, now: Duration) -> Duration {
        let mut due = self.heart.due();
        due = self.ending.due(now).map_or(due, |at| due.min(at));
        if self.terminal_quiet_until > now {
            due = due.min(self.terminal_quiet_until);
        }
        due
    }

    /// Wait for something to do, at most `wait`.
    fn poll(&self, now: Duration, wait: Duration) -> Vec<(Token, PollFlags)> {
        let mut wanted: Vec<(Token, BorrowedFd<'_>, PollFlags)> =
            vec![(Token::Wake, self.wake.as_fd(), PollFlags::IN)];
        wanted.extend(self.clients.listener(now).map(|fd| (Token::Listener, fd, PollFlags::IN)));
        if self.terminal_quiet_until <= now {
            let outputs = self.wires.outputs();
            wanted.extend(outputs.map(|(source, end)| (Token::Output(source), end, PollFlags::IN)));
        }
        // Nor can anything be written that a terminal without its program does not take.
        if self.input.waits() && self.terminal_quiet_until <= now {
            wanted.extend(self.wires.input().map(|end| (Token::Input, end, PollFlags::OUT)));
        }
        let interests = self.clients.interests(self.files.out.span().end);
        wanted.extend(interests.map(|(number, fd, flags)| (Token::Client(number), fd, flags)));

        let mut fds: Vec<PollFd<'_>> =
            wanted.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        wait_for(&mut fds, wait);
        let tokens = wanted.iter().map(|(token, ..)| *token);
        tokens.zip(fds.iter().map(PollFd::revents)).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn handle(&mut self, token: Token, flags: PollFlags, now: Duration) {
        match token {
            Token::Wake => {
                for signal in self.wake.take() {
                    match signal {
                        Signal::CHILD => self.ending.reap(),
                        Signal::TERM => self.ending.terminate(now, OWN_GRACE),
                        _ => {}
                    }
                }
            }
            Token::Listener => self.greet(now),
            Token::Output(source) => {
                let open = self.read_output(source, now);
                if !open && self.wires.is_terminal() {
                    self.terminal_quiet_until = now + TERMINAL_PAUSE;
                }
            }
            Token::Input => self.write_input(flags),
            Token::Client(number) if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) => {
                for request in self.clients.read(number) {
                    self.obey(request, now);
                }
            }
            // Room for more output: the pump after each round uses it.
            Token::Client(_) => {}
        }
    }

    /// Read one piece of output; false when that end is closed.
    fn read_output(&mut self, source: Source, now: Duration) -> bool {
        let Some(end) = self.wires.output(source) else { return false };
        let mut bytes = [0; READ];
        match rustix::io::read(end, &mut bytes[..]) {
            Ok(read) if read > 0 => {
                let output = self.show(&bytes[..read]);
                let log = match source {
                    Source::Out => Some(&mut self.files.out),
                    Source::Err => self.files.err.as_mut(),
                };
                if let Some(log) = log {
                    log.append(&output, now);
                }
                self.heart.progressed(read);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            // The end of a pipe is 0 bytes; that of a terminal which nobody has open is EIO.
            Ok(_) | Err(_) => {
                self.wires.close_output(source);
                false
            }
        }
    }

    /// Show output on the screen, and answer what the program asks it; the output for everybody else. Where its model broke
    /// whoever is attached is asked, for want of a better.
    fn show(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(screen) = &mut self.screen else { return bytes.to_vec() };
        let shown = self.questions.show(bytes, screen);
        self.input.answer(&shown.answers);
        if !shown.whole {
            self.screen = None;
        }
        shown.output
    }

    fn write_input(&mut self, flags: PollFlags) {
        let Some(end) = self.wires.input() else { return };
        let written = self.input.write(end);
        self.heart.progressed(written);
        // A pipe whose reader is gone says so only by ERR when there is nothing to write.
        if flags.contains(PollFlags::ERR) && !self.wires.is_terminal() {
            self.input.shut();
        }
        if self.input.is_over() {
            self.wires.close_input();
        }
    }

    fn obey(&mut self, request: Request, now: Duration) {
        let refused = match request.frame {
            Err(error) => Err(Refusal { kind: RefusalKind::BadFrame, text: error.to_string() }),
            Ok(ToWorker::Follow { from }) => {
                self.clients.follow(request.client, from);
                Ok(())
            }
            Ok(ToWorker::Screen) => {
                self.clients.show_screen(request.client);
                Ok(())
            }
            Ok(ToWorker::Input { epoch, bytes }) => {
                self.input.offer(epoch, &bytes).map(|()| self.press(&bytes, now))
            }
            Ok(ToWorker::Type { epoch, form, id, bytes }) => {
                self.type_in(epoch, form, id, bytes, now).map(|before| {
                    self.clients.answer(request.client, &FromWorker::Typed { before });
                })
            }
            Ok(ToWorker::CloseInput { epoch }) => self.close_input(epoch),
            Ok(ToWorker::Resize { rows, cols }) => self.resize(rows, cols),
            Ok(ToWorker::Signal { signal }) => self.signal(signal, now),
            Ok(ToWorker::Kill { grace_ms }) => {
                self.kill(now, Duration::from_millis(grace_ms.into()));
                Ok(())
            }
            Ok(ToWorker::Probe) => {
                let alive = FromWorker::Alive(Box::new(self.heart.answer()));
                self.clients.answer(request.client, &alive);
                Ok(())
            }
            Ok(ToWorker::Restate) => {
                let restated = self.record.restate().map_err(|error| error.to_string());
                restated.map_err(|text| Refusal { kind: RefusalKind::Other, text }).map(|()| {
                    let alive = FromWorker::Alive(Box::new(self.heart.answer()));
                    self.clients.answer(request.client, &alive);
                })
            }
        };
        if let Err(refusal) = refused {
            self.clients.answer(request.client, &FromWorker::Refused(refusal));
        }
    }

    fn kill(&mut self, now: Duration, grace: Duration) {
        if self.ending.kill(now, grace) {
            self.record.kill_asked(u32::try_from(grace.as_millis()).unwrap_or(u32::MAX));
        }
    }

    /// What these keys send was asked for by whoever pressed them.
    fn press(&mut self, keys: &[u8], now: Duration) {
        if let Wires::Terminal(master) = &self.wires {
            for signal in pty::signals_of(master, keys) {
                self.ending.asked_for(signal, now);
            }
        }
    }

    /// True if it was typed before under that name.
    fn type_in(
        &mut self,
        epoch: u64,
        form: Form,
        id: String,
        bytes: Vec<u8>,
        now: Duration,
    ) -> Result<bool, Refusal> {
        if form == Form::Keys {
            let before = self.input.offer_once(epoch, id, &bytes)?;
            if !before {
                self.press(&bytes, now);
            }
            return Ok(before);
        }
        let text = String::from_utf8(bytes)
            .map_err(|e| Refusal { kind: RefusalKind::BadFrame, text: format!("the text is none: {e}") })?;
        let keys = if self.wires.is_terminal() {
            // Of a screen that broke nobody knows its mode: the text is typed as by hand.
            paste::typed(&text, self.screen.as_ref().is_some_and(Screen::is_bracketed))
        } else {
            paste::piped(&text)
        };
        self.input.offer_once(epoch, id, keys.as_bytes())
    }

    fn close_input(&mut self, epoch: u64) -> Result<(), Refusal> {
        if self.wires.is_terminal() {
            return Err(not_here("a terminal has no end of input; send its end-of-file key"));
        }
        self.input.close(epoch)
    }

    fn resize(&mut self, rows: u16, cols: u16) -> Result<(), Refusal> {
        match &self.wires {
            Wires::Terminal(master) => {
                pty::resize(master, rows, cols).map_err(|e| not_here(&format!("resize: {e}")))?;
                if self.screen.as_mut().is_some_and(|screen| !screen.resize(rows, cols)) {
                    self.screen = None;
                }
                Ok(())
            }
            Wires::Pipes { .. } => Err(not_here("pipes have no size")),
        }
    }

    fn signal(&mut self, number: i32, now: Duration) -> Result<(), Refusal> {
        let Some(signal) = Signal::from_named_raw(number) else {
            let text = format!("there is no signal {number}");
            return Err(Refusal { kind: RefusalKind::BadSignal, text });
        };
        if self.ending.signal(signal) {
            self.ending.asked_for(signal, now);
            return Ok(());
        }
        Err(Refusal { kind: RefusalKind::Closed, text: "the program is gone".to_owned() })
    }

    /// The tree is gone: record it durably, tell the clients, take the socket away.
    fn close(mut self, verdict: Verdict) -> i32 {
        let how = verdict.how.clone();
        self.heart.beat(clock::boot(), Pulse::Draining);
        self.drain();
        let begun = self.questions.finish();
        self.files.out.append(&begun, clock::boot());
        let recorded = fault::point("worker.ended").is_ok() && self.record_end(&verdict);
        let until = clock::boot() + LINGER;
        self.late_requests();
        loop {
            self.clients.pump(&self.files.out, self.screen.as_ref(), Some(&how));
            let now = clock::boot();
            if self.clients.all_served() || now >= until {
                break;
            }
            self.poll_clients(until - now);
        }
        let _ = self.files.agents.remove(&self.files.socket);
        i32::from(!recorded)
    }

    /// Read what the tree had written before it went.
    fn drain(&mut self) {
        let until = clock::boot() + DRAIN;
        let mut terminal_open = true;
        loop {
            let now = clock::boot();
            let sources: Vec<(Source, BorrowedFd<'_>)> = self.wires.outputs().collect();
            if sources.is_empty() || !terminal_open || now >= until {
                return;
            }
            let mut fds: Vec<PollFd<'_>> =
                sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            wait_for(&mut fds, until - now);
            let ready: Vec<Source> = sources
                .iter()
                .zip(&fds)
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|((s, _), _)| *s)
                .collect();
            for source in ready {
                let open = self.read_output(source, now);
                terminal_open &= open || !self.wires.is_terminal();
            }
            self.clients.pump(&self.files.out, self.screen.as_ref(), None);
        }
    }

    fn record_end(&mut self, verdict: &Verdict) -> bool {
        let until = clock::boot() + RECORD;
        let mut said = false;
        loop {
            let Err(error) = self.record.ended(verdict) else { return true };
            // Also for whoever finds a worker that was ended while it tried. Where its folder is gone nobody asked for it.
            if !std::mem::replace(&mut said, true) && !self.is_lost() {
                self.heart.ended(&verdict.how);
            }
            match error {
                // Whoever asked for this end waits for it, and says so itself.
                error if error.is_full() && verdict.how == End::Killed => return false,
                _ if clock::boot() < until && !self.is_lost() => clock::pause(RECORD_PAUSE),
                _ => return false,
            }
        }
    }

    /// Whoever came or asked for output while the tree was ending still gets it before the end.
    fn late_requests(&mut self) {
        self.greet(clock::boot());
        for number in self.clients.numbers() {
            for request in self.clients.read(number) {
                if let Ok(ToWorker::Follow { from }) = request.frame {
                    self.clients.follow(request.client, from);
                }
            }
        }
    }

    fn greet(&mut self, now: Duration) {
        self.hello.log = self.files.out.span();
        self.hello.input_epoch = self.input.epoch();
        self.clients.accept(now, &self.hello);
    }

    /// Wait until a client takes more.
    fn poll_clients(&self, wait: Duration) {
        let interests = self.clients.interests(self.files.out.span().end);
        let mut fds: Vec<PollFd<'_>> =
            interests.map(|(_, fd, flags)| PollFd::from_borrowed_fd(fd, flags & PollFlags::OUT)).collect();
        wait_for(&mut fds, wait);
    }
}

fn not_here(text: &str) -> Refusal {
    Refusal { kind: RefusalKind::NotHere, text: text.to_owned() }
}

/// Poll; an interrupted one is a round without news.
fn wait_for(fds: &mut [PollFd<'_>], wait: Duration) {
    // Over a day there is always a heartbeat in between; the bound keeps the conversion from failing.
    let wait = wait.min(Duration::from_secs(86_400));
    let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    let _ = poll(fds, Some(&timeout));
}
