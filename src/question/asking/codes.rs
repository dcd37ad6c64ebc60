//! Products and lookups of weights whose codes are read in another way.

use super::embedding::both;
use super::{Looked, Site, Stop};
use crate::ops::{Codes, Rows};
use crate::question::Question;

/// What a candidate makes of the values of a block, given its scale.
pub(in crate::question) type Misread = Box<dyn Fn(f32, &mut [f32]) + Sync>;

impl Site<'_> {
    /// Scores, for every weight here whose type has codes, what candidates make of its rows; none for one that cannot be of this
    /// type. What is found is grouped by type.
    ///
    /// # Errors
    /// If no weight here has codes, the dump holds none of the products, or one fails.
    pub(in crate::question) fn misread(
        &self,
        question: &Question,
        misread: impl Fn(&str, Codes) -> Option<Misread>,
    ) -> Looked {
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
                let codes = codes(&rows)?;
                self.trial(question, rows.ty().name(), y.clone(), |candidate| {
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
        let codes = codes(&rows)?;
        let transform = self.transform("token_embd").ok();
        let trial = self.trial(question, rows.ty().name(), embedding.found.clone(), |candidate| {
            let Some(misread) = misread(candidate, codes) else { return Ok(None) };
            let change = by_block(rows, codes, misread);
            Ok(embedding.behind(&rows.changed(&change), transform.as_ref()))
        })?;
        Ok(vec![trial])
    }
}

/// The codes of a weight.
fn codes(rows: &Rows<'_>) -> Result<Codes, Stop> {
    let none = || Stop::NotApplicable(format!("{} has no codes with one scale for each block", rows.ty()));
    rows.codes().ok_or_else(none)
}

/// The change of a row that changes each of its blocks.
fn by_block<'a>(rows: Rows<'a>, codes: Codes, misread: Misread) -> impl Fn(usize, &mut [f32]) + Sync + 'a {
    move |n, row| {
        let blocks = row.chunks_mut(codes.block).zip(rows.scales_of_row(n));
        blocks.for_each(|(block, scale)| misread(scale, block));
    }
}
