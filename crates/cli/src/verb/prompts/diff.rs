//! `netsky prompts diff`: how files of the owner differ from the shipped ones for which they stand.

use netsky_model::render;
use netsky_runtime::Config;
use netsky_runtime::prompts::{Origin, layers, shipped};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Show how your files differ from the shipped layers they stand for
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let (layers, _) = layers(layout, None, &Config::last_good(layout).prompts.trust);
        let mut all = Vec::new();
        for layer in layers.iter().filter(|layer| layer.origin == Origin::Override) {
            let Some(ours) = shipped(&layer.id) else { continue };
            let lines = diff(ours, &layer.text);
            if cx.json {
                all.push(serde_json::json!({ "id": layer.id, "path": layer.path, "lines": lines }));
            } else if lines.is_empty() {
                output::say(&format!("{}: the same as the shipped one", layer.id))?;
            } else {
                // As they are: what is shown as another text would be no difference.
                let lines = render::plain(&lines.join("\n"));
                output::painted(&format!("--- {} as shipped\n+++ yours\n{lines}", layer.id))?;
            }
        }
        match cx.json {
            true => output::json(&serde_json::json!({ "diffs": all })),
            false if layers.iter().all(|layer| layer.origin != Origin::Override) => {
                output::say("no shipped layer is replaced")
            }
            false => Ok(()),
        }
    }
}

/// The lines that only one of two texts has, in order: `-` of the first, `+` of the second. By the longest sequence of lines that
/// both have; the texts are short.
fn diff(ours: &str, theirs: &str) -> Vec<String> {
    let (a, b): (Vec<&str>, Vec<&str>) =
        (ours.trim_end().lines().collect(), theirs.trim_end().lines().collect());
    let mut common = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] =
                if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("-{}", a[i]));
            i += 1;
        } else {
            lines.push(format!("+{}", b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn what_only_one_of_two_texts_has_is_told_in_order() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd"), ["-b", "+x", "+d"]);
        assert_eq!(diff("a\nb", "a\nb\n"), [""; 0]);
        assert_eq!(diff("", "a"), ["+a"]);
        assert_eq!(diff("a", ""), ["-a"]);
    }
}
