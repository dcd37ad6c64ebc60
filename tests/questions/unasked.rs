//! What cannot be asked, and what is said about it.

use lockstep::question::question;

use crate::common::{MINI_TOKEN, case_folder, lockstep, synthetic};
use crate::run::{Probed, With};
use lockstep::tensor::GgmlType;

#[test]
fn a_dump_of_f64_holds_no_evidence_and_it_is_said_why() {
    let model = synthetic("nano-bonsai", 1, GgmlType::F32);
    let folder = tempfile::tempdir().unwrap();
    let (model, dump) = (model.path.to_str().unwrap(), folder.path().join("run.npz"));
    let dump = dump.to_str().unwrap();
    let run = ["run", model, "--tokens", "1,2", "--arithmetic", "f64", "--dump", dump];
    assert_eq!(lockstep(run).code, Some(0));
    let outcome = lockstep(["ask", "--model", model, "--dump", dump, "swiglu_order"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stdout.contains("is in the dump as f64, not as f32"), "{outcome:?}");
}

#[test]
fn a_case_beside_a_model_is_refused() {
    let (case, dump) = (case_folder("mini-bonsai"), MINI_TOKEN.path());
    let (case, dump) = (case.to_str().unwrap(), dump.to_str().unwrap());
    let outcome = lockstep(["ask", case, "--model", "some.gguf", "--dump", dump]);
    outcome.assert_refused(&["both the case folder", "mini-bonsai", "--model"]);
}

#[test]
fn a_cache_type_that_is_no_candidate_is_named() {
    let probed = Probed::write(question("kv_type").unwrap());
    let findings = |with| probed.answer("f32", with).unwrap().findings;
    assert_eq!(findings(With::Conventions(&[])), Vec::<String>::new());
    let quantised = With::Dump(|copy| copy.manifest.run.type_k = "q8_0".to_owned());
    let found = findings(quantised);
    assert!(found.len() == 1 && found[0].contains("keep keys as q8_0"), "{found:?}");
}
