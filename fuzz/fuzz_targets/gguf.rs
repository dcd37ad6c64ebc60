//! Feeds arbitrary bytes to the GGUF reader: `cargo +nightly fuzz run gguf`.
//!
//! `Gguf::from_bytes` is `Gguf::open` without the file: the same parsing and validation. Whatever it
//! accepts must be readable to the last byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep::gguf::Gguf;

fuzz_target!(|bytes: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else { return };
    let mut sum = 0;
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("every tensor of the table is there");
        assert_eq!(tensor.data.len() as u64, info.bytes);
        sum += info.bytes;
    }
    assert!(sum <= bytes.len() as u64, "tensors share bytes");
});
