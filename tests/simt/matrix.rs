//! matrix.cu: products by a warp against the plain loop, with fragments read by their documented layout and by ldmatrix.

use half::{bf16, f16};

use crate::library::{Shape, everywhere};

/// Integers from `-range` to `range`.
fn integers(n: usize, range: i32, seed: u64) -> Vec<i32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as i32 % (2 * range + 1) - range
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// `a` [16, k] by `b` [8, k]: [16, 8].
fn product(a: &[i32], b: &[i32], k: usize) -> Vec<i32> {
    let dot = |x: &[i32], y: &[i32]| x.iter().zip(y).map(|(x, y)| x * y).sum();
    a.chunks(k).flat_map(|row| b.chunks(k).map(move |column| dot(row, column))).collect()
}

fn words_of_2(values: &[i32], bits: impl Fn(f32) -> u16) -> Vec<u32> {
    let word = |pair: &[i32]| u32::from(bits(pair[1] as f32)) << 16 | u32::from(bits(pair[0] as f32));
    values.chunks(2).map(word).collect()
}

fn words_of_4(values: &[i32]) -> Vec<u32> {
    values.chunks(4).map(|four| u32::from_le_bytes([0, 1, 2, 3].map(|i| four[i] as i8 as u8))).collect()
}

#[test]
fn products_are_exact_for_integers() {
    everywhere(|emulator, order| {
        for (n_tiles, with_ldmatrix) in [(1, 0), (1, 1), (5, 0), (5, 1)] {
            let check = |kernel: &str,
                         k: usize,
                         range: i32,
                         words: &dyn Fn(&[i32]) -> Vec<u32>|
             -> Vec<i32> {
                let (a, b) = (integers(16 * k, range, 1), integers(8 * k, range, 2));
                let (on_a, on_b) = (emulator.upload(&words(&a)), emulator.upload(&words(&b)));
                let out = emulator.fresh::<i32>(128);
                let args = [out.arg(), on_a.arg(), on_b.arg(), n_tiles * 8, with_ldmatrix];
                emulator.launch(kernel, Shape::new(1, 32), &args, order).unwrap();
                let is_float = kernel != "product_s8";
                let got: Vec<i32> = out.read();
                let got: Vec<i32> = match is_float {
                    true => got.iter().map(|&bits| f32::from_bits(bits as u32) as i32).collect(),
                    false => got,
                };
                assert_eq!(got, product(&a, &b, k), "{kernel}, {n_tiles} tiles, ldmatrix {with_ldmatrix}");
                got
            };
            let tiles = n_tiles as usize;
            check("product_s8", 32 * tiles, 127, &words_of_4);
            check("product_f16", 16 * tiles, 100, &|v| words_of_2(v, |x| f16::from_f32(x).to_bits()));
            check("product_bf16", 16 * tiles, 100, &|v| words_of_2(v, |x| bf16::from_f32(x).to_bits()));
        }
    });
}

#[test]
fn a_transposed_load_turns_rows_into_columns() {
    everywhere(|emulator, order| {
        let (a, b) = (integers(16 * 16, 100, 3), integers(8 * 16, 100, 4));
        let words = |v: &[i32]| words_of_2(v, |x| f16::from_f32(x).to_bits());
        // [8 columns, 16] as [16, 8 columns].
        let rows: Vec<i32> = (0..16 * 8).map(|i| b[i % 8 * 16 + i / 8]).collect();
        let (on_a, on_b) = (emulator.upload(&words(&a)), emulator.upload(&words(&rows)));
        let out = emulator.fresh::<f32>(128);
        let args = [out.arg(), on_a.arg(), on_b.arg()];
        emulator.launch("product_f16_trans", Shape::new(1, 32), &args, order).unwrap();
        let expected: Vec<f32> = product(&a, &b, 16).into_iter().map(|x| x as f32).collect();
        assert_eq!(out.read(), expected);

        // Elements that say where they are: matrix, row, column.
        let element = |m: u32, row: u32, column: u32| m << 8 | row << 4 | column;
        let x: Vec<u32> = (0..128u32)
            .map(|i| (i / 32, i / 4 % 8, i % 4 * 2))
            .map(|(m, row, column)| element(m, row, column + 1) << 16 | element(m, row, column))
            .collect();
        let (out, from) = (emulator.fresh::<u32>(128), emulator.upload(&x));
        emulator.launch("transposed", Shape::new(1, 32), &[out.arg(), from.arg()], order).unwrap();
        for (i, got) in (0u32..).zip(out.read()) {
            let (lane, m) = (i / 4, i % 4);
            let (g, t) = (lane / 4, lane % 4);
            assert_eq!(got, element(m, 2 * t + 1, g) << 16 | element(m, 2 * t, g), "lane {lane}, matrix {m}");
        }
    });
}

#[test]
fn copies_run_ahead_of_their_use() {
    everywhere(|emulator, order| {
        let x: Vec<f32> = integers(5 * 128, 1000, 5).into_iter().map(|x| x as f32).collect();
        let (out, from) = (emulator.fresh::<f32>(32), emulator.upload(&x));
        emulator.launch("pipeline", Shape::new(1, 32), &[out.arg(), from.arg(), 5], order).unwrap();
        for (i, got) in out.read().into_iter().enumerate() {
            let expected: f32 =
                x.chunks(128).map(|tile| (0..4).map(|k| tile[127 - (i * 4 + k)]).sum::<f32>()).sum();
            assert_eq!(got, expected, "thread {i}");
        }
    });
}
