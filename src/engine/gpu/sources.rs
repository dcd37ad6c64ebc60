//! The text of all kernels, and what each kernel takes.

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// A kernel: the file that it is in, and a letter for each of its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    pub(super) file: &'static str,
    pub(super) parameters: String,
}

/// The text of a kernel file.
pub(super) fn text(file: &str) -> Option<&'static str> {
    FILES.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}

/// The headers that kernel files include, by name.
pub(super) fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// Every kernel with its signature, in the order of files and lines.
pub fn kernels() -> Vec<(String, &'static str, String)> {
    let of = |&(file, text): &(&'static str, &'static str)| {
        let found = signatures(text).into_iter();
        found.map(|(name, parameters)| (name, file, parameters)).collect::<Vec<_>>()
    };
    FILES.iter().flat_map(of).collect()
}

/// What the header of a kernel file says: what it computes, and its oracle.
pub fn contract(file: &str) -> Option<(String, String)> {
    let header: Vec<&str> =
        text(file)?.lines().map_while(|line| line.strip_prefix("//")).map(str::trim).collect();
    let oracle = header.iter().find_map(|line| line.strip_prefix("oracle "))?.trim();
    Some(((*header.first()?).to_owned(), oracle.to_owned()))
}

/// Name and parameters of each `__global__` function of a file.
fn signatures(text: &str) -> Vec<(String, String)> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for mut rest in code.split("__global__").skip(1) {
        while let Some((head, behind)) = rest.split_once('(') {
            let Some((inside, after)) = behind.split_once(')') else { break };
            let name = head.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
            match name {
                Some("__launch_bounds__") => rest = after,
                Some(name) => {
                    found.push((name.to_owned(), inside.split(',').map(letter).collect()));
                    break;
                }
                None => break,
            }
        }
    }
    found
}

/// `r` for `const T*`, `w` for `T*`, `i`, `u`, `f` for 32-bit scalars, `?` for anything else.
fn letter(parameter: &str) -> char {
    let is_const = parameter.split_whitespace().any(|word| word == "const");
    match parameter.split_whitespace().find(|word| *word != "const") {
        _ if parameter.contains('*') => {
            if is_const {
                'r'
            } else {
                'w'
            }
        }
        Some("int") => 'i',
        Some("u32" | "unsigned") => 'u',
        Some("float") => 'f',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_says_what_it_computes_and_by_whom_it_is_judged() {
        let without: Vec<&str> =
            FILES.iter().map(|(file, _)| *file).filter(|file| contract(file).is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
        assert_eq!(contract("unary.cu").unwrap().0, "Functions of single elements.");
    }

    #[test]
    fn parameters_are_read_from_the_text() {
        let text = "// __global__ void comment(int x)\nextern \"C\" __global__ void __launch_bounds__(256)\n\
                    add_f32(float* __restrict__ y, const float* x, const u8* w,  // the weights\n    int n, u32 mask, float eps) {}\n";
        assert_eq!(signatures(text), [("add_f32".to_owned(), "wrriuf".to_owned())]);
    }
}
