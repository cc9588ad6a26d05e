//! The shapes that an owner's repository has: what is landed in each, and that it is known as one whatever path leads to it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use netsky_work::git::Git;
use netsky_work::harvest::{Job, Outcome, Tree, harvest, landing};

use crate::support::{Bench, commit, git, head, landed};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A job of a task with one commit in its workspace, for the repository at another path.
fn job(bench: &Bench, id: &str, repo: &Path) -> Job {
    commit(&bench.workspace(id), &format!("of-{id}"), "new\n", id);
    Job { repo: repo.to_owned(), ..bench.job(id) }
}

/// The locks of all repositories that were harvested into.
fn locks(bench: &Bench) -> Vec<PathBuf> {
    let all = fs::read_dir(bench.layout.harvests()).expect("listed").map(|entry| entry.expect("one").path());
    all.filter(|path| path.extension().is_some_and(|end| end == "lock")).collect()
}

#[test]
fn a9_one_repository_has_one_lock_whatever_path_leads_to_it() {
    let bench = Bench::new();
    let beside = |name: &str| bench.temp.path().join(name);
    let (link, linked, other) = (beside("link"), beside("linked"), beside("other"));
    symlink(&bench.repo, &link).expect("made");
    git(&bench.repo, &["worktree", "add", "-q", "-b", "side", text(&linked)]);
    fs::create_dir(&other).expect("made");
    symlink(bench.repo.join(".git"), other.join(".git")).expect("made");
    let inner = bench.repo.join(".git");
    let ways = [&bench.repo, &link, &linked, &other, &inner, &inner.join("worktrees/linked")];
    for (nth, way) in ways.into_iter().enumerate() {
        let id = format!("t{nth}");
        let job = job(&bench, &id, way);
        assert_eq!(landed(harvest(&job).expect("an outcome")).tree, Tree::Moved, "{way:?}");
        assert!(landing(&job).expect("known").is_some(), "{way:?}");
        assert_eq!(fs::read_to_string(bench.repo.join(format!("of-{id}"))).expect("it followed"), "new\n");
        bench.assert_whole();
    }
    assert_eq!(locks(&bench).len(), 1, "{:?}", locks(&bench));
}

/// A repository beside the bench's own that has its files elsewhere.
fn lands_with_its_files(bench: &mut Bench, files: PathBuf, named: &Path) {
    assert!(files.join(".git").is_file());
    bench.repo = files;
    let job = job(bench, "t1", named);
    assert_eq!(landed(harvest(&job).expect("an outcome")).tree, Tree::Moved);
    assert_eq!(git(&bench.repo, &["status", "--porcelain"]), "");
    assert!(bench.repo.join("of-t1").exists());
}

#[test]
fn a_repository_whose_folder_is_elsewhere_lands_with_its_files() {
    let mut bench = Bench::new();
    let beside = |name: &str| bench.temp.path().join(name);
    let (apart, gits, link) = (beside("apart"), beside("apart.git"), beside("link"));
    git(&bench.repo, &["clone", "-q", "--separate-git-dir", text(&gits), ".", text(&apart)]);
    symlink(&apart, &link).expect("made");
    let dev = beside("dev");
    git(&apart, &["worktree", "add", "-q", "-b", "dev", text(&dev)]);
    let job = job(&bench, "t2", &apart);
    for other in [&gits, &dev] {
        let error = harvest(&Job { repo: other.clone(), ..job.clone() }).expect_err("refused").to_string();
        assert!(error.contains("elsewhere: name their folder"), "{error}");
    }
    assert_eq!(git(&dev, &["status", "--porcelain"]), "", "no checkout of another branch is written to");
    lands_with_its_files(&mut bench, apart, &link);
}

#[test]
fn a_submodule_lands_with_its_files() {
    let mut bench = Bench::new();
    let outer = bench.temp.path().join("outer");
    fs::create_dir(&outer).expect("made");
    git(&outer, &["init", "-q", "-b", "main", "--template="]);
    let from = text(&bench.repo).to_owned();
    git(&outer, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &from, "inner"]);
    let inner = outer.join("inner");
    lands_with_its_files(&mut bench, inner.clone(), &inner);
}

#[test]
fn a_folder_of_main_that_is_gone_or_anothers_is_told_and_no_other_is_written_to() {
    let bench = Bench::new();
    let linked = bench.temp.path().join("linked");
    git(&bench.repo, &["checkout", "-q", "-b", "dev"]);
    git(&bench.repo, &["worktree", "add", "-q", text(&linked), "main"]);
    let (job, before) = (job(&bench, "t1", &bench.repo), bench.main());
    let refused = |why: &str| {
        let error = harvest(&job).expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(
            (bench.main(), git(&bench.repo, &["status", "--porcelain"])),
            (before.clone(), String::new())
        );
    };
    fs::remove_dir_all(&linked).expect("ours");
    refused("it is gone; `git worktree prune`");
    git(bench.temp.path(), &["clone", "-q", text(&bench.repo), text(&linked)]);
    refused("it is another repository");
    fs::remove_dir_all(&linked).expect("ours");
    git(&bench.repo, &["worktree", "prune"]);
    assert_eq!(landed(harvest(&job).expect("an outcome")).tree, Tree::None);
    bench.assert_whole();
}

