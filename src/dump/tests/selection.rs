//! Dumps that do not hold what they say they were asked for.

use super::*;

#[test]
fn rejects_a_selected_node_without_values() {
    // `q` uses the same entry, so it is the node that lacks something, not the file.
    let defect = refused(|m, _| m.nodes[6].entry = None);
    assert_defect!(&defect, Defect::NoValues { .. });
    assert!(defect.to_string().contains("node 6 'gate' (step 0)"), "{defect}");
    // A pure view whose root lost its values.
    let root = refused(|m, p| {
        m.nodes[2].entry = None;
        m.nodes[6].entry = None;
        m.run.selected = vec![[3, 5], [7, 7], [9, 11], [13, 14]];
        p.retain(|payload| payload.0 != "0/q");
    });
    assert!(matches!(&root, Defect::NoValues { item } if item.starts_with("node 3 'q'")), "{root:?}");
}

#[test]
fn views_of_leaves_need_no_values() {
    let (_folder, path) = sample();
    let dump = open_all(&path).unwrap();
    let view = dump.node(7).unwrap();
    assert!(dump.is_selected(view) && !dump.has_values(view));
    let left_out: Vec<u32> = dump.nodes().iter().filter(|n| !dump.is_selected(n)).map(|n| n.id).collect();
    assert_eq!(left_out, [8, 12]);
}

#[test]
fn rejects_a_manifest_without_selection() {
    let defect = refused_json(|m| drop(m["run"].as_object_mut().unwrap().remove("selected")));
    assert_defect!(&defect, Defect::NoSelection);
    assert!(defect.to_string().contains("make the dump again"), "{defect}");
}

#[test]
fn rejects_runs_that_do_not_ascend_or_end() {
    for run in [vec![[0, 15]], vec![[3, 2]], vec![[0, 3], [3, 5]], vec![[0, 3], [4, 5]], vec![[7, u32::MAX]]]
    {
        assert_defect!(refused(|m, _| m.run.selected = run), Defect::SelectedRun { .. });
    }
}

#[test]
fn rejects_a_selection_that_contradicts_names_and_filters() {
    // Without filters nothing is left out.
    let left_out = refused(|m, _| m.run.filters.clear());
    assert!(
        matches!(&left_out, Defect::SelectedWrongly { item, expected: true } if item.starts_with("node 8 "))
    );
    // Names that ggml gave are not selected with `named_only`.
    let unnamed = refused(|m, _| m.run.named_only = true);
    assert!(
        matches!(&unnamed, Defect::SelectedWrongly { item, expected: false } if item.starts_with("node 1 "))
    );
}
