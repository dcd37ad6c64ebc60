//! What the IQ1, IQ2 and IQ3 formats share: eight weights are one or two points of a lattice. IQ2 and IQ3 store
//! signs apart.

/// How far the coordinates of IQ1 lie off the levels -1, 0, 1 (`IQ1S_DELTA`, `IQ1M_DELTA`).
pub(super) const SHIFT: f32 = 0.125;

/// A point of eight coordinates, two bits of its code each.
pub(super) fn eight(code: u16, levels: &[f32; 3]) -> [f32; 8] {
    std::array::from_fn(|j| levels[usize::from(code >> (2 * j) & 3)])
}

/// Two points of four coordinates, four bits of a code each.
pub(super) fn four_and_four(codes: [u16; 2], levels: &[f32; 8]) -> [f32; 8] {
    std::array::from_fn(|j| levels[usize::from(codes[j / 4] >> (4 * (j % 4)) & 15)])
}

/// Eight signs of which seven bits are stored: the number of negative ones is even.
pub(super) fn even_signs(seven: u8) -> u8 {
    let seven = seven & 127;
    seven | ((seven.count_ones() & 1) as u8) << 7
}

/// Writes eight weights: `scale * x`, negative where the bit of `signs` is set.
pub(super) fn write(weights: &mut [f32; 8], scale: f32, point: [f32; 8], signs: u8) {
    for (j, (weight, x)) in weights.iter_mut().zip(point).enumerate() {
        let magnitude = scale * x;
        *weight = if signs >> j & 1 == 1 { -magnitude } else { magnitude };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_lie_low_first() {
        let point = eight(0b01_00_00_00_00_00_10_01, &[8.0, 25.0, 43.0]);
        assert_eq!(point, [25.0, 43.0, 8.0, 8.0, 8.0, 8.0, 8.0, 25.0]);
        let levels = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
        assert_eq!(four_and_four([0x7001, 0x0020], &levels), [3.0, 1.0, 1.0, 15.0, 1.0, 5.0, 1.0, 1.0]);
    }

    #[test]
    fn signs_are_even() {
        assert_eq!([0, 1, 3, 127, 0x81].map(even_signs), [0, 0x81, 3, 0xff, 0x81]);
        let mut weights = [9.0; 8];
        write(&mut weights, 0.5, [2.0; 8], 0x81);
        assert_eq!(weights, [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0]);
    }
}
