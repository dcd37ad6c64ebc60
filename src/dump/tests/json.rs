//! Manifests that are not JSON, not of this format, or hold values of the wrong kind.

use serde_json::json;

use super::*;
use crate::dump::MemoryChange;

#[test]
fn rejects_what_is_not_a_json_object() {
    for text in ["", "{", "[]", "7", "{}x", "\u{fffd}"] {
        let finish = |writer: crate::dump::DumpWriter| writer.finish_with(text.as_bytes()).unwrap();
        let (_folder, path) = write(&payloads(), finish);
        assert_defect!(defect(open_all(&path).map(|_| ())), Defect::NotJson { .. });
    }
}

#[test]
fn rejects_another_format() {
    assert_defect!(refused_json(|m| m["format"] = json!("other")), Defect::Format { .. });
    assert_defect!(
        refused_json(|m| drop(m.as_object_mut().unwrap().remove("format"))),
        Defect::Format { .. }
    );
}

#[test]
fn rejects_another_version() {
    let newer = refused_json(|m| m["version"] = json!(2));
    assert_defect!(&newer, Defect::NewerVersion { got: 2, known: 1 });
    assert!(newer.to_string().contains("update"), "{newer}");
    assert_defect!(refused_json(|m| m["version"] = json!(0)), Defect::Version { .. });
    assert_defect!(refused_json(|m| m["version"] = json!("1")), Defect::Version { .. });
}

#[test]
fn rejects_missing_and_mistyped_fields() {
    let remove = |path: &str, field: &str| {
        refused_json(|m| drop(m.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(field)))
    };
    for (path, field) in [
        ("", "nodes"),
        ("", "run"),
        ("/producer", "commit"),
        ("/run", "ubatches"),
        ("/nodes/0", "ne"),
        ("/nodes/0", "op"),
        ("/leaves/0", "kind"),
        ("/nodes/1/view_of", "offset"),
        ("/nodes/1/sources/0", "node"),
    ] {
        assert_defect!(remove(path, field), Defect::Field { .. });
    }
    assert_defect!(refused_json(|m| m["nodes"] = json!({})), Defect::Field { .. });
    assert_defect!(refused_json(|m| m["nodes"][0] = json!(3)), Defect::Field { .. });
    assert_defect!(refused_json(|m| m["nodes"][0]["ne"] = json!([1, 2, 3])), Defect::Field { .. });
    assert_defect!(refused_json(|m| m["leaves"][0]["kind"] = json!("other")), Defect::Field { .. });
    assert_defect!(refused_json(|m| m["nodes"][0]["params"] = json!([1u64 << 40])), Defect::Field { .. });
}

#[test]
fn rejects_numbers_out_of_range() {
    for (field, value) in [
        ("ne", json!([-4, 3, 1, 1])),
        ("ne", json!([4, 3, 1, 1u64 << 63])),
        ("nb", json!([4, 16, 48, 1e30])),
        ("ne", json!([4, 3.5, 1, 1])),
        ("id", json!(-1)),
        ("step", json!(1u64 << 32)),
        ("occurrence", json!(-1)),
    ] {
        assert_defect!(refused_json(|m| m["nodes"][0][field] = value), Defect::NumberRange { .. });
    }
    let offset = refused_json(|m| m["nodes"][1]["view_of"]["offset"] = json!(-8));
    assert_defect!(offset, Defect::NumberRange { field: "view_of.offset", .. });
    assert_defect!(refused_json(|m| m["leaves"][0]["ne"][0] = json!(-4)), Defect::NumberRange { .. });
}

#[test]
fn rejects_an_unknown_type() {
    assert_defect!(refused_json(|m| m["nodes"][0]["type"] = json!("f33")), Defect::UnknownType { .. });
}

#[test]
fn tolerates_fields_that_it_does_not_know() {
    let mut json = sample_json();
    for path in
        ["", "/run", "/run/ubatches/0", "/nodes/0", "/nodes/1/view_of", "/leaves/0", "/nodes/1/sources/0"]
    {
        json.pointer_mut(path).unwrap()["later"] = json!({"a": [1]});
    }
    let json = serde_json::to_vec(&json).unwrap();
    let (_folder, path) = write(&payloads(), |writer| writer.finish_with(&json).unwrap());
    assert_eq!(open_all(&path).unwrap().manifest(), &manifest());
}

#[test]
fn memory_changes_read_and_write_in_their_order() {
    let change = json!([{"op": "clear"}, {"op": "seq_rm", "seq_id": 0, "p0": 7}, {"op": "seq_cp", "seq_id_src": 0, "seq_id_dst": 1}]);
    let changes: Vec<MemoryChange> = serde_json::from_value(change.clone()).unwrap();
    let expected = [
        MemoryChange::Clear,
        MemoryChange::SeqRm { seq_id: 0, p0: 7 },
        MemoryChange::SeqCp { seq_id_src: 0, seq_id_dst: 1 },
    ];
    assert_eq!(changes, expected);
    assert_eq!(serde_json::to_value(&changes).unwrap(), change);
}

#[test]
fn what_does_not_apply_is_not_written() {
    let json = serde_json::to_value(manifest()).unwrap();
    assert!(json["producer"].get("changes").is_none());
    assert!(json["run"]["ubatches"][0].get("before").is_none());
    for field in ["kv_unified", "n_rs_seq", "script"] {
        assert!(json["run"].get(field).is_none(), "{field}");
    }
}
