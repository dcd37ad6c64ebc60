//! Weights as sources: whole, or as a node shows them in another shape or order.

use super::caches::in_blocks;
use super::operands::{Found, plain};
use crate::dump::{Leaf, Node};
use crate::gguf::{Gguf, Tensor};
use crate::ops::Rows;
use crate::ops::exact::{Data, Operand};
use crate::tensor::{GgmlType, gather};

/// A weight by its name.
pub(super) fn whole<'a>(gguf: &'a Gguf, name: &str) -> Found<Operand<'a>> {
    let Tensor { info, data, .. } = tensor(gguf, name)?;
    let ne @ [n_in, n1, n2, n3] = info.ne;
    Ok(Operand { ne, data: rows(info.ty, data, n_in, n1 * n2 * n3, name)? })
}

/// What a view or a reshape shows of a weight.
pub(super) fn view<'a>(gguf: &'a Gguf, leaf: &Leaf, node: &Node) -> Found<Operand<'a>> {
    let Tensor { info, data, .. } = tensor(gguf, &leaf.name)?;
    shown(info.ty, data, node)
}

fn shown<'a>(ty: GgmlType, data: &'a [u8], node: &Node) -> Found<Operand<'a>> {
    let missing = || format!("a source is not in the dump: {}", node.name);
    let outside = || format!("a view is not within its weight: {}", node.name);
    let view = node.view_of.as_ref().filter(|_| node.is_pure_view() && node.ty == ty).ok_or_else(missing)?;
    let (ne, layout) = (node.ne, node.layout());
    if !node.contiguous {
        let blocks = in_blocks(&layout, ty).ok_or_else(missing)?;
        let bytes = gather(data, &blocks, view.offset, ty.block_bytes()).map_err(|_| outside())?;
        return plain(ty, ne, &bytes, &node.name);
    }
    let n_rows = layout.elements().and_then(|elements| elements.checked_div(ne[0])).unwrap_or(0);
    let bytes = ty.row_bytes(ne[0]).and_then(|bytes| bytes.checked_mul(n_rows)).ok_or_else(outside)?;
    let end = view.offset.checked_add(bytes).ok_or_else(outside)?;
    let data = data.get(view.offset as usize..end as usize).ok_or_else(outside)?;
    Ok(Operand { ne, data: rows(ty, data, ne[0], n_rows, &node.name)? })
}

fn tensor<'a>(gguf: &'a Gguf, name: &str) -> Found<Tensor<'a>> {
    gguf.tensor(name).ok_or_else(|| format!("a weight is not in the model: {name}"))
}

fn rows<'a>(ty: GgmlType, data: &'a [u8], n_in: u64, n_rows: u64, name: &str) -> Found<Data<'a>> {
    let rows = Rows::new(ty, data, n_in as usize, n_rows as usize);
    Ok(Data::Weight(rows.map_err(|e| format!("a weight cannot be decoded: {name}, {e}"))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{Origin, ViewOf};

    /// A node that shows what lies in a weight of six elements.
    fn node(op: &str, ne: [u64; 4], nb: [u64; 4], offset: u64) -> Node {
        let view = ViewOf { root: Origin::Leaf(0), name: "w".into(), offset };
        Node {
            id: 0,
            step: 0,
            name: "w (view)".into(),
            occurrence: 0,
            op: op.into(),
            variant: None,
            params: Vec::new(),
            ty: GgmlType::F32,
            ne,
            nb,
            contiguous: nb[0] == 4,
            sources: Vec::new(),
            view_of: Some(view),
            entry: None,
        }
    }

    fn values(node: &Node) -> Found<Vec<f32>> {
        let data: Vec<u8> = (0u8..6).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let operand = shown(GgmlType::F32, &data, node)?;
        Ok(operand.floats().expect("floats").into_owned())
    }

    #[test]
    fn a_weight_is_shown_from_an_offset_or_in_another_order() {
        let all = node("RESHAPE", [2, 3, 1, 1], [4, 8, 24, 24], 0);
        assert_eq!(values(&all).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(values(&node("VIEW", [2, 1, 1, 1], [4, 8, 8, 8], 12)).unwrap(), [3.0, 4.0]);
        let transposed = node("TRANSPOSE", [2, 3, 1, 1], [12, 4, 24, 24], 0);
        assert_eq!(values(&transposed).unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let beyond = values(&node("VIEW", [2, 1, 1, 1], [4, 8, 8, 8], 20)).unwrap_err();
        assert_eq!(beyond, "a view is not within its weight: w (view)");
        let beyond = values(&node("VIEW", [2, 2, 1, 1], [12, 12, 24, 24], 8)).unwrap_err();
        assert_eq!(beyond, "a view is not within its weight: w (view)");
        let huge = node("VIEW", [1 << 62, 1, 1, 1], [4, 8, 8, 8], u64::MAX);
        assert_eq!(values(&huge).unwrap_err(), "a view is not within its weight: w (view)");
        let computed = values(&node("ADD", [2, 1, 1, 1], [4, 8, 8, 8], 0)).unwrap_err();
        assert_eq!(computed, "a source is not in the dump: w (view)");
    }
}
