//! `manifest.json` to structs. Numbers out of range and unknown types get errors of their own.

#![deny(clippy::indexing_slicing)]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::Defect;
use super::manifest::{Capture, Leaf, Manifest, Model, Node, Producer, Run};
use super::{FORMAT, VERSION};
use crate::tensor::GgmlType;

/// ggml counts in int64_t.
const MAX_I64: u64 = i64::MAX as u64;
const MAX_U32: u64 = u32::MAX as u64;

/// The manifest apart from its long lists.
#[derive(Deserialize)]
struct Head {
    producer: Producer,
    model: Model,
    run: Run,
    capture: Capture,
}

/// Parses a manifest and checks its format, version, field types and number ranges.
pub(super) fn manifest(json: &[u8]) -> Result<Manifest, Defect> {
    let not_json = |detail: String| Defect::NotJson { detail };
    let value: Value = serde_json::from_slice(json).map_err(|e| not_json(e.to_string()))?;
    let Value::Object(mut fields) = value else {
        return Err(not_json("it is not an object".into()));
    };
    check_version(&fields)?;
    if fields.get("run").and_then(Value::as_object).is_some_and(|run| !run.contains_key("selected")) {
        return Err(Defect::NoSelection);
    }
    let leaves = list(&mut fields, "leaves")?;
    let nodes = list(&mut fields, "nodes")?;
    let head: Head = field("its head".into(), Value::Object(fields))?;
    Ok(Manifest {
        producer: head.producer,
        model: head.model,
        run: head.run,
        capture: head.capture,
        leaves: items::<Leaf>("leaf", leaves)?,
        nodes: items::<Node>("node", nodes)?,
    })
}

fn check_version(fields: &Map<String, Value>) -> Result<(), Defect> {
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    let format = fields.get("format");
    if format.and_then(Value::as_str) != Some(FORMAT) {
        return Err(Defect::Format { got: shown(format) });
    }
    let version = fields.get("version");
    match version.and_then(Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(got) if got > VERSION => Err(Defect::NewerVersion { got, known: VERSION }),
        _ => Err(Defect::Version { got: shown(version) }),
    }
}

fn list(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, Defect> {
    match fields.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => Ok(list),
        _ => Err(Defect::Field { item: name.to_owned(), detail: "expected a list".into() }),
    }
}

fn items<T: DeserializeOwned>(what: &str, list: Vec<Value>) -> Result<Vec<T>, Defect> {
    let parse = |(i, value): (usize, Value)| {
        let item = || match value.get("name").and_then(Value::as_str) {
            Some(name) => format!("{what} number {i} '{name}'"),
            None => format!("{what} number {i}"),
        };
        check_ranges(&value, &item)?;
        check_type(&value, &item)?;
        let item = item();
        field(item, value)
    };
    list.into_iter().enumerate().map(parse).collect()
}

fn field<T: DeserializeOwned>(item: String, value: Value) -> Result<T, Defect> {
    T::deserialize(value).map_err(|e| Defect::Field { item, detail: e.to_string() })
}

/// Checks the numbers of a node or leaf. What is not a number is left to the structs' own types.
fn check_ranges(value: &Value, item: &dyn Fn() -> String) -> Result<(), Defect> {
    let check = |field: &'static str, value: Option<&Value>, max: u64| match value {
        Some(Value::Number(n)) if n.as_u64().is_none_or(|n| n > max) => {
            Err(Defect::NumberRange { item: item(), field, max, got: n.to_string() })
        }
        _ => Ok(()),
    };
    for field in ["id", "step", "occurrence"] {
        check(field, value.get(field), MAX_U32)?;
    }
    for field in ["ne", "nb"] {
        for number in value.get(field).and_then(Value::as_array).into_iter().flatten() {
            check(field, Some(number), MAX_I64)?;
        }
    }
    if let Some(view) = value.get("view_of") {
        check("view_of.offset", view.get("offset"), MAX_I64)?;
    }
    Ok(())
}

fn check_type(value: &Value, item: &dyn Fn() -> String) -> Result<(), Defect> {
    match value.get("type").and_then(Value::as_str) {
        Some(name) if GgmlType::from_name(name).is_none() => {
            Err(Defect::UnknownType { item: item(), got: name.to_owned() })
        }
        _ => Ok(()),
    }
}
