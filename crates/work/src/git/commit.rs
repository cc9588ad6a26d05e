//! A commit as git keeps it: lines of a header, an empty one, and its words, byte for byte.

use super::{Failed, Sha, plain_line};
use crate::Result;

/// What git keeps of a commit.
#[derive(Debug)]
pub(crate) struct RawCommit(Vec<u8>);

impl RawCommit {
    /// Take the first of what `git cat-file --batch` answered: `<sha> commit <bytes>`, the bytes, a line's end.
    pub(super) fn first_of(asked: &Sha, told: &mut &[u8]) -> Result<RawCommit> {
        let unread = |why: String| Failed::Unread { what: format!("cat-file of {asked}"), why };
        let cut_off = || unread("it is cut off".into());
        let end = told.iter().position(|byte| *byte == b'\n').ok_or_else(cut_off)?;
        let (head, rest) = (String::from_utf8_lossy(&told[..end]), &told[end + 1..]);
        let size = head.strip_prefix(asked.as_str()).and_then(|head| head.strip_prefix(" commit "));
        let size = size.and_then(|size| size.parse().ok()).ok_or_else(|| unread(plain_line(&head)))?;
        let (bytes, rest) = rest.split_at_checked(size).ok_or_else(cut_off)?;
        *told = rest.strip_prefix(b"\n").ok_or_else(cut_off)?;
        Ok(RawCommit(bytes.to_vec()))
    }

    /// Its tree.
    pub(crate) fn tree(&self) -> Result<Sha> {
        let line = String::from_utf8_lossy(self.line(b"tree "));
        let sha = line.trim_end().strip_prefix("tree ").unwrap_or_default().parse();
        sha.map_err(|e| Failed::Unread { what: "cat-file".into(), why: format!("{e}") }.into())
    }

    /// A line of its header, with its end; empty if there is none.
    pub(crate) fn line(&self, key: &[u8]) -> &[u8] {
        let mut head = self.0.split_inclusive(|byte| *byte == b'\n').take_while(|line| *line != b"\n");
        head.find(|line| line.starts_with(key)).unwrap_or_default()
    }

    /// Its words.
    pub(crate) fn words(&self) -> &[u8] {
        let end = self.0.windows(2).position(|pair| pair == b"\n\n");
        end.map_or(&[], |end| &self.0[end + 2..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With all that a header may have: what is signed goes on in lines that begin with a space.
    const RAW: &str = "tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nauthor A <a@b> 1 +0000\nencoding latin1\n\
        mergetag object b\n type commit\n \n author of a tag\ngpgsig -----BEGIN-----\n \n encoding x\n -----END-----\n\
        \ntwo\n\nauthor x\n";

    fn sha(of: char) -> Sha {
        of.to_string().repeat(40).parse().expect("a sha")
    }

    #[test]
    fn of_two_commits_each_is_read_by_its_length() {
        let told = format!("{} commit {}\n{RAW}\n{} commit 4\nx y\n\n", sha('1'), RAW.len(), sha('2'));
        let mut rest = told.as_bytes();
        let first = RawCommit::first_of(&sha('1'), &mut rest).expect("a commit");
        assert_eq!(first.tree().expect("a tree"), sha('a'));
        assert_eq!(first.line(b"author "), b"author A <a@b> 1 +0000\n");
        assert_eq!(first.line(b"encoding "), b"encoding latin1\n");
        assert_eq!(first.line(b"committer "), b"");
        assert_eq!(first.words(), b"two\n\nauthor x\n");
        let second = RawCommit::first_of(&sha('2'), &mut rest).expect("a commit");
        assert_eq!((second.words(), rest), (&b""[..], &b""[..]));
        assert!(second.tree().is_err());
    }

    #[test]
    fn an_answer_that_is_no_commit_or_cut_off_is_told() {
        let one = sha('1');
        for (told, why) in [
            (String::new(), "it is cut off".to_owned()),
            (format!("{one} missing\n"), format!("{one} missing")),
            (format!("{one} tree 3\nabc\n"), format!("{one} tree 3")),
            (format!("{} commit 1\na\n", sha('2')), format!("{} commit 1", sha('2'))),
            (format!("{one} commit 9\nabc\n"), "it is cut off".to_owned()),
            (format!("{one} commit 3\nabc"), "it is cut off".to_owned()),
        ] {
            let error = RawCommit::first_of(&one, &mut told.as_bytes()).expect_err("no commit").to_string();
            assert!(error.contains(one.as_str()) && error.ends_with(&why), "{error}");
        }
    }
}
