//! Which conventions an engine is run with: the reference's, but for those that were given.

use anyhow::Result;

use crate::engine::Conventions;
use crate::harness::Rule;

/// Conventions given as `name=candidate`.
pub(super) struct ByHand<'a> {
    conventions: Conventions,
    names: Vec<&'a str>,
}

impl ByHand<'_> {
    /// # Errors
    /// If a name or a candidate is unknown.
    pub(super) fn parse(settings: &[String]) -> Result<ByHand<'_>> {
        let (mut conventions, mut names) = (Conventions::default(), Vec::new());
        for setting in settings {
            let (name, candidate) = setting.split_once('=').unwrap_or((setting, ""));
            conventions.set(name, candidate)?;
            names.push(name);
        }
        Ok(ByHand { conventions, names })
    }

    /// With the reference's rules where none was given.
    ///
    /// # Errors
    /// If a rule names what does not exist.
    pub(super) fn following(&self, rules: &[Rule]) -> Result<Conventions> {
        let mut conventions = self.conventions;
        for rule in rules.iter().filter(|rule| !self.names.contains(&rule.convention)) {
            conventions.set(rule.convention, rule.candidate)?;
        }
        Ok(conventions)
    }

    /// What a report says of them.
    pub(super) fn words(&self, rules: &[Rule]) -> Vec<String> {
        let departures = self.conventions.departures();
        let by_hand =
            (!departures.is_empty()).then(|| format!("conventions set by hand: {}", departures.join(", ")));
        let rules =
            rules.iter().map(|Rule { convention, words, .. }| match self.names.contains(convention) {
                true => format!("the reference {words}; the engine does as --convention {convention} says"),
                false => format!("the reference {words}, and so does the engine"),
            });
        by_hand.into_iter().chain(rules).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QkL2Norm;

    const RULE: Rule =
        Rule { convention: "qk_l2_norm", candidate: "max_norm_eps", words: "normalises by the larger" };

    #[test]
    fn what_was_given_wins_over_the_references_rule() {
        let nothing = ByHand::parse(&[]).unwrap();
        assert_eq!(nothing.following(&[]).unwrap(), Conventions::default());
        assert_eq!(nothing.following(&[RULE]).unwrap().qk_l2_norm, QkL2Norm::MaxNormEps);
        assert_eq!(
            nothing.words(&[RULE]),
            ["the reference normalises by the larger, and so does the engine"]
        );
        let settings = ["gates=raw_beta".to_owned(), "qk_l2_norm=eps_inside".to_owned()];
        let given = ByHand::parse(&settings).unwrap();
        assert_eq!(given.following(&[RULE]).unwrap().qk_l2_norm, QkL2Norm::EpsInside);
        let words = given.words(&[RULE]);
        assert_eq!(words[0], "conventions set by hand: gates = raw_beta");
        assert!(words[1].ends_with("the engine does as --convention qk_l2_norm says"), "{words:?}");
    }
}
