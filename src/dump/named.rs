//! Which names llama.cpp gave on purpose.

/// Whether llama.cpp's `cb()` gave a node this name: it is not empty, not a number that ggml gave
/// (`node_12`, `leaf_3`) and not derived from another tensor's name (`x (view)`, `x (copy of y)`).
pub fn is_named(name: &str) -> bool {
    !name.is_empty() && !is_numbered(name, "node_") && !is_numbered(name, "leaf_") && !name.contains(" (")
}

/// Whether a leaf of this name is a cache: `cache_k_l*`, `cache_v_l*` (attention) or `cache_r_l*`,
/// `cache_s_l*` (recurrent).
pub(super) fn is_cache(name: &str) -> bool {
    ["cache_k_l", "cache_v_l", "cache_r_l", "cache_s_l"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ggmls_own_names_do_not_count() {
        for name in ["attn_norm-3", "node_", "node_x", "my node_3", "l_out-1", "a(b)"] {
            assert!(is_named(name), "{name}");
        }
        for name in ["", "node_0", "leaf_12", "q (view)", "cache_k_l3 (view) (copy of k)"] {
            assert!(!is_named(name), "{name}");
        }
    }

    #[test]
    fn caches_are_known_by_name() {
        assert!(is_cache("cache_k_l0") && is_cache("cache_s_l17"));
        assert!(!is_cache("cache") && !is_cache("my_cache_k_l0"));
    }
}
