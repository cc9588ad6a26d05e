//! A file of every released format, which must load for ever and say the same.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::desired::{Desired, Want};
use crate::dispatch::{Dispatch, State};
use crate::envelope::Envelope;
use crate::restart::{Inflight, Kind, Phase, Status};

/// Reads a sample; written again it has lost and changed nothing.
fn load<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> T {
    let read: T = serde_json::from_slice(bytes).expect("it loads");
    let sample: Value = serde_json::from_slice(bytes).expect("it is JSON");
    assert_eq!(serde_json::to_value(&read).expect("plain data"), sample);
    read
}

#[test]
fn an_envelope_of_version_1_loads() {
    let bytes = include_bytes!("../samples/envelope.v1.json");
    let envelope = Envelope::parse(bytes).expect("whole, its digest too");
    assert_eq!((envelope.text.as_str(), envelope.requires_ack), ("check CI", Some(true)));
    assert_eq!(envelope.to_bytes().expect("small"), bytes, "and is written as it was");
}

#[test]
fn a_desired_state_of_version_1_loads() {
    let desired: Desired = load(include_bytes!("../samples/desired.v1.json"));
    assert_eq!((desired.v, desired.want), (1, Want::Up));
}

#[test]
fn a_restarts_files_of_version_1_load() {
    let status: Status = load(include_bytes!("../samples/restart-status.v1.json"));
    assert_eq!((status.phase, status.agents.len()), (Phase::UpDetected, 1));
    let inflight: Inflight = load(include_bytes!("../samples/restart-inflight.v1.json"));
    assert_eq!((inflight.kind, inflight.epoch), (Kind::Planned, 2));
}

#[test]
fn a_dispatch_of_version_1_loads() {
    let had: Dispatch = load(include_bytes!("../samples/dispatch.v1.json"));
    assert!(matches!(had.state, State::Blocked { told: true, .. }));
}
