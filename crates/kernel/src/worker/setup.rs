//! How a worker comes up: lock, meta file, socket, logs, program, and the one line that tells its starter.
//!
//! Promise: a second worker of a name, or one of another generation, changes nothing. A program that cannot be
//! started ends as `failed-to-start` in the meta file and in the ready line. Once the line says ready, the program
//! runs, the socket listens and the meta file says so durably.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::wake::{Wake, ignored};
use netsky_disk::{fault, process};
use netsky_model::process::ProcessId;
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, set_child_subreaper, setsid};

use super::args::Args;
use super::clients::Clients;
use super::ending::{Ending, Verdict};
use super::heartbeat::Heart;
use super::input::Input;
use super::poll_loop::{Files, Worker};
use super::questions::Questions;
use super::record::Record;
use super::screen::Screen;
use super::start::{self, Started};
use crate::output_log::OutputLog;
use crate::session::{End, Io, LogSpan, Meta, Phase, ReadyLine, StartFailure, WorkerHello};
use crate::socket;

/// A look at the lock (`Lock::is_held`) holds it for a moment: wait that out before saying "busy".
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// Why a worker did not come up.
pub(super) struct Refused {
    pub(super) kind: StartFailure,
    pub(super) why: String,
}

fn setup(what: impl std::fmt::Display) -> Refused {
    Refused { kind: StartFailure::Setup, why: what.to_string() }
}

/// Take hold of the session and start its program.
pub(super) fn come_up(args: &Args) -> Result<Worker, Refused> {
    let wake = detach().map_err(setup)?;
    let me = process::identity().map_err(setup)?;
    if args.gate {
        let_in()?;
    }
    let layout = KernelLayout::new(&args.root);
    let lock = Lock::take_within(layout.worker_lock(&args.name), LOCK_WAIT).map_err(setup)?;
    let Some(mut lock) = lock else {
        let why = format!("session {} is held by another worker", args.name);
        return Err(Refused { kind: StartFailure::Busy, why });
    };
    // Advice for people; the lock itself is the truth.
    let _ = lock.note(&me);
    let meta = reserved(&layout, args)?;
    let mut record = Record::open(&layout, meta, me.clone()).map_err(setup)?;

    let opened = open_files(&layout, args, &record.meta);
    let (files, listener) = match opened {
        Ok(opened) => opened,
        Err(refused) => return Err(give_up(&mut record, refused)),
    };
    let opened = Clients::new(listener).map_err(setup).and_then(|clients| {
        let heart = Heart::open(&layout, &args.name, args.generation, &me).map_err(setup)?;
        Ok((clients, heart))
    });
    let (clients, heart) = match opened {
        Ok(opened) => opened,
        Err(refused) => return Err(give_up(&mut record, refused)),
    };
    let group = record.meta.group(&args.root);
    let Started { id, pid, wires, group } = match start::start(&record.meta, args.files, group) {
        Ok(started) => started,
        Err(why) => return Err(give_up(&mut record, Refused { kind: StartFailure::Program, why })),
    };
    record.meta.output_from = Some(files.out.span().end);
    record.meta.cgroup = group.as_ref().map(|group| group.path().to_owned());
    let mut ending = Ending::new(id.clone(), pid, record.meta.mark(), group);
    let recorded =
        fault::point("worker.started").map_err(setup).and_then(|()| record.started(&id).map_err(setup));
    if let Err(refused) = recorded {
        ending.end_now();
        return Err(give_up(&mut record, refused));
    }
    let hello = hello(&record.meta, &me, &id, files.out.span());
    let screen = match record.meta.spec.io {
        Io::Pty { rows, cols } => Some(Screen::new(rows, cols)),
        Io::Pipes => None,
    };
    say(&ReadyLine::Ready { worker: me, program: id, socket: layout.worker_sock(&args.name) });
    Ok(Worker {
        lock,
        wake,
        record,
        files,
        wires,
        screen,
        questions: Questions::default(),
        terminal_quiet_until: Duration::ZERO,
        input: Input::default(),
        ending,
        clients,
        heart,
        hello,
    })
}

