//! The work that the demo's clones do: looking a repository over, by machine and honestly.
//!
//! Two of the tasks also add a line to one list, which neither finds there: whoever lands second has to put the two together.

use std::collections::BTreeMap;
use std::path::Path;

use netsky_disk::fs::read_users_file;
use netsky_model::task::State;

use crate::demo::place::Place;
use crate::demo::programs::git;
use crate::error::{Error, Kind};

/// Most bytes of a file that are read for lines; larger ones are data.
const MAX_TEXT: u64 = 1024 * 1024;
/// Most rows of a list; what is left out is said.
const MAX_ROWS: usize = 200;

/// What marks a place that is left to do. Written in halves: this is no such place.
const WORDS: [&str; 2] = ["TODO", concat!("FIX", "ME")];

/// Where the clones put what they found: nobody has such a folder.
pub(crate) const FOLDER: &str = "netsky-demo";
/// The list in it that two tasks begin.
pub(crate) const FOUND: &str = "FOUND.md";

/// One task; each clone gets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Files, lines and bytes by extension.
    Inventory,
    /// Every place that says something is left to do.
    Todos,
    /// The largest files.
    Largest,
    /// Files with the same content.
    Duplicates,
    /// Commits by author.
    Authors,
    /// The files that changed most often.
    Churn,
}

/// All of them, in the order they are given out.
pub(crate) const TASKS: [Task; 6] =
    [Task::Inventory, Task::Todos, Task::Largest, Task::Duplicates, Task::Authors, Task::Churn];

/// The verb that says how every task stands.
pub(crate) const LIST: [&str; 4] = ["task", "list", "--all", "--json"];

/// How every task stands, by its id, of what [`LIST`] prints.
pub(crate) fn standing(printed: &[u8]) -> Result<BTreeMap<String, State>, Error> {
    #[derive(serde::Deserialize)]
    struct Listed {
        tasks: Vec<netsky_model::task::Task>,
    }
    let listed: Listed = serde_json::from_slice(printed)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to understand the list of tasks: {e}")))?;
    Ok(listed.tasks.into_iter().map(|task| (task.id.to_string(), task.state)).collect())
}

/// What a task found.
pub(super) struct Found {
    /// In a few words.
    pub(super) headline: String,
    /// The whole of it, as Markdown.
    pub(super) text: String,
}

/// One file of the commit.
struct File {
    path: String,
    blob: String,
    bytes: u64,
}

impl Task {
    /// The task of that word.
    pub(super) fn of(word: &str) -> Option<Task> {
        TASKS.into_iter().find(|task| task.word() == word)
    }

    /// Its id, and so its name in threads, folders and branches.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Task::Inventory => "inventory",
            Task::Todos => "todos",
            Task::Largest => "largest",
            Task::Duplicates => "duplicates",
            Task::Authors => "authors",
            Task::Churn => "churn",
        }
    }

    /// Whether it stands in the list of what was found.
    pub(crate) fn is_noted(self) -> bool {
        matches!(self, Task::Inventory | Task::Todos)
    }

    /// The file that it commits.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Task::Inventory => "INVENTORY.md",
            Task::Todos => "TODO.md",
            Task::Largest => "LARGEST.md",
            Task::Duplicates => "DUPLICATES.md",
            Task::Authors => "COMMITS.md",
            Task::Churn => "CHURN.md",
        }
    }

    /// Its title.
    pub(super) fn asks(self) -> &'static str {
        match self {
            Task::Inventory => "count files, lines and bytes by extension",
            Task::Todos => "list everything left to do with its file and line",
            Task::Largest => "list the largest files",
            Task::Duplicates => "list files with the same content",
            Task::Authors => "count commits by author",
            Task::Churn => "list the files that changed most often",
        }
    }

    /// Does it in a copy of the repository.
    pub(super) fn work(self, place: &Place, repo: &Path) -> Result<Found, Error> {
        match self {
            Task::Inventory => Ok(inventory(repo, &files(place, repo)?)),
            Task::Todos => Ok(todos(repo, &files(place, repo)?)),
            Task::Largest => Ok(largest(files(place, repo)?)),
            Task::Duplicates => Ok(duplicates(&files(place, repo)?)),
            Task::Authors => authors(place, repo),
            Task::Churn => churn(place, repo),
        }
    }
}

/// Every plain file of the commit; links and submodules hold no text of this repository.
fn files(place: &Place, repo: &Path) -> Result<Vec<File>, Error> {
    let listed = git(place, repo, ["ls-tree", "-r", "-l", "-z", "HEAD"])?;
    let entries = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    Ok(entries.filter_map(|entry| file(&String::from_utf8_lossy(entry))).collect())
}

/// `<mode> blob <id> <size>\t<path>`
fn file(entry: &str) -> Option<File> {
    let (head, path) = entry.split_once('\t')?;
    let mut words = head.split_whitespace();
    let is_plain = words.next()?.starts_with("100");
    let [_, blob, size] = [words.next()?, words.next()?, words.next()?];
    let file = File { path: path.to_owned(), blob: blob.to_owned(), bytes: size.parse().ok()? };
    is_plain.then_some(file)
}

