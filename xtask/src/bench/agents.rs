//! Driven programs: what a delivery adds to writing to the program directly, what an agent adds in memory, and how long the
//! real programs take to start, to be proved up and to come back, beside starting them by hand.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use netsky_disk::layout::Layout;
use netsky_disk::process::{Signal, signal};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Event, EventKind};
use netsky_model::id::AgentId;
use serde_json::{Value, json};

use super::asked::Figure;
use super::constellation::{PATIENCE, Up};
use super::pairs::{Pair, alternate, timed};
use super::provider::Provider;
use super::report::Measured;
use super::speaker::SPEAKER;
use super::{Programs, floor, terminals};
use crate::real::{self, Real};

/// A message, all the way.
pub(crate) const TOLD: &str = "a message to a driven agent, from the beginning of its send inside a process until the program has read it";
/// What is in memory for an agent, beside its program.
pub(crate) const ADDED: &str =
    "a driven agent, of 20: its worker, and what netsky-drivers, the anchor and agentinfinity grow by";

const ROUNDS: usize = 300;
/// Agents whose memory is looked at.
const AGENTS: u32 = 20;
/// Messages that each of them has had by then.
const HAD: usize = 5;
/// Rounds of a real program.
const STARTS: usize = 5;
/// A key for a provider that looks at none.
const KEY: &str = "sk-ant-scripted-0000";
/// How long everybody has to be idle again: netsky-drivers writes its book.
const REST: Duration = Duration::from_millis(10);

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Measured> {
    let mut measured = Measured::from(Vec::from(told(&scratch.join("told"), programs)?));
    let added = added(&scratch.join("added"), programs)?;
    measured.figures.insert(Figure::Memory.of(ADDED), added);
    measured.text = format!("| memory | MiB |\n| --- | ---: |\n| {ADDED} (PSS) | {added:.2} |\n");
    for real in [real::CLAUDE, real::CODEX] {
        let Some(program) = real.path() else {
            let runtime = real.runtime;
            measured.text.push_str(&format!(
                "\nStart, up-proof and return of `{runtime}`: not measured, the program is not there.\n"
            ));
            continue;
        };
        if !real::is_apart() {
            let runtime = real.runtime;
            measured.text.push_str(&format!("\nStart, up-proof and return of `{runtime}`: not measured, more than loopback could be reached.\n"));
            continue;
        }
        measured.pairs.extend(real_rows(&scratch.join(real.runtime), programs, &real, &program)?);
    }
    Ok(measured)
}

/// A pipe with a name on which a speaker tells that it has read.
struct Told {
    path: PathBuf,
    pipe: File,
}

impl Told {
    fn make(path: PathBuf) -> Result<Told> {
        ensure!(Command::new("mkfifo").arg(&path).status()?.success(), "make a pipe");
        // Open to write, too: it never ends, and whoever opens it to write waits for nobody.
        let pipe = File::options().read(true).write(true).open(&path)?;
        Ok(Told { path, pipe })
    }

    fn came(&mut self) -> Result<()> {
        Ok(self.pipe.read_exact(&mut [0])?)
    }

    /// The speaker's own words before those of Claude Code.
    fn argv(&self) -> Result<[String; 3]> {
        let own = std::env::current_exe()?.display().to_string();
        Ok([own, SPEAKER.to_owned(), self.path.display().to_string()])
    }

    fn settings(&self) -> Result<String> {
        Ok(format!("[defaults]\nruntime = \"claude\"\nargv = {:?}\n", self.argv()?))
    }
}

