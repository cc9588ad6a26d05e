//! The frames of a worker's socket: `{u8 type, u32 LE length, bytes}` after one JSON hello line.
//!
//! Promise: pure and bounded. Whatever bytes come in, a [`Decoder`] holds at most one frame and
//! nothing here panics. The protocol is frozen: types are only ever added, an unknown one is
//! reported with its number and its reader goes on with the next frame.
//!
//! Left to others: sockets (`worker`, `worker_client`), and what a frame means.

use serde::{Deserialize, Serialize};

use crate::session::{End, Heartbeat};

/// Longest payload. One megabyte carries any envelope (256 KiB) with room, and bounds what a bad peer makes us hold.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// Longest hello line; it holds two process identities and a few numbers.
pub const MAX_HELLO: usize = 4096;
/// Most lines of a picture of a screen; of a taller terminal it has these.
pub const PICTURE_ROWS: u16 = 256;
/// Most columns of it. With both screens in use and 32 bytes a cell, 8 MiB in all; a usual terminal has 60 KiB.
pub const PICTURE_COLS: u16 = 512;
/// Type byte and length.
pub const HEADER: usize = 5;

/// What a client says to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    /// Send the output from this offset on, and keep sending what comes.
    Follow {
        /// Offset of the first byte wanted.
        from: u64,
    },
    /// Bytes for the program; taken whole or refused whole.
    Input {
        /// 0 for an attached person, else the driver's epoch.
        epoch: u64,
        /// At most [`MAX_PAYLOAD`] less the epoch.
        bytes: Vec<u8>,
    },
    /// New size of the terminal.
    Resize {
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// A signal for the program's process group.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// SIGTERM to the group, after the grace SIGKILL to whatever is left of the tree.
    Kill {
        /// Milliseconds.
        grace_ms: u32,
    },
    /// Ask for one [`FromWorker::Alive`].
    Probe,
    /// The session's description is gone or does not read: write it anew, then answer as a probe.
    Restate,
    /// Pipes only: end of the program's input, after what is queued.
    CloseInput {
        /// As with input.
        epoch: u64,
    },
    /// Terminals only: show the screen as it is, and send the output from there on.
    Screen,
    /// Bytes for the program, at most once under a name; answered with [`FromWorker::Typed`] or [`FromWorker::Refused`].
    Type {
        /// As with input.
        epoch: u64,
        /// What they are.
        form: Form,
        /// Of this call, at most 65,535 bytes; an empty one names nothing.
        id: String,
        /// Taken whole or refused whole.
        bytes: Vec<u8>,
    },
}

/// What the bytes of a [`ToWorker::Type`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Keys as they are.
    Keys,
    /// A text, to be put before the program as its terminal wants it at that moment, and Enter.
    Text,
}

/// What a worker says to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromWorker {
    /// Output of the program.
    Output {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Output that can no longer be read; the next output starts at `to`.
    /// `to < from` when the log was lost in a power cut and the client knew more than what is left.
    Gap {
        /// First byte missing.
        from: u64,
        /// First byte that is there.
        to: u64,
    },
    /// A piece of what paints the screen as it was at this offset of the output.
    Screen {
        /// The output that comes next; the same in every piece.
        offset: u64,
        /// For a terminal.
        bytes: Vec<u8>,
    },
    /// The program and its tree are gone; the last frame.
    Exit(End),
    /// Answer to a probe.
    Alive(Box<Heartbeat>),
    /// A frame of this client was not obeyed.
    Refused(Refusal),
    /// What was to be typed is taken.
    Typed {
        /// It was before, under the same name; nothing was typed now.
        before: bool,
    },
}

/// Why a worker did not obey a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people.
    pub text: String,
}

/// The stable reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// Input of an older epoch than one seen before.
    StaleEpoch,
    /// The program does not read its input and the queue is full.
    Full,
    /// The program's input is closed, or the program is gone.
    Closed,
    /// Not with this kind of connection (a resize of pipes).
    NotHere,
    /// A signal number the system does not know.
    BadSignal,
    /// A frame type this worker does not know, or a payload of the wrong shape.
    BadFrame,
    /// Too many clients.
    Busy,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

impl RefusalKind {
    /// Whether it is of something typed, for want of room or of a program that reads.
    pub(crate) fn is_untyped(self) -> bool {
        matches!(self, RefusalKind::Full | RefusalKind::Closed)
    }
}

