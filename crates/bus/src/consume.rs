//! `consume`: a running reader, one per agent, that wakes by file events and takes one envelope at a time.
//!
//! Promise: while it runs nobody else consumes for this agent in this way; a message that its reader refuses comes again
//! after a pause, flagged, and never faster than that; asked to end, it ends between two messages. It may die at any
//! point: what it held returns as what any dead process held. A consumer whose lock file lost its name takes nothing
//! more: another one may run by now. Folders that were replaced or moved away under it are met at the next look.
//!
//! Leaves to others: how a text is shown, and what a refusal is (`put`).

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::lock::Lock;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::state;
use netsky_disk::wake::Stop;
use netsky_disk::watch::Watch;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::name::Stage;
use netsky_model::process::ProcessId;
use serde::{Deserialize, Serialize};

use crate::bus::{Bus, point};
use crate::claim::{Claim, Drained, Put};
use crate::error::{Error, Result};
use crate::kept::Kept;
use crate::queue::{Passed, Queue, REMEMBERED, Stuck, Taken};
use crate::release::end;
use crate::wait::RESCAN;

/// Pause after a reader that failed; doubled for each further one in a row, up to [`LONGEST`].
const PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: five failures are a dead letter within minutes, and a reader that is down for an hour is asked again
/// twice a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// How long a consumer has for its end when it is asked to go: longer than it waits for the message at work.
const GRACE: Duration = Duration::from_secs(8);

/// Most claims kept that other processes have in their hands: each holds its text. Nothing more is taken then until one of
/// them is free, or gone.
const MOST_KEPT: usize = 16;

/// How long the lock of a consumer that ended may take to be free.
const FREE: Duration = Duration::from_secs(1);

/// Who consumes, and how.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The incarnation that the messages are for.
    pub generation: Generation,
    /// End after so many messages; never where none.
    pub max: Option<usize>,
    /// Take the place of another consumer: it is asked to end, and killed if it does not.
    pub replace: bool,
    /// A message that was dealt with is finished; else the ack is another's.
    pub acks: bool,
}