/// A message through everything, against the same line written to the program, and against what that consists of.
fn told(place: &Path, programs: &Programs) -> Result<[Pair; 2]> {
    std::fs::create_dir_all(place)?;
    let mut ours = Told::make(place.join("ours"))?;
    let up = Up::with(programs, place, &ours.settings()?, &["up", "0"])?;
    let root = AgentId::root();
    let mut through = |_: usize| {
        up.until_finished(&root)?;
        std::thread::sleep(REST);
        let began = up.send(&root)?;
        ours.came()?;
        Ok(began.elapsed())
    };
    let mut bare = Told::make(place.join("bare"))?;
    let mut program = Bare::start(Command::new(&bare.argv()?[0]).args(&bare.argv()?[1..]))?;
    let alone = alternate(
        TOLD,
        "the same line written to the pipe of such a program",
        ROUNDS,
        |round| program.tells(&mut bare, round, || Ok(())),
        &mut through,
    )?;
    let folders = floor::Folders::make(&place.join("floor"))?;
    let mut passed = Told::make(place.join("passed"))?;
    // netsky-drivers and the worker pass it on.
    let hands = "cat | cat | exec \"$@\"";
    let mut program = Bare::start(Command::new("/bin/sh").args(["-c", hands, "sh"]).args(passed.argv()?))?;
    let parts = alternate(
        "the same",
        "what it consists of: a durable write, a durable rename, the line through two processes to the program",
        ROUNDS,
        |round| {
            program.tells(&mut passed, round, || {
                folders.write(round)?;
                folders.take(round)
            })
        },
        &mut through,
    )?;
    Ok([alone, parts])
}

/// A line as netsky-drivers writes it.
fn message(number: usize) -> String {
    let text = format!(
        "<channel source=\"agent\" from=\"owner\" id=\"{number:036}\" ts=\"2026-01-01T00:00:00.000Z\">\n{}\n</channel>",
        floor::TEXT
    );
    let content = json!([{"type": "text", "text": text}]);
    let line = json!({"type": "user", "uuid": format!("{number:036}"), "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": content}});
    format!("{line}\n")
}

/// MiB that netsky has in memory for each further agent that has had mail.
fn added(place: &Path, programs: &Programs) -> Result<f64> {
    std::fs::create_dir_all(place)?;
    let told = Told::make(place.join("told"))?;
    let up = Up::with(programs, place, &told.settings()?, &["up", "0"])?;
    let in_use = |agents: std::ops::RangeInclusive<u32>| -> Result<u64> {
        let agents: Vec<AgentId> = agents.map(AgentId::numbered).collect();
        for agent in &agents {
            for _ in 0..HAD {
                up.send(agent)?;
                up.until_finished(agent)?;
            }
        }
        std::thread::sleep(REST);
        up.processes()?.into_iter().map(terminals::pss).sum()
    };
    let one = in_use(0..=0)?;
    up.run(&["up", &AGENTS.to_string()])?;
    let many = in_use(1..=AGENTS)?;
    Ok(many.saturating_sub(one) as f64 / 1024.0 / f64::from(AGENTS))
}

/// A program on pipes that nobody keeps; killed when dropped.
struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Bare {
    fn start(command: &mut Command) -> Result<Bare> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start a program")?;
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Ok(Bare { child, input, output: BufReader::new(output) })
    }

    fn write(&mut self, line: &str) -> Result<()> {
        Ok(self.input.write_all(line.as_bytes())?)
    }

    /// From before what comes first until it has read a message; then it has its turn.
    fn tells(
        &mut self,
        told: &mut Told,
        round: usize,
        first: impl FnOnce() -> Result<()>,
    ) -> Result<Duration> {
        std::thread::sleep(REST);
        let line = message(round);
        let took = timed(|| {
            first()?;
            self.write(&line)?;
            told.came()
        })?;
        self.until("\"idle\"")?;
        Ok(took)
    }

    /// The first line with this in it.
    fn until(&mut self, what: &str) -> Result<String> {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            ensure!(self.output.read_line(&mut line)? > 0, "the program ended before it said {what}");
        }
        Ok(line)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // Our own child, not waited for yet: its pid is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a real program needs to ask nothing and to reach nobody but our provider.
struct Guest<'a> {
    real: &'a Real,
    program: &'a Path,
    provider: Provider,
}

