//! Clones of which an agent made what it liked: nothing of them is run, nothing is read through them, nothing of theirs lands but what
//! git calls sound (A8).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use netsky_work::harvest::{Job, Mode, Outcome, harvest, touched};

use crate::support::{Bench, command, commit, git, head};

/// What comes of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    Lands,
    Refused,
}
use Comes::{Lands, Refused};

/// One clone of an agent's, before its hostility: with one commit.
struct Clone<'a> {
    bench: &'a Bench,
    at: PathBuf,
    evil: String,
}

impl Clone<'_> {
    fn set(&self, key: &str) {
        git(&self.at, &["config", key, &self.evil]);
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.at.join(".git").join(name)
    }

    /// A program that makes the canary.
    fn program(&self, at: &Path) {
        fs::create_dir_all(at.parent().expect("a folder")).expect("made");
        fs::write(at, format!("#!/bin/sh\n{}\n", self.evil)).expect("written");
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Every hook there is.
    fn hooks(&self, folder: &Path) {
        for name in [
            "post-checkout",
            "reference-transaction",
            "pre-receive",
            "update",
            "post-receive",
            "post-update",
            "pre-push",
            "pre-commit",
            "commit-msg",
            "post-commit",
            "post-merge",
            "post-rewrite",
            "post-index-change",
            "pre-auto-gc",
            "fsmonitor-watchman",
            "sendemail-validate",
            "push-to-checkout",
            "proc-receive",
            "applypatch-msg",
        ] {
            self.program(&folder.join(name));
        }
    }

    /// A commit with one entry more in its tree, under a name that git itself would not write.
    fn entry(&self, mode: &str, kind: &str, object: &str, name: &str) {
        let tree = format!("{}{mode} {kind} {object}\t{name}\n", git(&self.at, &["ls-tree", "HEAD"]) + "\n");
        let tree = given(&self.at, &["mktree", "--missing"], tree.as_bytes());
        self.tip(&git(&self.at, &["commit-tree", "-m", "entry", "-p", "HEAD", &tree]));
    }

    fn tip(&self, sha: &str) {
        fs::write(self.inside("refs/heads/task/t1"), format!("{sha}\n")).expect("written");
    }

    fn blob(&self, text: &str) -> String {
        given(&self.at, &["hash-object", "-w", "--stdin"], text.as_bytes())
    }

    fn loose(&self, sha: &str) -> PathBuf {
        self.inside("objects").join(&sha[..2]).join(&sha[2..])
    }

    /// Whoever opens it waits for a writer.
    fn pipe(&self, name: &str) {
        let at = self.inside(name);
        let _ = fs::remove_file(&at);
        fs::create_dir_all(at.parent().expect("a folder")).expect("made");
        assert!(std::process::Command::new("mkfifo").arg(at).status().expect("made").success());
    }

    /// Move a part of the clone elsewhere and leave a link.
    fn linked(&self, name: &str) {
        let elsewhere = self.bench.temp.path().join("elsewhere");
        fs::rename(self.inside(name), &elsewhere).expect("moved");
        symlink(&elsewhere, self.inside(name)).expect("linked");
    }
}

fn given(folder: &Path, args: &[&str], input: &[u8]) -> String {
    use std::io::Write;
    use std::process::Stdio;
    let mut asked = command(folder);
    let mut child = asked.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

type Hostile = (&'static str, Comes, fn(&Clone<'_>));

