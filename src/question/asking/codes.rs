//! Products and lookups of weights whose codes are read in another way.

use super::embedding::both;
use super::misread::Misread;
use super::{Looked, Site, Stop};
use crate::ops::Rows;
use crate::quant::{Codes, format};
use crate::question::Question;

impl Site<'_> {
    /// Scores, for every weight here whose type has codes, what candidates make of its blocks: the first takes them as they are, and
    /// one for which `misread` has nothing cannot be of this type. What is found is grouped by type.
    ///
    /// # Errors
    /// If no weight of the model has codes, the dump holds none of the products, or one fails.
    pub(in crate::question) fn misread(
        &self,
        question: &Question,
        misread: impl Fn(&str, Codes) -> Option<Misread>,
    ) -> Looked {
        let has_codes = |ty| format(ty).is_ok_and(|format| format.codes().is_some());
        if !self.subject.model.gguf().tensors().iter().any(|tensor| has_codes(tensor.ty)) {
            let why = "the model has no weights of codes with one scale for each block";
            return Err(Stop::NotApplicable(why.to_owned()));
        }
        both(self.misread_lookup(question, &misread), self.misread_products(question, &misread))
    }

    fn misread_products(
        &self,
        question: &Question,
        misread: impl Fn(&str, Codes) -> Option<Misread>,
    ) -> Looked {
        self.each_product(
            |_| true,
            |product, x, y| {
                let (rows, scale) = self.matrix(product.weight)?;
                let codes = rows.codes().ok_or(Stop::Elsewhere)?;
                self.trial(question, rows.ty().name(), y.clone(), |candidate| {
                    if candidate == question.candidates[0].name {
                        let product = self.product_as_run(product.weight, &x, &y, |product| product);
                        return product.map(Some);
                    }
                    let Some(misread) = misread(candidate, codes) else { return Ok(None) };
                    let change = by_block(rows, codes, misread);
                    let matrix = (rows.changed(&change), scale);
                    self.rows_as_run(product.weight, matrix, &x, &y, |product| product).map(Some)
                })
            },
        )
    }

    fn misread_lookup(
        &self,
        question: &Question,
        misread: impl Fn(&str, Codes) -> Option<Misread>,
    ) -> Looked {
        let embedding = self.embedding()?;
        let rows = embedding.rows;
        let codes = rows.codes().ok_or(Stop::Elsewhere)?;
        let transform = self.transform("token_embd").ok();
        let trial = self.trial(question, rows.ty().name(), embedding.found.clone(), |candidate| {
            if candidate == question.candidates[0].name {
                return Ok(embedding.behind(&rows, transform.as_ref()));
            }
            let Some(misread) = misread(candidate, codes) else { return Ok(None) };
            let change = by_block(rows, codes, misread);
            Ok(embedding.behind(&rows.changed(&change), transform.as_ref()))
        })?;
        Ok(vec![trial])
    }
}

/// The change of a row that changes each of its blocks.
fn by_block<'a>(rows: Rows<'a>, codes: Codes, misread: Misread) -> impl Fn(usize, &mut [f32]) + Sync + 'a {
    move |n, row| {
        let blocks = row.chunks_mut(codes.block).zip(rows.scales_of_row(n));
        blocks.for_each(|(block, scale)| misread(scale, block));
    }
}
