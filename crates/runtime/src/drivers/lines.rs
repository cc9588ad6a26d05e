//! Output of a program, cut into lines, with the offset behind each.

/// Longest line that is kept. A tool's result or a list of turns may be megabytes; beyond this it is no message of a
/// protocol, and a program that floods must not take our memory with it.
pub(crate) const LONGEST: usize = 8 << 20;

/// Most values in one line: each takes a hundred times its one byte once it is read, and no message has so many.
const VALUES: usize = 200_000;

/// Whether a line of JSON has more values than any message: what stands between them outside of texts is counted.
fn is_too_many(line: &[u8]) -> bool {
    // As many as it has bytes at most.
    if line.len() < VALUES {
        return false;
    }
    let (mut values, mut in_text, mut is_escaped) = (0, false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values > VALUES
}

/// Bytes on their way to lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
    /// The line began longer ago than it may be: what is left of it is dropped.
    is_dropping: bool,
    /// Offset of the byte behind the last whole line.
    done: u64,
    /// Offset of the next byte.
    next: u64,
}

impl Lines {
    /// Begin at an offset that is the beginning of a line.
    pub(crate) fn at(offset: u64) -> Lines {
        Lines { done: offset, next: offset, ..Lines::default() }
    }

    /// Offset of the byte behind the last line that was shown whole.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Offset of the next byte.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes bytes in; of what was seen before nothing is shown again, and of a line that is too long that there was one.
    pub(crate) fn push(&mut self, offset: u64, mut bytes: &[u8], mut show: impl FnMut(Option<&[u8]>, u64)) {
        if offset < self.next {
            let known = usize::try_from(self.next - offset).unwrap_or(usize::MAX).min(bytes.len());
            bytes = &bytes[known..];
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.hold(&bytes[..end]);
            self.next += end as u64 + 1;
            self.done = self.next;
            match std::mem::take(&mut self.is_dropping) || is_too_many(&self.held) {
                true => show(None, self.done),
                false => show(Some(self.held.strip_suffix(b"\r").unwrap_or(&self.held)), self.done),
            }
            self.held.clear();
            self.held.shrink_to(LONGEST / 64);
            bytes = &bytes[end + 1..];
        }
        self.hold(bytes);
        self.next += bytes.len() as u64;
    }

    /// What is between is lost, and so is the line that it cut.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        *self = Lines::at(offset);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.is_dropping {
            return;
        }
        if self.held.len() + bytes.len() > LONGEST {
            self.is_dropping = true;
            self.held.clear();
            return;
        }
        self.held.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_are_cut_and_each_is_shown_once() {
        let said = b"one\r\ntwo\n\nthree\nunfinished";
        for step in 1..said.len() {
            let (mut lines, mut seen) = (Lines::at(100), Vec::new());
            for (n, piece) in said.chunks(step).enumerate() {
                let offset = 100 + (n * step) as u64;
                for _ in 0..2 {
                    lines.push(offset, piece, |line, end| seen.push((line.expect("short").to_vec(), end)));
                }
            }
            let texts: Vec<_> = seen.iter().map(|(line, _)| line.as_slice()).collect();
            assert_eq!(texts, [&b"one"[..], b"two", b"", b"three"], "by {step}");
            assert_eq!((seen[3].1, lines.done()), (116, 116));
        }
    }

    #[test]
    fn a12_a_line_without_end_takes_no_more_than_its_share_and_the_next_one_is_heard() {
        let (mut lines, mut seen, mut at) = (Lines::at(0), Vec::new(), 0);
        let flood = vec![b'x'; LONGEST / 4];
        for piece in (0..9).map(|_| flood.as_slice()).chain([&b"\nheard\n"[..]]) {
            lines.push(at, piece, |line, _| seen.push(line.map(<[u8]>::to_vec)));
            at += piece.len() as u64;
            assert!(lines.held.capacity() <= 2 * LONGEST);
        }
        assert_eq!(seen, [None, Some(b"heard".to_vec())]);
    }

    #[test]
    fn what_a_gap_cut_is_no_line() {
        let (mut lines, mut seen) = (Lines::at(0), Vec::new());
        lines.push(0, b"half of a", |line, _| seen.push(line.expect("short").to_vec()));
        lines.skip_to(50);
        lines.push(50, b"whole\n", |line, _| seen.push(line.expect("short").to_vec()));
        assert_eq!((seen, lines.done()), (vec![b"whole".to_vec()], 56));
    }

    #[test]
    fn a12_a_line_of_more_values_than_any_message_is_none_and_a_long_text_of_commas_is() {
        let mut lines = Lines::at(0);
        let many = format!("[0{}]\n", ",0".repeat(VALUES));
        let text = format!("\"{}\\\"{}\"\n", ",[".repeat(VALUES), ",".repeat(VALUES));
        let mut shown = Vec::new();
        for line in [many.as_str(), text.as_str(), "{}\n"] {
            lines.push(lines.next, line.as_bytes(), |line, _| shown.push(line.map(<[u8]>::len)));
        }
        assert_eq!(shown, [None, Some(text.len() - 1), Some(2)]);
    }
}
