//! The levels of IQ4_NL and IQ4_XS. Written by `scripts/quant-tables.py`.

/// What a code of four bits stands for, in units of the scale.
pub(in crate::quant) static LEVELS: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];
