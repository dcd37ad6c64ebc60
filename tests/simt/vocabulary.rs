//! good.cu: what kernels can say, beyond what those of the engine do.

use half::{bf16, f16};

use crate::library::{Shape, everywhere};

#[test]
fn atomics() {
    everywhere(|emulator, order| {
        let (out, x) = (emulator.upload(&[0f32]), emulator.upload(&[1f32; 256]));
        emulator.launch("sum_atomic", Shape::new(4, 64), &[out.arg(), x.arg()], order).unwrap();
        assert_eq!(out.read(), [256.0]);
        let out = emulator.upload(&[0, 0, 0, -1, -1, 0, 0]);
        emulator.launch("atomics", Shape::new(1, 32), &[out.arg()], order).unwrap();
        assert_eq!(out.read(), [31, 0, -1, 0, 0, -(31 * 16), 1 << 16]);
    });
}

#[test]
fn votes_and_reductions() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<u32>(320);
        emulator.launch("votes", Shape::new(1, 32), &[out.arg()], order).unwrap();
        let ballot = (0..32).filter(|lane| lane % 3 == 0).fold(0u32, |all, lane| all | 1 << lane);
        for (lane, got) in out.read().chunks(10).enumerate() {
            let sum: u32 = if lane < 16 { (0..16).sum() } else { (16..32).sum() };
            assert_eq!(got, [ballot, sum, 0, -31i32 as u32, 36, 0x81, 2, 5, 0, 1], "lane {lane}");
        }
    });
}

#[test]
fn shuffles() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<i32>(192);
        emulator.launch("shuffles", Shape::new(1, 32), &[out.arg()], order).unwrap();
        for (lane, got) in (0i32..).zip(out.read().chunks(6)) {
            let up = if lane >= 3 { lane - 3 } else { lane };
            let down = if lane + 3 < 32 { lane + 3 } else { lane };
            let down_of_4 = if lane % 4 < 3 { lane + 1 } else { lane };
            assert_eq!(got, [up, down, lane / 8 * 8 + 2, lane ^ 5, down_of_4, lane ^ 16], "lane {lane}");
        }
    });
}

#[test]
fn a_warp_sees_its_writes_after_syncwarp() {
    everywhere(|emulator, order| {
        let x: Vec<f32> = (0..32u8).map(f32::from).collect();
        let (out, from) = (emulator.fresh::<f32>(32), emulator.upload(&x));
        emulator.launch("reverse_in_warp", Shape::new(1, 32), &[out.arg(), from.arg()], order).unwrap();
        assert!(out.read().iter().rev().eq(&x));
    });
}

#[test]
fn grids_and_blocks_have_three_dimensions() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<u32>(24 * 24);
        let shape = Shape { grid: [2, 3, 4], block: [2, 3, 4], dynamic: 0 };
        emulator.launch("grid_3d", shape, &[out.arg()], order).unwrap();
        assert!((0u32..).zip(out.read()).all(|(i, got)| got == i / 24 * 1000 + i % 24));
    });
}

#[test]
fn templates_and_constants() {
    everywhere(|emulator, order| {
        let (f, i) = (emulator.fresh::<f32>(1), emulator.fresh::<i32>(1));
        emulator.launch("templates", Shape::new(1, 128), &[f.arg(), i.arg()], order).unwrap();
        assert_eq!((f.read()[0], i.read()[0]), (100.0, 102));
        let out = emulator.fresh::<f32>(5);
        emulator.launch("constants", Shape::new(1, 5), &[out.arg()], order).unwrap();
        assert_eq!(out.read(), [1.0, 2.0, 4.0, 8.0, 1.0]);
    });
}