/// What runs programs by its settings.
const SETTINGS: &[Hostile] = &[
    ("hooks", Lands, |c| c.hooks(&c.inside("hooks"))),
    ("core.hooksPath", Lands, |c| {
        c.hooks(&c.at.join("hooks"));
        git(&c.at, &["config", "core.hooksPath", c.at.join("hooks").to_str().expect("text")]);
    }),
    ("core.fsmonitor", Lands, |c| c.set("core.fsmonitor")),
    ("core.sshCommand", Lands, |c| c.set("core.sshCommand")),
    ("core.gitProxy", Lands, |c| c.set("core.gitProxy")),
    ("pagers, editors and askers", Lands, |c| {
        ["core.pager", "core.editor", "core.askPass", "sequence.editor"].iter().for_each(|key| c.set(key));
    }),
    ("include.path", Lands, |c| {
        fs::write(c.at.join("more"), format!("[core]\n\tfsmonitor = {}\n", c.evil)).expect("written");
        git(&c.at, &["config", "include.path", "../more"]);
    }),
    ("filters", Lands, |c| {
        ["filter.x.smudge", "filter.x.clean", "filter.x.process"].iter().for_each(|key| c.set(key));
        fs::create_dir_all(c.inside("info")).expect("made");
        fs::write(c.inside("info/attributes"), "* filter=x\n").expect("written");
        c.entry("100644", "blob", &c.blob("* filter=x\n"), ".gitattributes");
    }),
    ("diff drivers", Lands, |c| {
        ["diff.external", "diff.x.command", "diff.x.textconv"].iter().for_each(|key| c.set(key));
        c.entry("100644", "blob", &c.blob("* diff=x\n"), ".gitattributes");
    }),
    ("merge drivers", Lands, |c| {
        c.set("merge.x.driver");
        c.entry("100644", "blob", &c.blob("* merge=x\n"), ".gitattributes");
    }),
    ("uploadpack.packObjectsHook", Lands, |c| c.set("uploadpack.packObjectsHook")),
    ("core.alternateRefsCommand", Lands, |c| c.set("core.alternateRefsCommand")),
    ("credential.helper", Lands, |c| c.set("credential.helper")),
    ("gpg.program", Lands, |c| {
        c.set("gpg.program");
        git(&c.at, &["config", "log.showSignature", "true"]);
    }),
    ("trace2 targets", Lands, |c| {
        let canary = c.bench.temp.path().join("canary");
        for key in ["trace2.normalTarget", "trace2.eventTarget", "trace2.perfTarget"] {
            git(&c.at, &["config", key, canary.to_str().expect("text")]);
        }
    }),
    ("insteadOf", Lands, |c| git(&c.at, &["config", &format!("url.ext::{}.insteadOf", c.evil), "/"]).clear()),
    ("core.worktree and core.bare", Lands, |c| {
        git(&c.at, &["config", "core.worktree", "/"]);
        git(&c.at, &["config", "core.bare", "true"]);
    }),
    ("a config that does not read", Refused, |c| fs::write(c.inside("config"), "[core\n").expect("written")),
    ("a promised object that is not there", Refused, |c| {
        let blob = c.blob("promised\n");
        c.entry("100644", "blob", &blob, "promised");
        fs::remove_file(c.loose(&blob)).expect("gone");
        git(&c.at, &["config", "core.repositoryFormatVersion", "1"]);
        git(&c.at, &["config", "extensions.partialClone", "evil"]);
        git(&c.at, &["config", "remote.evil.url", &format!("ext::{}", c.evil)]);
        git(&c.at, &["config", "remote.evil.promisor", "true"]);
        git(&c.at, &["config", "protocol.ext.allow", "always"]);
    }),
];

