//! What a fuzzer tries: for any bytes whatever, each body returns, or it has found something.
//!
//! Each is a plain function, so that the same body runs under libFuzzer (`fuzz/`), over its committed corpus, and over
//! seeded mutations of that in the tests. It panics where a promise is broken: what was read is written and read again as
//! it was; what is shown is exactly one element; nothing but a bounded answer comes of a hostile file.

mod files;

use netsky_kernel::frame::{Decoder, FromWorker, MAX_PAYLOAD, ToWorker};
use netsky_model::envelope::Envelope;
use netsky_model::name::Name;
use netsky_model::render;

use crate::element;

pub use files::{facts, question};

/// A body and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("envelope", envelope),
    ("name", name),
    ("rendering", rendering),
    ("frames", frames),
    ("facts", facts),
    ("question", question),
];

/// Bytes as an envelope's file.
pub fn envelope(data: &[u8]) {
    let Ok(read) = Envelope::parse(data) else { return };
    shows(&read);
    // It grows by its digest, and may then be over the limit.
    let Ok(bytes) = read.to_bytes() else { return };
    let mut again = Envelope::parse(&bytes).expect("what was written is read");
    again.digest.clone_from(&read.digest);
    assert_eq!(again, read, "and it is the same");
}

/// Bytes as the name of a file of the bus.
pub fn name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(name) = Name::parse(text) else { return };
    assert_eq!(name.to_string(), text, "one spelling");
    assert!(
        text.len() < 255 && !text.contains(['/', '\0']) && !text.starts_with('.'),
        "{text:?} is one name"
    );
}

/// Bytes as a message's text and labels.
pub fn rendering(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let mut envelope = Envelope::new(
        "x".parse().expect("valid"),
        "agent1".parse().expect("valid"),
        "agent0".parse().expect("valid"),
        text.clone(),
        "2026-04-19T17:22:57Z".parse().expect("valid"),
    );
    envelope.kind = Some(text.chars().rev().collect());
    shows(&envelope);
    for shown in [render::plain(&text), render::line(&text), render::text(&text)] {
        assert!(!shown.chars().any(element::hides), "{shown:?}");
    }
    assert_eq!(element::trusted_in(&render::text(&text)), None);
}

fn shows(envelope: &Envelope) {
    let screen = render::channel(envelope, 2, false);
    let element = element::parse(&screen).unwrap_or_else(|why| panic!("{screen:?}: {why}"));
    assert!(element.says(&envelope.text), "{:?} as {screen:?}", envelope.text);
    assert_eq!(element.attribute("from"), envelope.from.as_str());
}

/// Bytes as what comes over a worker's socket, in pieces.
pub fn frames(data: &[u8]) {
    let mut decoder = Decoder::default();
    // The first byte says how it is cut up.
    let (size, rest) = data.split_first().map_or((1, data), |(size, rest)| (usize::from(*size).max(1), rest));
    for piece in rest.chunks(size) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(frame)) => {
                    assert!(frame.payload.len() <= MAX_PAYLOAD);
                    if let Ok(said) = ToWorker::parse(&frame) {
                        let mut bytes = Vec::new();
                        said.encode(&mut bytes);
                        assert_eq!(ToWorker::parse(&whole(&bytes)).as_ref(), Ok(&said));
                    }
                    if let Ok(said) = FromWorker::parse(&frame) {
                        let mut bytes = Vec::new();
                        said.encode(&mut bytes);
                        assert_eq!(FromWorker::parse(&whole(&bytes)).as_ref(), Ok(&said));
                    }
                }
            }
        }
        assert!(decoder.held() <= MAX_PAYLOAD + size + 5, "at most one frame is held");
    }
}

fn whole(bytes: &[u8]) -> netsky_kernel::frame::Frame {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    let frame = decoder.next_frame().expect("what was written is no longer than allowed");
    frame.expect("and is whole")
}
