//! Maps and sets of numbers in words: by a formula if they have one.

/// Numbers that are listed, at most.
const LISTED: usize = 8;

/// A map `i -> map[i]` of 0 .. n as a formula in `i`: `i/3`, `(i%4)*3 + i/4`. Of several that fit, the first here.
pub(super) fn formula(map: &[usize], i: &str) -> Option<String> {
    let n = map.len();
    let is = |f: &dyn Fn(usize) -> usize| map.iter().enumerate().all(|(i, &to)| to == f(i));
    if n < 2 || is(&|i| i) {
        return (n >= 2).then(|| i.to_owned());
    }
    let wrong: Vec<usize> = (0..n).filter(|&i| map[i] != i).collect();
    if let [a, b] = wrong[..]
        && (map[a], map[b]) == (b, a)
    {
        return Some(format!("{a} <-> {b}"));
    }
    if is(&|i| n - 1 - i) {
        return Some(format!("{}-{i}", n - 1));
    }
    let k = map[0];
    if is(&|i| (i + k) % n) {
        return Some(if 2 * k <= n { format!("({i}+{k})%{n}") } else { format!("({i}-{})%{n}", n - k) });
    }
    if n.is_multiple_of(2) && is(&|i| i ^ 1) {
        return Some(format!("{i}^1"));
    }
    for d in (2..n).filter(|&d| n.is_multiple_of(d)) {
        let per = n / d;
        if is(&|i| i / d) {
            return Some(format!("{i}/{d}"));
        }
        if is(&|i| i % d) {
            return Some(format!("{i}%{d}"));
        }
        // tiled <-> grouped: the same for d and per, read the other way
        if is(&|i| (i % d) * per + i / d) {
            return Some(format!("({i}%{d})*{per} + {i}/{d}"));
        }
        if is(&|i| i / d * d + (d - 1 - i % d)) {
            return Some(format!("reversed within {d}"));
        }
    }
    None
}

/// A map in words, listed if it has no formula.
pub(super) fn map(map: &[usize], i: &str) -> String {
    formula(map, i).unwrap_or_else(|| {
        let listed: Vec<String> = map.iter().take(LISTED).map(usize::to_string).collect();
        let more = if map.len() > LISTED { ", .." } else { "" };
        format!("{i} -> {}{more}", listed.join(", "))
    })
}

/// A set of parts out of 0 .. extent, with their noun: `head 3`, `channels 128 to 255`, `4 of 64 heads: 0, 3, 9, 60`.
pub(super) fn set(parts: &[usize], extent: usize, noun: &str) -> String {
    match parts {
        [one] => return format!("{noun} {one}"),
        [first, .., last] if last - first + 1 == parts.len() => {
            let block = parts.len();
            let is_block = block.is_power_of_two() && block >= 32 && first % block == 0;
            let block = if is_block { format!(" (a block of {block})") } else { String::new() };
            return format!("{noun}s {first} to {last}{block}");
        }
        _ => {}
    }
    if let Some((period, residues)) = period(parts, extent) {
        let listed: Vec<String> = residues.iter().take(LISTED).map(usize::to_string).collect();
        if let [residue] = residues[..] {
            return format!("{noun}s i with i % {period} = {residue}");
        } else if residues.len() <= LISTED {
            return format!("{noun}s i with i % {period} in {}", listed.join(", "));
        }
    }
    let listed: Vec<String> = parts.iter().take(LISTED).map(usize::to_string).collect();
    let more = if parts.len() > LISTED { ", .." } else { "" };
    format!("{} of {extent} {noun}s: {}{more}", parts.len(), listed.join(", "))
}

/// The smallest period of a set within 0 .. extent, with what it holds of one period; it must come round twice.
pub(super) fn period(parts: &[usize], extent: usize) -> Option<(usize, Vec<usize>)> {
    let mut is_in = vec![false; extent];
    parts.iter().for_each(|&part| is_in[part] = true);
    (2..=extent / 2).find_map(|period| {
        let repeats = (period..extent).all(|i| is_in[i] == is_in[i - period]);
        let residues: Vec<usize> = (0..period).filter(|&i| is_in[i]).collect();
        (repeats && !residues.is_empty() && residues.len() < period).then_some((period, residues))
    })
}

/// For heads: the `(rep, n)` for which the set is those heads in which `h/rep` and `h%n` differ, which is where a wrong map of
/// groups of heads shows.
pub(super) fn differs_by_head_map(parts: &[usize], extent: usize) -> Option<(usize, usize)> {
    (2..extent).filter(|&rep| extent.is_multiple_of(rep)).map(|rep| (rep, extent / rep)).find(|&(rep, n)| {
        let differ: Vec<usize> = (0..extent).filter(|h| h / rep != h % n).collect();
        differ == parts
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_maps_have_a_formula() {
        for (to, words) in [
            (vec![0, 0, 0, 1, 1, 1], "h/3"),
            (vec![0, 1, 0, 1, 0, 1], "h%2"),
            (vec![0, 3, 1, 4, 2, 5], "(h%2)*3 + h/2"),
            (vec![0, 2, 4, 1, 3, 5], "(h%3)*2 + h/3"),
            (vec![3, 2, 1, 0], "3-h"),
            (vec![1, 2, 3, 0], "(h+1)%4"),
            (vec![3, 0, 1, 2], "(h-1)%4"),
            (vec![1, 0, 3, 2], "h^1"),
            (vec![0, 2, 1, 3], "1 <-> 2"),
            (vec![2, 1, 0, 5, 4, 3], "reversed within 3"),
            (vec![0, 1, 2, 3], "h"),
        ] {
            assert_eq!(formula(&to, "h").as_deref(), Some(words), "{to:?}");
        }
        assert_eq!(formula(&[3, 0, 2, 1], "h"), None);
        assert_eq!(map(&[3, 0, 2, 1], "h"), "h -> 3, 0, 2, 1");
    }

    #[test]
    fn sets_in_words() {
        assert_eq!(set(&[3], 8, "head"), "head 3");
        assert_eq!(set(&[3, 4], 8, "head"), "heads 3 to 4");
        assert_eq!(set(&(32..64).collect::<Vec<_>>(), 128, "channel"), "channels 32 to 63 (a block of 32)");
        assert_eq!(set(&[1, 3, 5, 7], 8, "head"), "heads i with i % 2 = 1");
        assert_eq!(set(&[0, 3, 5], 8, "head"), "3 of 8 heads: 0, 3, 5");
        // of 6 heads in groups of 3: h/3 = 0 0 0 1 1 1, h%2 = 0 1 0 1 0 1
        assert_eq!(differs_by_head_map(&[1, 4], 6), Some((3, 2)));
        assert_eq!(differs_by_head_map(&[1, 3], 6), None);
    }
}
