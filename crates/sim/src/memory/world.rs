//! The machine around the disk: opened files, locks, clocks, chance, and the one process that acts.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::sim::{Answer, Errno, FileType, FlockOperation, OFlags, RenameFlags, Stat, World};

use super::disk::Disk;
use super::event::{Data, Event, Names};
use super::image::{Image, Ino, Node, ROOT};
use super::rng::Rng;

/// The first moment of every machine: early in 2026.
const EPOCH_MS: i64 = 1_767_225_600_000;
/// Passes with each look at a clock, so that no two looks see the same moment.
const LOOK: Duration = Duration::from_millis(1);
/// Between the death of one machine or process and its successor.
const OUTAGE: Duration = Duration::from_secs(60);
/// Boots are told apart by these; a run in which more are needed is none.
const BOOTS: [&str; 8] =
    ["b0070001", "b0070002", "b0070003", "b0070004", "b0070005", "b0070006", "b0070007", "b0070008"];

/// A machine in memory; one process acts on it at a time.
#[derive(Debug)]
pub struct Memory {
    machine: RefCell<Machine>,
}

#[derive(Debug)]
struct Machine {
    disk: Disk,
    /// What changed the disk since the log was taken last.
    log: Vec<Event>,
    /// Fault points passed since then, each with how long the log was.
    points: Vec<(usize, &'static str)>,
    opened: BTreeMap<u64, Opened>,
    mapped: BTreeMap<Ino, Mapped>,
    next: u64,
    /// Calls that are refused.
    refused: Vec<Refusal>,
    /// Files whose sync was refused.
    spoiled: BTreeSet<Ino>,
    era: Era,
    /// When it began: what was written before is taken to be of that second.
    began: i64,
}

#[derive(Debug)]
struct Opened {
    ino: Ino,
    offset: usize,
    append: bool,
    lock: Option<FlockOperation>,
    /// The name by which it was opened.
    name: OsString,
}

/// Calls that the machine refuses: of one kind, on a name with something in it.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Which.
    pub call: Call,
    /// What is in the name by which it was opened.
    pub part: &'static str,
    /// With what.
    pub errno: Errno,
    /// How often; then they work again.
    pub times: usize,
}

/// A kind of call that can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Opening what is there, or making it.
    Open,
    /// A sync. What it was of may be called clean from then on: no later sync of the same file makes any of it durable.
    Sync,
}

/// A mapped file.
#[derive(Debug)]
struct Mapped {
    words: Rc<[AtomicU64]>,
    /// What is known to be in them.
    seen: Vec<u64>,
}

/// When a machine is, which boot it is in, and whose turn it is; what a state needs beside its disk.
#[derive(Debug, Clone)]
pub struct Era {
    /// Since the first boot.
    now: Duration,
    /// How far the wall clock was set back since.
    back: Duration,
    rng: Rng,
    boot: usize,
    pid: u32,
}

impl Memory {
    /// A new machine with an empty disk, whose chance is decided by a seed.
    pub fn new(seed: u64) -> Rc<Memory> {
        let era = Era { now: Duration::ZERO, back: Duration::ZERO, rng: Rng::new(seed), boot: 0, pid: 1000 };
        Memory::with(Disk::of(Image::new()), era)
    }

    fn with(disk: Disk, era: Era) -> Rc<Memory> {
        let (opened, mapped) = (BTreeMap::new(), BTreeMap::new());
        let began = era.wall().as_second();
        let machine = Machine {
            disk,
            log: Vec::new(),
            points: Vec::new(),
            opened,
            mapped,
            next: 1,
            refused: Vec::new(),
            spoiled: BTreeSet::new(),
            era,
            began,
        };
        Rc::new(Memory { machine: RefCell::new(machine) })
    }

    /// The machine that starts from what a power cut left: a later boot, and none of the former processes. Its wall
    /// clock may come up `back` behind.
    pub fn booted(image: Image, era: &Era, back: Duration) -> Rc<Memory> {
        let (now, back) = (era.now + OUTAGE, era.back + back);
        Memory::with(
            Disk::of(image),
            Era { now, back, rng: era.rng.clone(), boot: era.boot + 1, pid: era.pid + 1 },
        )
    }

    /// The same machine after its process was killed: what was not synced still may be lost.
    pub fn killed(disk: Disk, era: &Era) -> Rc<Memory> {
        Memory::with(disk, Era { now: era.now + OUTAGE, pid: era.pid + 1, ..era.clone() })
    }

    /// What a successor has to know beside the disk.
    pub fn era(&self) -> Era {
        self.look().era.clone()
    }