/// Bytes that are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_PAYLOAD`]: the stream is unusable from here on.
    #[error("frame of {length} bytes is over the limit of {MAX_PAYLOAD}")]
    TooLong {
        /// What its header claims.
        length: usize,
    },
    /// A type of a later version; the frame was skipped.
    #[error("frame type {kind} is not known")]
    Unknown {
        /// The type byte.
        kind: u8,
    },
    /// A known type with a payload of the wrong shape; the frame was skipped.
    #[error("frame type {kind} with a payload of the wrong shape")]
    Malformed {
        /// The type byte.
        kind: u8,
    },
}

const FOLLOW: u8 = 1;
const INPUT: u8 = 2;
const RESIZE: u8 = 3;
const SIGNAL: u8 = 4;
const KILL: u8 = 5;
const PROBE: u8 = 6;
const CLOSE_INPUT: u8 = 7;
const SCREEN: u8 = 8;
const TYPE: u8 = 9;
const RESTATE: u8 = 10;
const OUTPUT: u8 = 65;
const GAP: u8 = 66;
const EXIT: u8 = 67;
const ALIVE: u8 = 68;
const REFUSED: u8 = 69;
const PICTURE: u8 = 70;
const TYPED: u8 = 71;

/// One frame as it came: type and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type byte.
    pub kind: u8,
    /// At most [`MAX_PAYLOAD`] bytes.
    pub payload: Vec<u8>,
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Add what was read. A caller takes all frames before it reads on, so that at most one is ever held.
    pub fn push(&mut self, bytes: &[u8]) {
        // Only here, once a read, are taken bytes moved away: many small frames cost no more than one large.
        self.held.drain(..std::mem::take(&mut self.taken));
        self.held.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]: close the connection, its frames cannot be told apart any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let held = &self.held[self.taken..];
        let Some((header, rest)) = held.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, l0, l1, l2, l3] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_PAYLOAD {
            return Err(FrameError::TooLong { length });
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, payload: payload.to_vec() };
        self.taken += HEADER + length;
        Ok(Some(frame))
    }

    /// Bytes of an unfinished frame that are held.
    pub fn held(&self) -> usize {
        self.held.len() - self.taken
    }
}

impl ToWorker {
    /// Append the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ToWorker::Follow { from } => put(out, FOLLOW, &[&from.to_le_bytes()]),
            ToWorker::Input { epoch, bytes } => put(out, INPUT, &[&epoch.to_le_bytes(), bytes]),
            ToWorker::Resize { rows, cols } => put(out, RESIZE, &[&rows.to_le_bytes(), &cols.to_le_bytes()]),
            ToWorker::Signal { signal } => put(out, SIGNAL, &[&signal.to_le_bytes()]),
            ToWorker::Kill { grace_ms } => put(out, KILL, &[&grace_ms.to_le_bytes()]),
            ToWorker::Probe => put(out, PROBE, &[]),
            ToWorker::Restate => put(out, RESTATE, &[]),
            ToWorker::CloseInput { epoch } => put(out, CLOSE_INPUT, &[&epoch.to_le_bytes()]),
            ToWorker::Screen => put(out, SCREEN, &[]),
            ToWorker::Type { epoch, form, id, bytes } => {
                let length = u16::try_from(id.len()).unwrap_or(u16::MAX).to_le_bytes();
                let form = [u8::from(*form == Form::Text)];
                put(out, TYPE, &[&epoch.to_le_bytes(), &form, &length, id.as_bytes(), bytes]);
            }
        }
    }

    /// Read one frame.
    ///
    /// # Errors
    /// An unknown type or a payload of the wrong shape; the next frame is still readable.
    pub fn parse(frame: &Frame) -> Result<ToWorker, FrameError> {
        let mut fields = Fields { kind: frame.kind, rest: &frame.payload };
        let parsed = match frame.kind {
            FOLLOW => ToWorker::Follow { from: fields.u64()? },
            INPUT => ToWorker::Input { epoch: fields.u64()?, bytes: fields.remainder() },
            RESIZE => ToWorker::Resize {
                rows: u16::from_le_bytes(fields.take()?),
                cols: u16::from_le_bytes(fields.take()?),
            },
            SIGNAL => ToWorker::Signal { signal: i32::from_le_bytes(fields.take()?) },
            KILL => ToWorker::Kill { grace_ms: u32::from_le_bytes(fields.take()?) },
            PROBE => ToWorker::Probe,
            RESTATE => ToWorker::Restate,
            CLOSE_INPUT => ToWorker::CloseInput { epoch: fields.u64()? },
            SCREEN => ToWorker::Screen,
            TYPE => ToWorker::Type {
                epoch: fields.u64()?,
                form: if fields.flag()? { Form::Text } else { Form::Keys },
                id: fields.text()?,
                bytes: fields.remainder(),
            },
            kind => return Err(FrameError::Unknown { kind }),
        };
        fields.end()?;
        Ok(parsed)
    }
}

