//! The SHA-256 of a model file, by which a dump names the model it was made from.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::GgufError;

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The SHA-256 of a file in lower-case hexadecimal. A split model is named by its first part.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256(path: &Path) -> Result<String, GgufError> {
    let hash = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
                n => hasher.update(chunk.get(..n).unwrap_or_default()),
            }
        }
    };
    hash().map_err(|source| GgufError::Io { operation: "read", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_a_known_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-4, appendix B.1
        assert_eq!(
            sha256(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(matches!(sha256(&dir.path().join("absent")), Err(GgufError::Io { .. })));
    }
}
