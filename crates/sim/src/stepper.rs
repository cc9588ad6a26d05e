//! The stepper: counts the points of a run, then repeats the run and breaks it at one of them.
//!
//! A point is the entry or the exit of a counted call: killed at the entry the call has not happened, killed at the
//! exit it has and the program never learned of it. The same program on the same files passes the same points, so
//! `points()` on one copy and `kill_at(k)` on others visits every one. Only the program's own thread is seen; a
//! second thread is an error, child processes run on unseen.
//!
//! A program that serves others has no end of its own and may have threads: [`Stepper::serve`] watches it from beside
//! while the caller asks it for something. Its points come in an order that the scheduler has a say in; so do those of a
//! whole family, a program with all that it starts ([`Stepper::family`]).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::call::{self, Call, Known, known};
use crate::tracee::{self, Program, Seen, Stop, Tracee};
use crate::{Errno, Error, Result};

/// The bound on one run unless the caller says otherwise: far more than a run takes on the busiest machine.
const LIMIT: Duration = Duration::from_secs(120);

/// On which side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call has not happened.
    Entry,
    /// The call has happened; the program has not run on.
    Exit,
}

/// One place where a run can be broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// How many points came before it.
    pub index: usize,
    /// The kind of call.
    pub call: Call,
    /// The call's own name, as `renameat2`.
    pub name: &'static str,
    /// The files that the call names, or the one behind its descriptor.
    pub files: Vec<PathBuf>,
    /// Of a family: whose call it is, as `git update-ref`.
    pub by: String,
    /// Before or after the call.
    pub moment: Moment,
    /// Whether anything may be otherwise to who looks here than at the point before: a kill here leaves what none before left.
    /// Not said of what has threads, or of a family.
    pub is_new: bool,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        let moment = if self.moment == Moment::Entry { "before" } else { "after" };
        write!(f, "point {}: {moment} {}({})", self.index, self.name, files.join(" -> "))
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal, which was not the stepper's.
    Signalled(i32),
    /// By the stepper's SIGKILL.
    Killed,
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub ended: Ended,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
}

/// A whole run and its points, in order.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Where it could be broken.
    pub points: Vec<Point>,
    /// The unbroken run.
    pub run: Run,
}

/// A run that was to be broken.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The point that was hit; `None` when the run ended before it.
    pub hit: Option<Point>,
    /// What it left behind.
    pub run: Run,
}

/// What is done to a program at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL, before or after the call; of a family to all at once.
    Kill,
    /// The same to the process whose call it is, alone.
    KillOne,
    /// The call is not made and answers this.
    Fail(Errno),
}

impl Fault {
    /// A call that has happened cannot be refused any more.
    fn fits(self, point: &Point) -> bool {
        matches!(self, Fault::Kill | Fault::KillOne) || point.moment == Moment::Entry
    }
}

/// What to do at a point.
enum Order {
    Go,
    Pause,
    Break(Fault),
}

/// How driving a program ended.
enum Driven {
    Gone(Ended),
    Paused,
}

/// A program to run, what to count in it, and the bound on each run.
#[derive(Clone, Debug)]
pub struct Stepper {
    program: Program,
    calls: Vec<Call>,
    touching: Option<PathBuf>,
    within: Option<PathBuf>,
    seen: Seen,
    limit: Duration,
}

impl Stepper {
    /// A run of `program` with an empty environment, in `/`, that counts [`Call::CHANGES`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = Program { path: program.into(), args: Vec::new(), env: Vec::new(), cwd: "/".into() };
        Stepper {
            program,
            calls: Call::CHANGES.to_vec(),
            touching: None,
            within: None,
            seen: Seen::Alone,
            limit: LIMIT,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.program.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment, which holds nothing else.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.program.env.push((key.into(), value.into()));
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.program.cwd = cwd.into();
        self
    }

    /// Counts only these kinds of calls.
    #[must_use]
    pub fn only(mut self, calls: &[Call]) -> Self {
        self.calls = calls.to_vec();
        self
    }

    /// Counts from the first call that names something at or below `path`: the loader's opens before it are noise.
    #[must_use]
    pub fn from_first_touch_of(mut self, path: impl Into<PathBuf>) -> Self {
        self.touching = Some(path.into());
        self
    }

    /// Counts only calls that name something at or below `path`.
    #[must_use]
    pub fn within(mut self, path: impl Into<PathBuf>) -> Self {
        self.within = Some(path.into());
        self
    }

