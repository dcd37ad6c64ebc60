//! A small deterministic generator: the same bits on every platform and in every version.
//!
//! SplitMix64 (Steele, Lea, Flood 2014), seeded per tensor. Only integer arithmetic and exact f64 sums are used, no
//! function of the platform's mathematical library.

/// A stream of pseudo-random numbers.
pub(super) struct Rng(u64);

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// FNV-1a.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Rng {
    /// The stream of one tensor.
    pub(super) fn new(seed: u64, name: &str) -> Rng {
        let hash =
            name.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        Rng(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ hash)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Nearly normal, mean 0, variance 1: the sum of twelve uniform numbers less six.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// 1 or -1.
    pub(super) fn sign(&mut self) -> i32 {
        if self.next() >> 63 == 0 { 1 } else { -1 }
    }

    /// Fills with -1, 0 and 1 in equal parts: pairs of bits, 3 rejected.
    pub(super) fn trits(&mut self, trits: &mut [i8]) {
        let (mut bits, mut left) = (0, 0);
        for trit in trits {
            *trit = loop {
                if left == 0 {
                    (bits, left) = (self.next(), 32);
                }
                let pair = (bits & 3) as i8;
                (bits, left) = (bits >> 2, left - 1);
                if pair < 3 {
                    break pair - 1;
                }
            };
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The published test vector for the seed 1234567.
        let mut rng = Rng(1_234_567);
        assert_eq!([rng.next(), rng.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn trits_come_in_equal_parts() {
        let mut trits = [9; 30_000];
        Rng::new(1, "x").trits(&mut trits);
        for value in -1..=1 {
            let count = trits.iter().filter(|&&t| t == value).count();
            assert!((9_500..10_500).contains(&count), "{value}: {count}"); // 10000 +- 6 standard deviations of 82
        }
    }
}