    /// The disk as it is now.
    pub fn disk(&self) -> Disk {
        self.settled().disk.clone()
    }

    /// How much is in the log.
    pub fn logged(&self) -> usize {
        self.settled().log.len()
    }

    /// Takes what changed the disk since the last time, with the fault points passed on the way.
    pub fn take_log(&self) -> (Vec<Event>, Vec<(usize, &'static str)>) {
        let mut machine = self.settled();
        (std::mem::take(&mut machine.log), std::mem::take(&mut machine.points))
    }

    /// The process ends and another one acts: no descriptor of the former may be open any more.
    pub fn next_process(&self) {
        let mut machine = self.look();
        assert!(
            machine.opened.is_empty(),
            "the former process still has {} files open",
            machine.opened.len()
        );
        machine.mapped.clear();
        machine.era.pid += 1;
    }

    /// Has calls refused from here on.
    pub fn refuse(&self, refusal: Refusal) {
        self.look().refused.push(refusal);
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.look().era.now += time;
    }

    fn look(&self) -> RefMut<'_, Machine> {
        self.machine.borrow_mut()
    }

    /// The machine, with what was stored through mappings in its place.
    fn settled(&self) -> RefMut<'_, Machine> {
        let mut machine = self.look();
        machine.absorb();
        machine
    }
}

impl Machine {
    fn may(&mut self, call: Call, name: &OsStr) -> Answer<()> {
        let name = name.to_string_lossy();
        let is_it =
            |refusal: &&mut Refusal| refusal.times > 0 && refusal.call == call && name.contains(refusal.part);
        match self.refused.iter_mut().find(is_it) {
            Some(refusal) => {
                refusal.times -= 1;
                Err(refusal.errno)
            }
            None => Ok(()),
        }
    }

    fn do_it(&mut self, event: Event) {
        self.absorb();
        self.push(event);
    }

    fn push(&mut self, event: Event) {
        self.disk.apply(&event);
        self.log.push(event);
    }

    /// Stores through a mapping make no call: they are seen before the next change, and when somebody looks.
    fn absorb(&mut self) {
        let mut stored = Vec::new();
        for (ino, Mapped { words, seen }) in &mut self.mapped {
            for (nth, word) in words.iter().enumerate() {
                let word = word.load(Ordering::SeqCst);
                if word != seen[nth] {
                    seen[nth] = word;
                    stored.push(Event::Store(*ino, nth * 8, word));
                }
            }
        }
        stored.into_iter().for_each(|event| self.push(event));
    }

    fn opened(&self, number: u64) -> Answer<&Opened> {
        self.opened.get(&number).ok_or(Errno::BADF)
    }

    fn ino(&self, number: u64) -> Answer<Ino> {
        self.opened(number).map(|opened| opened.ino)
    }

    fn base(&self, base: Option<u64>) -> Answer<Ino> {
        base.map_or(Ok(ROOT), |number| self.ino(number))
    }

