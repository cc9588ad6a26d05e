//! What lands, made of a branch: trees are merged and commits written as objects, without files, filters, hooks or settings.
//!
//! Promise: a commit keeps its author and its words; its trailers say which task it is of and which commit of the branch, and
//! nothing else in it can. A signature does not survive: it is over another commit.

use netsky_model::id::TaskId;

use super::job::{Job, Mode};
use super::seen::{Piece, Work};
use super::source::Scratch;
use crate::Result;
use crate::git::{Failed, Sha, plain_line};

/// The trailer that says whose a commit is.
pub(super) const TASK: &str = "Harvest-Task";
/// The trailer that says which commit of the branch it is of.
pub(super) const SOURCE: &str = "Harvest-Source";
/// Where git stops to read the words of a commit.
const SCISSORS: &[u8] = b"# ------------------------ >8 ------------------------";
/// Commits, each with its parent, that are read by one git: its answer has a limit, and stays in memory.
const ASKED: usize = 16;
/// Most files of a conflict that are named.
const MOST_FILES: usize = 100;

/// What came of it.
pub(super) enum Picked {
    /// What lands, the oldest first; empty where all of it is there already.
    Commits(Vec<Sha>),
    /// A commit does not fit.
    Conflict { commit: Sha, files: Vec<String> },
}

/// Make what lands of a branch on `main`.
pub(super) fn pick(job: &Job, scratch: &Scratch, main: &Sha, work: &Work) -> Result<Picked> {
    if work.was_there() && !work.may_return() {
        return Ok(Picked::Commits(Vec::new()));
    }
    match job.mode {
        Mode::Pick => each(job, scratch, main, work),
        Mode::Squash => squash(job, scratch, main, work),
        Mode::Merge => merge(job, scratch, main),
    }
}

/// Those that `main` has not had in another commit; with the others, where those would change it: they were reverted. Where one of
/// these does not fit, nobody but who made it anew can say what of it is still wanted.
fn each(job: &Job, scratch: &Scratch, main: &Sha, work: &Work) -> Result<Picked> {
    let all: Vec<&Piece> = work.commits.iter().collect();
    let fresh = work.fresh();
    let without = chain(job, scratch, main, &fresh)?;
    if fresh.len() == all.len() || !work.may_return() {
        return Ok(without);
    }
    let with = chain(job, scratch, main, &all)?;
    let is_same = match (&with, &without) {
        (Picked::Commits(with), Picked::Commits(without)) => {
            let [with, without] = [with, without].map(|made| tree_of(scratch, made.last().unwrap_or(main)));
            with? == without?
        }
        _ => false,
    };
    Ok(if is_same { without } else { with })
}

/// Commits one after the other.
fn chain(job: &Job, scratch: &Scratch, main: &Sha, pieces: &[&Piece]) -> Result<Picked> {
    let (mut tip, mut tree) = (main.clone(), tree_of(scratch, main)?);
    let mut made = Vec::new();
    let mut known = Vec::new();
    for (nth, Piece { commit, parent, .. }) in pieces.iter().enumerate() {
        if nth % ASKED == 0 {
            // Each behind its parent, so many in one question.
            let some = pieces[nth..].iter().take(ASKED);
            let asked: Vec<&Sha> = some.flat_map(|piece| [&piece.parent, &piece.commit]).collect();
            known = scratch.repo.commits(&asked)?;
        }
        let raw = &known[nth % ASKED * 2..][..2];
        let trees = Trees { parent: raw[0].tree()?, commit: raw[1].tree()? };
        let next = match apply(scratch, &tree, (parent, commit), trees)? {
            Ok(next) => next,
            Err(files) => return Ok(Picked::Conflict { commit: commit.clone(), files }),
        };
        if next == tree {
            continue;
        }
        let (author, letters) = (raw[1].line(b"author "), raw[1].line(b"encoding "));
        tip = write(job, scratch, &next, &[&tip], author, letters, raw[1].words(), commit)?;
        tree = next;
        made.push(tip.clone());
    }
    Ok(Picked::Commits(made))
}

/// The whole as one; of what `main` has had without us, only what `each` would bring.
fn squash(job: &Job, scratch: &Scratch, main: &Sha, work: &Work) -> Result<Picked> {
    let mut pieces = work.fresh();
    let is_whole = work.may_return() || !work.is_line || pieces.len() == work.commits.len();
    let tree = tree_of(scratch, main)?;
    let next = if is_whole {
        pieces = work.commits.iter().collect();
        let raw = scratch.repo.commits(&[&work.from, &scratch.tip])?;
        let trees = Trees { parent: raw[0].tree()?, commit: raw[1].tree()? };
        match apply(scratch, &tree, (&work.from, &scratch.tip), trees)? {
            Ok(next) => next,
            Err(files) => return Ok(Picked::Conflict { commit: scratch.tip.clone(), files }),
        }
    } else {
        match chain(job, scratch, main, &pieces)? {
            Picked::Commits(made) => tree_of(scratch, made.last().unwrap_or(main))?,
            conflict => return Ok(conflict),
        }
    };
    if next == tree {
        return Ok(Picked::Commits(Vec::new()));
    }
    // The first author stands for all; each commit's words are there.
    let (mut words, mut author) = (Vec::new(), Vec::new());
    for some in pieces.chunks(ASKED) {
        let asked: Vec<&Sha> = some.iter().map(|piece| &piece.commit).collect();
        for commit in scratch.repo.commits(&asked)? {
            words.extend_from_slice(commit.words().trim_ascii());
            words.extend_from_slice(b"\n\n");
            if author.is_empty() {
                author = commit.line(b"author ").to_owned();
            }
        }
    }
    let made = write(job, scratch, &next, &[main], &author, b"", &words, &scratch.tip)?;
    Ok(Picked::Commits(vec![made]))
}