impl FromWorker {
    /// Append the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FromWorker::Output { offset, bytes } => put(out, OUTPUT, &[&offset.to_le_bytes(), bytes]),
            FromWorker::Gap { from, to } => put(out, GAP, &[&from.to_le_bytes(), &to.to_le_bytes()]),
            FromWorker::Exit(end) => put(out, EXIT, &[&json(end)]),
            FromWorker::Alive(beat) => put(out, ALIVE, &[&json(beat)]),
            FromWorker::Refused(refusal) => put(out, REFUSED, &[&json(refusal)]),
            FromWorker::Screen { offset, bytes } => put(out, PICTURE, &[&offset.to_le_bytes(), bytes]),
            FromWorker::Typed { before } => put(out, TYPED, &[&[u8::from(*before)]]),
        }
    }

    /// Read one frame.
    ///
    /// # Errors
    /// An unknown type or a payload of the wrong shape; the next frame is still readable.
    pub fn parse(frame: &Frame) -> Result<FromWorker, FrameError> {
        let mut fields = Fields { kind: frame.kind, rest: &frame.payload };
        let parsed = match frame.kind {
            OUTPUT => FromWorker::Output { offset: fields.u64()?, bytes: fields.remainder() },
            GAP => FromWorker::Gap { from: fields.u64()?, to: fields.u64()? },
            EXIT => FromWorker::Exit(fields.json()?),
            ALIVE => FromWorker::Alive(Box::new(fields.json()?)),
            REFUSED => FromWorker::Refused(fields.json()?),
            PICTURE => FromWorker::Screen { offset: fields.u64()?, bytes: fields.remainder() },
            TYPED => FromWorker::Typed { before: fields.flag()? },
            kind => return Err(FrameError::Unknown { kind }),
        };
        fields.end()?;
        Ok(parsed)
    }
}

fn put(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    debug_assert!(length <= MAX_PAYLOAD, "the caller cuts its bytes into frames");
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data with string keys always becomes JSON")
}

