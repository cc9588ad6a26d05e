//! The reference of the protocol as one JSON document: every method, every event and every error with its schema.
//!
//! Promise: made from the types that are sent and read, nothing in it is written twice. Left to others: how it is shown.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    ANSWERS, Effect, Event, EventKind, MAX_CLIENTS, MAX_LINE, MAX_REQUEST_ID, METHODS, Notification,
    PROTOCOL, Refusal, RefusalKind, Reply, Request, UNREAD, kill, prompt, resize, spawn, subscribe,
};

/// The first parameter that a method does not take, as a path (`spec.argc`); none for a method that is not there.
///
/// By the schema: serde's `deny_unknown_fields` does not go with the guard that so many of them flatten, and a
/// [`Spec`](crate::session::Spec) is read from files of later programs too, where a field more is right.
pub fn unknown_parameter(method: &str, params: &Value) -> Option<String> {
    static PARAMS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
        let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut generator = inline.into_generator();
        METHODS.iter().map(|method| (method.name, (method.params)(&mut generator).into())).collect()
    });
    unknown_field(PARAMS.get(method)?, params)
}

/// The first field of a value that its schema does not know.
fn unknown_field(schema: &Value, value: &Value) -> Option<String> {
    if let (Value::Array(items), Some(schema)) = (value, schema.get("items")) {
        return items.iter().find_map(|item| unknown_field(schema, item));
    }
    let (shapes, fields) = (shapes(schema), value.as_object()?);
    // Free names, as of variables; and what may be anything.
    if !shapes.iter().any(|shape| shape["type"] == "object" && shape.get("additionalProperties").is_none()) {
        return None;
    }
    fields.iter().find_map(|(name, value)| {
        let known: Vec<&Value> = shapes.iter().filter_map(|shape| shape["properties"].get(name)).collect();
        match known.as_slice() {
            [] => Some(name.clone()),
            // Of several shapes it is one; a field within is unknown where none has it.
            known => known
                .iter()
                .map(|schema| unknown_field(schema, value))
                .reduce(Option::and)
                .flatten()
                .map(|inner| format!("{name}.{inner}")),
        }
    })
}

/// A schema and every shape that it may have besides.
fn shapes(schema: &Value) -> Vec<&Value> {
    let mut all = vec![schema];
    for several in ["oneOf", "anyOf", "allOf"] {
        all.extend(schema[several].as_array().into_iter().flatten().flat_map(shapes));
    }
    all
}

/// The whole reference.
///
/// `{"$schema", "title", "protocol", "limits": {name: number}, "request", "response", "notification", "event", "error",
/// "methods": {name: {"description", "effect", "params", "result"}}, "events": {kind: {"description", "synced", "data"}},
/// "errors": {kind: {"code", "description"}}, "$defs"}`; what is not said here is a JSON Schema.
pub fn reference() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let methods: Map<String, Value> = METHODS
        .iter()
        .map(|method| {
            let described = json!({
                "description": text(method.doc),
                "effect": effect(method.effect),
                "params": (method.params)(&mut generator),
                "result": (method.answer)(&mut generator),
            });
            (method.name.to_owned(), described)
        })
        .collect();
    let events: Map<String, Value> = EventKind::ALL
        .into_iter()
        .chain([EventKind::Gap])
        .map(|kind| {
            let described = json!({
                "description": text(kind.doc()),
                "synced": kind.durable(),
                "data": kind.schema(&mut generator),
            });
            (kind.word().to_owned(), described)
        })
        .collect();
    let (request, response) = (whole::<Request>(&mut generator), whole::<Reply>(&mut generator));
    let (notification, event) = (whole::<Notification>(&mut generator), whole::<Event>(&mut generator));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The protocol of ostk.sock",
        "protocol": PROTOCOL,
        "limits": limits(),
        "request": request,
        "response": response,
        "notification": notification,
        "event": event,
        "methods": methods,
        "events": events,
        "error": whole::<Refusal>(&mut generator),
        "errors": errors(&mut generator),
        "$defs": generator.take_definitions(true),
    })
}

fn whole<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).into()
}

/// What a method does to the root, in a word.
fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Looks => "looks",
        Effect::Acts => "acts",
        Effect::ActsOnRoot => "acts-on-root",
    }
}

