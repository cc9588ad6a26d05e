//! What a slot should run, and why nothing could be started with that.

use netsky_disk::layout::Layout;
use netsky_disk::{clock, spawn, state};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::AgentId;
use netsky_runtime::{Config, driver};

use super::{Wish, blank, is_same};
use crate::error::{Error, Result};
use crate::perform;

/// Most bytes of a wish as JSON: the kernel takes a start of 256 KiB, and a start says more than a wish.
const MOST: usize = 192 << 10;

/// Whether a command names a kind, a model or a program.
pub(super) fn is_said(wish: &Wish) -> bool {
    !wish.argv.is_empty() || wish.runtime.is_some() || wish.model.is_some()
}

/// What a slot should run: as said, else as configured for it, else as was said before, else as configured for all, else as it
/// ran before.
pub(super) fn slot(layout: &Layout, config: &Config, wish: &Wish, agent: &AgentId) -> Result<Desired> {
    let (before, damage) = match state::read_json::<Desired>(layout.desired(agent)) {
        Ok(Some(other)) if other.agent != *agent => {
            let why = format!("it is about {}; move it away", other.agent);
            let why = netsky_disk::Error::because("trust", layout.desired(agent), why);
            return Err(Error::BadWish { agent: agent.clone(), why });
        }
        Ok(before) => (before, None),
        Err(error) if error.is_damage() => (None, Some(error)),
        // What cannot be set aside keeps the new wish out: nothing is begun.
        Err(why) => return Err(Error::BadWish { agent: agent.clone(), why }),
    };
    let is_said = !wish.argv.is_empty();
    let is_by_hand = before.as_ref().is_some_and(|before| before.by_hand);
    let is_wanted = before.as_ref().is_some_and(|before| before.want == Want::Up);
    // What was said by hand for another task, and may never have started, is not said for this one.
    let stays = is_by_hand && !is_said && wish.runtime.is_none() && (is_wanted || !wish.for_task);
    let slot = if stays { config.slot_by_hand(agent) } else { config.slot(agent) };
    // A kind that is said now has nothing to do with the program and the model that the settings have for another.
    let runtime = wish.runtime.clone().or_else(|| slot.runtime.clone());
    let is_configured = runtime == slot.runtime;
    let configured_argv = slot.argv.filter(|_| is_configured && !is_said);
    let configured_model = slot.model.filter(|_| is_configured || slot.runtime.is_none());
    let configured = Configured { program: configured_argv.is_some(), folder: slot.cwd.is_some() };
    let said = is_said.then(|| wish.argv.clone()).or(configured_argv);
    let goes_on = before.as_ref().filter(|before| runtime.as_ref().is_none_or(|new| *new == before.runtime));
    let mut desired = match (said, goes_on) {
        (None, Some(before)) => {
            Desired { want: Want::Up, by: "up".to_owned(), since: clock::wall(), ..before.clone() }
        }
        (said, _) => {
            let runtime = runtime.unwrap_or_else(|| driver::COMMAND.to_owned());
            if !driver::RUNTIMES.contains(&runtime.as_str()) {
                return Err(Error::NoRuntime(runtime));
            }
            let Some(argv) = said.or_else(|| driver::default_argv(&runtime)) else {
                return Err(match damage {
                    Some(why) => Error::BadWish { agent: agent.clone(), why },
                    None => Error::NoProgram { agent: agent.clone() },
                });
            };
            let env = driver::inherited(&runtime);
            Desired { runtime, argv, cwd: wish.cwd.clone(), env, ..blank(agent.clone()) }
        }
    };
    desired.model = wish.model.clone().or(configured_model).or(desired.model);
    desired.by_hand = stays || self::is_said(wish);
    desired.env.extend(slot.env);
    let placed = before.as_ref().filter(|before| before.placed && before.cwd.is_dir()).map(|b| b.cwd.clone());
    let place = wish.place.clone().or(placed);
    desired.placed = place.is_some();
    // Kept for every later start, from whatever folder that is.
    desired.cwd = place.or(slot.cwd.map(|cwd| wish.cwd.join(cwd))).unwrap_or(desired.cwd);
    desired.receipts = slot.receipts.unwrap_or(desired.receipts);
    desired.resume.clone_from(&wish.resume);
    let unstartable = |why| Error::Unstartable { agent: agent.clone(), why };
    if let Some(why) = unusable(&desired) {
        return Err(unstartable(why));
    }
    let is_wanted = before.is_some_and(|before| before.want == Want::Up && is_same(&before, &desired));
    // What was not said now but is wanted may live, and is the tick's to try again; so is a clone: agent0 runs without. A task goes to
    // nobody who cannot start.
    let is_clones = *agent != AgentId::root() && !wish.for_task;
    let is_ticks = (!is_said || configured.folder) && (is_wanted || is_clones);
    let why = if is_ticks { None } else { no_start(&desired, &configured)? };
    why.map_or(Ok(desired), |why| Err(unstartable(why)))
}