/// What a consumer met and went on after, told when it is met.
#[derive(Debug)]
pub enum News<'a> {
    /// What could not be read or moved and stays where it is; once for as long as the consumer runs.
    Skipped(&'a Stuck),
    /// A file of a newer format, which stays where it is; once too.
    Newer(&'a str),
    /// Another process took the claim from it, before or after it was shown.
    Lost(&'a Error),
    /// Another process has a claim of it in its hands: it is looked at again, and shown unless that one takes it away.
    Kept(&'a EnvelopeId),
}

/// The note in the consumer's lock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) process: ProcessId,
    pub(crate) generation: Generation,
}

impl Bus<'_> {
    /// Puts what comes before the agent, until this process is asked to end or `max` is reached.
    ///
    /// # Errors
    /// Another consumer runs, this one lost its lock, no reader can be given anything, the home went away, or what the file
    /// system refuses. What was surfaced before is recorded, the rest waits.
    pub fn consume(
        &self,
        agent: &AgentId,
        terms: &Terms,
        stop: &Stop,
        tell: impl FnMut(News<'_>),
        put: impl FnMut(&Claim) -> Put,
    ) -> Result<Drained> {
        self.channel(agent)?;
        let seat = self.only_consumer(agent, terms)?;
        let mut consumer = Consumer::new((self, agent, terms), (stop, seat), tell, put);
        let ended = consumer.run();
        let done = consumer.end();
        ended.map(|()| done)
    }

    /// The seat of the one consumer of an agent, for who takes its mail claim by claim and lives longer than its
    /// incarnations: nobody else consumes while it is held, and no incarnation takes it away.
    ///
    /// # Errors
    /// Somebody else consumes, or what the file system refuses.
    pub fn seat(&self, agent: &AgentId) -> Result<Lock> {
        self.channel(agent)?;
        let terms = Terms { generation: Generation(u64::MAX), max: None, replace: false, acks: true };
        self.only_consumer(agent, &terms)
    }

    /// The lock that makes one consumer of an agent. A newer incarnation takes it from an older one, whose time is over.
    fn only_consumer(&self, agent: &AgentId, terms: &Terms) -> Result<Lock> {
        let path = self.layout.consumer_lock(agent);
        let held = match Lock::try_take(&path)? {
            Some(lock) => Some(lock),
            None => {
                let holder: Option<Holder> = Lock::noted(&path);
                let is_older = |holder: &Holder| {
                    holder.generation > Generation::NONE && holder.generation < terms.generation
                };
                match holder {
                    Some(holder) if terms.replace || is_older(&holder) => {
                        ask_to_end(&holder.process)?;
                        Lock::take_within(&path, FREE)?
                    }
                    _ => None,
                }
            }
        };
        let Some(mut lock) = held else {
            let process = Lock::noted::<Holder>(&path).map(|holder| holder.process);
            let here = process::identity()?.ns;
            let (pid, elsewhere) = process.map_or((None, false), |held| (Some(held.pid), held.ns != here));
            return Err(Error::Consumed { agent: agent.clone(), pid, elsewhere, asked: terms.replace });
        };
        // While the note still says whose it was.
        self.return_dead_claims(agent)?;
        lock.note(&Holder { process: process::identity()?, generation: terms.generation })?;
        Ok(lock)
    }

    /// The last consumer of an agent: a command of it may be at work.
    pub(crate) fn last_consumer(&self, agent: &AgentId) -> Result<Option<Holder>> {
        Ok(Lock::read_note(self.layout.consumer_lock(agent))?)
    }
}

/// Asks a consumer to end, and kills it if it does not: a stopped one hears nothing.
fn ask_to_end(process: &ProcessId) -> Result<()> {
    if let Some(held) = PidFd::open(process)? {
        held.signal(Signal::TERM)?;
        if process::is_stopped(process) || !held.wait(GRACE)? {
            end(process)?;
        }
    }
    Ok(())
}

/// One consumer at work.
struct Consumer<'a, T, F> {
    bus: &'a Bus<'a>,
    agent: &'a AgentId,
    terms: &'a Terms,
    stop: &'a Stop,
    seat: Lock,
    watch: Watch,
    tell: T,
    put: F,
    done: Drained,
    /// What is not for this taker.
    passed: Passed,
    /// What was told of: files, and folders that are shut.
    told: HashSet<PathBuf>,
    /// What stayed where it was when it was met last.
    left: BTreeMap<PathBuf, Left>,
    /// Claims that other processes have in their hands.
    kept: Kept,
    /// What waits for one of those to be shown or gone.
    behind: Passed,
    /// One of them is, or went back: what waits is to be looked at anew.
    is_stale: bool,
}

impl<'a, T: FnMut(News<'_>), F: FnMut(&Claim) -> Put> Consumer<'a, T, F> {
    fn new(
        (bus, agent, terms): (&'a Bus<'a>, &'a AgentId, &'a Terms),
        (stop, seat): (&'a Stop, Lock),
        tell: T,
        put: F,
    ) -> Consumer<'a, T, F> {
        Consumer {
            bus,
            agent,
            terms,
            stop,
            seat,
            watch: Watch::default(),
            tell,
            put,
            done: Drained::default(),
            passed: Passed::default(),
            told: HashSet::new(),
            left: BTreeMap::new(),
            kept: Kept::default(),
            behind: Passed::default(),
            is_stale: false,
        }
    }

    fn run(&mut self) -> Result<()> {
        while !self.bus.or_no_home(self.look())? {
            point("bus.consume.idle");
            self.watch.wait_or_stop(RESCAN, self.stop)?;
        }
        Ok(())
    }

    /// Takes everything that waits. True when it is time to end.
    fn look(&mut self) -> Result<bool> {
        let channel = self.bus.channel(self.agent)?;
        // Watching begins before the look, so nothing can arrive between the two unseen; again each time, for another
        // folder may have the name by now.
        self.watch.add(self.bus.layout.folder(self.agent, State::Written))?;
        // Who is asked to end takes nothing, so nothing that a look meets may be in the way of its end.
        if self.is_over() {
            return Ok(true);
        }
        let mut queue = Queue::open(self.bus, &channel, self.terms.generation)?;
        let mut failures = 0;
        loop {
            if self.is_over() {
                return Ok(true);
            }
            // Who has the lock of that name is the consumer, whoever has the file that was it.
            if !self.seat.has_its_name()? {
                return Err(Error::Unseated(self.agent.clone()));
            }
            let claim = match self.freed()? {
                Some(claim) => claim,
                None if self.kept.len() >= MOST_KEPT => return Ok(false),
                None if std::mem::take(&mut self.is_stale) => {
                    self.behind = Passed::default();
                    queue = Queue::open(self.bus, &channel, self.terms.generation)?;
                    continue;
                }
                None => {
                    // Of a newer format, or for a generation to come: nobody changes a file, and this taker stays who it is.
                    let is_known = |file: &OsStr| self.passed.contains(file) || self.behind.contains(file);
                    let is_behind = |envelope: &Envelope| self.kept.is_of(&envelope.from);
                    let Some(taken) = queue.take_next_but(is_known, is_behind)? else { return Ok(false) };
                    let Some(claim) = self.sort(taken) else { continue };
                    self.bus.hold(self.agent, &queue.folders, std::slice::from_ref(&claim))?;
                    let Some(claim) = self.reach(claim)? else { continue };
                    claim
                }
            };
            match self.surface(claim)? {
                Step::On => failures = 0,
                Step::Pause => {
                    failures += 1;
                    if self.pause(failures)? {
                        return Ok(true);
                    }
                    // What was refused is the oldest again.
                    queue = Queue::open(self.bus, &channel, self.terms.generation)?;
                }
                Step::End => return Ok(true),
            }
        }
    }

    /// Keeps what is not held; what stays where it is is met again at each look, and told once.
    fn sort(&mut self, taken: Taken) -> Option<Claim> {
        let inbox = self.bus.layout.folder(self.agent, State::Written);
        match taken {
            Taken::Claim(claim) => {
                self.left.remove(&inbox.join(claim.name.to(Stage::Waiting).to_string()));
                return Some(claim);
            }
            Taken::Skipped(stuck) => {
                if self.is_news(&stuck.error.path) {
                    (self.tell)(News::Skipped(&stuck));
                }
                self.leave(stuck.file.clone(), Left::Stuck(stuck));
            }
            Taken::Newer(name) => {
                if self.is_news(name.as_ref()) {
                    (self.tell)(News::Newer(&name));
                }
                self.leave(inbox.join(&name), Left::Newer(name.clone()));
                self.passed.insert(name.into());
            }
            Taken::Early(name) => {
                self.left.remove(&inbox.join(&name));
                self.passed.insert(name.into());
            }
            Taken::Behind(name) => {
                self.left.remove(&inbox.join(&name));
                self.behind.insert(name.into());
            }
            Taken::Quarantined(what) => self.done.aside.quarantined.push(what),
            Taken::Gone => {}
        }
        None
    }

    fn is_news(&mut self, about: &Path) -> bool {
        self.told.len() < REMEMBERED && self.told.insert(about.to_owned())
    }

    fn leave(&mut self, file: PathBuf, left: Left) {
        // As in [`Passed`]: what is still there is met again at the next look.
        if self.left.len() >= REMEMBERED && !self.left.contains_key(&file) {
            self.left.clear();
            self.passed = Passed::default();
        }
        self.left.insert(file, left);
    }

    /// Gives back what it kept. What it did is the answer; of what it left, not what was taken or removed since.
    fn end(mut self) -> Drained {
        self.kept.put_back(self.bus);
        for (file, left) in self.left {
            match left {
                _ if !state::exists(&file).unwrap_or(true) => {}
                Left::Stuck(stuck) => self.done.aside.skipped.push(stuck),
                Left::Newer(name) => self.done.aside.newer.push(name),
            }
        }
        self.done
    }

    /// The claim, if it is ours alone now. One that another process has in its hands is kept.
    fn reach(&mut self, claim: Claim) -> Result<Option<Claim>> {
        match self.kept.reach(claim) {
            Ok(None) => {
                if let Some(claim) = self.kept.last() {
                    (self.tell)(News::Kept(claim.id()));
                }
                Ok(None)
            }
            Err(lost @ Error::Fenced(_)) => {
                (self.tell)(News::Lost(&lost));
                // It may wait again: before those that came after it.
                self.is_stale = true;
                Ok(None)
            }
            reached => reached,
        }
    }

    /// The oldest claim that was kept and is ours alone by now.
    fn freed(&mut self) -> Result<Option<Claim>> {
        loop {
            let freed = self.kept.freed();
            self.is_stale |= matches!(freed, Ok(Some(_)) | Err(Error::Fenced(_)));
            match freed {
                Err(lost @ Error::Fenced(_)) => (self.tell)(News::Lost(&lost)),
                freed => return freed,
            }
        }
    }

    fn surface(&mut self, claim: Claim) -> Result<Step> {
        let id = claim.id().clone();
        match self.bus.put_before(claim, (self.terms.generation, self.terms.acks), &mut self.put) {
            Ok(Put::Taken | Put::Finished) => {
                self.done.surfaced += 1;
                Ok(Step::On)
            }
            Ok(Put::Refused(_)) => Ok(Step::Pause),
            Ok(Put::Stopped) => Ok(Step::End),
            Ok(Put::Broken(source)) => Err(Error::Surface { id, source }),
            Ok(Put::Unread(source)) => Err(Error::Unread { id, source }),
            // Somebody moved it by hand; those behind it are still ours to take.
            Err(lost @ Error::ClaimLost(_)) => {
                self.done.surfaced += 1;
                (self.tell)(News::Lost(&lost));
                Ok(Step::On)
            }
            Err(error) => Err(error),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.came() || self.terms.max.is_some_and(|max| self.done.surfaced >= max)
    }

    /// Waits after failures in a row; true when it is time to end.
    fn pause(&self, failures: u32) -> Result<bool> {
        let until = clock::boot() + LONGEST.min(PAUSE * 2_u32.saturating_pow(failures - 1));
        loop {
            let left = until.saturating_sub(clock::boot());
            // Before the wait: whoever heard of the end while a reader was at work has emptied what would wake us.
            if left.is_zero() || self.is_over() {
                return Ok(self.is_over());
            }
            self.watch.wait_or_stop(left, self.stop)?;
        }
    }
}