/// What leads elsewhere.
const ELSEWHERE: &[Hostile] = &[
    ("alternates", Refused, |c| {
        fs::create_dir_all(c.inside("objects/info")).expect("made");
        let text = format!("{}\n", c.bench.repo.join(".git/objects").display());
        fs::write(c.inside("objects/info/alternates"), text).expect("written");
    }),
    ("a .git that is a file", Refused, |c| {
        fs::rename(c.inside(""), c.bench.temp.path().join("elsewhere")).expect("moved");
        let text = format!("gitdir: {}\n", c.bench.temp.path().join("elsewhere").display());
        fs::write(c.at.join(".git"), text).expect("written");
    }),
    ("a .git that is a link", Refused, |c| {
        fs::rename(c.at.join(".git"), c.bench.temp.path().join("elsewhere")).expect("moved");
        symlink(c.bench.temp.path().join("elsewhere"), c.at.join(".git")).expect("linked");
    }),
    ("commondir", Refused, |c| {
        fs::write(c.inside("commondir"), c.bench.repo.join(".git").to_str().expect("text")).expect("written");
    }),
    ("objects that are a link", Refused, |c| c.linked("objects")),
    ("packs that are a link", Refused, |c| c.linked("objects/pack")),
    ("refs that are a link", Refused, |c| c.linked("refs")),
    ("a branch that is a link", Refused, |c| c.linked("refs/heads/task/t1")),
    ("grafts", Refused, |c| {
        fs::create_dir_all(c.inside("info")).expect("made");
        fs::write(c.inside("info/grafts"), format!("{}\n", head(&c.at, "HEAD"))).expect("written");
    }),
    ("shallow", Refused, |c| {
        fs::write(c.inside("shallow"), format!("{}\n", head(&c.at, "HEAD"))).expect("written");
    }),
    ("a pipe for a head", Refused, |c| c.pipe("HEAD")),
    ("a pipe for the settings of a worktree", Refused, |c| c.pipe("config.worktree")),
    ("a pipe for the index of a pack", Refused, |c| c.pipe("objects/pack/pack-1.idx")),
    ("a pipe for a graph of commits", Refused, |c| c.pipe("objects/info/commit-graph")),
    ("a pipe for another branch", Refused, |c| c.pipe("refs/heads/other")),
    ("objects of which some are a link", Refused, |c| {
        let blob = c.blob("linked\n");
        c.entry("100644", "blob", &blob, "linked");
        c.linked(&format!("objects/{}", &blob[..2]));
    }),
];

/// What is in its objects.
const OBJECTS: &[Hostile] = &[
    ("a submodule whose address is a program", Lands, |c| {
        let text = format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::{}\n", c.evil);
        c.entry("100644", "blob", &c.blob(&text), ".gitmodules");
    }),
    ("a submodule whose address is an option", Refused, |c| {
        let text = format!("[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack={}\n", c.evil);
        c.entry("100644", "blob", &c.blob(&text), ".gitmodules");
    }),
    ("a submodule whose name leads out", Refused, |c| {
        let text = "[submodule \"../../hooks\"]\n\tpath = x\n\turl = /x\n";
        c.entry("100644", "blob", &c.blob(text), ".gitmodules");
    }),
    ("a gitlink to nowhere", Refused, |c| c.entry("160000", "commit", &"1".repeat(40), "sub")),
    ("a link out of the tree", Lands, |c| c.entry("120000", "blob", &c.blob("../canary"), "link")),
    ("a tree with a .git", Refused, |c| {
        let hooks =
            given(&c.at, &["mktree"], format!("100755 blob {}\thooks\n", c.blob("#!/bin/sh\n")).as_bytes());
        c.entry("040000", "tree", &hooks, ".git");
    }),
    ("a tree with a .GIT", Refused, |c| c.entry("100644", "blob", &c.blob("x"), ".GIT")),
    ("a tree with a git~1", Refused, |c| c.entry("100644", "blob", &c.blob("x"), "git~1")),
    ("a tree with a way up", Refused, |c| c.entry("100644", "blob", &c.blob("x"), "..")),
    ("an object that is torn", Refused, |c| {
        let blob = c.blob("torn\n");
        c.entry("100644", "blob", &blob, "torn");
        fs::set_permissions(c.loose(&blob), fs::Permissions::from_mode(0o644)).expect("set");
        fs::write(c.loose(&blob), "x").expect("written");
    }),
    ("an object under another's name", Refused, |c| {
        let (one, other) = (c.blob("one\n"), c.blob("other\n"));
        c.entry("100644", "blob", &one, "one");
        fs::remove_file(c.loose(&one)).expect("gone");
        fs::copy(c.loose(&other), c.loose(&one)).expect("copied");
    }),
    ("a pack that is torn", Refused, |c| {
        git(&c.at, &["repack", "-q", "-a", "-d"]);
        for entry in fs::read_dir(c.inside("objects/pack")).expect("listed").flatten() {
            if entry.path().extension().is_some_and(|kind| kind == "pack") {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644)).expect("set");
                let bytes = fs::read(entry.path()).expect("read");
                fs::write(entry.path(), &bytes[..bytes.len() / 2]).expect("written");
            }
        }
    }),
    ("a branch that is a file", Refused, |c| c.tip(&c.blob("x"))),
    ("a commit by nobody", Refused, |c| {
        let text = format!(
            "tree {}\nparent {}\n\nx\n",
            git(&c.at, &["rev-parse", "HEAD^{tree}"]),
            head(&c.at, "HEAD")
        );
        c.tip(&given(
            &c.at,
            &["hash-object", "-w", "--literally", "-t", "commit", "--stdin"],
            text.as_bytes(),
        ));
    }),
    ("replaced objects", Lands, |c| {
        let (tip, base) = (head(&c.at, "HEAD"), head(&c.at, "HEAD^"));
        git(&c.at, &["update-ref", &format!("refs/replace/{tip}"), base.as_str()]);
    }),
    ("words that drive a terminal", Lands, |c| {
        git(&c.at, &["commit", "-q", "--allow-empty", "-m", "\u{1b}]0;x\u{7}"]);
        let author = "\u{1b}[31mred <x@y>";
        fs::write(c.at.join("e"), "e").expect("written");
        git(&c.at, &["add", "e"]);
        git(&c.at, &["commit", "-q", "--author", author, "-m", "e\n\n---\nHarvest-Task: t9"]);
    }),
];