/// Why nothing could be started with a wish, wherever its program is.
fn unusable(desired: &Desired) -> Option<String> {
    if let Some(model) = &desired.model
        && (model.is_empty() || model.contains(char::is_control))
    {
        return Some(format!("{model:?} is no name of a model"));
    }
    if let Some(id) = &desired.resume {
        match driver::has_conversation(desired, id) {
            Ok(true) => {}
            Ok(false) => return Some(format!("{} has no conversation {id} here", desired.runtime)),
            Err(error) => return Some(format!("whether {id} is there is not known: {error}")),
        }
    }
    too_large(desired)
}

/// Which words of a wish are the settings', not said with `up`.
struct Configured {
    program: bool,
    folder: bool,
}

/// Why no start has room for a wish.
fn too_large(desired: &Desired) -> Option<String> {
    match serde_json::to_vec(desired) {
        Ok(bytes) if bytes.len() <= MOST => None,
        Ok(bytes) => {
            Some(format!("its program and environment take {} bytes of at most {MOST}", bytes.len()))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Why a wish could never be started, after where that is said.
fn no_start(desired: &Desired, configured: &Configured) -> Result<Option<String>> {
    let said = |configured: bool, why| format!("{}{why}", if configured { "config.toml: " } else { "" });
    // First: a program may be looked for in it.
    if let Some(why) = perform::no_folder(desired) {
        return Ok(Some(said(configured.folder, why)));
    }
    let netsky = spawn::sibling("netsky")?;
    let why = perform::no_program(desired, perform::folder_of(&netsky));
    Ok(why.map(|why| said(configured.program, why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_for_one_task_and_did_not_start_is_not_said_for_the_next() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        netsky_disk::home::Home::init(&layout).expect("a fresh home");
        std::fs::write(layout.config(), "[defaults]\nargv = [\"/bin/sh\"]\n").expect("written");
        let (config, agent) = (Config::load(&layout).expect("reads"), AgentId::numbered(3));
        let cwd = temp.path().to_owned();
        let wish = Wish { cwd: cwd.clone(), for_task: true, ..Wish::default() };
        let claude = Wish { runtime: Some("claude".to_owned()), ..wish.clone() };
        let there = Desired {
            runtime: "claude".to_owned(),
            argv: vec!["/nowhere/claude".to_owned()],
            by_hand: true,
            cwd,
            ..blank(agent.clone())
        };
        for (want, wish, argv) in [
            (Want::Stopped, &wish, Ok("/bin/sh")),
            (Want::Up, &wish, Ok("/nowhere/claude")),
            (Want::Stopped, &claude, Err("/nowhere/claude")),
            (Want::Stopped, &Wish { for_task: false, ..wish.clone() }, Ok("/nowhere/claude")),
        ] {
            state::write_json(layout.desired(&agent), &Desired { want, ..there.clone() }).expect("written");
            let slot = slot(&layout, &config, wish, &agent).map(|slot| slot.argv[0].clone());
            match (&slot, argv) {
                (Ok(is), Ok(argv)) => assert_eq!(is, argv, "{want:?} {wish:?}"),
                (Err(Error::Unstartable { why, .. }), Err(argv)) => assert!(why.contains(argv), "{why}"),
                _ => panic!("{want:?} {wish:?}: {slot:?}"),
            }
        }
    }
}
