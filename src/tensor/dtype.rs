//! ggml's element types: the numbers and block sizes of llama.cpp b11434, and the two ternary types
//! of the PrismML fork (`PQ2_0`, `PTQ1_0`).
//!
//! Source: `enum ggml_type` in ggml.h and the block structs in ggml-common.h.

use std::fmt;

/// Declares [`GgmlType`] from one table: variant, id in a file, name, elements and bytes of a block.
macro_rules! ggml_types {
    ($($variant:ident $id:literal $name:literal $elements:literal $bytes:literal)*) => {
        /// The type of a tensor's elements, as ggml numbers it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(non_camel_case_types, missing_docs)] // llama.cpp's own names, which document themselves
        pub enum GgmlType { $($variant,)* }

        impl GgmlType {
            /// Every type, in order of id.
            pub const ALL: &'static [GgmlType] = &[$(GgmlType::$variant,)*];

            /// The type with this id in a GGUF file, if there is one.
            pub fn from_id(id: u32) -> Option<GgmlType> {
                match id { $($id => Some(GgmlType::$variant),)* _ => None }
            }

            /// The type with this name in a dump or on the command line (lower case, `q8_0`).
            pub fn from_name(name: &str) -> Option<GgmlType> {
                match name { $($name => Some(GgmlType::$variant),)* _ => None }
            }

            /// The id that a GGUF file stores.
            pub const fn id(self) -> u32 { match self { $(GgmlType::$variant => $id,)* } }

            /// ggml's name (`ggml_type_name`), lower case.
            pub const fn name(self) -> &'static str { match self { $(GgmlType::$variant => $name,)* } }

            /// Elements in one block (1 for plain types).
            pub const fn block_elements(self) -> usize { match self { $(GgmlType::$variant => $elements,)* } }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize { match self { $(GgmlType::$variant => $bytes,)* } }
        }
    };
}

ggml_types! {
    F32 0 "f32" 1 4
    F16 1 "f16" 1 2
    Q4_0 2 "q4_0" 32 18
    Q4_1 3 "q4_1" 32 20
    Q5_0 6 "q5_0" 32 22
    Q5_1 7 "q5_1" 32 24
    Q8_0 8 "q8_0" 32 34
    Q8_1 9 "q8_1" 32 36
    Q2_K 10 "q2_K" 256 84
    Q3_K 11 "q3_K" 256 110
    Q4_K 12 "q4_K" 256 144
    Q5_K 13 "q5_K" 256 176
    Q6_K 14 "q6_K" 256 210
    Q8_K 15 "q8_K" 256 292
    IQ2_XXS 16 "iq2_xxs" 256 66
    IQ2_XS 17 "iq2_xs" 256 74
    IQ3_XXS 18 "iq3_xxs" 256 98
    IQ1_S 19 "iq1_s" 256 50
    IQ4_NL 20 "iq4_nl" 32 18
    IQ3_S 21 "iq3_s" 256 110
    IQ2_S 22 "iq2_s" 256 82
    IQ4_XS 23 "iq4_xs" 256 136
    I8 24 "i8" 1 1
    I16 25 "i16" 1 2
    I32 26 "i32" 1 4
    I64 27 "i64" 1 8
    F64 28 "f64" 1 8
    IQ1_M 29 "iq1_m" 256 56
    BF16 30 "bf16" 1 2
    TQ1_0 34 "tq1_0" 256 54
    TQ2_0 35 "tq2_0" 256 66
    MXFP4 39 "mxfp4" 32 17
    NVFP4 40 "nvfp4" 64 36
    Q1_0 41 "q1_0" 128 18
    Q2_0 42 "q2_0" 64 18
    PQ2_0 142 "pq2_0" 128 34
    PTQ1_0 143 "ptq1_0" 128 28
}

impl GgmlType {
    /// Bytes of a row of `elements`, or `None` if the row does not consist of whole blocks or overflows.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        let block = self.block_elements() as u64;
        if !elements.is_multiple_of(block) {
            return None;
        }
        (elements / block).checked_mul(self.block_bytes() as u64)
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_round_trip() {
        for &ty in GgmlType::ALL {
            assert_eq!(GgmlType::from_id(ty.id()), Some(ty));
            assert_eq!(GgmlType::from_name(ty.name()), Some(ty));
        }
        assert_eq!(GgmlType::from_id(4), None);
    }

    #[test]
    fn rows_consist_of_whole_blocks() {
        assert_eq!(GgmlType::PQ2_0.row_bytes(5120), Some(1360));
        assert_eq!(GgmlType::PTQ1_0.row_bytes(17408), Some(3808));
        assert_eq!(GgmlType::PQ2_0.row_bytes(129), None);
        assert_eq!(GgmlType::F64.row_bytes(u64::MAX), None);
    }
}
