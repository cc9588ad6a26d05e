//! One agent and its driver: a thread that waits for output of the program, for mail, and for the owner's answers.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netsky_bus::{Bus, Missed, PassedBy};
use netsky_disk::bell::Bell;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_disk::{clock, state};
use netsky_kernel::frame::{FromWorker, MAX_PAYLOAD, RefusalKind};
use netsky_kernel::session::{Meta, Phase, WorkerHello};
use netsky_kernel::worker_client::{WorkerClient, WorkerError};
use netsky_ledger::{Facts, Telemetry};
use netsky_model::id::{AgentId, LineageId};

use super::book::Book;
use super::health::Health;
use super::lines::Lines;
use super::mail::Hold;
use super::reporter::Reporter;
use super::undriven;
use crate::config::{Bounds, Config};
use crate::driver::{Ask, Doing, Driver, Out, Room, Write, driver_of, is_driven};

/// Slow look for what gave no event.
pub(super) const RESCAN: Duration = Duration::from_secs(30);
/// Pause after what the system refused.
const PAUSE: Duration = Duration::from_secs(1);
/// Most bytes that a program is told at once: a frame has room for them, their name and its own numbers.
const MOST: usize = MAX_PAYLOAD - (64 << 10);
/// How long a worker may take to say that it has what it was given.
const TAKE: Duration = Duration::from_secs(5);
/// Most that waits for a program that does not read: beyond that it is not heard either, and what it prints its worker keeps.
const PENDING: usize = 256;
/// Frames that are heeded before the book is written and mail is looked at.
const FRAMES: usize = 64;