#[test]
fn a_repository_of_the_longer_hash_lands() {
    let mut bench = Bench::new();
    bench.repo = bench.temp.path().join("longer");
    fs::create_dir(&bench.repo).expect("made");
    git(&bench.repo, &["init", "-q", "-b", "main", "--template=", "--object-format=sha256"]);
    commit(&bench.repo, "a", "one\n", "first");
    let job = job(&bench, "t1", &bench.repo.clone());
    commit(&bench.repo, "b", "of the owner\n", "meanwhile");
    let came = landed(harvest(&job).expect("an outcome"));
    assert_eq!((came.sha.as_str().len(), came.sha), (64, bench.main()));
    bench.assert_whole();
}

#[test]
fn a_repository_that_keeps_its_refs_in_tables_lands() {
    let mut bench = Bench::new();
    bench.repo = bench.temp.path().join("tables");
    fs::create_dir(&bench.repo).expect("made");
    let made = crate::support::command(&bench.repo)
        .args(["init", "-q", "-b", "main", "--template=", "--ref-format=reftable"])
        .output()
        .expect("git runs");
    if !made.status.success() {
        eprintln!("skipped: a git before 2.45 keeps no refs in tables");
        return;
    }
    commit(&bench.repo, "a", "one\n", "first");
    let job = job(&bench, "t1", &bench.repo.clone());
    bench.helper_harvest("t1", &[("NETSKY_FAULT", "work.land.moved=kill")]);
    let came = harvest(&job).expect("an outcome");
    assert!(matches!(came, Outcome::AlreadyLanded { .. }), "{came:?}");
    commit(&job.workspace, "e", "more\n", "second");
    assert_eq!(landed(harvest(&job).expect("an outcome")).tree, Tree::Moved);
    bench.assert_whole();
}

#[test]
fn a_path_that_git_would_not_take_is_refused_before_anything() {
    let bench = Bench::new();
    let mut job = job(&bench, "t1", Path::new("repo"));
    for path in ["repo", "/a\nb"] {
        job.repo = path.into();
        let error = harvest(&job).expect_err("refused").to_string();
        assert!(error.contains("its path is not absolute, or has control characters"), "{error}");
    }
}

#[test]
fn a_repository_that_git_refuses_is_an_error_and_not_one_where_nothing_landed() {
    let bench = Bench::new();
    let job = job(&bench, "t1", &bench.repo);
    landed(harvest(&job).expect("an outcome"));
    let config = bench.repo.join(".git/config");
    let before = fs::read(&config).expect("read");
    fs::write(&config, "[core]\n\trepositoryformatversion = 99\n").expect("written");
    let error = landing(&job).expect_err("git refuses it").to_string();
    assert!(error.contains("repo version"), "{error}");
    fs::write(&config, before).expect("written");
    assert!(landing(&job).expect("known").is_some());
}

/// A git that moves `main` of a repository once, when the branch is fetched: what was copied before that has not the new tip.
fn mover(bench: &Bench) -> Git {
    let program = bench.temp.path().join("git-that-moves");
    let (once, repo) = (bench.temp.path().join("once"), &bench.repo);
    let lines = [
        "#!/bin/sh".to_owned(),
        format!(
            "case \"$*\" in *' fetch '*) if [ ! -e '{0}' ]; then : > '{0}'; cd '{1}' || exit 1",
            text(&once),
            text(repo)
        ),
        "tree=$(git rev-parse main^{tree}) && new=$(git commit-tree -m meanwhile -p main \"$tree\") &&"
            .to_owned(),
        "git update-ref refs/heads/main \"$new\"; fi;; esac".to_owned(),
        "exec git \"$@\"".to_owned(),
    ];
    fs::write(&program, lines.join("\n")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    Git::at(&program)
}

#[test]
fn a9_a_shallow_repository_whose_main_moves_meanwhile_lands() {
    let mut bench = Bench::new();
    let shallow = bench.temp.path().join("shallow");
    let from = format!("file://{}", text(&bench.repo));
    git(&bench.repo, &["clone", "-q", "--depth=1", "--template=", &from, text(&shallow)]);
    assert!(shallow.join(".git/shallow").exists());
    let mut job = job(&bench, "t1", &shallow);
    bench.repo = shallow;
    job.git = mover(&bench);
    let before = bench.main();
    match harvest(&job).expect("an outcome") {
        Outcome::Landed(came) => assert_eq!(came.sha, bench.main()),
        other => panic!("{other:?}"),
    }
    let moved = head(&bench.repo, "main^");
    assert_eq!(
        (git(&bench.repo, &["log", "-1", "--format=%s", moved.as_str()]), head(&bench.repo, "main^^")),
        ("meanwhile".to_owned(), before)
    );
    bench.assert_whole();
}
