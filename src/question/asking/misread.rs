//! Ways to read the codes of a block that are not its type's.

use crate::quant::Codes;

/// What is made of the values of a block, given its scale.
pub(in crate::question) type Misread = Box<dyn Fn(f32, &mut [f32]) + Sync>;

/// Another level for each code: `level(code, specified)`. None if these are the type's own.
pub(in crate::question) fn relevelled(codes: Codes, level: impl Fn(i32, i32) -> f32) -> Option<Misread> {
    let specified: Vec<i32> = (0..codes.count).map(codes.level).collect();
    let lowest = specified.iter().copied().min()?;
    if (0..).zip(&specified).all(|(code, &specified)| level(code, specified) == specified as f32) {
        return None;
    }
    // By how far the type's level is above the lowest; the two of one bit are 2 apart.
    let mut read = vec![0.0; 2 * specified.len()];
    for (code, &specified) in (0..).zip(&specified) {
        read[(specified - lowest) as usize] = level(code, specified);
    }
    Some(Box::new(move |d, block| {
        // A level times an f16 is exact in f32, and so is the quotient.
        for value in block.iter_mut().filter(|_| d != 0.0) {
            *value = read[(*value / d - lowest as f32) as usize] * d;
        }
    }))
}

/// The code of another element for each: `sources[j]` for element j. None if these are its own.
pub(in crate::question) fn reordered(sources: Vec<usize>) -> Option<Misread> {
    if sources.is_sorted() {
        return None;
    }
    Some(Box::new(move |_, block| {
        let stored = block.to_vec();
        block.iter_mut().zip(&sources).for_each(|(value, &j)| *value = stored[j]);
    }))
}

/// The sources of elements that follow each other as `key` of (byte, digit) says.
pub(in crate::question) fn sorted<K: Ord>(codes: Codes, key: impl Fn((usize, usize)) -> K) -> Vec<usize> {
    let mut sources: Vec<usize> = (0..codes.block).collect();
    sources.sort_by_key(|&j| key((codes.place)(j)));
    sources
}

/// The sources of elements that are read from another place: of (byte, digit) and how many digits that byte has. Where nothing lies,
/// their own.
pub(in crate::question) fn moved(
    codes: Codes,
    to: impl Fn((usize, usize), usize) -> (usize, usize),
) -> Vec<usize> {
    let places: Vec<(usize, usize)> = (0..codes.block).map(codes.place).collect();
    let digits = |byte| places.iter().filter(|place| place.0 == byte).count();
    let source = |(j, &place): (usize, &(usize, usize))| {
        let to = to(place, digits(place.0));
        places.iter().position(|&other| other == to).unwrap_or(j)
    };
    places.iter().enumerate().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::format;
    use crate::tensor::GgmlType;

    fn codes(ty: GgmlType) -> Codes {
        format(ty).unwrap().codes().unwrap()
    }

    #[test]
    fn levels_change_and_scales_stay() {
        let misread = relevelled(codes(GgmlType::PQ2_0), |code, _| code as f32).unwrap();
        let mut block = [-0.5, 0.0, 0.5, 1.0];
        misread(0.5, &mut block);
        assert_eq!(block, [0.0, 0.5, 1.0, 1.5]);
        let mut zeros = [0.0; 2];
        misread(0.0, &mut zeros);
        assert_eq!(zeros, [0.0; 2]);
        let misread = relevelled(codes(GgmlType::Q1_0), |_, level| -level as f32).unwrap();
        let mut signs = [2.0, -2.0];
        misread(-2.0, &mut signs);
        assert_eq!(signs, [-2.0, 2.0]);
        assert!(relevelled(codes(GgmlType::Q4_0), |code, _| (code - 8) as f32).is_none());
    }

    #[test]
    fn elements_take_the_codes_of_others() {
        let first = |sources: Vec<usize>| sources[..4].to_vec();
        let reversed = |(byte, digit), digits| (byte, digits - 1 - digit);
        // Q4_0: byte j holds elements j and 16 + j.
        assert_eq!(first(sorted(codes(GgmlType::Q4_0), |place| place)), [0, 16, 1, 17]);
        assert_eq!(first(moved(codes(GgmlType::Q4_0), reversed)), [16, 17, 18, 19]);
        // PQ2_0: four elements a byte, so that the first codes are those of elements 0, 4, 8.
        assert_eq!(first(sorted(codes(GgmlType::PQ2_0), |(byte, digit)| (digit, byte))), [0, 4, 8, 12]);
        assert_eq!(first(moved(codes(GgmlType::PQ2_0), |(byte, digit), _| (byte ^ 1, digit))), [4, 5, 6, 7]);
        // PTQ1_0: byte m holds elements m + 16 n; byte 24, with four trits, begins at 120.
        let reversed = moved(codes(GgmlType::PTQ1_0), reversed);
        assert_eq!((reversed[0], reversed[120]), (64, 126));
        let misread = reordered(vec![1, 2, 0]).unwrap();
        let mut block = [7.0, 8.0, 9.0];
        misread(1.0, &mut block);
        assert_eq!(block, [8.0, 9.0, 7.0]);
        assert!(reordered(vec![0, 1, 2]).is_none());
    }
}
