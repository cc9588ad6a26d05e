//! One text for one JSON value, and the digest over it that a file carries in itself.

use serde_json::Value;

/// blake3 of an object without its key `digest`, in [canonical] form, hex.
pub fn digest(value: &Value) -> String {
    blake3::hash(canonical(value, &["digest"]).as_bytes()).to_hex().to_string()
}

/// RFC 8785 form as far as it matters here: keys sorted by UTF-16 units, no white space, strings and integers as that
/// text has them. Floats stand as `serde_json` writes them, which differs for some; netsky itself writes none. Keys of
/// `without` are left out at the top.
pub(crate) fn canonical(value: &Value, without: &[&str]) -> String {
    let mut out = String::new();
    write_canonical(value, without, &mut out);
    out
}

fn write_canonical(value: &Value, without: &[&str], out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> =
                object.keys().filter(|key| !without.contains(&key.as_str())).collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(&object[key], &[], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                write_canonical(item, &[], out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