fn limits() -> Value {
    json!({
        "line_bytes": MAX_LINE,
        "clients": MAX_CLIENTS,
        "answer_unread_ms": UNREAD.as_millis() as u64,
        "answers_remembered": ANSWERS,
        "request_id_bytes": MAX_REQUEST_ID,
        "spec_bytes": spawn::MAX_SPEC,
        "label_bytes": spawn::MAX_LABELS,
        "prompt_bytes": prompt::MAX_TEXT,
        "grace_ms": kill::MAX_GRACE_MS,
        "grace_default_ms": kill::DEFAULT_GRACE_MS,
        "lag_rows": subscribe::LAG,
        "terminal_side": resize::MAX_SIDE,
    })
}

/// Every kind of refusal, described as its type describes it.
fn errors(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let described = whole::<RefusalKind>(generator);
    let of = |word: &str| {
        let variants = described["oneOf"].as_array().into_iter().flatten();
        variants
            .clone()
            .find(|variant| variant["const"] == word)
            .map_or(Value::Null, |it| it["description"].clone())
    };
    let told = RefusalKind::ALL.into_iter().map(|kind| {
        let word = serde_json::to_value(kind).unwrap_or_default();
        let word = word.as_str().unwrap_or_default().to_owned();
        let description = of(&word);
        (word, json!({"code": kind.code(), "description": description}))
    });
    told.collect()
}

/// The text of doc comments, on one line.
fn text(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_that_acts_takes_a_guard_and_no_other_does() {
        let reference = reference();
        for method in METHODS {
            let params = &reference["methods"][method.name]["params"]["properties"];
            let guarded = ["if_generation", "request_id"].iter().all(|field| params.get(field).is_some());
            assert_eq!(guarded, method.effect == Effect::Acts, "{}: {params}", method.name);
        }
    }

    #[test]
    fn a_parameter_that_no_method_takes_is_found_wherever_it_stands() {
        let unknown = |method: &str, params: Value| unknown_parameter(method, &params);
        let spec = |more: Value| {
            let mut spec = json!({"name": "agent0", "argv": ["true"], "cwd": "/", "env": {"ANY": "thing"},
                "io": {"kind": "pty", "rows": 1, "cols": 1}, "runtime": "x", "keeper": "anchor", "tags": {"free": "x"},
                "model": null, "umask": 18});
            let fields = spec.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            json!({"spec": spec, "if_generation": 1, "request_id": "x"})
        };
        assert_eq!(unknown("session/spawn", spec(json!({}))), None);
        assert_eq!(unknown("session/spawn", spec(json!({"priority": 1}))), Some("spec.priority".to_owned()));
        let io = json!({"io": {"kind": "pty", "rows": 1, "colls": 1}});
        assert_eq!(unknown("session/spawn", spec(io)), Some("spec.io.colls".to_owned()));
        assert_eq!(unknown("kernel/ps", json!({"all": true})), Some("all".to_owned()));
        assert_eq!(unknown("session/kill", json!({"session": "a", "grace": 1})), Some("grace".to_owned()));
        assert_eq!(unknown("session/kill", json!({"session": "a", "grace_ms": 1, "request_id": null})), None);
        assert_eq!(unknown("session/fly", json!({"x": 1})), None);
    }

    #[test]
    fn every_method_and_every_kind_is_described() {
        let reference = reference();
        for (name, method) in reference["methods"].as_object().expect("an object") {
            assert!(method["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
            assert!(method["params"].is_object() && method["result"].is_object(), "{name}: {method}");
        }
        for (word, kind) in reference["events"].as_object().expect("an object") {
            assert!(kind["description"].as_str().is_some_and(|text| text.len() > 10), "{word}");
            for (field, schema) in kind["data"]["properties"].as_object().into_iter().flatten() {
                assert!(schema.get("description").is_some(), "{word} {field}");
            }
        }
        for (word, error) in reference["errors"].as_object().expect("an object") {
            assert!(error["description"].is_string(), "{word}: {error}");
        }
    }

    #[test]
    fn a_row_that_says_more_or_less_than_its_schema_does_not_fit() {
        assert!(EventKind::Hung.fits(&json!({"age_ms": 7})));
        assert!(!EventKind::Hung.fits(&json!({"age_ms": 7, "more": 1})));
        assert!(!EventKind::Hung.fits(&json!({})));
        assert!(!EventKind::Reaped.fits(&json!({"why": "so"})));
        assert!(EventKind::Unknown.fits(&json!({"anything": 1})));
    }
}