#[test]
fn every_16_bit_float_survives_the_way_to_f32_and_back() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<u32>(1 << 16);
        emulator.launch("halves", Shape::new(256, 256), &[out.arg()], order).unwrap();
        for (bits, got) in (0..=u16::MAX).zip(out.read()) {
            let (as_f16, as_bf16) = (got as u16, (got >> 16) as u16);
            let nan = f16::from_bits(bits).is_nan() && f16::from_bits(as_f16).is_nan();
            assert!(nan || as_f16 == bits, "f16 {bits:04x} became {as_f16:04x}");
            let nan = bf16::from_bits(bits).is_nan() && bf16::from_bits(as_bf16).is_nan();
            assert!(nan || as_bf16 == bits, "bf16 {bits:04x} became {as_bf16:04x}");
        }
    });
}

#[test]
fn integers() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<i32>(64 * 8);
        emulator.launch("integers", Shape::new(1, 64), &[out.arg()], order).unwrap();
        for (i, got) in (0i32..).zip(out.read().chunks(8)) {
            let first_bit = if i == 0 { 0 } else { i.trailing_zeros() as i32 + 1 };
            let (ones, zeros) = (i.count_ones() as i32, i.leading_zeros() as i32);
            // The bytes of 0x01ff807f times those of 0x02030405.
            let dot = i + 2 - 3 - 128 * 4 + 127 * 5;
            assert_eq!(got, [dot, ones, zeros, first_bit, 0x0705_0200, i >> 2, 3, i.reverse_bits()], "{i}");
        }
    });
}

#[test]
fn barriers_of_blocks_of_any_size() {
    everywhere(|emulator, order| {
        for n in [1u16, 31, 33, 100, 1024] {
            let data = emulator.upload(&(0..n).map(f32::from).collect::<Vec<_>>());
            let shape = Shape::new(1, n.into()).dynamic(u32::from(n) * 4);
            emulator.launch("rotate", shape, &[data.arg(), 3], order).unwrap();
            let expected: Vec<f32> = (0..n).map(|i| f32::from((i + 3) % n)).collect();
            assert_eq!(data.read(), expected, "{n} threads");
        }
    });
}

#[test]
fn blocks_are_shared_by_os_threads() {
    everywhere(|emulator, order| {
        let (out, x) = (emulator.upload(&[0f32]), emulator.upload(&[1f32; 1 << 14]));
        emulator.launch_on(4, "sum_atomic", Shape::new(256, 64), &[out.arg(), x.arg()], order).unwrap();
        assert_eq!(out.read(), [16384.0]);
        let out = emulator.fresh::<f32>(32);
        let said =
            emulator.launch_on(4, "bad_endless", Shape::new(8, 32), &[out.arg(), 1], order).unwrap_err();
        assert!(said.contains("spins: "), "{said}");
    });
}

#[test]
fn a_launch_that_cannot_be_is_refused() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<f32>(1);
        let refusal = |grid, block, dynamic| {
            let shape = Shape { grid, block, dynamic };
            emulator.launch("constants", shape, &[out.arg()], order).unwrap_err()
        };
        let one = [1, 1, 1];
        for grid in [[0, 1, 1], [1, 65536, 1], [1, 1, 65536], [1 << 31, 1, 1], [u32::MAX, u32::MAX, u32::MAX]]
        {
            assert_eq!(refusal(grid, one, 0), "constants: invalid grid size", "{grid:?}");
        }
        // Numbers of blocks and threads whose product is small again in 32 or 64 bits.
        for (grid, block) in [
            ([1 << 16, 1 << 15, 2], one),
            ([(1 << 31) - 1, 65535, 65535], one),
            ([1 << 22, 1, 1], [1024, 1, 1]),
        ] {
            assert_eq!(
                refusal(grid, block, 0),
                "constants: more threads than the emulator counts",
                "{grid:?}"
            );
        }
        for block in [[0, 1, 1], [1025, 1, 1], [32, 33, 1], [1, 1, 65], [1 << 16, 1 << 16, 1]] {
            assert_eq!(refusal(one, block, 0), "constants: invalid block size", "{block:?}");
        }
        assert_eq!(refusal(one, one, 99 * 1024 + 1), "constants: too much dynamic shared memory");
    });
}
