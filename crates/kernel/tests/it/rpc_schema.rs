//! The reference of the protocol held against what an anchor really answers and writes.

use std::collections::BTreeSet;

use netsky_kernel::rpc::{EventKind, METHODS, schema};
use netsky_kernel::session::{Keeper, Spec};
use serde_json::{Value, json};

use crate::anchor_follow::{Raw, journal};
use crate::anchor_world::*;

/// Why a value is not what a JSON Schema says, as far as ours use it. One that is not `open` has no field that is not
/// described.
fn misfit(all: &Value, schema: &Value, value: &Value, open: bool) -> Option<String> {
    let misfits = |schema: &Value, value: &Value| misfit(all, schema, value, false);
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or_default();
        return misfit(all, &all["$defs"][name], value, open);
    }
    let Some(schema) = schema.as_object() else {
        return (*schema != json!(true)).then(|| format!("{schema}"));
    };
    let wrong = |why: String| Some(format!("{value}: {why}"));
    if let Some(wanted) = schema.get("const").filter(|wanted| *wanted != value) {
        return wrong(format!("not {wanted}"));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array).filter(|words| !words.contains(value)) {
        return wrong(format!("none of {words:?}"));
    }
    let type_of = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match schema.get("type") {
        Some(Value::String(name)) if name != type_of => return wrong(format!("no {name}")),
        Some(Value::Array(names)) if !names.contains(&json!(type_of)) => {
            return wrong(format!("none of {names:?}"));
        }
        _ => {}
    }
    for variants in ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.as_array()) {
        let fields_beside = schema.contains_key("properties");
        if variants.iter().all(|variant| misfit(all, variant, value, fields_beside).is_some()) {
            return wrong(format!("none of the variants {variants:?}"));
        }
    }
    if let Some(items) = schema.get("items") {
        return value.as_array().into_iter().flatten().find_map(|item| misfits(items, item));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| value.get(name).is_none()) {
        return wrong(format!("has no {missing}"));
    }
    value.as_object().into_iter().flatten().find_map(|(name, field)| {
        let known = schema.get("properties").and_then(|fields| fields.get(name));
        match known.or(schema.get("additionalProperties")) {
            Some(schema) => misfits(schema, field),
            // A type that is known by its fields has no others.
            None if !open && schema.contains_key("properties") && !schema.contains_key("oneOf") => {
                Some(format!("{name} is not described"))
            }
            None => None,
        }
    })
}

fn fits(all: &Value, schema: &Value, value: &Value, what: &str) {
    if let Some(why) = misfit(all, schema, value, false) {
        panic!("{what}: {why}");
    }
}

/// Calls that reach every method, in an order in which each is answered.
fn calls() -> Vec<(&'static str, Value)> {
    let spec = |name: &str| serde_json::to_value(sleeper(name)).expect("plain");
    let mut kept = sleeper("kept");
    kept.keeper = Keeper::Policy;
    let ended = serde_json::to_value(Spec { name: id("ended"), ..kept.clone() }).expect("plain");
    let kept = serde_json::to_value(kept).expect("plain");
    let report = |report: Value| json!({"session": "agent0", "report": report});
    vec![
        ("kernel/hello", json!({})),
        ("kernel/whoami", json!({})),
        ("session/spawn", json!({"spec": spec("agent0"), "request_id": "s1", "if_generation": 0})),
        ("session/spawn", json!({"spec": kept})),
        (
            "session/report",
            report(json!({"turn": {"messages": ["{}"], "usage": {"input": 3, "cost_micros": 4}}})),
        ),
        ("session/report", report(json!({"intent": {"id": "i1", "tool": "t", "input": {"a": 1}}}))),
        ("session/report", report(json!({"intent": {"id": "i2", "tool": "t"}}))),
        ("session/report", report(json!({"result": {"id": "i1", "failed": true}}))),
        ("session/report", report(json!({"context": {"used": 75}}))),
        ("session/report", report(json!({"phase": {"phase": "thinking"}}))),
        ("session/report", report(json!({"session-id": {"session_id": "c1"}}))),
        ("session/list", json!({})),
        ("session/show", json!({"session": "agent0"})),
        ("kernel/ps", json!({})),
        ("lineage/list", json!({})),
        ("session/input", json!({"session": "agent0", "text": "x"})),
        ("session/prompt", json!({"session": "agent0", "text": "x"})),
        ("session/signal", json!({"session": "agent0", "signal": 18, "request_id": "s2"})),
        ("session/kill", json!({"session": "agent0", "grace_ms": 0, "request_id": "k1"})),
        ("kernel/reap", json!({})),
        ("session/spawn", json!({"spec": ended})),
        ("session/kill", json!({"session": "ended", "grace_ms": 0})),
        ("session/rename", json!({"session": "ended", "to": "renamed", "request_id": "r1"})),
        ("client/attach", json!({"session": "kept", "mode": "terminal"})),
        ("client/subscribe", json!({})),
        ("client/detach", json!({})),
        ("session/show", json!({"session": "nobody"})),
        ("session/resize", json!({"session": "kept", "rows": 2, "cols": 2})),
        ("lineage/resolve", json!({"id": "kept-00000000", "action": "revive"})),
    ]
}

#[test]
fn every_answer_and_every_row_of_the_journal_is_what_its_schema_says() {
    let mut world = World::new();
    let mut client = world.anchor();
    let all = schema::reference();
    let mut raw = Raw::to(&world);
    let mut met = BTreeSet::new();
    let mut one = |raw: &mut Raw, method: &'static str, params: &Value| {
        let described = &all["methods"][method];
        fits(&all, &described["params"], params, method);
        let reply = raw.call(method, params);
        fits(&all, &all["response"], &reply, method);
        match reply.get("result") {
            Some(result) => fits(&all, &described["result"], result, method),
            None => fits(&all, &all["error"], &reply["error"], method),
        }
        met.insert(method);
        reply
    };
    for (method, params) in calls() {
        one(&mut raw, method, &params);
    }
    let lineage = client.show(&id("agent0")).expect("known").lineage;
    let told = one(&mut raw, "lineage/show", &json!({"id": lineage}));
    assert!(told["result"]["intents"]["i2"].is_object(), "{told}");
    // A worker that dies, and an anchor that finds everything again.
    kill9(client.show(&id("kept")).expect("known").worker.as_ref().expect("it has one"));
    event(&world.root, 0, "kept", &[EventKind::Revive]);
    let again = [EventKind::Started];
    let died = event(&world.root, 0, "kept", &[EventKind::Died]);
    event(&world.root, died.seq, "kept", &again);
    world.kill_anchor();
    world.anchor();
    let mut raw = Raw::to(&world);
    one(&mut raw, "kernel/shutdown", &json!({"all": true, "grace_ms": 0}));
    world.anchor_stops();
    assert_eq!(met.len(), METHODS.len(), "{met:?}");

    let mut kinds = BTreeSet::new();
    for row in journal(&world) {
        let kind: EventKind = serde_json::from_value(row["kind"].clone()).expect("a kind");
        fits(&all, &all["events"][kind.word()]["data"], &row["data"], kind.word());
        assert!(kind.fits(&row["data"]), "{row}");
        kinds.insert(kind.word());
    }
    let wanted = "anchor-started anchor-stopped adopted answer arrived died intent kill lifecycle reaped renamed result revive session-id \
                  spawn started turn";
    let missing: Vec<&str> = wanted.split_whitespace().filter(|word| !kinds.contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?} of {kinds:?}");
}