/// What a look met and could not take.
enum Left {
    Stuck(Stuck),
    /// Of a newer format.
    Newer(String),
}

/// How it goes on after one message.
enum Step {
    On,
    Pause,
    End,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use netsky_disk::fs::Dir;
    use netsky_disk::home::Home;
    use netsky_disk::layout::Layout;
    use netsky_disk::lock::{Hold, Seized};
    use netsky_model::witness::{Transition, Witness};

    use super::*;
    use crate::send::Draft;

    /// Has every claim in its hands as soon as it is made.
    struct Hands(Layout, RefCell<Vec<Hold>>);

    impl Witness for Hands {
        fn saw(&self, seen: &Transition) {
            if seen.to == State::Claimed {
                let claimed = Dir::open(self.0.folder(&seen.agent, State::Claimed)).expect("there");
                for file in claimed.names().expect("they read") {
                    if let Seized::Held(hold) = Hold::take(&claimed, &file).expect("it opens") {
                        self.1.borrow_mut().push(hold);
                    }
                }
            }
        }
    }

    #[test]
    fn a12_who_has_every_claim_in_its_hands_has_a_consumer_hold_no_more_than_so_many() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        Home::init(&layout).expect("an empty place");
        let (agent, hands) = (AgentId::root(), Hands(layout.clone(), RefCell::default()));
        let bus = Bus::open(&layout, &hands);
        for from in 0..MOST_KEPT as u32 + 2 {
            bus.send(Draft::new(AgentId::numbered(from).into(), agent.clone(), "x")).expect("sent");
        }
        let terms = Terms { generation: Generation::NONE, max: None, replace: false, acks: true };
        let stop = Stop::hear().expect("heard");
        let seat = bus.only_consumer(&agent, &terms).expect("nobody else");
        let mut consumer = Consumer::new((&bus, &agent, &terms), (&stop, seat), |_| {}, |_| Put::Taken);
        let waits = bus.layout.folder(&agent, State::Written);
        let oldest = Dir::open(&waits).expect("there").names().expect("they read").remove(0);
        consumer.leave(waits.join(&oldest), Left::Newer(oldest));
        for _ in 0..2 {
            assert!(!consumer.look().expect("it goes on"));
            assert_eq!(
                (consumer.kept.len(), bus.count(&agent, State::Written).expect("counted")),
                (MOST_KEPT, 2)
            );
        }
        hands.1.borrow_mut().remove(0);
        // The one that is free makes room for one more, which is kept too.
        assert!(!consumer.look().expect("it goes on"));
        assert_eq!((consumer.kept.len(), consumer.done.surfaced), (MOST_KEPT, 1));
        assert!(consumer.left.is_empty(), "what is kept by now goes back, and was not left");
    }
}
