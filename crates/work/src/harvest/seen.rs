//! What of a branch has landed, and what is left of it (T19).
//!
//! Promise: what landed is known by the trailers that [`pick`](super::pick) wrote, whatever else was lost: `Harvest-Task` says whose it is
//! and `Harvest-Source` which commit of the branch it is of. What landed without us is known by its patch. Of a task that has
//! landed by us, what is there by its patch and would change `main` all the same was reverted, and is work again.

use super::job::{Job, Mode, Outcome};
use super::pick::{SOURCE, TASK};
use super::source::{Scratch, is_endless};
use crate::Result;
use crate::git::{Failed, Sha, plain_line};

/// Most commits of a branch: more is no task.
const MOST_COMMITS: usize = 1000;

/// What there is to do.
pub(super) struct Work {
    /// The last commit that `main` has of the branch.
    pub(super) from: Sha,
    /// The commits that it has not, the oldest first.
    pub(super) commits: Vec<Piece>,
    /// Whether each of them has one parent.
    pub(super) is_line: bool,
    /// The newest commit of `main` that says of some of it that it landed by us.
    landed: Option<Sha>,
}

/// A commit of the branch.
pub(super) struct Piece {
    pub(super) commit: Sha,
    /// What it is the change of: its first parent.
    pub(super) parent: Sha,
    /// Whether `main` has had the same change in another commit.
    pub(super) was_there: bool,
}

impl Work {
    /// What is said of it where it changes nothing. A last commit that changes nothing is in no trailer: what landed before it is all.
    pub(super) fn nothing(&self, scratch: &Scratch, main: &Sha) -> Result<Outcome> {
        let there = match &self.landed {
            None if self.was_there() && self.has_changes(scratch)? => {
                Some(same_patch(scratch, main)?.unwrap_or_else(|| main.clone()))
            }
            landed => landed.clone(),
        };
        Ok(there.map_or(Outcome::Empty, |sha| Outcome::AlreadyLanded { sha }))
    }

    /// Whether some commit changes a file: those that change none are all of one patch, whoever they are of.
    fn has_changes(&self, scratch: &Scratch) -> Result<bool> {
        let not_from = format!("^{}", self.from);
        let args = ["rev-list", "--max-count=1", scratch.tip.as_str(), &not_from, "--", "."];
        Ok(!scratch.repo.ask(&args, &[])?.is_empty())
    }

    /// Those that `main` has not had in another commit.
    pub(super) fn fresh(&self) -> Vec<&Piece> {
        self.commits.iter().filter(|piece| !piece.was_there).collect()
    }

    /// Whether `main` has had all of it.
    pub(super) fn was_there(&self) -> bool {
        self.commits.iter().all(|piece| piece.was_there)
    }

    /// Whether what `main` has had and has no more may be wanted again: of what landed by us its agent has made other commits. What
    /// came there otherwise, and was taken away or moved since, is as its owner wants it.
    pub(super) fn may_return(&self) -> bool {
        self.landed.is_some()
    }
}

/// What a look at a branch says.
pub(super) enum Seen {
    /// There is something to do.
    Work(Work),
    /// There is not.
    Over(Outcome),
}