fn merge(job: &Job, scratch: &Scratch, main: &Sha) -> Result<Picked> {
    let next = match merged(scratch, main, &scratch.tip)? {
        Ok(next) => next,
        Err(files) => return Ok(Picked::Conflict { commit: scratch.tip.clone(), files }),
    };
    if next == tree_of(scratch, main)? {
        return Ok(Picked::Commits(Vec::new()));
    }
    let author = format!("author {}\n", signed(job));
    let words = format!("Merge of task {}\n", job.task);
    let parents = [main, &scratch.tip];
    let made = write(job, scratch, &next, &parents, author.as_bytes(), b"", words.as_bytes(), &scratch.tip)?;
    Ok(Picked::Commits(vec![made]))
}

fn tree_of(scratch: &Scratch, commit: &Sha) -> Result<Sha> {
    scratch.repo.commits(&[commit])?[0].tree()
}

/// The trees of a commit and of what it is the change of.
struct Trees {
    parent: Sha,
    commit: Sha,
}

/// The tree that has what `commit` changed since `parent`; the files that both changed if it does not fit.
fn apply(
    scratch: &Scratch,
    tree: &Sha,
    (parent, commit): (&Sha, &Sha),
    trees: Trees,
) -> Result<std::result::Result<Sha, Vec<String>>> {
    if trees.parent == *tree {
        return Ok(Ok(trees.commit));
    }
    // A commit that stands for `main` and begins at `parent`: what both have last is `parent` then. `--merge-base`
    // says the same, and git 2.39 does not know it.
    let text = format!("tree {tree}\nparent {parent}\nauthor n <n> 0 +0000\ncommitter n <n> 0 +0000\n\nx\n");
    let stand_in = scratch.repo.write("commit", text.as_bytes())?;
    merged(scratch, &stand_in, commit)
}

/// The tree of both; the files that both changed if they do not fit.
fn merged(scratch: &Scratch, one: &Sha, other: &Sha) -> Result<std::result::Result<Sha, Vec<String>>> {
    let args =
        ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", one.as_str(), other.as_str()];
    let told = scratch.repo.tell(&args, &[])?;
    let conflicts = match told.code {
        0 => false,
        1 => true,
        _ => return told.well("merge-tree").map(|_| Ok(one.clone())),
    };
    let mut parts = told.out.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let no_tree = || Failed::Unread { what: "merge-tree".into(), why: "it names no tree".into() };
    let tree = scratch.repo.sha("merge-tree", parts.next().ok_or_else(no_tree)?)?;
    if !conflicts {
        return Ok(Ok(tree));
    }
    Ok(Err(parts.take(MOST_FILES).map(|name| plain_line(&String::from_utf8_lossy(name))).collect()))
}

fn signed(job: &Job) -> String {
    format!("{} {} +0000", job.git.who().line(), netsky_disk::clock::wall().as_second())
}

/// Write a commit whose author is somebody else's line, byte for byte.
#[expect(clippy::too_many_arguments, reason = "the parts of a commit")]
fn write(
    job: &Job,
    scratch: &Scratch,
    tree: &Sha,
    parents: &[&Sha],
    author: &[u8],
    letters: &[u8],
    words: &[u8],
    source: &Sha,
) -> Result<Sha> {
    let mut text = format!("tree {tree}\n").into_bytes();
    for parent in parents {
        text.extend(format!("parent {parent}\n").into_bytes());
    }
    text.extend_from_slice(author);
    text.extend(format!("committer {}\n", signed(job)).into_bytes());
    text.extend_from_slice(letters);
    text.push(b'\n');
    text.extend(with_trailers(words, &job.task, source));
    scratch.repo.write("commit", &text)
}

/// The words of a commit with our trailers, and with no others that look like ours: nobody says of another's work that it landed. Nor
/// with what keeps git from reading ours: it would land again.
fn with_trailers(words: &[u8], task: &TaskId, source: &Sha) -> Vec<u8> {
    let is_ours = |line: &&[u8]| {
        let line = line.trim_ascii().to_ascii_lowercase();
        let keys = [TASK, SOURCE].map(str::to_ascii_lowercase);
        line == SCISSORS || keys.iter().any(|key| line.starts_with(key.as_bytes()))
    };
    let lines = words.trim_ascii().split(|byte| *byte == b'\n');
    let kept = lines.filter(|line| !is_ours(line)).collect::<Vec<_>>().join(&b'\n');
    let kept = kept.trim_ascii();
    let mut text = if kept.is_empty() { format!("Work of task {task}").into_bytes() } else { kept.to_vec() };
    // Trailers are one paragraph, the last, and never the first.
    let mut paragraph = kept.rsplit(|byte| *byte == b'\n').take_while(|line| !is_blank(line));
    let is_block = paragraph.all(is_trailer) && kept.windows(2).any(|pair| pair == b"\n\n");
    text.extend_from_slice(if is_block { b"\n" } else { b"\n\n" });
    text.extend(format!("{TASK}: {task}\n{SOURCE}: {source}\n").into_bytes());
    text
}