/// A payload being taken apart from the front.
struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl Fields<'_> {
    fn malformed(&self) -> FrameError {
        FrameError::Malformed { kind: self.kind }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool, FrameError> {
        match self.take::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.malformed()),
        }
    }

    fn text(&mut self) -> Result<String, FrameError> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.malformed())?;
        self.rest = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| self.malformed())
    }

    fn remainder(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest).to_vec()
    }

    fn json<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, FrameError> {
        serde_json::from_slice(std::mem::take(&mut self.rest)).map_err(|_| self.malformed())
    }

    fn end(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_worker() -> Vec<ToWorker> {
        vec![
            ToWorker::Follow { from: 7 },
            ToWorker::Input { epoch: 3, bytes: b"ls\r".to_vec() },
            ToWorker::Resize { rows: 50, cols: 132 },
            ToWorker::Signal { signal: 2 },
            ToWorker::Kill { grace_ms: 5000 },
            ToWorker::Probe,
            ToWorker::Restate,
            ToWorker::CloseInput { epoch: 0 },
            ToWorker::Screen,
            ToWorker::Type { epoch: 3, form: Form::Text, id: "r1".to_owned(), bytes: b"ls".to_vec() },
            ToWorker::Type { epoch: 0, form: Form::Keys, id: String::new(), bytes: Vec::new() },
        ]
    }

    fn from_worker() -> Vec<FromWorker> {
        vec![
            FromWorker::Output { offset: 1 << 40, bytes: vec![0, 255, 10] },
            FromWorker::Gap { from: 1, to: 9 },
            FromWorker::Screen { offset: 9, bytes: b"\x1b[m".to_vec() },
            FromWorker::Exit(End::Exited { code: 3 }),
            FromWorker::Typed { before: true },
            FromWorker::Refused(Refusal { kind: RefusalKind::StaleEpoch, text: "2 < 5".to_owned() }),
        ]
    }

    #[test]
    fn every_frame_survives_the_wire_whatever_the_reads_were() {
        let mut wire = Vec::new();
        to_worker().iter().for_each(|frame| frame.encode(&mut wire));
        for step in [1, 2, 5, 6, 1000] {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for piece in wire.chunks(step) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().expect("whole") {
                    seen.push(ToWorker::parse(&frame).expect("ours"));
                }
            }
            assert_eq!(seen, to_worker());
            assert_eq!(decoder.held(), 0);
        }
        for frame in from_worker() {
            let mut wire = Vec::new();
            frame.encode(&mut wire);
            let mut decoder = Decoder::default();
            decoder.push(&wire);
            let raw = decoder.next_frame().expect("whole").expect("one");
            assert_eq!(FromWorker::parse(&raw).expect("ours"), frame);
        }
    }

    /// The protocol is frozen: these bytes must mean the same to every later worker.
    #[test]
    fn the_bytes_on_the_wire_are_frozen() {
        let mut wire = Vec::new();
        ToWorker::Input { epoch: 1, bytes: b"x".to_vec() }.encode(&mut wire);
        assert_eq!(wire, [2, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'x']);
        wire.clear();
        ToWorker::Resize { rows: 1, cols: 258 }.encode(&mut wire);
        assert_eq!(wire, [3, 4, 0, 0, 0, 1, 0, 2, 1]);
        wire.clear();
        ToWorker::Type { epoch: 1, form: Form::Text, id: "r".to_owned(), bytes: b"x".to_vec() }
            .encode(&mut wire);
        assert_eq!(wire, [9, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, b'r', b'x']);
        wire.clear();
        FromWorker::Exit(End::Killed).encode(&mut wire);
        assert_eq!(wire, [&[67, 17, 0, 0, 0][..], br#"{"kind":"killed"}"#].concat());
    }

    #[test]
    fn a12_a_frame_over_the_limit_is_refused_before_it_is_held() {
        let mut decoder = Decoder::default();
        decoder.push(&[2, 1, 0, 16, 0]);
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong { length: MAX_PAYLOAD + 1 }));
    }

    #[test]
    fn unknown_and_malformed_frames_do_not_hide_the_next_one() {
        let mut decoder = Decoder::default();
        decoder.push(&[200, 1, 0, 0, 0, 9]);
        decoder.push(&[5, 1, 0, 0, 0, 9]);
        decoder.push(&[6, 1, 0, 0, 0, 9]);
        decoder.push(&[6, 0, 0, 0, 0]);
        let mut next = || ToWorker::parse(&decoder.next_frame().expect("bounded").expect("one"));
        assert_eq!(next(), Err(FrameError::Unknown { kind: 200 }));
        assert_eq!(next(), Err(FrameError::Malformed { kind: 5 }), "too short");
        assert_eq!(next(), Err(FrameError::Malformed { kind: 6 }), "too long");
        assert_eq!(next(), Ok(ToWorker::Probe));
    }

    #[test]
    fn a_reason_of_a_later_version_is_still_a_refusal() {
        let frame = Frame { kind: REFUSED, payload: br#"{"kind":"tea-time","text":"later"}"#.to_vec() };
        let parsed = FromWorker::parse(&frame).expect("still one");
        assert!(matches!(parsed, FromWorker::Refused(Refusal { kind: RefusalKind::Other, .. })));
    }

    /// No input makes the decoder panic or hold more than it was given (a cheap stand-in for a fuzzer).
    #[test]
    fn arbitrary_bytes_never_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..2_000 {
            let mut decoder = Decoder::default();
            let bytes: Vec<u8> = (0..64)
                .map(|i| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Small lengths, so that whole frames come out as well.
                    if i % 7 >= 2 { 0 } else { (state >> 56) as u8 % 80 }
                })
                .collect();
            decoder.push(&bytes);
            while let Ok(Some(frame)) = decoder.next_frame() {
                let _ = ToWorker::parse(&frame);
                let _ = FromWorker::parse(&frame);
            }
        }
    }
}