pub(super) fn look(job: &Job, scratch: &Scratch, main: &Sha) -> Result<Seen> {
    let refused = |why: String| Ok(Seen::Over(Outcome::Refused(why)));
    let repo = &scratch.repo;
    let told = repo.tell(&["merge-base", main.as_str(), scratch.tip.as_str()], &[])?;
    if told.code == 1 {
        return refused(format!("{} has nothing in common with {}", job.branch, job.main));
    }
    let common = repo.sha("merge-base", &told.well("merge-base")?)?;
    // What both have last is before the tip, and there.
    if let Some(base) = job.base.as_ref().filter(|base| **base != common) {
        let is_there = repo.commit(base.as_str())?.is_some();
        let is_before = |other: &Sha| Ok::<_, crate::Error>(is_there && repo.is_before(base, other)?);
        match (is_before(main)?, is_before(&scratch.tip)?) {
            (true, false) => return refused(format!("{} does not begin at {base} any more", job.branch)),
            // What lies between is nobody's work here: its owner took it from `main`, or has not brought it there yet.
            (false, true) => {
                let main = job.main.short();
                let way = format!("`git fetch`, `git rebase --onto origin/{main} {base}` in the workspace");
                return refused(format!(
                    "{main} has not {base}, where the branch begins: bring it there, or if it was dropped {way}"
                ));
            }
            (true, true) | (false, false) => {}
        }
    }
    let has_all = common == *main;
    let landed = landed(job, scratch, main, &common)?;
    if let Some(last) = landed.iter().find(|landed| landed.source.as_ref() == Some(&scratch.tip)) {
        return Ok(Seen::Over(Outcome::AlreadyLanded { sha: last.sha.clone() }));
    }
    // What came on the branch after a part of it has landed begins there.
    let mut from = common.clone();
    for source in landed.iter().filter_map(|landed| landed.source.as_ref()) {
        if repo.commit(source.as_str())?.is_some() && repo.is_before(source, &scratch.tip)? {
            from = source.clone();
            break;
        }
    }
    let commits = match commits(scratch, &from, main)? {
        Ok(commits) => commits,
        Err(why) => return refused(why),
    };
    if commits.is_empty() {
        return Ok(Seen::Over(match landed.first() {
            Some(last) => Outcome::AlreadyLanded { sha: last.sha.clone() },
            // Somebody merged it. A tip that was one of `main` itself may be anybody's: the branch only followed.
            None if job.base.as_ref().is_some_and(|base| *base != scratch.tip)
                && !is_of_main(scratch, main)? =>
            {
                Outcome::AlreadyLanded { sha: scratch.tip.clone() }
            }
            None => Outcome::Empty,
        }));
    }
    if let Some(why) = unfit(job, scratch, main, (&common, &from), &commits)? {
        return refused(why);
    }
    let is_line = commits.iter().all(|commit| commit.parents.len() == 1);
    // Of a branch that has all of `main`, nothing can be there in another commit.
    let fresh = if has_all { None } else { Some(fresh(scratch, main)?) };
    let pieces = commits.into_iter().filter_map(|Commit { sha, parents, .. }| {
        let was_there = fresh.as_ref().is_some_and(|fresh| !fresh.contains(&sha));
        Some(Piece { commit: sha, parent: parents.into_iter().next()?, was_there })
    });
    let landed = landed.into_iter().next().map(|newest| newest.sha);
    Ok(Seen::Work(Work { from, commits: pieces.collect(), is_line, landed }))
}

/// Why commits of a branch do not land as is asked.
fn unfit(
    job: &Job,
    scratch: &Scratch,
    main: &Sha,
    (common, from): (&Sha, &Sha),
    commits: &[Commit],
) -> Result<Option<String>> {
    let merge = commits.iter().find(|commit| commit.parents.len() != 1);
    if let (Mode::Pick, Some(merge)) = (job.mode, merge) {
        let what = "is a merge, which cannot be picked: squash or merge the branch";
        return Ok(Some(format!("{} {what}", merge.sha)));
    }
    let as_it_is = match job.mode {
        // It brings what was picked of the branch before, too.
        Mode::Merge if common != from => match self::commits(scratch, common, main)? {
            Ok(all) => all,
            Err(why) => return Ok(Some(why)),
        },
        _ => Vec::new(),
    };
    // The tip was looked at before it was taken.
    for Commit { sha, .. } in commits.iter().chain(&as_it_is).filter(|commit| commit.sha != scratch.tip) {
        if is_endless(&scratch.repo, sha.as_str())? && !is_endless(&scratch.repo, main.as_str())? {
            return Ok(Some(format!("{sha} has more files than anybody lays out")));
        }
    }
    if let Some(commit) = commits.iter().chain(&as_it_is).find(|commit| !is_read_as_written(&commit.letters))
    {
        let (sha, letters) = (&commit.sha, plain_line(&commit.letters));
        let way = "write its words in UTF-8 (a rebase with i18n.commitEncoding=UTF-8 does)";
        return Ok(Some(format!("{sha} is written in {letters}, where nobody sees whose work it is: {way}")));
    }
    if job.mode == Mode::Merge
        && let Some(claim) = claim(scratch, main)?
    {
        return Ok(Some(format!("{claim} has a {TASK} of its own: pick or squash the branch")));
    }
    Ok(None)
}

/// Whether the branch is at a commit that was `main` itself at some time, and not at one that a merge brought.
fn is_of_main(scratch: &Scratch, main: &Sha) -> Result<bool> {
    let told = scratch.repo.ask(&["rev-list", "--first-parent", main.as_str()], &[])?;
    Ok(told.lines().any(|line| line == scratch.tip.as_str()))
}

/// A commit of the branch that says of itself that it landed, where it would stay as it is.
fn claim(scratch: &Scratch, main: &Sha) -> Result<Option<Sha>> {
    let (named, not_main) = (format!("--grep={TASK}"), format!("^{main}"));
    let args = ["rev-list", "-i", "--max-count=1", &named, scratch.tip.as_str(), &not_main];
    let told = scratch.repo.ask(&args, &[])?;
    told.lines().next().map(|sha| Ok(sha.parse()?)).transpose()
}

