//! A row of small bars, one per layer or step.

/// Bars at most; more values share one, by their worst.
const MOST: usize = 64;

/// From the lowest to the highest bar.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bars for shares of a limit, on a logarithmic scale: `█` is beyond the limit, `▇` between it and half a
/// decade below, each lower bar another half decade, `▁` anything under a thousandth.
pub(crate) fn bars(shares: &[f64]) -> String {
    let shares: Vec<Option<f64>> = shares.iter().copied().map(Some).collect();
    bars_with_gaps(&shares)
}

/// The same, with `·` where there is no share.
pub(crate) fn bars_with_gaps(shares: &[Option<f64>]) -> String {
    let group = shares.len().div_ceil(MOST).max(1);
    let worst = |shares: &[Option<f64>]| {
        shares.iter().flatten().copied().reduce(|a, b| if b <= a { a } else { b }).map_or('·', bar)
    };
    shares.chunks(group).map(worst).collect()
}

fn bar(share: f64) -> char {
    let half_decades = 7.0 + (2.0 * share.log10()).floor();
    match share {
        s if s <= 1.0 => BARS[half_decades.clamp(0.0, 6.0) as usize],
        _ => BARS[7], // NaN as well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_decade_a_bar() {
        assert_eq!(bars(&[0.0, 1e-9, 0.0009, 0.0011, 0.004, 0.011, 0.04, 0.11, 0.4]), "▁▁▁▂▃▄▅▆▇");
        assert_eq!(bars(&[1.0, 1.0001, f64::INFINITY, f64::NAN]), "▇███");
    }

    #[test]
    fn what_is_not_there_is_a_gap() {
        assert_eq!(bars_with_gaps(&[Some(0.4), None, Some(2.0)]), "▇·█");
        let mut shares = [None; 128];
        shares[3] = Some(2.0);
        assert!(bars_with_gaps(&shares).starts_with("·█·"));
    }

    #[test]
    fn many_values_share_bars_by_their_worst() {
        let mut shares = vec![0.0; 128];
        shares[3] = 2.0;
        let line = bars(&shares);
        assert_eq!(line.chars().count(), 64);
        assert_eq!(line.chars().nth(1), Some('█'));
    }
}