impl Guest<'_> {
    /// A place with the settings of its user.
    fn prepare(&self, place: &Path) -> Result<()> {
        std::fs::create_dir_all(place.join("tmp"))?;
        if self.real.runtime == real::CLAUDE.runtime {
            let known = json!({
                "hasCompletedOnboarding": true,
                "customApiKeyResponses": {"approved": [KEY], "rejected": []},
                "projects": {place.display().to_string(): {"hasTrustDialogAccepted": true}},
            });
            std::fs::write(place.join(".claude.json"), known.to_string())?;
        } else {
            std::fs::create_dir_all(place.join(".codex"))?;
            let settings = format!(
                "model = \"scripted-1\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
                 [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
                 env_key = \"CODEX_SCRIPTED_KEY\"\nsupports_websockets = false\n\
                 [features]\ndaemon_auto_start = false\nplugins = false\napps = false\n[analytics]\nenabled = false\n\
                 [otel]\nmetrics_exporter = \"none\"\n[projects.{place:?}]\ntrust_level = \"trusted\"\n",
                self.provider.url
            );
            std::fs::write(place.join(".codex/config.toml"), settings)?;
        }
        Ok(())
    }

    fn environment(&self, place: &Path) -> BTreeMap<&'static str, String> {
        let tmp = ("TMPDIR", place.join("tmp").display().to_string());
        if self.real.runtime != real::CLAUDE.runtime {
            return BTreeMap::from([tmp, ("CODEX_SCRIPTED_KEY", KEY.to_owned())]);
        }
        let own = ("ANTHROPIC_API_KEY", KEY.to_owned());
        let mut environment = BTreeMap::from([tmp, own, ("ANTHROPIC_BASE_URL", self.provider.url.clone())]);
        let quiet = [
            "IS_SANDBOX",
            "DISABLE_AUTOUPDATER",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
        ];
        environment.extend(quiet.map(|name| (name, "1".to_owned())));
        environment
    }

    /// A constellation whose clone will be this program; its root does nothing.
    fn up<'p>(&self, programs: &'p Programs, place: &Path) -> Result<Up<'p>> {
        self.prepare(place)?;
        let lines: String =
            self.environment(place).iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        let settings = format!(
            "[agents.agent1]\nruntime = {:?}\nargv = [{:?}]\ncwd = {place:?}\n[agents.agent1.env]\n{lines}",
            self.real.runtime, self.program
        );
        let root = "netsky session up && exec sleep 100000";
        Up::with(
            programs,
            place,
            &settings,
            &["up", "0", "--runtime", "command", "--", "/bin/sh", "-c", root],
        )
    }

    /// The program by hand, on a conversation of it where one is named.
    fn start(&self, place: &Path, conversation: Option<&str>) -> Result<Bare> {
        let mut command = Command::new(self.program);
        command.env_clear().env("HOME", place).env("PATH", "/usr/bin:/bin").current_dir(place);
        command.envs(self.environment(place));
        if self.real.runtime == real::CLAUDE.runtime {
            // As netsky starts it.
            command.env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1").arg("-p").arg("--verbose");
            command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
            command.args(["--include-partial-messages", "--replay-user-messages"]);
            command.args(["--permission-prompt-tool", "stdio"]);
            command.args(conversation.map(|id| ["--resume", id]).into_iter().flatten());
        } else {
            command.arg("app-server");
        }
        Bare::start(&mut command)
    }

    /// The same, until it has answered its greeting.
    fn bare(&self, place: &Path, conversation: Option<&str>) -> Result<Bare> {
        let mut program = self.start(place, conversation)?;
        for (line, answer) in self.greeting(conversation) {
            program.write(&format!("{line}\n"))?;
            if let Some(answer) = answer {
                program.until(answer)?;
            }
        }
        Ok(program)
    }

    /// A constellation whose clone has had a turn, and the clone's conversation.
    fn with_a_turn<'p>(&self, programs: &'p Programs, place: &Path) -> Result<(Up<'p>, String)> {
        let (up, clone) = (self.up(programs, place)?, AgentId::numbered(1));
        up.run(&["agent", "1"])?;
        up.until_proved("agent1", 1)?;
        up.send(&clone)?;
        up.until_finished(&clone)?;
        let conversation = conversation(place)?;
        Ok((up, conversation))
    }

    /// From the death of such a clone until its next generation is up.
    fn dies_and_returns(&self, programs: &Programs, place: &Path) -> Result<Duration> {
        let (up, before) = self.with_a_turn(programs, place)?;
        let session = Client::connect(&up.layout.kernel_root())?.show(&AgentId::numbered(1))?;
        let victim = session.program.context("it has no program")?;
        let took = timed(|| {
            ensure!(signal(&victim, Signal::KILL)?, "it is gone already");
            up.until_proved("agent1", 2)
        })?;
        ensure!(conversation(place)? == before, "it is another conversation");
        Ok(took)
    }

    /// From the start by hand on the conversation of such a clone, which is gone, until it answers.
    fn returns_by_hand(&self, programs: &Programs, place: &Path) -> Result<Duration> {
        let (up, conversation) = self.with_a_turn(programs, place)?;
        drop(up);
        timed(|| self.bare(place, Some(&conversation)).map(drop))
    }

    /// What is said to it first, and what its answers have in them.
    fn greeting(&self, conversation: Option<&str>) -> Vec<(Value, Option<&'static str>)> {
        if self.real.runtime == real::CLAUDE.runtime {
            let request = json!({"subtype": "initialize"});
            let line = json!({"type": "control_request", "request_id": "greet", "request": request});
            return vec![(line, Some("control_response"))];
        }
        let client = json!({"name": "bench", "title": "bench", "version": "1"});
        let thread = match conversation {
            Some(id) => json!({"id": "thread", "method": "thread/resume", "params": {"threadId": id}}),
            None => json!({"id": "thread", "method": "thread/start", "params": {}}),
        };
        vec![
            (
                json!({"id": "greet", "method": "initialize", "params": {"clientInfo": client}}),
                Some("\"greet\""),
            ),
            (json!({"method": "initialized"}), None),
            // Up is for netsky who has a thread.
            (thread, Some("\"thread\"")),
        ]
    }
}

