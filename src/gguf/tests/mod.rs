//! Tests of the reader and the writer together.

mod bytes;
mod id42;
mod mutations;
mod rejects;
mod round_trip;
mod split;

/// Every cause of an error has a test that asserts its variant.
#[test]
fn every_cause_is_tested() {
    let tests = [
        include_str!("id42.rs"),
        include_str!("rejects.rs"),
        include_str!("round_trip.rs"),
        include_str!("split.rs"),
    ]
    .concat();
    let declaration = include_str!("../error.rs").split_once("pub enum GgufError {").unwrap().1;
    let declaration = declaration.split_once("\n}").unwrap().0;
    let variants: Vec<&str> = declaration
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase))
        .map(|line| line.trim_end_matches([' ', '{', ',']))
        .collect();
    assert!(variants.len() > 30, "{variants:?}");
    for variant in variants {
        let tested = tests.lines().any(|line| {
            line.split("GgufError::").skip(1).any(|rest| {
                rest.strip_prefix(variant).is_some_and(|end| !end.starts_with(char::is_alphanumeric))
            })
        });
        assert!(tested, "no test asserts GgufError::{variant}");
    }
}
