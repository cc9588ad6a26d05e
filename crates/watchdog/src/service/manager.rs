//! Talking to whoever runs the units: `systemctl --user`, `launchctl`.

use std::path::Path;
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::spawn::{Ended, Program};

use super::systemd::Names;
use super::{Manager, Plan, launchd};

/// Longest that one call may take: a start waits for the ticker's first beat, a stop for its end.
const LIMIT: Duration = Duration::from_secs(90);

/// Most bytes of an answer.
const MOST: usize = 4096;

impl Manager {
    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Manager::Systemd => "the user's systemd",
            Manager::Launchd => "launchd",
        }
    }
}

/// The commands that begin a plan's service, in their order. What runs is begun anew, as its files say now; agents live on.
pub(super) fn begin(plan: &Plan, manager: Manager, folder: &Path) -> Vec<Vec<String>> {
    match manager {
        Manager::Systemd => {
            let Names { ticker, timer, .. } = Names::of(&plan.suffix);
            [&["daemon-reload"][..], &["enable", &ticker, &timer], &["restart", &ticker, &timer]]
                .map(systemctl)
                .into()
        }
        Manager::Launchd => {
            let bootstrap = |label: &String| {
                let file = folder.join(format!("{label}.plist")).display().to_string();
                words(&["launchctl", "bootstrap", &domain(), &file])
            };
            let labels = launchd::labels(&plan.suffix);
            end(plan, manager).into_iter().chain(labels.iter().map(bootstrap)).collect()
        }
    }
}

/// The commands that end it, while its files are there.
pub(super) fn end(plan: &Plan, manager: Manager) -> Vec<Vec<String>> {
    match manager {
        Manager::Systemd => {
            let Names { ticker, timer, .. } = Names::of(&plan.suffix);
            vec![systemctl(&["disable", "--now", &timer, &ticker])]
        }
        Manager::Launchd => {
            let gone = |label| words(&["launchctl", "bootout", &format!("{}/{label}", domain())]);
            launchd::labels(&plan.suffix).map(gone).into()
        }
    }
}

/// The commands that end what runs of it, also where its files are gone.
pub(super) fn stop(plan: &Plan, manager: Manager) -> Vec<Vec<String>> {
    match manager {
        Manager::Systemd => {
            let Names { ticker, timer, .. } = Names::of(&plan.suffix);
            vec![systemctl(&["stop", &timer, &ticker]), systemctl(&["daemon-reload"])]
        }
        Manager::Launchd => end(plan, manager),
    }
}

/// Whether what runs under a unit's name is of a file in this folder, or of none any more.
pub(super) fn is_of(unit: &str, folder: &Path) -> bool {
    let path = call(&systemctl(&["show", "--property=FragmentPath", "--value", unit]));
    path.is_ok_and(|path| path.is_empty() || Path::new(&path).parent() == Some(folder))
}

pub(super) fn systemctl(args: &[&str]) -> Vec<String> {
    words(&[&["systemctl", "--user"], args].concat())
}

/// Those commands as they are typed.
pub(super) fn typed(commands: &[Vec<String>]) -> String {
    let commands: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    commands.join(" && ")
}

/// Runs them one after the other.
///
/// # Errors
/// What the first that failed said.
pub(super) fn run(commands: &[Vec<String>]) -> Result<(), String> {
    // What is not loaded cannot be unloaded, and need not.
    let may_fail = |command: &[String]| command.iter().any(|word| word == "bootout");
    commands.iter().try_for_each(|command| match call(command) {
        Err(why) if !may_fail(command) => Err(why),
        _ => Ok(()),
    })
}

/// The state of one unit in its manager's word.
pub(super) fn active(manager: Manager, unit: &str) -> Option<String> {
    let said = match manager {
        // Exits with 3 for one that is not active, and says so all the same.
        Manager::Systemd => call(&systemctl(&["show", "--property=ActiveState", "--value", unit])).ok()?,
        Manager::Launchd => {
            let label = unit.trim_end_matches(".plist");
            let is_there = call(&words(&["launchctl", "print", &format!("{}/{label}", domain())])).is_ok();
            if is_there { "loaded".to_owned() } else { "not loaded".to_owned() }
        }
    };
    said.lines().next().map(str::to_owned).filter(|word| !word.is_empty())
}

/// What a command printed.
fn call(command: &[String]) -> Result<String, String> {
    let mut args = words(&["-c", "exec \"$0\" \"$@\" 2>&1"]);
    args.extend_from_slice(command);
    let mut program = Program { path: "/bin/sh".into(), args, ..Program::default() };
    // A bare shell does not say where the user's manager listens.
    let runtime = format!("/run/user/{}", env::user());
    if env::path("XDG_RUNTIME_DIR").is_none() && Path::new(&runtime).is_dir() {
        program.set.insert("XDG_RUNTIME_DIR".to_owned(), runtime);
    }
    let (ended, printed) = program.errand(&[], MOST, LIMIT).map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&printed).trim().to_owned();
    match ended {
        Ended::Exited(Some(0)) => Ok(printed),
        Ended::TooLate => Err(format!("`{}` took over {} s", command.join(" "), LIMIT.as_secs())),
        Ended::Exited(_) => Err(format!(
            "`{}`: {}",
            command.join(" "),
            printed.split_whitespace().collect::<Vec<_>>().join(" ")
        )),
    }
}

/// Where agents of this user are loaded.
fn domain() -> String {
    format!("gui/{}", env::user())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