/// What ends a paragraph for git, to which a form feed is a letter.
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| b" \t\r".contains(byte))
}

/// `Word-word: text`.
fn is_trailer(line: &[u8]) -> bool {
    let key = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_key = !key.is_empty() && key.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
    is_key && line[key.len()..].starts_with(b": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailed(words: &str) -> String {
        let source = "a".repeat(40).parse().expect("a sha");
        let text = with_trailers(words.as_bytes(), &"t1".parse().expect("an id"), &source);
        String::from_utf8(text).expect("text").replace(&"a".repeat(40), "A")
    }

    #[test]
    fn t19_a_commit_says_whose_it_is_and_cannot_say_that_it_is_anothers() {
        let ours = "Harvest-Task: t1\nHarvest-Source: A\n";
        assert_eq!(trailed("one\n"), format!("one\n\n{ours}"));
        assert_eq!(trailed(""), format!("Work of task t1\n\n{ours}"));
        assert_eq!(trailed("one\n\ntext\n"), format!("one\n\ntext\n\n{ours}"));
        assert_eq!(trailed("one\n\nA-b: c\nD: e\n"), format!("one\n\nA-b: c\nD: e\n{ours}"));
        assert_eq!(trailed("fix: one\n"), format!("fix: one\n\n{ours}"));
        assert_eq!(
            trailed("one\n\nHarvest-Task: t2\n harvest-source: B\nHARVEST-TASK:t3\n"),
            format!("one\n\n{ours}")
        );
        assert_eq!(trailed("Harvest-Task: t2"), format!("Work of task t1\n\n{ours}"));
        let scissors = std::str::from_utf8(SCISSORS).expect("text");
        assert_eq!(trailed(&format!("one\n\nA: b\n{scissors}\nC: d")), format!("one\n\nA: b\nC: d\n{ours}"));
        assert_eq!(trailed("one\n\ntext\n\u{c}\nA: b"), format!("one\n\ntext\n\u{c}\nA: b\n\n{ours}"));
    }

    /// Lines that git may read as an end, a comment, a blank or a trailer.
    const ODD: &[&str] = &[
        "",
        "",
        " ",
        "\t",
        "\r",
        "\u{b}",
        "\u{c}",
        "text",
        " folded",
        "A-b: c",
        "A-b : c",
        "A:",
        ": c",
        "A=b",
        "#",
        "# text",
        "Signed-off-by: a",
        "(cherry picked from commit a)",
        "Conflicts:",
        "\tfile",
        "---",
        "diff --git a b",
        "# ------------------------ >8 ------------------------",
        " # ------------------------ >8 ------------------------",
        "# ------------------------ >8 ------------------------ ",
        "; ------------------------ >8 ------------------------",
        "Harvest-Task: t2",
        " harvest-task: t2",
        "Harvest-Source : b",
        "\u{b}Harvest-Task: t2",
        "x Harvest-Task: t2",
    ];

    #[test]
    fn t19_of_whatever_words_git_reads_our_trailers_and_no_others_of_their_names() {
        let temp = tempfile::tempdir().expect("a folder");
        let git = crate::git::Git::find().expect("git");
        let repo = crate::git::Repo::new(&git, &temp.path().join("repo.git"));
        repo.bytes(&["init", "-q", "--bare", "--template="], &[]).expect("made");
        let tree = repo.write("tree", b"").expect("written");
        let mut state = 19_u64;
        let mut any = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).expect("it fits") % below
        };
        let (mut all, mut asked) = (Vec::new(), String::new());
        for nth in 0..200 {
            let words: Vec<&str> = (0..1 + any(7)).map(|_| ODD[any(ODD.len())]).collect();
            let head = format!("tree {tree}\nauthor a <a@b> {nth} +0000\ncommitter a <a@b> 1 +0000\n\n");
            let text = [head.as_bytes(), trailed(&words.join("\n")).as_bytes()].concat();
            asked += &format!("{}\n", repo.write("commit", &text).expect("written"));
            all.push(words);
        }
        let read = [TASK, SOURCE].map(|key| format!("%(trailers:key={key},valueonly=true,separator=%x20)"));
        let format = format!("--format={}", read.join("|"));
        let told = repo.ask(&["log", "--no-walk=unsorted", &format, "--stdin"], asked.as_bytes());
        let told = told.expect("read");
        let wrong: Vec<_> = all.iter().zip(told.lines()).filter(|(_, read)| *read != "t1|A").collect();
        assert!(wrong.is_empty() && told.lines().count() == all.len(), "{wrong:?}");
    }
}