    /// The folder and the name in it that a path ends with.
    fn slot(&self, base: Ino, path: &Path) -> Answer<(Ino, OsString)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let folder = self.disk.live.find(base, parent).ok_or(Errno::NOENT)?;
        if self.disk.live.names(folder).is_none() {
            return Err(Errno::NOTDIR);
        }
        Ok((folder, name.to_owned()))
    }

    fn create(&mut self, at: (Ino, OsString), folder: bool) -> Ino {
        let ino = self.disk.live.next();
        self.do_it(Event::Names(Rc::new(Names::Create { at, ino, folder })));
        self.wrote(ino);
        ino
    }

    fn wrote(&mut self, ino: Ino) {
        let now = self.era.wall().as_second();
        self.disk.live.touch(ino, now);
    }

    fn change(&mut self, ino: Ino, data: Data) -> Answer<()> {
        if self.disk.live.bytes(ino).is_none() {
            return Err(Errno::ISDIR);
        }
        self.do_it(Event::Data(ino, Rc::new(data)));
        self.wrote(ino);
        let bytes = self.bytes(ino)?;
        if let Some(Mapped { words, seen }) = self.mapped.get_mut(&ino) {
            for (nth, word) in words.iter().enumerate() {
                seen[nth] = word_in(&bytes, nth * 8);
                word.store(seen[nth], Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// A file's bytes as a reader sees them: with what was stored through mappings.
    fn bytes(&self, ino: Ino) -> Answer<Vec<u8>> {
        let mut bytes = self.disk.live.bytes(ino).ok_or(Errno::ISDIR)?.to_vec();
        for (at, word) in self.disk.live.words(ino) {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        Ok(bytes)
    }

    fn stat(&self, ino: Ino) -> Stat {
        let (kind, mode, size, written) = match self.disk.live.node(ino) {
            Node::File { bytes, written } => {
                let written = if *written == 0 { self.began } else { *written };
                (FileType::RegularFile, 0o600, bytes.len() as u64, written)
            }
            Node::Folder(_) => (FileType::Directory, 0o700, 0, 0),
        };
        let uid = rustix::process::geteuid().as_raw();
        Stat { kind, mode, uid, links: 1, size, written, changed: written, device: 1, inode: ino as u64 }
    }
}

fn word_in(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

impl Era {
    fn wall(&self) -> Timestamp {
        let since = self.now.as_millis() as i64 - self.back.as_millis() as i64;
        Timestamp::from_millisecond(EPOCH_MS + since).expect("a moment of this century")
    }
}

impl World for Memory {
    fn open(&self, base: Option<u64>, path: &Path, flags: OFlags) -> Answer<u64> {
        let mut machine = self.look();
        let base = machine.base(base)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        machine.may(Call::Open, &name)?;
        let ino = match machine.disk.live.find(base, path) {
            Some(_) if flags.contains(OFlags::CREATE | OFlags::EXCL) => return Err(Errno::EXIST),
            Some(ino) => ino,
            None if flags.contains(OFlags::CREATE) => {
                let at = machine.slot(base, path)?;
                machine.create(at, false)
            }
            None => return Err(Errno::NOENT),
        };
        if flags.contains(OFlags::DIRECTORY) && machine.disk.live.names(ino).is_none() {
            return Err(Errno::NOTDIR);
        }
        let number = machine.next;
        machine.next += 1;
        let append = flags.contains(OFlags::APPEND);
        machine.opened.insert(number, Opened { ino, offset: 0, append, lock: None, name });
        Ok(number)
    }

    fn close(&self, number: u64) {
        self.look().opened.remove(&number);
    }

    fn stat(&self, base: Option<u64>, path: &Path) -> Answer<Stat> {
        let machine = self.look();
        let base = machine.base(base)?;
        machine.disk.live.find(base, path).map(|ino| machine.stat(ino)).ok_or(Errno::NOENT)
    }

    fn stat_handle(&self, number: u64) -> Answer<Stat> {
        let machine = self.look();
        Ok(machine.stat(machine.ino(number)?))
    }

    fn mkdir(&self, path: &Path) -> Answer<()> {
        let mut machine = self.look();
        if machine.disk.live.find(ROOT, path).is_some() {
            return Err(Errno::EXIST);
        }
        let at = machine.slot(ROOT, path)?;
        machine.create(at, true);
        Ok(())
    }

    fn names(&self, number: u64) -> Answer<Vec<OsString>> {
        let machine = self.look();
        let names = machine.disk.live.names(machine.ino(number)?).ok_or(Errno::NOTDIR)?;
        Ok(names.keys().cloned().collect())
    }

    fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Answer<()> {
        let mut machine = self.look();
        let from = machine.slot(machine.ino(from.0)?, from.1.as_ref())?;
        let to = machine.slot(machine.ino(to.0)?, to.1.as_ref())?;
        let find = |(folder, name): &(Ino, OsString)| machine.disk.live.find(*folder, name.as_ref());
        let ino = find(&from).ok_or(Errno::NOENT)?;
        let replaced = find(&to);
        if replaced.is_some() && flags.contains(RenameFlags::NOREPLACE) {
            return Err(Errno::EXIST);
        }
        machine.do_it(Event::Names(Rc::new(Names::Rename { from, to, ino, replaced })));
        Ok(())
    }

    fn unlink(&self, number: u64, name: &OsStr) -> Answer<()> {
        let mut machine = self.look();
        let at = machine.slot(machine.ino(number)?, name.as_ref())?;
        let ino = machine.disk.live.find(at.0, name.as_ref()).ok_or(Errno::NOENT)?;
        if machine.disk.live.names(ino).is_some() {
            return Err(Errno::ISDIR);
        }
        machine.do_it(Event::Names(Rc::new(Names::Unlink { at, ino })));
        Ok(())
    }

    fn read(&self, number: u64, bytes: &mut [u8]) -> Answer<usize> {
        let at = self.look().opened(number)?.offset;
        let read = self.read_at(number, bytes, at as u64)?;
        if let Some(opened) = self.look().opened.get_mut(&number) {
            opened.offset += read;
        }
        Ok(read)
    }

    fn read_at(&self, number: u64, bytes: &mut [u8], at: u64) -> Answer<usize> {
        let machine = self.settled();
        let file = machine.bytes(machine.ino(number)?)?;
        let rest = file.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(bytes.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write(&self, number: u64, bytes: &[u8]) -> Answer<usize> {
        let mut machine = self.look();
        let Opened { ino, offset, append, .. } = *machine.opened(number)?;
        let at = if append { machine.disk.live.bytes(ino).map_or(0, <[u8]>::len) } else { offset };
        machine.change(ino, Data::Write { at, bytes: bytes.to_vec() })?;
        if let Some(opened) = machine.opened.get_mut(&number) {
            opened.offset = at + bytes.len();
        }
        Ok(bytes.len())
    }

    fn write_at(&self, number: u64, bytes: &[u8], at: u64) -> Answer<()> {
        let mut machine = self.look();
        let ino = machine.ino(number)?;
        machine.change(ino, Data::Write { at: at as usize, bytes: bytes.to_vec() })
    }

    fn sync(&self, number: u64) -> Answer<()> {
        let mut machine = self.look();
        let Opened { ino, name, .. } = machine.opened(number)?;
        let (ino, name) = (*ino, name.clone());
        if let Err(refused) = machine.may(Call::Sync, &name) {
            machine.spoiled.insert(ino);
            return Err(refused);
        }
        if !machine.spoiled.contains(&ino) {
            machine.do_it(Event::Sync(ino));
        }
        Ok(())
    }

    fn allocate(&self, number: u64, len: u64) -> Answer<()> {
        let mut machine = self.look();
        let ino = machine.ino(number)?;
        match machine.disk.live.bytes(ino) {
            Some(bytes) if bytes.len() as u64 >= len => Ok(()),
            _ => machine.change(ino, Data::SetLen(len as usize)),
        }
    }

    fn set_len(&self, number: u64, len: u64) -> Answer<()> {
        let mut machine = self.look();
        let ino = machine.ino(number)?;
        machine.change(ino, Data::SetLen(len as usize))
    }

    fn lock(&self, number: u64, operation: FlockOperation) -> Answer<()> {
        let mut machine = self.look();
        let ino = machine.ino(number)?;
        let shared = matches!(operation, FlockOperation::LockShared | FlockOperation::NonBlockingLockShared);
        let held = machine.opened.iter().any(|(other, opened)| {
            let theirs = opened.lock.is_some_and(|lock| {
                !shared || !matches!(lock, FlockOperation::LockShared | FlockOperation::NonBlockingLockShared)
            });
            *other != number && opened.ino == ino && theirs
        });
        match operation {
            _ if !held => {}
            // Nobody else acts, so nobody would ever give it up.
            FlockOperation::LockExclusive | FlockOperation::LockShared => return Err(Errno::DEADLK),
            _ => return Err(Errno::WOULDBLOCK),
        }
        if let Some(opened) = machine.opened.get_mut(&number) {
            opened.lock = Some(operation);
        }
        Ok(())
    }

    fn map(&self, number: u64, len: usize) -> Answer<Rc<[AtomicU64]>> {
        let mut machine = self.settled();
        let ino = machine.ino(number)?;
        let bytes = machine.bytes(ino)?;
        if bytes.len() < len {
            return Err(Errno::INVAL);
        }
        let fresh = || {
            let seen: Vec<u64> = (0..len / 8).map(|nth| word_in(&bytes, nth * 8)).collect();
            Mapped { words: seen.iter().copied().map(AtomicU64::new).collect(), seen }
        };
        Ok(machine.mapped.entry(ino).or_insert_with(fresh).words.clone())
    }

    fn wall(&self) -> Timestamp {
        self.pause(LOOK);
        self.look().era.wall()
    }

    fn boot(&self) -> Duration {
        self.pause(LOOK);
        self.look().era.now
    }

    fn pause(&self, duration: Duration) {
        self.look().era.now += duration;
    }

    fn fill(&self, bytes: &mut [u8]) {
        let mut machine = self.look();
        for chunk in bytes.chunks_mut(8) {
            let word = machine.era.rng.draw().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn boot_id(&self) -> &'static str {
        BOOTS[self.look().era.boot]
    }

    fn pid(&self) -> u32 {
        self.look().era.pid
    }

    fn started(&self, pid: u32) -> Option<u64> {
        (pid == self.pid()).then(|| u64::from(pid) * 100)
    }

    fn point(&self, name: &'static str) {
        let mut machine = self.look();
        let at = machine.log.len();
        machine.points.push((at, name));
    }
}