    /// Counts the calls of whatever the program starts too, and where one of them becomes another program or ends, files
    /// or not; for [`Stepper::serve`].
    #[must_use]
    pub fn family(mut self) -> Self {
        self.seen = Seen::Family;
        self.calls.extend([Call::Exec, Call::Exit]);
        self
    }

    /// Sets the bound after which a run is killed and an error.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end without looking, only bounded.
    pub fn run(&self) -> Result<Run> {
        let unseen = tracee::run_unseen(&self.program, self.limit)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ended = match unseen.status.code() {
            Some(code) => Ended::Exited(code),
            None => Ended::Signalled(unseen.status.signal().unwrap_or_default()),
        };
        Ok(Run { ended, stdout: text(&unseen.stdout), stderr: text(&unseen.stderr) })
    }

    /// Runs to the end and lists every point.
    pub fn points(&self) -> Result<Trace> {
        let mut points = Vec::new();
        let mut tracee = self.start()?;
        let driven = self.drive(&mut tracee, |point| {
            points.push(point.clone());
            Order::Go
        })?;
        Ok(Trace { run: run(&tracee, driven), points })
    }

    /// Runs to point `index` and kills the program there.
    pub fn kill_at(&self, index: usize) -> Result<Outcome> {
        self.kill_when(|point| point.index == index)
    }

    /// Runs to the first point that `here` accepts and kills the program there.
    pub fn kill_when(&self, here: impl FnMut(&Point) -> bool) -> Result<Outcome> {
        self.break_when(here, Fault::Kill)
    }

    /// Runs to the end, but at the first point that `here` accepts the call is not made and answers `errno`.
    ///
    /// `here` is asked at entries only. A run that never comes there has no `hit`.
    pub fn fail_when(&self, here: impl FnMut(&Point) -> bool, errno: Errno) -> Result<Outcome> {
        self.break_when(here, Fault::Fail(errno))
    }

    /// Runs to the first point that `here` accepts, entries only for [`Fault::Fail`], and breaks the program there.
    pub fn break_when(&self, mut here: impl FnMut(&Point) -> bool, fault: Fault) -> Result<Outcome> {
        let mut tracee = self.start()?;
        let here = |point: &Point| fault.fits(point) && here(point);
        let (hit, driven) = self.break_at(&mut tracee, here, Order::Break(fault))?;
        Ok(Outcome { hit, run: run(&tracee, driven) })
    }

    /// Starts a program that serves, threads and all, and breaks it at the first point that `here` accepts (entries only
    /// for [`Fault::Fail`]).
    pub fn serve(
        &self,
        mut here: impl FnMut(&Point) -> bool + Send + 'static,
        fault: Fault,
    ) -> Result<Served> {
        let seen = if self.seen == Seen::Alone { Seen::Threads } else { self.seen };
        let stepper = Stepper { seen, ..self.clone() };
        let (started, starts) = mpsc::channel();
        let mut points = Vec::new();
        // A thread that starts nothing else: it waits for whatever child of its own comes next.
        let watching = std::thread::spawn(move || {
            let tracee = stepper.start().and_then(|tracee| Ok((handle(&tracee)?, tracee)));
            let mut tracee = match tracee {
                Ok((held, tracee)) => {
                    let _ = started.send(Ok(held));
                    tracee
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                    return Err(Error::Tracer { op: "start", source: std::io::ErrorKind::NotFound.into() });
                }
            };
            let here = |point: &Point| {
                points.push(point.clone());
                fault.fits(point) && here(point)
            };
            let (hit, driven) = stepper.break_at(&mut tracee, here, Order::Break(fault))?;
            Ok(Watched { points, outcome: Outcome { hit, run: run(&tracee, driven) } })
        });
        let held = starts.recv().expect("the thread says what came of the start")?;
        Ok(Served { held, watching: Some(watching) })
    }

    fn start(&self) -> Result<Tracee> {
        Tracee::start(&self.program, self.limit, true, self.seen)
    }

    /// Runs until the first exit that `here` accepts and leaves the program there under SIGSTOP, untraced.
    ///
    /// `None` when the run ended before. The time bound goes on counting.
    pub fn pause_when(&self, mut here: impl FnMut(&Point) -> bool) -> Result<Option<Paused>> {
        let mut tracee = self.start()?;
        let here = |point: &Point| point.moment == Moment::Exit && here(point);
        match self.break_at(&mut tracee, here, Order::Pause)? {
            (Some(point), Driven::Paused) => Ok(Some(Paused { tracee, limit: self.limit, point })),
            _ => Ok(None),
        }
    }

