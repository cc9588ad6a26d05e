//! How soon a waiting consumer shows what was sent: from the end of a send to the element on the consumer's pipe.
//!
//! The floor does what no consumer can leave out: it is woken by the folder, claims the file durably, and shows it.

use std::io::{BufRead, BufReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netsky_bus::{Bus, Draft};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Sender};
use netsky_model::witness::Nobody;
use rustix::fs::inotify;

use super::pairs::{Pair, alternate};
use super::{Programs, floor};

const ROUNDS: usize = 300;

/// How long a consumer has to be idle again: it records what it showed.
const REST: Duration = Duration::from_millis(10);

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let place = scratch.join("wake");
    let bare = place.join("floor");
    let folders = floor::Folders::make(&bare)?;
    let mut woken = BareConsumer::start(&bare)?;

    let layout = Layout::new(place.join("home"));
    Home::init(&layout).map_err(|refused| anyhow::anyhow!("make a home: {refused}"))?;
    let bus = Bus::open(&layout, &Nobody).with_limits(super::bus::LIMITS);
    let (from, to) = (Sender::from(AgentId::root()), AgentId::numbered(7));
    bus.create(&to)?;
    let mut consumer = Consumer::start(programs, &layout, &to)?;

    let pair = alternate(
        "an idle `netsky channel watch`, from a message's send to its element",
        "a thread woken by inotify that renames the file, syncs the folder and writes a byte",
        ROUNDS,
        |round| {
            std::thread::sleep(REST);
            folders.write(round)?;
            let sent = Instant::now();
            woken.shown()?;
            Ok(sent.elapsed())
        },
        |_| {
            std::thread::sleep(REST);
            bus.send(Draft::new(from.clone(), to.clone(), floor::TEXT))?;
            let sent = Instant::now();
            consumer.element()?;
            Ok(sent.elapsed())
        },
    )?;
    Ok(vec![pair])
}

/// A running `netsky channel watch`; killed when dropped.
struct Consumer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Consumer {
    fn start(programs: &Programs, layout: &Layout, agent: &AgentId) -> Result<Consumer> {
        let mut child = programs
            .on(layout.home(), &["channel", "watch", agent.as_str()])
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", programs.netsky.display()))?;
        let output = child.stdout.take().expect("is piped");
        Ok(Consumer { child, output: BufReader::new(output) })
    }

    /// Waits for the end of the next element.
    fn element(&mut self) -> Result<()> {
        let mut line = String::new();
        while !line.contains("</channel>") {
            line.clear();
            ensure!(self.output.read_line(&mut line)? > 0, "the consumer ended");
        }
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // Our own child, not waited for yet: its pid is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bare consumer: a thread that ends with this process.
struct BareConsumer {
    shown: std::io::PipeReader,
}

impl BareConsumer {
    fn start(at: &Path) -> Result<BareConsumer> {
        let (inbox, claimed) = (floor::folder(&at.join("target"))?, floor::folder(&at.join("claimed"))?);
        let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, at.join("target"), inotify::WatchFlags::MOVED_TO)?;
        let (shown, show) = std::io::pipe()?;
        std::thread::spawn(move || {
            // Its end closes the pipe, which is the error that the reader sees.
            let _ = consume(&events, &inbox, &claimed, &show);
        });
        Ok(BareConsumer { shown })
    }

    fn shown(&mut self) -> Result<()> {
        Ok(self.shown.read_exact(&mut [0])?)
    }
}

fn consume(events: &OwnedFd, inbox: &OwnedFd, claimed: &OwnedFd, show: &impl AsFd) -> Result<()> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    loop {
        let event = reader.next()?;
        let name = event.file_name().context("an event without a name")?;
        rustix::fs::renameat(inbox, name, claimed, name)?;
        rustix::fs::fsync(claimed)?;
        rustix::io::write(show, b"x")?;
    }
}