/// The text of a file; none for data.
fn text_of(repo: &Path, file: &File) -> Option<String> {
    let bytes = read_users_file(&repo.join(&file.path), MAX_TEXT).ok()?;
    let is_text = !bytes.contains(&0);
    is_text.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn inventory(repo: &Path, files: &[File]) -> Found {
    #[derive(Default)]
    struct Sum {
        files: usize,
        lines: usize,
        bytes: u64,
    }
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for file in files {
        let extension = Path::new(&file.path).extension().map(|e| e.to_string_lossy().into_owned());
        let sum = sums.entry(extension.unwrap_or_else(|| "(none)".to_owned())).or_default();
        sum.files += 1;
        sum.lines += text_of(repo, file).map_or(0, |text| text.lines().count());
        sum.bytes += file.bytes;
    }
    let lines: usize = sums.values().map(|sum| sum.lines).sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.lines.cmp(&a.1.lines).then_with(|| a.0.cmp(&b.0)));
    let rows = sums.iter().map(|(extension, sum)| {
        vec![extension.clone(), sum.files.to_string(), sum.lines.to_string(), sum.bytes.to_string()]
    });
    Found {
        headline: format!("{} files, {lines} lines, {} kinds", files.len(), sums.len()),
        text: table("Inventory", &["extension", "files", "lines", "bytes"], rows),
    }
}

fn todos(repo: &Path, files: &[File]) -> Found {
    let mut rows = Vec::new();
    for file in files {
        let Some(text) = text_of(repo, file) else { continue };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_todo(line)) {
            let said: String = line.trim().chars().take(120).collect();
            rows.push(vec![format!("{}:{}", file.path, number + 1), said]);
        }
    }
    Found {
        headline: format!("{} left to do", rows.len()),
        text: table("To do", &["where", "what"], rows.into_iter()),
    }
}

fn is_todo(line: &str) -> bool {
    WORDS.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let letter = |c: char| c.is_alphanumeric() || c == '_';
            !line[..at].ends_with(letter) && !line[at + word.len()..].starts_with(letter)
        })
    })
}

fn largest(mut files: Vec<File>) -> Found {
    files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    let headline = match files.first() {
        Some(first) => format!("largest is {} with {} bytes", first.path, first.bytes),
        None => "no files".to_owned(),
    };
    let rows = files.iter().take(20).map(|file| vec![file.path.clone(), file.bytes.to_string()]);
    Found { headline, text: table("Largest files", &["file", "bytes"], rows) }
}

fn duplicates(files: &[File]) -> Found {
    let mut same: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.bytes > 0) {
        same.entry(&file.blob).or_default().push(file);
    }
    same.retain(|_, files| files.len() > 1);
    let rows = same.values().map(|files| {
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        vec![files[0].bytes.to_string(), names.join(", ")]
    });
    Found {
        headline: format!("{} groups of equal files", same.len()),
        text: table("Equal files", &["bytes", "files"], rows),
    }
}

fn authors(place: &Place, repo: &Path) -> Result<Found, Error> {
    let counts = counted(&git(place, repo, ["log", "--format=%an", "HEAD"])?);
    let commits: usize = counts.iter().map(|(_, count)| count).sum();
    let rows = counts.iter().map(|(name, count)| vec![name.clone(), count.to_string()]);
    Ok(Found {
        headline: format!("{commits} commits by {} authors", counts.len()),
        text: table("Commits by author", &["author", "commits"], rows),
    })
}

fn churn(place: &Place, repo: &Path) -> Result<Found, Error> {
    let counts = counted(&git(place, repo, ["log", "--format=", "--name-only", "HEAD"])?);
    let headline = match counts.first() {
        Some((path, count)) => format!("{path} changed in {count} commits"),
        None => "nothing ever changed".to_owned(),
    };
    let rows = counts.iter().take(20).map(|(path, count)| vec![path.clone(), count.to_string()]);
    Ok(Found { headline, text: table("Changed most often", &["file", "commits"], rows) })
}

/// Lines and how often each comes, most frequent first.
fn counted(lines: &[u8]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let lines = String::from_utf8_lossy(lines);
    for line in lines.lines().filter(|line| !line.is_empty()) {
        *counts.entry(line).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(line, count)| (line.to_owned(), count)).collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn table(title: &str, headers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("# {title}\n\n");
    text.push_str(&line(headers.iter().map(|header| (*header).to_owned()).collect()));
    text.push_str(&line(headers.iter().map(|_| "---".to_owned()).collect()));
    let rows: Vec<Vec<String>> = rows.collect();
    for row in rows.iter().take(MAX_ROWS) {
        text.push_str(&line(row.iter().map(|cell| cell.replace('|', "\\|")).collect()));
    }
    if let Some(more) = rows.len().checked_sub(MAX_ROWS + 1) {
        text.push_str(&format!("\n{} more are left out\n", more + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_todo_is_a_word_of_its_own() {
        for line in ["// TODO: x", "TODO", concat!("# FIX", "ME(me) y"), "a TODO."] {
            assert!(is_todo(line), "{line}");
        }
        for line in ["TODOS", "MY_TODO_LIST", "todo", "autoTODO"] {
            assert!(!is_todo(line), "{line}");
        }
    }

    #[test]
    fn an_entry_of_the_tree_is_read_and_a_link_is_none() {
        let read = file("100644 blob 0badcafe     42\tsrc/a b.rs").expect("a file");
        assert_eq!((read.path.as_str(), read.blob.as_str(), read.bytes), ("src/a b.rs", "0badcafe", 42));
        assert!(file("120000 blob 0badcafe     42\tlink").is_none());
        assert!(file("160000 commit 0badcafe       -\tsub").is_none());
    }
}
