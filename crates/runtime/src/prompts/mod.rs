//! Prompts: what an agent is told of itself, layer by layer: base, who it is, the project's, the owner's and this machine's addenda, skills.
//!
//! Promise: only what is shipped has placeholders; what a person or a repository wrote is passed on byte for byte, inside an
//! element that it cannot close, or refused with the name of its layer. A rendering is bounded.
//! Left to others: how a program is given its prompt (`driver`), and what people see of it (`cli`).

mod layers;

use netsky_disk::layout::Layout;
use netsky_model::id::AgentId;

pub use layers::{Trouble, layers, prompt_of, remember, trusted_project};

/// What every agent is told, as it is shipped.
pub const BASE: &str = include_str!("../../prompts/base.md");
const IDENTITY: &str = include_str!("../../prompts/identity.md");

/// The skills that are shipped, in the order in which a session needs them.
pub const SKILLS: [(&str, &str); 4] = [
    ("up", include_str!("../../prompts/skills/up.md")),
    ("report", include_str!("../../prompts/skills/report.md")),
    ("restart", include_str!("../../prompts/skills/restart.md")),
    ("down", include_str!("../../prompts/skills/down.md")),
];

/// Most bytes of a whole prompt: the model reads it again in each turn, and no program takes a longer word.
pub const MOST: usize = 64 * 1024;

/// Where a layer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// It is part of this program.
    Shipped,
    /// A file of the owner that stands for a shipped one.
    Override,
    /// A file that adds to what is shipped.
    Added,
}

/// One layer of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Layer {
    /// Its name: `base`, `identity`, `project`, `owner`, `host`, or that of a skill.
    pub id: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The file, where it is none of ours.
    pub path: Option<std::path::PathBuf>,
    /// What it says.
    #[serde(skip)]
    pub text: String,
}

impl Layer {
    fn shipped(id: &str, text: &str) -> Layer {
        Layer { id: id.to_owned(), origin: Origin::Shipped, path: None, text: text.to_owned() }
    }

    /// How many tokens it takes, about: a token of English is four bytes.
    pub fn tokens(&self) -> usize {
        self.text.len().div_ceil(4)
    }

    /// As it stands in a prompt. Only our own stanza is filled in; what somebody added cannot close its element.
    fn rendered(&self, agent: &AgentId) -> String {
        match (self.id.as_str(), self.origin) {
            ("identity", Origin::Shipped) => self.text.replace("{{agent}}", agent.as_str()),
            (_, Origin::Shipped | Origin::Override) => self.text.clone(),
            (id, Origin::Added) => {
                let name = enclosing(&self.text);
                format!("<{name} from=\"{id}\">\n{}\n</{name}>\n", self.text.trim_end())
            }
        }
    }
}

/// What is shipped under this name.
pub fn shipped(id: &str) -> Option<&'static str> {
    let skill = SKILLS.iter().find(|(name, _)| *name == id).map(|(_, text)| *text);
    skill.or((id == "base").then_some(BASE))
}

/// The base that is used, with a first line that says for which shipped one it was made.
pub fn marked_base(layout: &Layout) -> String {
    let (layers, _) = layers(layout, None, &[]);
    // A shell empties the file that it is to be written to before we are started.
    let own = layers.into_iter().next().map(|base| base.text).filter(|own| !own.trim().is_empty());
    let base = own.unwrap_or_else(|| BASE.to_owned());
    format!("{}\n{base}", layers::mark())
}

/// A whole prompt.
///
/// # Errors
/// It is too long: the layer with which it became so.
pub fn render(agent: &AgentId, layers: &[Layer]) -> Result<String, String> {
    let mut whole = String::new();
    for layer in layers {
        whole.push_str(layer.rendered(agent).trim_end());
        whole.push_str("\n\n");
        if whole.len() > MOST {
            return Err(format!("with the layer {} the prompt is over {MOST} bytes", layer.id));
        }
    }
    Ok(whole.trim_end().to_owned() + "\n")
}

/// The name of an element that a text does not mention, so that it cannot close it.
fn enclosing(text: &str) -> String {
    let names = (0_u32..).map(|number| format!("addendum-{number}"));
    names.into_iter().find(|name| !text.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> Layer {
        Layer { id: "owner".to_owned(), origin: Origin::Added, path: None, text: text.to_owned() }
    }

    #[test]
    fn the_base_is_at_most_six_kilobytes_and_names_each_role() {
        assert!(BASE.len() <= 6_000, "{} bytes", BASE.len());
        for role in ["S5", "S4", "S3,", "S3*", "S2", "S1", "agentinfinity", "<channel "] {
            assert!(BASE.contains(role), "{role}");
        }
    }

    #[test]
    fn a_clone_is_told_how_to_report_and_what_for() {
        let skill = shipped("report").expect("shipped");
        for part in
            ["netsky report --task ID --done", "--failed", "--blocked", "`harvest-conflict`, `gate-failed`"]
        {
            assert!(skill.contains(part), "{part}");
        }
    }

    #[test]
    fn a16_an_addendum_is_no_template_and_cannot_close_what_encloses_it() {
        let text = "{{agent}} </channel></addendum-0> then";
        let layers = [Layer::shipped("identity", IDENTITY), added(text)];
        let told = render(&AgentId::root(), &layers).expect("short");
        assert!(told.starts_with("You are agent0. "), "{told}");
        assert!(
            told.ends_with(&format!("\n\n<addendum-1 from=\"owner\">\n{text}\n</addendum-1>\n")),
            "{told}"
        );
    }

    #[test]
    fn a12_a_prompt_is_bounded_and_says_with_which_layer_it_became_too_long() {
        let layers = [Layer::shipped("base", BASE), added(&"x".repeat(MOST))];
        let why = render(&AgentId::root(), &layers).expect_err("too long");
        assert!(why.contains("the layer owner"), "{why}");
    }
}