    fn break_at(
        &self,
        tracee: &mut Tracee,
        mut here: impl FnMut(&Point) -> bool,
        order: Order,
    ) -> Result<(Option<Point>, Driven)> {
        let (mut hit, mut order) = (None, Some(order));
        let driven = self.drive(tracee, |point| {
            // Asked at every point, also behind the hit: who only looks sees them all.
            let is_here = here(point);
            match order.take_if(|_| is_here) {
                Some(order) => {
                    hit = Some(point.clone());
                    order
                }
                None => Order::Go,
            }
        })?;
        Ok((hit, driven))
    }

    fn drive(&self, tracee: &mut Tracee, mut order: impl FnMut(&Point) -> Order) -> Result<Driven> {
        let (mut index, mut touched) = (0, self.touching.is_none());
        let mut calm = Calm::default();
        let (mut open, mut answers) = (HashMap::new(), HashMap::new());
        let mut last = String::from("no counted call");
        loop {
            let point = match tracee.next()? {
                Stop::Gone(status) => return finished(tracee, status, self.limit, &last),
                Stop::Entry(number) => {
                    if self.seen == Seen::Alone && tracee.starts_thread(&number) {
                        return Err(Error::Threads { program: tracee.name() });
                    }
                    calm.sees(number.nr, &number.args, tracee.thread());
                    let Some(known) = known(number.nr) else { continue };
                    let files = tracee.names(known, &number);
                    touched = touched || below(self.touching.as_deref(), &files);
                    let is_within = known.call.is_of_processes() || below(self.within.as_deref(), &files);
                    let counts = touched && is_within;
                    if !counts || !self.calls.contains(&known.call) {
                        calm.is_over |= known.call.changes_files(call::flags(known, &number.args));
                        continue;
                    }
                    calm.begins(known, &number.args);
                    let by = if self.seen == Seen::Family { tracee.acting() } else { String::new() };
                    let (call, name) = (known.call, known.name);
                    let is_new = calm.is_new(tracee, false);
                    let point = Point { index, call, name, files, by, moment: Moment::Entry, is_new };
                    open.insert(tracee.thread(), point.clone());
                    point
                }
                Stop::Exit => {
                    if let Some(errno) = answers.remove(&tracee.thread()) {
                        tracee.answer(errno)?;
                        if self.seen == Seen::Alone {
                            // It is broken now, and its other calls are nobody's business.
                            tracee.look_away();
                        }
                    }
                    if calm.mapping.is_none() && !open.contains_key(&tracee.thread()) {
                        continue;
                    }
                    let answered = tracee.answered()?;
                    calm.maps(answered, tracee.thread());
                    let Some(point) = open.remove(&tracee.thread()) else { continue };
                    let is_new = calm.is_new(tracee, answered >= 0);
                    Point { index, moment: Moment::Exit, is_new, ..point }
                }
            };
            index += 1;
            last = point.to_string();
            match order(&point) {
                Order::Go => {}
                Order::Break(Fault::Kill) => {
                    tracee.kill()?;
                    return Ok(Driven::Gone(Ended::Killed));
                }
                Order::Break(Fault::KillOne) => tracee.kill_standing()?,
                Order::Pause => {
                    tracee.stop_and_detach()?;
                    return Ok(Driven::Paused);
                }
                Order::Break(Fault::Fail(errno)) => {
                    tracee.skip_call()?;
                    answers.insert(tracee.thread(), errno);
                }
            }
        }
    }
}

/// Whether all is as it was at the last point.
struct Calm {
    /// Something happened since that may have changed it.
    is_over: bool,
    /// The call that has begun changes it, if it does not fail.
    is_changing: bool,
    /// The one that has begun maps so many bytes of a file to store into, which is no call.
    mapping: Option<(Pid, u64)>,
    /// Such maps, and what was in them at the last point.
    maps: Vec<(u64, u64)>,
    held: Vec<u8>,
}

impl Default for Calm {
    fn default() -> Calm {
        // At the first point.
        Calm { is_over: true, is_changing: false, mapping: None, maps: Vec::new(), held: Vec::new() }
    }
}