fn real_rows(scratch: &Path, programs: &Programs, real: &Real, program: &Path) -> Result<Vec<Pair>> {
    let guest = Guest { real, program, provider: Provider::start() };
    let runtime = real.runtime;
    let place = |what: &str, round: usize| scratch.join(format!("{what}-{round}"));
    let agent = ["agent", "1"];
    let started = alternate(
        format!("`{runtime}`, start: from the beginning of `netsky agent 1` until the program runs"),
        "that program started by hand: one fork and exec",
        STARTS,
        |round| {
            let at = place("bare", round);
            guest.prepare(&at)?;
            let mut program = None;
            let took = timed(|| guest.start(&at, None).map(|started| program = Some(started)))?;
            drop(program);
            Ok(took)
        },
        |round| {
            let up = guest.up(programs, &place("start", round))?;
            let mut rows = Client::connect(&up.layout.kernel_root())?.subscribe(None)?;
            let clone = AgentId::numbered(1);
            let runs = |row: &Event| row.kind == EventKind::Started && row.session.as_ref() == Some(&clone);
            let mut verb = None;
            let took = timed(|| {
                verb = Some(up.command(&agent).spawn()?);
                ensure!(rows.find(PATIENCE, runs)?.is_some_and(|row| runs(&row)), "it does not run");
                Ok(())
            })?;
            // It waits for the proof.
            let ended = verb.map(|mut verb| verb.wait()).transpose()?;
            ensure!(ended.is_some_and(|ended| ended.success()), "netsky agent 1 failed");
            Ok(took)
        },
    )?;
    let proved = alternate(
        format!("`{runtime}`, up-proof: from the beginning of `netsky agent 1`"),
        "that program started by hand, until it has answered its greeting",
        STARTS,
        |round| {
            let at = place("by-hand", round);
            guest.prepare(&at)?;
            timed(|| guest.bare(&at, None).map(drop))
        },
        |round| {
            let up = guest.up(programs, &place("proof", round))?;
            timed(|| up.run(&agent).and_then(|()| up.until_proved("agent1", 1)))
        },
    )?;
    let returned = alternate(
        format!(
            "`{runtime}`, return: from SIGKILL to the up-proof of the next generation, same conversation"
        ),
        "that program started by hand on such a conversation, until it has answered its greeting",
        STARTS,
        |round| guest.returns_by_hand(programs, &place("return-by-hand", round)),
        |round| guest.dies_and_returns(programs, &place("return", round)),
    )?;
    Ok(vec![started, proved, returned])
}

/// The clone's conversation, as netsky-drivers knows it.
fn conversation(place: &Path) -> Result<String> {
    let book = std::fs::read(Layout::new(place.join("home")).driver_book(&AgentId::numbered(1)))?;
    let book: Value = serde_json::from_slice(&book)?;
    Ok(book["conversation"]["id"].as_str().context("no conversation")?.to_owned())
}
