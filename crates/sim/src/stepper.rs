//! The stepper: counts the points of a run, then repeats the run and breaks it at one of them.
//!
//! A point is the entry or the exit of a counted call: killed at the entry the call has not happened, killed at the
//! exit it has and the program never learned of it. The same program on the same files passes the same points, so
//! `points()` on one copy and `kill_at(k)` on others visits every one. Only the program's own thread is seen; a
//! second thread is an error, child processes run on unseen.
//!
//! A program that serves others has no end of its own and may have threads: [`Stepper::serve`] watches it from beside
//! while the caller asks it for something. Its points come in an order that the scheduler has a say in.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::wait::WaitStatus;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::call::{Call, known};
use crate::tracee::{Program, Stop, Tracee};
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
    /// Before or after the call.
    pub moment: Moment,
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
    /// SIGKILL, before or after the call.
    Kill,
    /// The call is not made and answers this.
    Fail(Errno),
}

impl Fault {
    /// A call that has happened cannot be refused any more.
    fn fits(self, point: &Point) -> bool {
        self == Fault::Kill || point.moment == Moment::Entry
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
    threads: bool,
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
            threads: false,
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

    /// Sets the bound after which a run is killed and an error.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end without looking, only bounded.
    pub fn run(&self) -> Result<Run> {
        let mut tracee = Tracee::start(&self.program, self.limit, false, false)?;
        let driven = self.drive(&mut tracee, |_| Order::Go)?;
        Ok(run(&tracee, driven))
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
        let stepper = Stepper { threads: true, ..self.clone() };
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
        Tracee::start(&self.program, self.limit, true, self.threads)
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
        let (mut open, mut answers) = (HashMap::new(), HashMap::new());
        let mut last = String::from("no counted call");
        loop {
            let point = match tracee.next()? {
                Stop::Gone(status) => return finished(tracee, status, self.limit, &last),
                Stop::Entry(number) => {
                    if !self.threads && tracee.starts_thread(&number) {
                        return Err(Error::Threads { program: tracee.name() });
                    }
                    let Some(known) = known(number.nr) else { continue };
                    let files = tracee.names(known, &number);
                    touched = touched || below(self.touching.as_deref(), &files);
                    let counts = touched && below(self.within.as_deref(), &files);
                    if !counts || !self.calls.contains(&known.call) {
                        continue;
                    }
                    let (call, name) = (known.call, known.name);
                    let point = Point { index, call, name, files, moment: Moment::Entry };
                    open.insert(tracee.thread(), point.clone());
                    point
                }
                Stop::Exit => {
                    if let Some(errno) = answers.remove(&tracee.thread()) {
                        tracee.answer(errno)?;
                    }
                    let Some(point) = open.remove(&tracee.thread()) else { continue };
                    Point { index, moment: Moment::Exit, ..point }
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
