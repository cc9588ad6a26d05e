//! The reference of the protocol as one JSON document: every method, every event and every error with its schema.
//!
//! Promise: made from the types that are sent and read, nothing in it is written twice. Left to others: how it is shown.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    ANSWERS, Effect, Event, EventKind, MAX_CLIENTS, MAX_LINE, MAX_REQUEST_ID, METHODS, Notification,
    PROTOCOL, Refusal, RefusalKind, Reply, Request, UNREAD, kill, prompt, spawn, subscribe,
};

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