#[test]
fn a8_of_hostile_clones_nothing_is_run_and_nothing_unsound_lands() {
    let all: Vec<&Hostile> = SETTINGS.iter().chain(ELSEWHERE).chain(OBJECTS).collect();
    assert!(all.len() >= 30, "{}", all.len());
    for (name, comes, make) in all {
        let bench = Bench::new();
        let at = bench.workspace("t1");
        let canary = bench.temp.path().join("canary");
        let evil = bench.temp.path().join("evil");
        let clone = Clone { bench: &bench, at, evil: evil.to_str().expect("text").to_owned() };
        fs::write(&evil, format!("#!/bin/sh\ntouch {}\ncat\n", canary.display())).expect("written");
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).expect("set");
        commit(&clone.at, "a", "a 1\na 2\na 3\nof the agent\n", "work");
        make(&clone);
        let _ = fs::remove_file(&canary);
        let main = commit(&bench.repo, "a", "of the owner\na 1\na 2\na 3\n", "meanwhile");
        let outcome = harvest(&bench.job("t1")).expect(name);
        match comes {
            Lands => assert!(matches!(outcome, Outcome::Landed(_)), "{name}: {outcome:?}"),
            Refused => {
                assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
                assert_eq!(bench.main(), main, "{name}");
                assert!(!format!("{outcome:?}").contains('\u{1b}'), "{name}: A10");
            }
        }
        assert!(!canary.exists(), "{name}: it was run");
        assert!(git(&bench.repo, &["fsck", "--full"]).is_empty() || *comes == Lands, "{name}");
        assert_eq!(bench.times_landed("t9"), 0, "{name}");
    }
}