/// A commit of a branch.
struct Commit {
    sha: Sha,
    parents: Vec<Sha>,
    /// What it says that its words are written in; empty where it says nothing.
    letters: String,
}

/// Whether the letters of ASCII, and nothing else, are in a text of these what they are in its bytes: in others git would read
/// trailers there that we have not seen, and not those that we write.
fn is_read_as_written(letters: &str) -> bool {
    let name = letters.to_ascii_lowercase();
    let exact = [
        "", "utf-8", "utf8", "ascii", "us-ascii", "latin1", "latin-1", "koi8-r", "koi8-u", "euc-jp", "euc-kr",
    ];
    let numbered = ["iso-8859-", "iso8859-", "windows-125", "cp125"];
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    exact.contains(&&*name) || numbered.iter().any(|start| name.strip_prefix(start).is_some_and(is_number))
}

/// The commits of the branch that neither `main` nor `from` has, the oldest first; why they are not taken.
fn commits(scratch: &Scratch, from: &Sha, main: &Sha) -> Result<std::result::Result<Vec<Commit>, String>> {
    let most = format!("--max-count={}", MOST_COMMITS + 1);
    let (not_from, not_main) = (format!("^{from}"), format!("^{main}"));
    let mut args = vec!["rev-list", "--topo-order", "--reverse", "--no-commit-header", &most];
    args.extend(["--format=%H%x00%P%x00%e", scratch.tip.as_str(), &not_from, &not_main]);
    let told = scratch.repo.ask(&args, &[])?;
    let mut commits = Vec::new();
    for line in told.split_terminator('\n') {
        let fields: Vec<&str> = line.split('\0').collect();
        let [sha, parents, letters] = fields[..] else {
            return Err(Failed::Unread { what: "rev-list".into(), why: "a field is missing".into() }.into());
        };
        let parents: std::result::Result<_, _> = parents.split_terminator(' ').map(str::parse).collect();
        commits.push(Commit { sha: sha.parse()?, parents: parents?, letters: letters.to_owned() });
    }
    if commits.len() > MOST_COMMITS {
        return Ok(Err(format!("it has over {MOST_COMMITS} commits")));
    }
    Ok(Ok(commits))
}

/// The branch's commits whose change `main` has not in another commit.
fn fresh(scratch: &Scratch, main: &Sha) -> Result<Vec<Sha>> {
    let range = format!("{main}...{}", scratch.tip);
    let told = scratch.repo.ask(&["rev-list", "--right-only", "--cherry-pick", &range], &[])?;
    told.lines().map(|line| Ok(line.parse()?)).collect()
}

/// The newest commit of `main` whose change the branch has in another commit.
fn same_patch(scratch: &Scratch, main: &Sha) -> Result<Option<Sha>> {
    let range = format!("{main}...{}", scratch.tip);
    let told = scratch.repo.ask(&["rev-list", "--left-only", "--cherry-mark", &range], &[])?;
    told.lines().find_map(|line| line.strip_prefix('=')).map(|sha| Ok(sha.parse()?)).transpose()
}

/// A commit of `main` that says that it is of this task.
struct Mark {
    sha: Sha,
    /// The commit of the branch that it is of.
    source: Option<Sha>,
}

/// What of this task is on `main` since the branch began, the newest first.
fn landed(job: &Job, scratch: &Scratch, main: &Sha, common: &Sha) -> Result<Vec<Mark>> {
    let since = match &job.base {
        Some(base) if base != common && scratch.repo.is_before(base, main)? => base,
        _ => common,
    };
    if since == main {
        return Ok(Vec::new());
    }
    let field = |key: &str| format!("%(trailers:key={key},valueonly=true,unfold=true,separator=%x20)");
    let format = format!("--format=%H%x00{}%x00{}%x00", field(TASK), field(SOURCE));
    // A name of this task in the text, by letters, spares looking at the trailers of all others.
    let named = format!("--grep={TASK}: {}", job.task);
    let range = format!("{since}..{main}");
    let told =
        scratch.repo.ask(&["log", "--fixed-strings", &named, &format, "--end-of-options", &range], &[])?;
    let mut marks = Vec::new();
    for line in told.lines() {
        let fields: Vec<&str> = line.split('\0').collect();
        let [sha, task, source, ..] = fields[..] else {
            return Err(Failed::Unread { what: "log".into(), why: "a field is missing".into() }.into());
        };
        if task.split(' ').any(|task| task == job.task.as_str()) {
            marks.push(Mark {
                sha: sha.parse()?,
                source: source.split(' ').next_back().and_then(|s| s.parse().ok()),
            });
        }
    }
    Ok(marks)
}
