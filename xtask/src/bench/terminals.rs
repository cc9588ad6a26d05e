//! A peer: tmux, which keeps all its panes in one process without a durable word. Ours are a process each on purpose.
//!
//! Both start the same programs on terminals of one size and are watched by the same viewer.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use netsky_disk::process::{PidFd, identify};
use netsky_kernel::client::Client;
use netsky_model::process::ProcessId;

use super::asked::Figure;
use super::pairs::{Pair, alternate, timed};
use super::report::Measured;
use super::viewer::{COLS, ROWS, Viewer};
use super::{Programs, cpu, record};

/// Sessions that are started, and that idle.
const SESSIONS: usize = 200;
const CREATES: usize = 3;
/// Bytes of mixed output.
const FLOOD: usize = 100_000_000;
const FLOODS: usize = 3;
const ATTACHES: usize = 60;
const KEYS: usize = 300;
/// How long idle sessions are watched.
const IDLE: Duration = Duration::from_secs(60);
/// A viewer that shows nothing for so long has been painted whole.
const QUIET: Duration = Duration::from_millis(30);
/// Nothing here takes longer to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a program prints when it has printed everything else.
const LAST: &str = "@all-is-said@";

/// Rows beside tmux, and what its sessions and ours need while they idle; nothing where this machine has no tmux.
pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Measured> {
    let Some(tmux) = Tmux::find(scratch)? else {
        return Ok(Measured::nothing("Not measured: this machine has no tmux."));
    };
    let ours = Ours::new(scratch, programs, "terminals");
    let mut pairs = Vec::from(create(scratch, programs, &tmux)?);
    pairs.extend(look(&tmux, &ours)?);
    pairs.push(keys(&tmux, &ours)?);
    pairs.extend(floods(scratch, &tmux, &ours)?);
    let (text, figures) = idle(&tmux, &ours)?;
    Ok(Measured { pairs, text, figures })
}

/// What 200 sessions need that do nothing.
pub(crate) const IDLE_SESSIONS: &str = "200 idle sessions";

/// What holds terminals.
trait Holder {
    /// The command that starts `program` as a session of this name.
    fn start(&self, name: &str, program: &[&OsStr]) -> Command;
    /// The command that shows it.
    fn attach(&self, name: &str) -> Command;
    /// Ends everything.
    fn end(&self) -> Result<()>;
    /// Processes that hold sessions, without the sessions' programs.
    fn processes(&self) -> Result<Vec<u32>>;

    fn begin(&self, name: &str, program: &[&OsStr]) -> Result<()> {
        let status = self.start(name, program).status().context("start a session")?;
        ensure!(status.success(), "a session did not start: {status}");
        Ok(())
    }
}

struct Tmux {
    socket: PathBuf,
    /// What it calls itself.
    version: String,
}

impl Tmux {
    fn find(scratch: &Path) -> Result<Option<Tmux>> {
        let version = match Command::new("tmux").arg("-V").output() {
            Ok(said) if said.status.success() => String::from_utf8(said.stdout)?.trim().to_owned(),
            _ => return Ok(None),
        };
        std::fs::create_dir_all(scratch)?;
        Ok(Some(Tmux { socket: scratch.join("tmux.sock"), version }))
    }

    /// A server of our own, without anybody's configuration.
    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-f", "/dev/null", "-S"]).arg(&self.socket);
        bare(&mut command);
        command
    }
}

impl Holder for Tmux {
    fn start(&self, name: &str, program: &[&OsStr]) -> Command {
        let mut command = self.command();
        command.args(["new-session", "-d", "-s", name, "-x", &COLS.to_string(), "-y", &ROWS.to_string()]);
        command.args(program);
        command
    }

