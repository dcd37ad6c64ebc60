//! The lookup of tokens in the embedding table.

use super::{AskError, Held, Looked, Site, Stop, Trial};
use crate::model::{FoldOrder, Transform};
use crate::ops::{Rows, Tracked};
use crate::question::Question;

const TABLE: &str = "token_embd";

/// The rows of the embedding table that a step looks up, and what the reference found.
pub(in crate::question) struct Embedding<'a> {
    /// The table.
    pub(in crate::question) rows: Rows<'a>,
    /// A row for each token.
    pub(in crate::question) found: Held,
    tokens: Vec<usize>,
}

impl Embedding<'_> {
    /// The row of each token in `rows`, the table or a changed one, behind `transform`: `[n_tokens, n_embd]`, packed. None if the
    /// transform's block does not divide the width.
    ///
    /// A row is given exactly, and so is one that only changes signs. An element of `H row` is a sum of the block's elements
    /// with signs, added up in a tree of `log2(block)` levels: each level rounds partial sums that have at most `sum |row|` in
    /// all, so its errors come to at most `u sum |row|`. With these terms, times the scale of H, and `log2(block)` additions a
    /// budget covers that; llama.cpp's rows, which were unfolded in f64 and rounded once, are nearer.
    pub(in crate::question) fn behind(
        &self,
        rows: &Rows<'_>,
        transform: Option<&Transform<'_>>,
    ) -> Option<Vec<Tracked>> {
        if transform.is_some_and(|transform| !rows.n_in.is_multiple_of(transform.block)) {
            return None;
        }
        let mut numbers = Vec::with_capacity(self.found.values.len());
        let mut decoded = vec![0.0; rows.n_in];
        for &token in &self.tokens {
            rows.decode_row(token, &mut decoded);
            let row: Vec<f64> = decoded.iter().map(|&w| w.into()).collect();
            match transform {
                None => numbers.extend(row.into_iter().map(Tracked::exact)),
                Some(transform) => numbers.extend(transformed(row, transform)),
            }
        }
        Some(numbers)
    }
}

fn transformed(mut row: Vec<f64>, transform: &Transform<'_>) -> Vec<Tracked> {
    let block = transform.block;
    let scale = if transform.normalize { 1.0 / (block as f64).sqrt() } else { 1.0 };
    let terms: Vec<f64> =
        row.chunks(block).map(|block| scale * block.iter().map(|w| w.abs()).sum::<f64>()).collect();
    transform.apply(&mut row);
    let number = |(i, value)| match transform.order {
        FoldOrder::SignsOnly | FoldOrder::None => Tracked::exact(value),
        _ => Tracked::computed(value, terms[i / block], f64::from(block.ilog2())),
    };
    row.into_iter().enumerate().map(number).collect()
}

impl<'a> Site<'a> {
    /// The lookup of this step.
    ///
    /// # Errors
    /// If this is a layer, the dump does not hold it, or it has a token that the table does not have.
    pub(in crate::question) fn embedding(&self) -> Result<Embedding<'a>, Stop> {
        if self.layer.is_some() {
            return Err(Stop::Elsewhere);
        }
        let (rows, _) = self.matrix(TABLE)?;
        let found = self.tensor("model.input_embed")?;
        let tokens: Vec<usize> =
            self.ubatch().tokens.iter().map(|&id| usize::try_from(id).unwrap_or(usize::MAX)).collect();
        if let Some(&token) = tokens.iter().find(|&&token| token >= rows.n_out) {
            return Err(AskError::Token { step: self.step, token, n_vocab: rows.n_out }.into());
        }
        Ok(Embedding { rows, found, tokens })
    }

    /// Scores what candidates make of the transform behind the lookup; none for one that cannot be.
    ///
    /// # Errors
    /// If the table is not folded, the dump does not hold the lookup, or a candidate fails.
    pub(in crate::question) fn folded_lookup(
        &self,
        question: &Question,
        change: impl Fn(&str, Transform<'a>) -> Option<Transform<'a>>,
    ) -> Result<Trial, Stop> {
        self.fold()?;
        let embedding = self.embedding()?;
        let transform = self.transform(TABLE)?;
        self.trial(question, TABLE, embedding.found.clone(), |candidate| {
            let changed = change(candidate, transform.clone());
            Ok(changed.and_then(|transform| embedding.behind(&embedding.rows, Some(&transform))))
        })
    }

    /// Scores what candidates make of every transform here, in front of products and behind the lookup.
    ///
    /// # Errors
    /// If the model is not folded, the dump holds none of them, or a candidate fails.
    pub(in crate::question) fn folded(
        &self,
        question: &Question,
        change: impl Fn(&str, Transform<'a>) -> Option<Transform<'a>>,
    ) -> Looked {
        let lookup = self.folded_lookup(question, &change).map(|trial| vec![trial]);
        both(lookup, self.folded_products(question, |_| true, change))
    }
}

/// What was found of two kinds at one site.
pub(in crate::question) fn both(one: Looked, other: Looked) -> Looked {
    match (one, other) {
        (Ok(mut one), Ok(other)) => {
            one.extend(other);
            Ok(one)
        }
        (Err(stop @ Stop::Failed(_)), _) | (_, Err(stop @ Stop::Failed(_))) => Err(stop),
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(Stop::Elsewhere), Err(stop)) | (Err(stop), Err(_)) => Err(stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotated_element_has_the_block_as_terms() {
        let signs = [1, -1, 1, 1];
        let transform =
            |order| Transform { order, block: 2, normalize: false, signs: Some(&signs), permutation: None };
        let of = |order| -> Vec<(f64, f64, f64)> {
            let numbers = transformed(vec![1.0, -2.0, 3.0, 0.5], &transform(order));
            numbers.iter().map(|x| (x.value(), x.terms(), x.spread())).collect()
        };
        // 1 - 2, -(1 + 2), 3 + 0.5, 3 - 0.5; one level of additions
        let rotated = [(-1.0, 3.0, 3.0), (-3.0, 3.0, 3.0), (3.5, 3.5, 3.5), (2.5, 3.5, 3.5)];
        assert_eq!(of(FoldOrder::WhtThenSigns), rotated);
        // Signs alone are exact.
        assert_eq!(of(FoldOrder::SignsOnly)[1], (2.0, 2.0, 0.0));
    }
}
