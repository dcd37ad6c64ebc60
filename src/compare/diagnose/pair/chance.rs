//! How likely noise has a shape.
//!
//! Noise of n Gaussian elements to which k numbers are fitted leaves a share s of its energy that is Beta((n - k)/2, k/2). For
//! `k <= n/2` and `a = (n - k)/2` its distribution is at most `s^a / (a B(a, a)) <= (4 s)^a`, as `B(a, a) >= sqrt(pi/a) 4^-a`.
//! Nothing fitted is the case k = 0: the part of a ball of n dimensions that lies so near a point of it.
//!
//! An error whose energy is in few elements is noise of few. Their number is `(sum d^2)^2 / sum d^4`, n for equal sizes and 1 for an outlier.

/// The log2 of the chance at which a shape counts: a diagnosis fits at most some thousand times (shapes, cuts, block sizes, other tensors), so that
/// one tensor of noise in a million is given a shape.
pub(in crate::compare::diagnose) const UNLIKELY: f64 = -30.0;

/// How many elements carry an energy.
pub(in crate::compare::diagnose) fn carriers(squares: f64, fourth_powers: f64) -> f64 {
    if squares > 0.0 { squares * squares / fourth_powers } else { 0.0 }
}

/// The log2 of the chance that noise of so many carriers leaves this share, where `free` numbers are fitted to `n` elements: they
/// take their part of the carriers.
pub(in crate::compare::diagnose) fn of_share(share: f64, carriers: f64, free: usize, n: usize) -> f64 {
    let fixed = carriers * (1.0 - free as f64 / n as f64);
    (fixed / 2.0 * (4.0 * share).log2()).min(0.0)
}

/// The log2 of the chance that of n parts of m carriers each some w hold an error of which each other part, relative to its values, has at most
/// the share `gap`: `C(n, w)` choices, each as likely as a Beta of `a = (n - w) m/2` and `b = w m/2` below `gap (n - w)/w`, at most
/// `(e gap n/w)^a`, as `1/(a B(a, b)) <= (e (a + b)/a)^a`.
pub(in crate::compare::diagnose) fn of_gap(gap: f64, n: usize, w: usize, m: f64) -> f64 {
    let (n, w, e) = (n as f64, w as f64, std::f64::consts::E);
    let fewer = w.min(n - w);
    let choices = fewer * (e * n / fewer).log2();
    (choices + (n - w) * m / 2.0 * (e * gap * n / w).log2()).min(0.0)
}

/// The log2 of the chance that at least so many of n coins show heads (Hoeffding: `exp(-2 (heads - n/2)^2 / n)`).
pub(in crate::compare::diagnose) fn of_heads(heads: usize, n: usize) -> f64 {
    let more = heads as f64 - n as f64 / 2.0;
    if more > 0.0 { -2.0 * more * more / n as f64 * std::f64::consts::LOG2_E } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_written_out() {
        assert_eq!((carriers(4.0, 4.0), carriers(4.0, 16.0)), (4.0, 1.0)); // 1 1 1 1 and 2 0 0 0
        assert_eq!(of_share(1.0 / 16.0, 4.0, 0, 4), -4.0); // (4/16)^(4/2)
        assert_eq!(of_share(1.0 / 16.0, 4.0, 2, 4), -2.0); // (4/16)^(2/2)
        assert_eq!((of_share(0.5, 4.0, 0, 4), of_share(0.0, 1.0, 0, 4)), (0.0, f64::NEG_INFINITY));
        assert_eq!(of_heads(4, 4), -2.0 * std::f64::consts::LOG2_E); // exp(-2 x 2^2 / 4)
        assert_eq!(of_heads(2, 4), 0.0);
        // the one of two: 2 e choices, 2 e gap to the power of one half
        let gap = of_gap(1e-4, 2, 1, 1.0);
        let e = std::f64::consts::E;
        assert!((gap - ((2.0 * e).log2() + 0.5 * (2e-4 * e).log2())).abs() < 1e-12, "{gap}");
    }
}
