//! Where the layers of a prompt come from, and what is used where one of them is broken.

use std::path::{Path, PathBuf};

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::{env, state};
use netsky_model::id::AgentId;

use super::{BASE, IDENTITY, Layer, Origin, SKILLS, render};

/// Longest file of a layer.
const LONGEST: u64 = 64 * 1024;
/// What a project may say, below a folder that the owner trusts.
const PROJECT: &str = ".netsky/prompt.md";
/// How the first line of an override begins that says for which base it was made.
const MADE_FOR: &str = "<!-- netsky base ";

/// A layer that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("the prompt layer {id} ({}): {why}", path.display())]
pub struct Trouble {
    /// Which.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// What is wrong.
    pub why: String,
    /// Whether it is used all the same.
    pub is_used: bool,
}

/// The layers of an agent that works in a folder, and what is wrong with those that are left out.
pub fn layers(layout: &Layout, cwd: Option<&Path>, trusted: &[PathBuf]) -> (Vec<Layer>, Vec<Trouble>) {
    let home = layout.prompts();
    let mut troubles = Vec::new();
    let mut read = |id: &str, origin: Origin, path: PathBuf| match text_of(&path) {
        Ok(text) => text.map(|text| Layer { id: id.to_owned(), origin, path: Some(path), text }),
        Err(why) => {
            troubles.push(Trouble { id: id.to_owned(), path, why, is_used: false });
            None
        }
    };
    let base = read("base", Origin::Override, home.join("base.md"));
    let mut layers = vec![base.map_or_else(|| Layer::shipped("base", BASE), unmarked)];
    layers.push(Layer::shipped("identity", IDENTITY));
    if let Some(project) = cwd.and_then(|cwd| trusted_project(cwd, trusted)) {
        layers.extend(read("project", Origin::Added, project.join(PROJECT)));
    }
    layers.extend(read("owner", Origin::Added, home.join("owner.md")));
    layers.extend(
        env::host()
            .and_then(|host| read("host", Origin::Added, home.join("host").join(format!("{host}.md")))),
    );
    let skills = home.join("skills");
    for (name, text) in SKILLS {
        let own = read(name, Origin::Override, skills.join(format!("{name}.md")));
        layers.push(own.unwrap_or_else(|| Layer::shipped(name, text)));
    }
    let names = Dir::look_into(&skills).and_then(|folder| folder.names()).unwrap_or_default();
    for name in names.iter().filter_map(|name| name.strip_suffix(".md")) {
        if SKILLS.iter().all(|(shipped, _)| *shipped != name) && is_word(name) {
            layers.extend(read(name, Origin::Added, skills.join(format!("{name}.md"))));
        }
    }
    if let Some(trouble) = made_for_another(&home) {
        troubles.push(trouble);
    }
    (layers, troubles)
}

/// The folder above which the owner trusts what a project says of itself.
pub fn trusted_project<'a>(cwd: &'a Path, trusted: &[PathBuf]) -> Option<&'a Path> {
    cwd.ancestors().find(|folder| trusted.iter().any(|trusted| trusted == folder))
}

/// The prompt of an agent, and what is wrong with it. A layer that is broken keeps nobody from work: the last prompt that was
/// whole is used, or what is left.
pub fn prompt_of(
    layout: &Layout,
    agent: &AgentId,
    cwd: &Path,
    trusted: &[PathBuf],
) -> (String, Vec<Trouble>) {
    let (layers, mut troubles) = layers(layout, Some(cwd), trusted);
    let last =
        || state::read(layout.prompt(agent)).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
    let is_whole = troubles.iter().all(|trouble| trouble.is_used);
    match render(agent, &layers) {
        Ok(whole) if is_whole => (whole, troubles),
        Ok(rest) => (last().unwrap_or(rest), troubles),
        Err(why) => {
            troubles.push(Trouble { id: "all".to_owned(), path: layout.prompts(), why, is_used: false });
            let ours: Vec<Layer> =
                layers.into_iter().filter(|layer| layer.origin == Origin::Shipped).collect();
            (last().unwrap_or_else(|| render(agent, &ours).unwrap_or_default()), troubles)
        }
    }
}

/// Keeps what an agent is told at its start, for people and for the next start; one that is the same is written once.
///
/// # Errors
/// The system refuses.
pub fn remember(layout: &Layout, agent: &AgentId, text: &str) -> netsky_disk::Result<()> {
    let path = layout.prompt(agent);
    if state::read(&path)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    Dir::make(layout.rendered_prompts())?;
    state::write(&path, text.as_bytes())
}

/// What a file says; none where there is none.
fn text_of(path: &Path) -> Result<Option<String>, String> {
    if !state::exists(path).map_err(|error| error.to_string())? {
        return Ok(None);
    }
    let bytes = netsky_disk::fs::read_users_file(path, LONGEST).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
    match text.find(|c: char| c.is_control() && c != '\n' && c != '\t') {
        Some(at) => Err(format!("byte {at} is a control character")),
        None => Ok(Some(text)),
    }
}

/// Without the line that says for which base it was made.
fn unmarked(mut layer: Layer) -> Layer {
    if layer.text.starts_with(MADE_FOR) {
        layer.text = layer.text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.to_owned());
    }
    layer
}

/// The line that a copy of the shipped base begins with.
pub(super) fn mark() -> String {
    format!("{MADE_FOR}{} -->", &blake3::hash(BASE.as_bytes()).to_hex()[..16])
}

fn made_for_another(home: &Path) -> Option<Trouble> {
    let path = home.join("base.md");
    let text = text_of(&path).ok()??;
    let first = text.lines().next().filter(|line| line.starts_with(MADE_FOR))?;
    (first != mark()).then(|| Trouble {
        id: "base".to_owned(),
        path,
        why: "it was made for another base than this program ships: see `netsky prompts diff`".to_owned(),
        is_used: true,
    })
}

fn is_word(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain)
}
