//! REPEAT, PAD, TRI, DIAG, FILL: values are moved, or 0 or a constant is put in their place. Terms are 0.
//!
//! ```text
//! REPEAT  y[i] = x[i mod ne(x)]
//! PAD     y[i] = x[i - front], 0 outside; params: front and back of dimensions 0 to 3 in turn. If params 8 is set, the
//!         index is taken modulo ne(x) instead
//! TRI     y[i0, i1] = x[i0, i1] where it holds, 0 elsewhere; params 0:  0 i0 >= i1   1 i0 > i1   2 i0 <= i1   3 i0 < i1
//! DIAG    y[i0, i1] = x[i0] where i0 = i1, 0 elsewhere       x {n, 1, ..}   y {n, n, ..}
//! FILL    y = params 0
//! ```

use super::moves::floats;
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct Place;

/// Where PAD says that it wraps around.
const CIRCULAR: usize = 8;

/// Which element of the source comes to an index of the result, if one does.
type Origin = Box<dyn Fn([usize; 4]) -> Option<[usize; 4]>>;

impl Oracle for Place {
    fn ops(&self) -> &'static [&'static str] {
        &["REPEAT", "PAD", "TRI", "DIAG", "FILL"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        if node.op == "FILL" {
            return Ok(Exact::moved(vec![node.float(0); node.elements()]));
        }
        let (source, x) = (node.source(0)?, floats(node, 0)?);
        let ne = source.ne;
        node.require(!x.is_empty(), "the source is empty")?;
        let from: Origin = match node.op {
            "REPEAT" => {
                let repeats = (0..4).all(|d| node.ne[d].is_multiple_of(ne[d]));
                node.require(repeats, "the source does not repeat to the result")?;
                Box::new(Some)
            }
            "PAD" => padding(node, ne)?,
            "TRI" => {
                node.require(ne == node.ne, "source and result have different sizes")?;
                let holds: fn(&usize, &usize) -> bool = match node.int(0) {
                    0 => usize::ge,
                    1 => usize::gt,
                    2 => usize::le,
                    3 => usize::lt,
                    other => return Err(node.parameter(format!("triangle {other}"))),
                };
                Box::new(move |index| holds(&index[0], &index[1]).then_some(index))
            }
            _ => {
                let fits = ne[1] == 1 && node.ne == [ne[0], ne[0], ne[2], ne[3]];
                node.require(fits, "the result is not the square of the source")?;
                Box::new(|[i0, i1, i2, i3]| (i0 == i1).then_some([i0, 0, i2, i3]))
            }
        };
        let values = indices(node.ne).map(|index| from(index).map_or(0.0, |index| x[source.at(index)]));
        Ok(Exact::moved(values.collect()))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        Ok(self.exact(node)?.into_singles())
    }
}

/// The origin of a padded source with extents `ne`.
fn padding(node: &Invocation<'_>, ne: [u64; 4]) -> Result<Origin, OracleError> {
    let ne = ne.map(|n| n as i64);
    let front = [0, 2, 4, 6].map(|i| i64::from(node.int(i)));
    let back = [1, 3, 5, 7].map(|i| i64::from(node.int(i)));
    let fits =
        (0..4).all(|d| front[d] >= 0 && back[d] >= 0 && ne[d] + front[d] + back[d] == node.ne[d] as i64);
    node.require(fits, "source and padding do not make the result")?;
    let circular = node.int(CIRCULAR) != 0;
    Ok(Box::new(move |index| {
        let mut from = index;
        for d in 0..4 {
            let i = index[d] as i64 - front[d];
            if !circular && !(0..ne[d]).contains(&i) {
                return None;
            }
            from[d] = i.rem_euclid(ne[d]) as usize;
        }
        Some(from)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    fn place(
        op: &str,
        params: &[i32],
        ne: [u64; 4],
        from: [u64; 4],
        x: &[f32],
    ) -> Result<Vec<f64>, OracleError> {
        let sources = [Some(Operand { ne: from, data: Data::Float(x.to_vec()) })];
        let exact = Place.exact(&Invocation { op, variant: None, params, ne, sources: &sources })?;
        assert_eq!(exact.terms, vec![0.0; exact.values.len()]);
        Ok(exact.values)
    }

    #[test]
    fn rows_are_repeated_and_padded() {
        let row = [2, 1, 1, 1];
        assert_eq!(place("REPEAT", &[], [2, 2, 1, 1], row, &[1.0, 2.0]).unwrap(), [1.0, 2.0, 1.0, 2.0]);
        assert!(place("REPEAT", &[], [3, 1, 1, 1], row, &[1.0, 2.0]).is_err());
        // two in front, one behind
        assert_eq!(place("PAD", &[2, 1], [5, 1, 1, 1], row, &[1.0, 2.0]).unwrap(), [0.0, 0.0, 1.0, 2.0, 0.0]);
        let circular = [1, 1, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(place("PAD", &circular, [4, 1, 1, 1], row, &[1.0, 2.0]).unwrap(), [2.0, 1.0, 2.0, 1.0]);
        assert!(place("PAD", &[1], [4, 1, 1, 1], row, &[1.0, 2.0]).is_err());
    }

    #[test]
    fn triangles_and_diagonals() {
        let tri = |kind| place("TRI", &[kind], [2, 2, 1, 1], [2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(tri(0).unwrap(), [1.0, 2.0, 0.0, 4.0]);
        assert_eq!(tri(1).unwrap(), [0.0, 2.0, 0.0, 0.0]);
        assert_eq!(tri(2).unwrap(), [1.0, 0.0, 3.0, 4.0]);
        assert_eq!(tri(3).unwrap(), [0.0, 0.0, 3.0, 0.0]);
        assert!(tri(4).is_err());
        let diagonal = place("DIAG", &[], [2, 2, 1, 1], [2, 1, 1, 1], &[5.0, 6.0]);
        assert_eq!(diagonal.unwrap(), [5.0, 0.0, 0.0, 6.0]);
        let half = [0.5f32.to_bits() as i32];
        assert_eq!(place("FILL", &half, [2, 1, 1, 1], [2, 1, 1, 1], &[5.0, 6.0]).unwrap(), [0.5, 0.5]);
    }
}
