//! JUnit XML for CI: a test suite per report, a test case per tensor kind and operator (a case per tensor
//! would be tens of thousands), one for the tokens that the logits choose, and one for the whole, so that comparing nothing is a failed test too.

use super::words::{self, count, escape};
use super::{Format, Options, Report};
use crate::compare::{Comparison, KindRow, Verdict};

/// The report for CI servers.
pub(super) struct Junit;

impl Format for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn render(&self, reports: &[Report<'_>], _: Options) -> String {
        let nothing = Comparison::default();
        let no_report = [Report { name: "no case", header: &[], steps: &[], comparison: &nothing }];
        let reports = if reports.is_empty() { &no_report } else { reports };
        let suites: String = reports.iter().map(suite).collect();
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
    }
}

/// How a test case ended, with the message.
enum Outcome {
    Pass,
    Fail(String),
    Skip(String),
}

fn suite(report: &Report<'_>) -> String {
    let comparison = report.comparison;
    let mut cases: Vec<(String, Outcome)> = comparison.kinds().iter().map(kind).collect();
    if !comparison.logits.is_empty() {
        let tokens = match comparison.first_other_token() {
            None => Outcome::Pass,
            Some(_) => Outcome::Fail(words::logits_line(&comparison.logits)),
        };
        cases.push(("greedy tokens".to_owned(), tokens));
    }
    let line = words::summary_line(&[comparison]);
    let line = match words::first_difference(comparison) {
        Some(first) => format!("{first}; {line}"),
        None => line,
    };
    let whole = if comparison.is_pass() { Outcome::Pass } else { Outcome::Fail(line) };
    cases.push(("all tensors".to_owned(), whole));

    let failures = cases.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Fail(_))).count();
    let skipped = cases.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Skip(_))).count();
    let name = escape(report.name);
    let mut out = format!(
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        cases.len(),
    );
    for (case, outcome) in &cases {
        let open = format!("    <testcase classname=\"lockstep.{name}\" name=\"{}\"", escape(case));
        out += &match outcome {
            Outcome::Pass => format!("{open}/>\n"),
            Outcome::Fail(why) => format!("{open}><failure message=\"{}\"/></testcase>\n", escape(why)),
            Outcome::Skip(why) => format!("{open}><skipped message=\"{}\"/></testcase>\n", escape(why)),
        };
    }
    out + "  </testsuite>\n"
}

fn kind(row: &KindRow<'_>) -> (String, Outcome) {
    let name = if row.op.is_empty() { row.kind.to_owned() } else { format!("{} ({})", row.kind, row.op) };
    let why = words::reason(row.worst).unwrap_or_default();
    let outcome = match (&row.worst.verdict, row.failures) {
        (Verdict::Skipped(_), 0) => Outcome::Skip(why),
        (_, 0) => Outcome::Pass,
        (_, failures) => Outcome::Fail(format!(
            "{} of {} tensors fail; worst {}, step {}: {why}",
            count(failures as u64),
            count(row.tensors as u64),
            words::tensor_name(&row.worst.id),
            row.worst.id.step,
        )),
    };
    (name, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    fn render(comparison: &Comparison) -> String {
        Junit.render(&[Report { name: "a \"b\"", header: &[], steps: &[], comparison }], Options::default())
    }

    #[test]
    fn a_passing_run_written_out() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="a &quot;b&quot;" tests="5" failures="0" errors="0" skipped="1">
    <testcase classname="lockstep.a &quot;b&quot;" name="l_out (ADD)"/>
    <testcase classname="lockstep.a &quot;b&quot;" name="attn_norm (RMS_NORM)"/>
    <testcase classname="lockstep.a &quot;b&quot;" name="view (VIEW)"><skipped message="skipped: a view"/></testcase>
    <testcase classname="lockstep.a &quot;b&quot;" name="greedy tokens"/>
    <testcase classname="lockstep.a &quot;b&quot;" name="all tensors"/>
  </testsuite>
</testsuites>
"#;
        assert_eq!(render(&example::passing()), expected);
    }

    #[test]
    fn each_bad_verdict_fails_its_kind_and_the_whole() {
        for bad in example::failures() {
            let mut comparison = example::passing();
            comparison.results.push(bad.clone());
            let xml = render(&comparison);
            assert!(xml.contains("failures=\"2\""), "{xml}");
            let message = format!("message=\"1 of 1 tensors fail; worst {}, step 0: ", bad.id.name);
            assert!(xml.contains(&message), "{xml}");
        }
    }

    #[test]
    fn the_whole_says_the_first_difference_and_what_it_looks_like() {
        let mut comparison = example::passing();
        comparison.results.push(example::diagnosed("kq-3", "a sign: every value is negated"));
        let xml = render(&comparison);
        let message =
            "name=\"all tensors\"><failure message=\"first difference: kq-3 (blk.3, MUL_MAT, step 0): ";
        assert!(
            xml.contains(message) && xml.contains("; looks like a sign: every value is negated; "),
            "{xml}"
        );
    }

    #[test]
    fn another_token_fails_the_tokens_and_the_whole() {
        let mut comparison = example::passing();
        comparison.logits.push(example::logits(1, [1.0, 1.5, 2.0]));
        let xml = render(&comparison);
        assert!(xml.contains("failures=\"2\""), "{xml}");
        assert!(
            xml.contains("name=\"greedy tokens\"><failure message=\"argmax equal in 1 of 2, different in 1;"),
            "{xml}"
        );
    }

    #[test]
    fn comparing_nothing_is_a_failed_test() {
        for xml in [render(&Comparison::default()), Junit.render(&[], Options::default())] {
            assert!(xml.contains("tests=\"1\" failures=\"1\""), "{xml}");
            assert!(xml.contains("nothing was compared"), "{xml}");
        }
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escape("<a & 'b'>\n\u{1}"), "&lt;a &amp; &apos;b&apos;&gt;&#10;\u{fffd}");
    }
}