/// What all slots have in common.
pub(super) struct Shared<'a> {
    pub(super) layout: &'a Layout,
    pub(super) kernel: KernelLayout,
    pub(super) reporter: Reporter,
    pub(super) said: &'a (dyn Fn(&str) + Sync),
    /// For what each turn of each slot records: what this process wrote last it need not read, nor write anew.
    pub(super) facts: Facts,
    /// What a schedule says of an envelope that waited.
    missed: Missed,
    over: AtomicBool,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        reporter: Reporter,
        missed: Missed,
        said: &'a (dyn Fn(&str) + Sync),
    ) -> Shared<'a> {
        let kernel = KernelLayout::new(layout.kernel_root());
        let facts = Facts::new(layout);
        Shared { layout, kernel, reporter, said, facts, missed, over: AtomicBool::new(false) }
    }

    /// Have every slot end between two steps.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What kept a slot from its work; it tries again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    #[error(transparent)]
    Bus(#[from] netsky_bus::Error),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error("its description: {0}")]
    Meta(#[from] netsky_kernel::session::MetaError),
    #[error("its output: {0}")]
    Log(#[from] netsky_kernel::output_log::LogError),
    #[error("another netsky-drivers speaks to it")]
    Replaced,
    #[error("another generation is where it should be")]
    Another,
    #[error("wait: {0}")]
    Wait(#[from] std::io::Error),
}

pub(super) type Result<T> = std::result::Result<T, Trouble>;

/// One agent at work.
pub(super) struct Slot<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) agent: &'a AgentId,
    pub(super) bus: Rc<Bus<'a>>,
    pub(super) telemetry: &'a Telemetry,
    pub(super) book: Book,
    pub(super) driver: Box<dyn Driver>,
    pub(super) health: Health,
    pub(super) hold: Hold,
    pub(super) bounds: Bounds,
    /// When its health is looked at next, by the boot clock.
    pub(super) look_due: Option<Duration>,
    /// For the program, not taken by its worker yet.
    pub(super) pending: VecDeque<Write>,
    /// What the book says that it does; none where that is not known.
    told_doing: Option<(Doing, Vec<Ask>)>,
    /// Something changed that the book does not say.
    pub(super) is_unwritten: bool,
    bell: &'a Bell,
    pub(super) seat: Option<Lock>,
    /// What the owner asked for and was done: nobody needs these files once the book says so.
    pub(super) answered: Vec<PathBuf>,
    /// Something failed while mail was in our hands: what is left there is nobody's.
    pub(super) may_hold_claims: bool,
    /// The bell rang, or a turn began: there may be what does not wait for its end.
    pub(super) has_news: bool,
    /// What waits in its inbox and does not go into this turn.
    pub(super) passed_by: PassedBy,
    /// A round failed: the driver may know more than was done.
    is_astray: bool,
    /// What is to be a page and that the record has not taken: when it is tried next, and its key.
    pub(super) unpaged: Vec<(Duration, String, serde_json::Value)>,
    /// What was said last of what is wrong: said once.
    trouble: Option<String>,
    /// The same for whoever looks.
    notes: undriven::Notes,
}

/// Drive an agent until everybody is to end.
pub(super) fn run(shared: &Shared<'_>, agent: &AgentId, bell: &Bell) {
    let telemetry = Telemetry::new(shared.layout);
    // Said once for as long as it is.
    let (mut said, mut notes) = (None, undriven::Notes::default());
    while !shared.is_over() {
        let wait = match Slot::begin(shared, agent, bell, &telemetry) {
            Ok(Some(mut slot)) => return slot.run(),
            Ok(None) => {
                notes.is_well(shared.layout, agent);
                RESCAN
            }
            Err(error) => {
                notes.is_kept_by(&error.to_string(), shared.layout, agent);
                let why = Some(error.to_string());
                if said != why {
                    (shared.said)(&format!("{agent}: {error}"));
                    said = why;
                }
                PAUSE
            }
        };
        if !shared.is_over() {
            let _ = bell.wait(None, wait);
        }
    }
}

impl<'a> Slot<'a> {
    /// The slot, once there is something to drive.
    fn begin(
        shared: &'a Shared<'a>,
        agent: &'a AgentId,
        bell: &'a Bell,
        telemetry: &'a Telemetry,
    ) -> Result<Option<Slot<'a>>> {
        let Some(meta) = described(shared, agent)? else { return Ok(None) };
        let kept = kept(shared, agent, &meta.lineage)?;
        let book = kept.unwrap_or_else(|| Book::blank(agent, &meta));
        let Some(driver) = driver_of(&book.runtime, &book.memory) else { return Ok(None) };
        let config = Config::last_good(shared.layout);
        Ok(Some(Slot {
            shared,
            agent,
            bus: Rc::new(
                Bus::open(shared.layout, telemetry)
                    .with_limits(config.bus)
                    .with_root(config.constellation.root)
                    .with_missed(shared.missed),
            ),
            telemetry,
            hold: Hold::of(book.waits.as_ref(), clock::wall(), clock::boot()),
            book,
            driver,
            health: Health::default(),
            bounds: config.drivers,
            look_due: None,
            pending: VecDeque::new(),
            told_doing: None,
            is_unwritten: false,
            bell,
            seat: None,
            answered: Vec::new(),
            may_hold_claims: false,
            has_news: true,
            passed_by: PassedBy::default(),
            is_astray: false,
            unpaged: Vec::new(),
            trouble: None,
            notes: undriven::Notes::default(),
        }))
    }

    fn run(&mut self) {
        while !self.shared.is_over() {
            let done = if self.is_astray { self.restore() } else { Ok(()) };
            match done.and_then(|()| self.round()) {
                Ok(()) => {
                    self.trouble = None;
                    self.notes.is_well(self.shared.layout, self.agent);
                    if !self.shared.is_over() {
                        let _ = self.bell.wait(None, RESCAN);
                    }
                }
                Err(error) => {
                    self.notes.is_kept_by(&error.to_string(), self.shared.layout, self.agent);
                    self.tell(error.to_string());
                    self.is_astray = true;
                    // Whatever comes meanwhile, nothing is tried faster than that.
                    clock::pause(PAUSE);
                }
            }
        }
    }

    /// Goes back to what the book says, as whoever comes after a death: a line that was read and could not be followed is
    /// read again by a driver that has not read it.
    fn restore(&mut self) -> Result<()> {
        let Some(meta) = described(self.shared, self.agent)? else { return Ok(()) };
        let kept = kept(self.shared, self.agent, &meta.lineage)?;
        // Where nothing is kept it is met as a new one.
        let book = kept.unwrap_or_else(|| Book::blank(self.agent, &meta));
        if let Some(driver) = driver_of(&book.runtime, &book.memory) {
            (self.book, self.driver) = (book, driver);
        }
        self.hold = Hold::of(self.book.waits.as_ref(), clock::wall(), clock::boot());
        self.pending.clear();
        self.answered.clear();
        self.is_unwritten = false;
        self.may_hold_claims = true;
        self.is_astray = false;
        Ok(())
    }

    /// Says what is wrong, once for as long as it is.
    pub(super) fn tell(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            (self.shared.said)(&format!("{} {}: {why}", clock::wall_seconds(), self.agent));
            self.trouble = Some(why);
        }
    }

    /// Drives the generation that there is, to its end.
    fn round(&mut self) -> Result<()> {
        let Some(meta) = described(self.shared, self.agent)? else { return Ok(()) };
        if !is_driven(&meta.spec.runtime) {
            // Another kind of program takes its own mail.
            if self.book.doing != Doing::Down {
                self.set_doing(Doing::Down);
                self.write_book()?;
            }
            self.seat = None;
            return Ok(());
        }
        // Only its worker says where its output begins.
        if meta.phase == Phase::Starting {
            return Ok(());
        }
        // Whoever has it drives: of two processes only one writes the book.
        match &self.seat {
            Some(seat) if seat.has_its_name()? => {}
            _ => {
                self.seat = Some(self.bus.seat(self.agent)?);
                // Whoever had it may have written since ours was read.
                self.restore()?;
            }
        }
        if meta.lineage != self.book.lineage || meta.generation != self.book.generation {
            self.turn_to(&meta)?;
        }
        let Phase::Running { .. } = meta.phase else { return self.rests() };
        match self.drive(&meta) {
            Err(error @ Trouble::Worker(WorkerError::Closed | WorkerError::Connect { .. })) => {
                let now = described(self.shared, self.agent)?.filter(|now| {
                    now.generation != meta.generation || !matches!(now.phase, Phase::Running { .. })
                });
                // Its anchor has yet to see that it ended.
                let Some(now) = now else { return Err(error) };
                if now.generation == meta.generation && now.lineage == meta.lineage {
                    return self.rests();
                }
                // What a generation printed last that has a successor is read when that is met: now, for its ring may be over.
                self.bell.ring();
                Ok(())
            }
            driven => driven,
        }
    }

    /// Its program has ended.
    fn rests(&mut self) -> Result<()> {
        if self.book.doing == Doing::Down {
            return Ok(());
        }
        self.read_rest(u64::MAX)?;
        self.set_doing(Doing::Down);
        self.write_book()
    }

    /// Takes output in.
    pub(super) fn read(&mut self, lines: &mut Lines, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut out = Vec::new();
        let mut progress = false;
        let now = clock::wall();
        lines.push(offset, bytes, |line, end| {
            let mut step = Out::default();
            match line {
                Some(line) => progress |= self.driver.line(line, now, &mut step),
                // It was longer than any message, and may have been one all the same.
                None => self.driver.gap(&mut step),
            }
            if !step.learnt.is_empty() || !step.writes.is_empty() {
                out.push((end, step));
            }
        });
        // Whatever it says before it has greeted, nobody can speak to it.
        if progress && self.is_met() {
            self.health.heard(clock::boot());
        }
        for (end, step) in out {
            self.take(step, end)?;
        }
        Ok(())
    }

    /// Does what a step of the driver asks for.
    pub(super) fn take(&mut self, step: Out, at: u64) -> Result<()> {
        self.pending.extend(step.writes);
        for learnt in step.learnt {
            self.learn(learnt, at)?;
        }
        Ok(())
    }

    /// Speaks to the program of this generation until it ends.
    fn drive(&mut self, meta: &Meta) -> Result<()> {
        // Two, lest what it says pile up before the answer that was waited for.
        let (mut worker, mut mouth) =
            (WorkerClient::connect(&meta.socket)?, WorkerClient::connect(&meta.socket)?);
        let is_other =
            |hello: &WorkerHello| hello.generation != meta.generation || hello.lineage != meta.lineage;
        if is_other(worker.hello()) || is_other(mouth.hello()) {
            return Err(Trouble::Another);
        }
        let epoch = mouth.hello().input_epoch + 1;
        let said = worker.hello().log.end;
        worker.follow(self.book.offset)?;
        let mut lines = Lines::at(self.book.offset);
        let mut step = Out::default();
        self.driver.greet(&mut step);
        self.take(step, self.book.offset)?;
        self.tell_again();
        loop {
            if self.shared.is_over() {
                return Ok(());
            }
            self.flush(&mut mouth, epoch)?;
            self.answers()?;
            self.interrupts()?;
            self.retries()?;
            self.flush(&mut mouth, epoch)?;
            self.mail(&mut mouth, epoch)?;
            self.look_after(meta)?;
            // What came while the worker was waited for is looked at before anybody rests.
            let has_heard = self.hear(&mut worker, &mut lines)?;
            match self.is_unwritten {
                true if self.pending.is_empty() => self.keep_book(),
                true => self.keep_doing(),
                false => {}
            }
            // Not while its book cannot be written, nor before what it had said was followed.
            let has_failed = self.is_unwritten && self.pending.is_empty();
            if !has_failed && lines.next() >= said {
                self.notes.is_well(self.shared.layout, self.agent);
            }
            let wait = if has_heard { Duration::ZERO } else { self.rest() };
            let heard = Some(worker.as_fd()).filter(|_| self.pending.len() < PENDING);
            let woken = self.bell.wait(heard, wait)?;
            self.has_news |= woken.rung;
            if woken.beside && !worker.read()? {
                while self.hear(&mut worker, &mut lines)? {}
                // Killed: what it had not passed on is gone, what it had is in its log.
                return Err(WorkerError::Closed.into());
            }
        }
    }

    /// Heeds what was read of the worker, so many frames at a time; whether there was any.
    fn hear(&mut self, worker: &mut WorkerClient, lines: &mut Lines) -> Result<bool> {
        for frames in 0..FRAMES {
            if self.pending.len() >= PENDING {
                return Ok(false);
            }
            let Some(frame) = worker.buffered()? else { return Ok(frames > 0) };
            let is_last = self.heed(frame, lines)?;
            self.book.offset = lines.done();
            if is_last {
                return Err(WorkerError::Closed.into());
            }
        }
        Ok(true)
    }

    /// One frame of the worker; true after the last one.
    fn heed(&mut self, frame: FromWorker, lines: &mut Lines) -> Result<bool> {
        match frame {
            FromWorker::Output { offset, bytes } => {
                self.read(lines, offset, &bytes)?;
            }
            FromWorker::Gap { to, .. } => {
                lines.skip_to(to);
                let mut step = Out::default();
                self.driver.gap(&mut step);
                self.take(step, to)?;
                self.tell("some of its output was lost".to_owned());
            }
            FromWorker::Exit(_) => return Ok(true),
            FromWorker::Refused(refusal) if refusal.kind == RefusalKind::StaleEpoch => {
                return Err(Trouble::Replaced);
            }
            FromWorker::Refused(_)
            | FromWorker::Alive(_)
            | FromWorker::Typed { .. }
            | FromWorker::Screen { .. } => {}
        }
        Ok(false)
    }

    /// Gives the worker what waits for the program, each once; what it does not take now waits on.
    pub(super) fn flush(&mut self, worker: &mut WorkerClient, epoch: u64) -> Result<()> {
        while let Some(write) = self.pending.front() {
            if write.bytes.len() > MOST {
                let (once, bytes) = (write.once.clone(), write.bytes.len());
                self.tell(format!(
                    "{once} has {bytes} bytes and is not said: no program is told more than {MOST} at once"
                ));
                self.pending.pop_front();
                continue;
            }
            match worker.type_once(epoch, netsky_kernel::frame::Form::Keys, &write.once, &write.bytes, TAKE) {
                Ok(_) => {
                    self.pending.pop_front();
                    self.health.is_deaf = false;
                }
                // Nothing was typed. One that has closed its input may go on saying things.
                Err(WorkerError::Refused(refusal))
                    if matches!(refusal.kind, RefusalKind::Full | RefusalKind::Closed) =>
                {
                    self.health.is_deaf = true;
                    return Ok(());
                }
                Err(WorkerError::Refused(refusal)) if refusal.kind == RefusalKind::StaleEpoch => {
                    return Err(Trouble::Replaced);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether its program has greeted, and takes messages.
    pub(super) fn is_met(&self) -> bool {
        self.driver.room() != Room::None
    }

    pub(super) fn set_doing(&mut self, doing: Doing) {
        if self.book.doing != doing {
            self.book.doing = doing;
            self.book.since = clock::stamp();
            self.is_unwritten = true;
        }
    }

    pub(super) fn write_book(&mut self) -> Result<()> {
        self.book.memory = self.driver.memory();
        self.book.asks = self.driver.asks().to_vec();
        self.book.write(self.shared.layout)?;
        self.is_unwritten = false;
        self.told_doing = None;
        self.answered.drain(..).try_for_each(|path| state::remove(path).map(drop))?;
        Ok(())
    }

    /// What it does is told also while it does not read: what the book says of its output stays what was done.
    fn keep_doing(&mut self) {
        let (layout, since) = (self.shared.layout, &self.book.since);
        let now = (self.book.doing.clone(), self.driver.asks().to_vec());
        if self.told_doing.as_ref() == Some(&now) {
            return;
        }
        let told = Book::read(layout, self.agent).and_then(|before| match before {
            Some(before) if before.generation == self.book.generation => {
                let (doing, asks) = now.clone();
                Book { doing, asks, since: since.clone(), ..before }.write(layout)
            }
            _ => Ok(()),
        });
        match told {
            Ok(()) => self.told_doing = Some(now),
            Err(error) => self.tell(error.to_string()),
        }
    }

    /// The same, of who goes on in any case: it is tried again, and until then more of the output would be read again.
    pub(super) fn keep_book(&mut self) {
        if let Err(error) = self.write_book() {
            self.is_unwritten = true;
            self.notes.is_kept_by(&error.to_string(), self.shared.layout, self.agent);
            self.tell(error.to_string());
        }
    }

    /// How long nothing is due.
    fn rest(&self) -> Duration {
        let now = clock::boot();
        let held = self.hold.due().filter(|_| self.is_free());
        let due = [held, self.look_due].into_iter().flatten().min();
        let wait = due.map_or(RESCAN, |due| due.saturating_sub(now)).min(RESCAN);
        let waits = !self.pending.is_empty() || self.is_unwritten || self.health.is_deaf;
        if waits { wait.min(PAUSE) } else { wait }
    }
}

/// The book of a lineage; one that is damaged stays beside as evidence.
fn kept(shared: &Shared<'_>, agent: &AgentId, lineage: &LineageId) -> Result<Option<Book>> {
    match Book::read(shared.layout, agent) {
        Err(error) if error.is_damage() => {
            (shared.said)(&format!("{agent}: {error}; it begins anew"));
            state::set_aside(shared.layout.driver_book(agent))?;
            Ok(None)
        }
        read => Ok(read?.filter(|book| book.lineage == *lineage)),
    }
}

/// What the kernel wrote down of an agent's newest session.
fn described(shared: &Shared<'_>, agent: &AgentId) -> Result<Option<Meta>> {
    let Some(bytes) = state::read(shared.kernel.meta(agent))? else { return Ok(None) };
    Ok(Some(Meta::parse(&bytes)?))
}
