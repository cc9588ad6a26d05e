//! `ostk rpc`: the reference of the protocol, and one call as it goes over the wire.

use std::path::Path;

use serde_json::{Value, json};

use crate::ostk::Folder;

#[test]
fn the_reference_in_docs_is_the_one_that_the_code_says() {
    let folder = Folder::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rpc.md");
    let kept = std::fs::read_to_string(page).expect("docs/rpc.md is there");
    let said = folder.ok(&["rpc", "schema", "--markdown"]);
    let at = said.lines().zip(kept.lines()).position(|(said, kept)| said != kept);
    assert!(said == kept, "line {at:?} is stale: run `ostk rpc schema --markdown > docs/rpc.md`");
    assert!(!folder.dir.path().join(".ostk").exists(), "it needs no root");
}

#[test]
fn the_schema_is_one_document_and_every_name_in_it_is_defined() {
    let folder = Folder::new();
    let reference = folder.json(&["rpc", "schema"]);
    assert_eq!(serde_json::from_str::<Value>(&folder.ok(&["rpc", "schema"])).expect("JSON"), reference);
    let text = reference.to_string();
    let names: Vec<&str> =
        text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 50);
    for name in names {
        assert!(reference["$defs"].get(name).is_some(), "{name}");
    }
    let kill = &reference["methods"]["session/kill"];
    assert_eq!((&kill["effect"], &kill["params"]["required"]), (&json!("acts"), &json!(["session"])));
}

#[test]
fn a_call_prints_the_result_and_each_refusal_is_one_line_with_its_exit_code() {
    let folder = Folder::new();
    assert_eq!(folder.refused(&["rpc", "call", "kernel/hello"]).0, 3, "a look makes no root");
    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    let called = |args: &[&str]| folder.json(&[&["rpc", "call"], args].concat());
    let hello = called(&["kernel/hello"]);
    let methods = folder.json(&["rpc", "schema"])["methods"].as_object().expect("an object").len();
    assert_eq!(hello["capabilities"].as_array().expect("a list").len(), methods);
    assert_eq!(called(&["session/show", r#"{"session":"agent0"}"#])["state"], "active");
    let refused = |args: &[&str]| folder.refused(&[&["rpc", "call"], args].concat());
    let unknown = "ostk: no method session/fly; see `ostk rpc schema --markdown`";
    assert_eq!(refused(&["session/fly"]), (2, unknown.to_owned()));
    assert_eq!(refused(&["session/show", r#"{"session":"agent9"}"#]).0, 3);
    for (params, why) in [
        ("{", "the parameters of session/show are not JSON"),
        ("[]", "the parameters of session/show are not a JSON object"),
        ("{}", "parameters of session/show: missing field `session`"),
        (r#"{"session":"../x"}"#, "parameters of session/show: agent id"),
    ] {
        let (code, line) = refused(&["session/show", params]);
        assert!(code == 2 && line.contains(why), "{params}: {code} {line}");
    }
    let busy = r#"{"spec":{"name":"agent0","argv":["true"],"cwd":"/","io":{"kind":"pipes"},"runtime":"x","keeper":"watchdog"}}"#;
    assert_eq!(refused(&["session/spawn", busy]).0, 5);
    let killed = called(&["session/kill", r#"{"session":"agent0","grace_ms":0,"request_id":"k1"}"#]);
    assert_eq!(killed["state"], "stopped");
}