impl Calm {
    fn sees(&mut self, nr: i64, args: &[u64; 6], thread: Pid) {
        if call::shares_memory(nr, args) {
            self.mapping = Some((thread, args[1]));
        }
        let is_mapping = nr == nix::libc::SYS_mmap;
        self.is_over |= known(nr).is_none() && !is_mapping && !call::is_quiet(nr);
    }

    fn begins(&mut self, known: Known, args: &[u64; 6]) {
        self.is_changing = known.call.changes_files(call::flags(known, args));
    }

    fn maps(&mut self, answered: i64, thread: Pid) {
        if let Some((_, bytes)) = self.mapping.take_if(|(whose, _)| *whose == thread)
            && answered > 0
        {
            self.maps.push((answered.cast_unsigned(), bytes));
        }
    }

    /// At a point; at an exit the call was made if it did not fail.
    fn is_new(&mut self, tracee: &Tracee, is_made: bool) -> bool {
        let held: Vec<u8> = self.maps.iter().flat_map(|(at, bytes)| tracee.memory_at(*at, *bytes)).collect();
        let is_stored = held != self.held;
        self.held = held;
        std::mem::take(&mut self.is_over) || is_made && self.is_changing || is_stored
    }
}

/// Whether one of `files` is at or below `root`, if there is one.
fn below(root: Option<&Path>, files: &[PathBuf]) -> bool {
    root.is_none_or(|root| files.iter().any(|file| file.starts_with(root)))
}

/// A program that serves and is watched; dropping it kills it.
pub struct Served {
    held: OwnedFd,
    watching: Option<JoinHandle<Result<Watched>>>,
}

/// A run that was watched from beside.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What counted.
    pub points: Vec<Point>,
    /// Where it was broken, and what it left behind.
    pub outcome: Outcome,
}

impl Served {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.watching.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its own end, which its bound is for; the points that counted, and what became of it.
    pub fn ended(mut self) -> Result<Watched> {
        let watching = self.watching.take().expect("it is ended once");
        watching.join().expect("the tracer does not panic")
    }

    /// Kills it if it still lives; the points that counted, and what became of it.
    pub fn end(mut self) -> Result<Watched> {
        self.kill();
        let watching = self.watching.take().expect("it is ended once");
        watching.join().expect("the tracer does not panic")
    }

    fn kill(&self) {
        // Gone already is as good.
        let _ = pidfd_send_signal(&self.held, rustix::process::Signal::KILL);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
        if let Some(watching) = self.watching.take() {
            let _ = watching.join();
        }
    }
}

fn handle(tracee: &Tracee) -> Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(tracee.pid().cast_signed()).expect("a child's pid is positive");
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|errno| Error::Tracer { op: "open a pidfd", source: errno.into() })
}

/// A program under SIGSTOP right after one of its calls; dropping it kills it.
pub struct Paused {
    tracee: Tracee,
    limit: Duration,
    /// Where it stands.
    pub point: Point,
}

impl Paused {
    /// The stopped process.
    pub fn pid(&self) -> u32 {
        self.tracee.pid()
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.tracee.stdout()).into_owned()
    }

    /// Lets it run on to its end; the time bound has counted all along.
    pub fn resume(mut self) -> Result<Run> {
        self.tracee.continue_detached()?;
        let status = self.tracee.reap()?;
        let driven = finished(&mut self.tracee, status, self.limit, &self.point.to_string())?;
        Ok(run(&self.tracee, driven))
    }

    /// Kills it where it stands.
    pub fn kill(mut self) -> Result<Run> {
        self.tracee.kill()?;
        Ok(run(&self.tracee, Driven::Gone(Ended::Killed)))
    }
}

/// Tells the program's own end from one that the time bound made.
fn finished(tracee: &mut Tracee, status: WaitStatus, limit: Duration, last: &str) -> Result<Driven> {
    if tracee.timed_out() {
        return Err(Error::TimedOut { program: tracee.name(), limit, last: last.to_owned() });
    }
    match status {
        WaitStatus::Exited(_, code) => Ok(Driven::Gone(Ended::Exited(code))),
        WaitStatus::Signaled(_, signal, _) => Ok(Driven::Gone(Ended::Signalled(signal as i32))),
        status => unreachable!("a reaped process has ended, but: {status:?}"),
    }
}

fn run(tracee: &Tracee, driven: Driven) -> Run {
    let ended = match driven {
        Driven::Gone(ended) => ended,
        Driven::Paused => unreachable!("a paused run is handed out as paused"),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { ended, stdout: text(tracee.stdout()), stderr: text(tracee.stderr()) }
}