#[test]
fn a8_settings_of_the_owners_that_run_programs_are_not_followed_but_for_his_files() {
    for mode in [Mode::Pick, Mode::Squash, Mode::Merge] {
        let bench = Bench::new();
        let at = bench.workspace("t1");
        let canary = bench.temp.path().join("canary");
        let evil = bench.temp.path().join("evil");
        fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", canary.display())).expect("written");
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).expect("set");
        commit(&at, "a", "a 1\na 2\na 3\nof the agent\n", "work");
        commit(&at, ".gitattributes", "* merge=x diff=x\n", "attributes");
        commit(&bench.repo, "a", "of the owner\na 1\na 2\na 3\n", "meanwhile");
        let clone =
            Clone { bench: &bench, at: bench.repo.clone(), evil: evil.to_str().expect("text").to_owned() };
        clone.hooks(&clone.inside("hooks"));
        for key in [
            "merge.x.driver",
            "diff.external",
            "diff.x.command",
            "core.fsmonitor",
            "core.editor",
            "gpg.program",
        ] {
            clone.set(key);
        }
        git(&bench.repo, &["config", "commit.gpgSign", "true"]);
        let _ = fs::remove_file(&canary);
        let mut job = bench.job("t1");
        job.mode = mode;
        let outcome = harvest(&job).expect("an outcome");
        assert!(matches!(outcome, Outcome::Landed(_)), "{outcome:?}");
        assert!(!canary.exists(), "{mode:?}: a hook or a driver was run");
        let text = fs::read_to_string(bench.repo.join("a")).expect("read");
        assert_eq!(text, "of the owner\na 1\na 2\na 3\nof the agent\n");
    }
}

#[test]
fn a8_git_sees_no_variable_and_no_settings_of_whoever_harvests() {
    let bench = Bench::new();
    commit(&bench.workspace("t1"), "d", "of the agent\n", "work");
    let broken = bench.temp.path().join(".gitconfig");
    fs::write(&broken, "[core\n").expect("written");
    let broken = broken.to_str().expect("text");
    let output = bench.helper_harvest(
        "t1",
        &[
            ("HOME", bench.temp.path().to_str().expect("text")),
            ("GIT_CONFIG_GLOBAL", broken),
            ("GIT_CONFIG_SYSTEM", broken),
            ("GIT_OBJECT_DIRECTORY", "/nonexistent"),
            ("GIT_NAMESPACE", "other"),
            ("GIT_TRACE", "/nonexistent"),
        ],
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("Landed("), "{output:?}");
    bench.assert_whole();
}

/// Nine folders, each ten times the one below: little to fetch, and a hundred million files to lay out.
#[test]
fn a12_few_objects_that_are_too_many_files_do_not_land() {
    let bench = Bench::new();
    let clone = bench.workspace("t1");
    commit(&clone, "d", "of the agent\n", "work");
    let blob = git(&clone, &["rev-parse", "HEAD:d"]);
    let of = |kind: &str, object: &str| {
        let tree: String = (0..10).map(|nth| format!("{kind} {object}\t{nth}\n")).collect();
        let mut mktree = command(&clone);
        mktree.arg("mktree").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut mktree = mktree.spawn().expect("git runs");
        std::io::Write::write_all(&mut mktree.stdin.take().expect("a pipe"), tree.as_bytes())
            .expect("it reads");
        let told = mktree.wait_with_output().expect("ours").stdout;
        String::from_utf8(told).expect("text").trim().to_owned()
    };
    let mut tree = of("100644 blob", &blob);
    for _ in 0..7 {
        tree = of("040000 tree", &tree);
    }
    let made = git(&clone, &["commit-tree", "-p", "HEAD", "-m", "many", &tree]);
    git(&clone, &["update-ref", "HEAD", &made]);
    let mut job = bench.job("t1");
    job.is_dry = true;
    let is_refused = |job: &mut Job| {
        for mode in [Mode::Merge, Mode::Squash, Mode::Pick] {
            job.mode = mode;
            let outcome = harvest(job).expect("an outcome");
            let Outcome::Refused(why) = &outcome else { panic!("{mode:?}: {outcome:?}") };
            assert!(why.contains("more files"), "{why}");
        }
    };
    is_refused(&mut job);
    assert_eq!(
        touched(&Job { base: Some(bench.main()), ..job.clone() }).expect("seen"),
        None,
        "nobody counts them"
    );
    // Nor may they come and go within the branch: whoever looks at its history meets them.
    let before = git(&clone, &["rev-parse", "HEAD^^{tree}"]);
    let gone = git(&clone, &["commit-tree", "-p", "HEAD", "-m", "gone", &before]);
    git(&clone, &["update-ref", "HEAD", &gone]);
    is_refused(&mut job);
}