fn hello(meta: &Meta, worker: &ProcessId, program: &ProcessId, log: LogSpan) -> WorkerHello {
    WorkerHello {
        v: crate::session::VERSION,
        name: meta.spec.name.clone(),
        lineage: meta.lineage.clone(),
        generation: meta.generation,
        worker: worker.clone(),
        program: program.clone(),
        log,
        pty: matches!(meta.spec.io, Io::Pty { .. }),
        screen: matches!(meta.spec.io, Io::Pty { .. }),
        keyboard: matches!(meta.spec.io, Io::Pty { .. }),
        types: true,
        input_epoch: 0,
    }
}

/// The meta file, if it speaks of exactly the start we were told to make.
fn reserved(layout: &KernelLayout, args: &Args) -> Result<Meta, Refused> {
    let agents = Dir::open(layout.agents()).map_err(setup)?;
    let bytes = agents.read(format!("{}.meta", args.name), Meta::MAX_BYTES).map_err(setup)?;
    let meta = Meta::parse(&bytes).map_err(setup)?;
    let stale = |why| Err(Refused { kind: StartFailure::Stale, why });
    if meta.spec.name != args.name || meta.generation != args.generation {
        let found = meta.generation;
        return stale(format!("generation {} was asked for, {found} is reserved", args.generation));
    }
    if meta.phase != Phase::Starting {
        return stale(format!("generation {} has been started before", args.generation));
    }
    Ok(meta)
}

fn open_files(layout: &KernelLayout, args: &Args, meta: &Meta) -> Result<(Files, UnixListener), Refused> {
    let log =
        |name: String| OutputLog::open(Dir::open(layout.agents()).map_err(setup)?, &name).map_err(setup);
    let out = log(format!("{}.out", args.name))?;
    let err = match meta.spec.io {
        Io::Pty { .. } => None,
        Io::Pipes => Some(log(format!("{}.err", args.name))?),
    };
    let socket = layout.worker_sock(&args.name);
    let listener =
        socket::listen(&socket).map_err(|e| setup(format!("listen at {}: {e}", socket.display())))?;
    let agents = Dir::open(layout.agents()).map_err(setup)?;
    Ok((Files { out, err, agents, socket: format!("{}.sock", args.name) }, listener))
}

/// Record that this generation never ran.
fn give_up(record: &mut Record, refused: Refused) -> Refused {
    let how = End::FailedToStart { why: refused.why.clone() };
    match record.ended(&Verdict { how, swept: 0, left: Vec::new(), unseen: None }) {
        Ok(()) => refused,
        Err(e) => Refused { why: format!("{}; nor could that be recorded: {e}", refused.why), ..refused },
    }
}

/// Leave the session of whoever started us, and everything else that it left open.
fn detach() -> std::io::Result<Wake> {
    start::close_inherited()?;
    // Fails only for the leader of a process group, which then is the leader of nothing that we would signal.
    let _ = setsid();
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut signals = vec![Signal::CHILD, Signal::TERM, Signal::HUP, Signal::INT];
    signals.extend(ignored());
    Wake::catch(&signals)
}

/// Wait until the generation that we were started for is reserved, and let go of standard input. Whoever started us and
/// ends before has reserved none, or not told us: then nothing may come of it here.
fn let_in() -> Result<(), Refused> {
    let mut byte = [0];
    let read = retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut byte));
    if read.map_err(setup)? == 0 {
        let why = "whoever started it did not let it in".to_owned();
        return Err(Refused { kind: StartFailure::Stale, why });
    }
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(setup)?;
    rustix::stdio::dup2_stdin(&null).map_err(setup)
}

/// Tell whoever started us, once, and let go of standard output.
pub(super) fn say(line: &ReadyLine) {
    let mut text = serde_json::to_vec(line).expect("plain data with string keys becomes JSON");
    text.push(b'\n');
    // Whoever started us may be gone; the meta file and the socket say the same.
    let _ = std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush());
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
