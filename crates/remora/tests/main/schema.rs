//! Lines of `--json` are as docs/schemas says. This is as much of JSON Schema as those files use.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::Value;

/// Says which line of what a command printed does not fit its schema. `command`: its name without the
/// program's, such as `queue list`.
pub(crate) fn check(command: &str, out: &str) -> Result<(), String> {
    let schema = read(&format!("{}.json", command.replace(' ', "-")));
    out.lines().try_for_each(|line| {
        let value = serde_json::from_str(line).map_err(|error| error.to_string());
        let fit = value.and_then(|value| fits(&value, &schema));
        fit.map_err(|why| format!("{command}: {why}: {line}"))
    })
}

/// Fails for a line of JSON that fits none of the schemas: what any test makes the program print is
/// documented.
#[track_caller]
pub(crate) fn known(out: &str) {
    static ALL: OnceLock<Vec<Value>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
        files.map(|name| read(name.to_str().unwrap())).collect()
    });
    for line in out.lines().filter(|line| line.starts_with('{')) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let ours = value.get("message_type").is_some();
        assert!(!ours || all.iter().any(|schema| fits(&value, schema).is_ok()), "no schema has {line}");
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

fn read(name: &str) -> Value {
    let path = folder().join(name);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "title" => {}
            "$ref" => fits(value, &read(rule.as_str().unwrap()))?,
            "anyOf" => any(value, rule.as_array().unwrap())?,
            "const" if value != rule => return Err(format!("{value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                return Err(format!("{value} is not one of {rule}"));
            }
            "const" | "enum" => {}
            "type" => {
                let names = rule.as_array().map_or_else(|| vec![rule], |names| names.iter().collect());
                if !names.into_iter().any(|name| is(value, name.as_str().unwrap())) {
                    return Err(format!("{value} is not of type {rule}"));
                }
            }
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| fits(item, rule))?;
            }
            "required" => {
                let lacks =
                    rule.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                lacks.map_or(Ok(()), |name| Err(format!("it lacks {name}")))?;
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    let found = value.get(name).map_or(Ok(()), |found| fits(found, rule));
                    found.map_err(|why| format!("{name}: {why}"))?;
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, false);
                let known = schema["properties"].as_object().unwrap();
                let other = value.as_object().unwrap().keys().find(|name| !known.contains_key(*name));
                other.map_or(Ok(()), |name| Err(format!("no schema has {name}")))?;
            }
            other => panic!("a schema uses {other}, which this check does not know"),
        }
    }
    Ok(())
}

/// The reason is that of the form with the same `message_type`.
fn any(value: &Value, forms: &[Value]) -> Result<(), String> {
    let mut why = format!("no form has message_type {}", value["message_type"]);
    for form in forms {
        match fits(value, form) {
            Ok(()) => return Ok(()),
            Err(error) if form["properties"]["message_type"]["const"] == value["message_type"] => why = error,
            Err(_) => {}
        }
    }
    Err(why)
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("no type is called {other}"),
    }
}

#[test]
fn what_no_schema_has_is_refused() {
    let why = |line: &str| check("queue replay", line).unwrap_err();
    let note = "{\"message_type\":\"note\",\"message\":\"\"}\n";
    let other = why(&format!("{note}{{\"message_type\":\"summary\",\"rows\":\"2\"}}"));
    assert!(other.contains("rows: \"2\" is not of type \"integer\""), "{other}");
    let more = why("{\"message_type\":\"summary\",\"rows\":2,\"more\":1}");
    assert!(more.contains("no schema has more"), "{more}");
    let less = why("{\"message_type\":\"summary\"}");
    assert!(less.contains("it lacks \"rows\""), "{less}");
    assert!(why("{\"message_type\":\"queue\"}").contains("no form has message_type \"queue\""));
    assert!(why("text").contains("text"));
}