    fn attach(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["attach-session", "-t", name]);
        command
    }

    fn end(&self) -> Result<()> {
        // Without a server there is nothing to end.
        let Ok([server]) = <[u32; 1]>::try_from(self.processes().unwrap_or_default()) else { return Ok(()) };
        let held = identify(server).map(|server| PidFd::open(&server)).transpose()?.flatten();
        self.command().arg("kill-server").status()?;
        // It answers before it has gone, and a new one would meet its socket.
        ensure!(held.map_or(Ok(true), |server| server.wait(PATIENCE))?, "tmux did not end");
        Ok(())
    }

    fn processes(&self) -> Result<Vec<u32>> {
        let mut asked = self.command();
        asked.args(["display-message", "-p", "#{pid}"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let answer = asked.output()?;
        Ok(vec![String::from_utf8(answer.stdout)?.trim().parse().context("the pid of tmux")?])
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Ours {
    ostk: PathBuf,
    root: PathBuf,
}

impl Ours {
    fn new(scratch: &Path, programs: &Programs, root: &str) -> Ours {
        Ours { ostk: programs.ostk.clone(), root: scratch.join(root) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.ostk);
        bare(&mut command);
        command.env("OSTK_ROOT", &self.root);
        command
    }
}

impl Holder for Ours {
    fn start(&self, name: &str, program: &[&OsStr]) -> Command {
        let mut command = self.command();
        command.args(["kernel", "spawn", name, "--cwd", "/", "--"]).args(program);
        command
    }

    fn attach(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["attach", name]);
        command
    }

    fn end(&self) -> Result<()> {
        match Client::connect(&self.root) {
            Ok(client) => Ok(client.shutdown(true).map(drop)?),
            // Nobody serves: nothing was started.
            Err(_) => Ok(()),
        }
    }

    fn processes(&self) -> Result<Vec<u32>> {
        let mut client = Client::connect(&self.root)?;
        let sessions = client.ps()?;
        let mut found: Vec<u32> =
            sessions.iter().filter_map(|session| Some(living(session.worker.as_ref()?)?.pid)).collect();
        found.push(client.hello().anchor.pid);
        Ok(found)
    }
}

/// Those of sessions that have ended are listed too.
fn living(worker: &ProcessId) -> Option<&ProcessId> {
    (identify(worker.pid).as_ref() == Some(worker)).then_some(worker)
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Silent, with nothing of our environment but where programs are and what terminal there is.
fn bare(command: &mut Command) {
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TERM", "xterm-256color");
    command.env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
}

fn sleeper() -> [&'static OsStr; 2] {
    [OsStr::new("/bin/sleep"), OsStr::new("1000")]
}

/// Sessions of names that never were, as all are to tmux, on the disk and where a sync waits for nothing; and of names
/// whose generation before is looked for first.
fn create(scratch: &Path, programs: &Programs, tmux: &Tmux) -> Result<[Pair; 3]> {
    let all = |holder: &dyn Holder| {
        let took = timed(|| (0..SESSIONS).try_for_each(|n| holder.begin(&format!("s{n}"), &sleeper())))?;
        holder.end()?;
        Ok(took)
    };
    let anew = alternate(
        "200 sessions started by `ostk kernel spawn`, one after another, each durable",
        "200 times `tmux new-session -d`",
        CREATES,
        |_| all(tmux),
        |round| all(&Ours::new(scratch, programs, &format!("created-{round}"))),
    )?;
    let memory = tempfile::tempdir_in(record::MEMORY).context("make a throwaway folder in memory")?;
    let in_memory = alternate(
        "the same 200 in a root in memory, where a sync waits for nothing: what is left is not the disk's",
        "200 times `tmux new-session -d`",
        CREATES,
        |_| all(tmux),
        |round| all(&Ours::new(memory.path(), programs, &format!("created-{round}"))),
    )?;
    let ours = Ours::new(scratch, programs, "created");
    let again = alternate(
        "200 sessions started again under the names of 200 that have ended, of which nobody is left",
        "200 times `tmux new-session -d`",
        CREATES,
        |_| all(tmux),
        |_| all(&ours),
    )?;
    Ok([anew, in_memory, again])
}

/// From the start of the client to a whole screen of a program that has printed, and of one that prints no more.
fn look(tmux: &Tmux, ours: &Ours) -> Result<[Pair; 1]> {
    let paint =
        format!("seq -f 'line %.0f of a screen full of text' 1 100; printf '{LAST}'; exec sleep 1000");
    let program = shell(&paint);
    let one = |holder: &dyn Holder| {
        let mut viewer = None;
        let took = timed(|| viewer.insert(Viewer::start(holder.attach("look"))?).until(LAST))?;
        Ok(took)
    };
    for holder in [tmux as &dyn Holder, ours] {
        holder.begin("look", &program)?;
        // Not before all is printed.
        Viewer::start(holder.attach("look"))?.until(LAST)?;
    }
    let pair = alternate(
        "`ostk attach` to a full screen, from the start of the client",
        "`tmux attach-session` to the same",
        ATTACHES,
        |_| one(tmux),
        |_| one(ours),
    )?;
    tmux.end()?;
    ours.end()?;
    Ok([pair])
}

/// From a key to its echo on the viewer's terminal.
fn keys(tmux: &Tmux, ours: &Ours) -> Result<Pair> {
    let program = shell("stty raw -echo; printf ready; exec cat");
    let open = |holder: &dyn Holder| {
        holder.begin("echo", &program)?;
        let mut viewer = Viewer::start(holder.attach("echo"))?;
        viewer.until("ready")?;
        viewer.rest(10 * QUIET)?;
        Ok::<_, anyhow::Error>(viewer)
    };
    let (mut theirs, mut own) = (open(tmux)?, open(ours)?);
    let one = |viewer: &mut Viewer, round: usize| {
        // A letter that no escape sequence around it ends with.
        let key = ["Q", "X", "Y", "W"][round % 4];
        std::thread::sleep(Duration::from_millis(5));
        let took = timed(|| {
            viewer.write(key.as_bytes())?;
            viewer.until(key)
        })?;
        Ok(took)
    };
    let pair = alternate(
        "a key's echo through an attached client and `cat`",
        "the same through tmux",
        KEYS,
        |round| one(&mut theirs, round),
        |round| one(&mut own, round),
    )?;
    drop((theirs, own));
    tmux.end()?;
    ours.end()?;
    Ok(pair)
}

fn floods(scratch: &Path, tmux: &Tmux, ours: &Ours) -> Result<[Pair; 2]> {
    let memory = tempfile::tempdir_in(record::MEMORY).context("make a throwaway folder in memory")?;
    let text = memory.path().join("mixed");
    mixed(&text)?;
    let flood = |holder: &dyn Holder, watched| flood(scratch, &text, holder, watched);
    let alone = alternate(
        "100 MB of mixed output (colours, UTF-8, erased lines), nobody attached",
        "the same in tmux",
        FLOODS,
        |_| flood(tmux, false),
        |_| flood(ours, false),
    )?;
    let watched = alternate(
        "100 MB with a client attached, until it has shown the last word",
        "the same in tmux, which skips what its client is too slow for",
        FLOODS,
        |_| flood(tmux, true),
        |_| flood(ours, true),
    )?;
    Ok([alone, watched])
}

/// One flood, until the program has said all, or who watches has shown it.
fn flood(scratch: &Path, text: &Path, holder: &dyn Holder, watched: bool) -> Result<Duration> {
    let (go, said) = (scratch.join("go"), scratch.join("said"));
    Command::new("mkfifo").args([&go, &said]).status()?;
    let script = format!(
        "printf ready; read x <{go}; cat {text}; printf '\\n{LAST}'; echo > {said}; exec sleep 1000",
        go = go.display(),
        said = said.display(),
        text = text.display(),
    );
    holder.begin("flood", &shell(&script))?;
    let mut viewer = Viewer::start(holder.attach("flood"))?;
    viewer.until("ready")?;
    let viewer = Some(viewer).filter(|_| watched);
    let took = timed(|| {
        std::fs::write(&go, "go\n")?;
        match viewer {
            Some(mut viewer) => viewer.until(LAST),
            None => Ok(File::open(&said)?.read_to_end(&mut Vec::new()).map(drop)?),
        }
    })?;
    holder.end()?;
    for pipe in [go, said] {
        std::fs::remove_file(pipe)?;
    }
    Ok(took)
}

fn shell(script: &str) -> [&OsStr; 3] {
    [OsStr::new("/bin/sh"), OsStr::new("-c"), OsStr::new(script)]
}

/// Lines of words, some in colours, some in other scripts, some with what erases a line.
fn mixed(path: &Path) -> Result<()> {
    const WORDS: [&str; 8] =
        ["compile", "running", "test", "passed", "Überprüfung", "日本語", "failed", "naïve"];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    while written < FLOOD {
        let mut line = String::new();
        for _ in 0..4 + random(10) {
            let word = WORDS[random(8) as usize];
            match random(20) {
                0..=4 => write!(line, "\x1b[{}m{word}\x1b[0m ", 31 + random(6))?,
                5 => write!(line, "\x1b[38;2;{};{};9m{word}\x1b[m ", random(256), random(256))?,
                _ => write!(line, "{word} ")?,
            }
        }
        if random(20) == 0 {
            line.push_str("\x1b[K");
        }
        line.push('\n');
        written += line.len();
        file.write_all(line.as_bytes())?;
    }
    Ok(file.flush()?)
}

/// Memory and time of 200 sessions that do nothing, as a table and as figures of ours.
fn idle(tmux: &Tmux, ours: &Ours) -> Result<(String, BTreeMap<String, f64>)> {
    let mut text = format!("| {IDLE_SESSIONS} | {} | ours |\n| --- | ---: | ---: |\n", tmux.version);
    let mut shares = Vec::new();
    let mut busy = Vec::new();
    for holder in [tmux as &dyn Holder, ours] {
        (0..SESSIONS).try_for_each(|n| holder.begin(&format!("s{n}"), &sleeper()))?;
        let processes = holder.processes()?;
        let before = cpu::of(&processes)?;
        std::thread::sleep(IDLE);
        let after = cpu::of(&processes)?;
        let total: u64 = processes.iter().map(|pid| pss(*pid)).sum::<Result<u64>>()?;
        shares.push((processes.len(), total));
        busy.push(after.saturating_sub(before));
        holder.end()?;
    }
    let mib = |n: usize| shares[n].1 as f64 / 1024.0 / SESSIONS as f64;
    let percent = |n: usize| 100.0 * busy[n].div_duration_f64(IDLE);
    let line = |text: &mut String, what: &str, of: &dyn Fn(usize) -> String| {
        writeln!(text, "| {what} | {} | {} |", of(0), of(1))
    };
    line(&mut text, "processes that hold them", &|n| shares[n].0.to_string())?;
    line(&mut text, "memory a session (PSS of these, divided by 200)", &|n| format!("{:.2} MiB", mib(n)))?;
    line(&mut text, "time of one core, of 60 s", &|n| format!("{:.2} %", percent(n)))?;
    let figures = [(Figure::Memory, mib(1)), (Figure::Core, percent(1))];
    Ok((text, figures.map(|(figure, value)| (figure.of(IDLE_SESSIONS), value)).into()))
}

/// The proportional share of memory of a process, KiB.
pub(crate) fn pss(pid: u32) -> Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:")).context("no Pss")?;
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).context("no number of KiB")
}
