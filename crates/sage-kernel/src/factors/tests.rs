//! The squared length of a row's contribution, and which rows count as zero.

use super::{Bias, LayerRows, LayerShape, SIZE, Slice, quantise};
use sage_numerics::Factors;

fn draw(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn filled_square(filled: &LayerRows) -> f64 {
    filled.values.iter().map(|&value| f64::from(value).powi(2)).sum()
}

fn square(entries: &[i16]) -> u128 {
    entries.iter().map(|&entry| u128::from(entry.unsigned_abs()).pow(2)).sum()
}

/// The length that is checked is the one of the integers that are summed: all inputs, an entry for each column that is
/// named and one for the bias, times all errors.
#[test]
fn the_checked_length_is_that_of_the_integers() {
    let mut state = 1;
    for layer in [
        LayerShape::dense(5, 3),
        LayerShape::dense(70, 45),
        LayerShape { bias: Bias::Absent, ..LayerShape::dense(8, 8) },
        LayerShape { bias: Bias::Absent, ..LayerShape::dense(4, 2) },
        LayerShape::one_hot(3, 9, 4),
        LayerShape::embedding(7, 5),
        LayerShape { numeric: 3, ..LayerShape::one_hot(2, 6, 2) },
    ] {
        for round in 0..50 {
            let filled = LayerRows {
                values: (0..layer.numeric).map(|_| draw(&mut state)).collect(),
                indices: (0..layer.active).collect(),
                errors: (0..layer.outputs).map(|_| draw(&mut state)).collect(),
            };
            let bias = u32::from(layer.bias == Bias::Added);
            let inputs: f64 = filled.values.iter().map(|&value| f64::from(value).powi(2)).sum();
            let (columns, outputs) = (layer.dense_columns(), layer.outputs as usize);
            let mut factors = (vec![0; columns], [0], vec![0; layer.active as usize], vec![0; outputs], [0]);
            let mut slice = Slice {
                layer,
                inputs: &mut factors.0,
                ones: &mut factors.1,
                indices: &mut factors.2,
                errors: &mut factors.3,
                peaks: &mut factors.4,
                square: inputs + f64::from(layer.active + bias),
            };
            let scale = 1.0 / f64::from(1 + round);
            let length = slice.quantise(&filled, 0, 0, Some(scale));
            let (inputs, [one], indices, errors, [peak]) = factors;
            // A layer without indices has the bias among its columns.
            let outside = if layer.active > 0 { layer.active + bias } else { 0 };
            let all = square(&inputs) + u128::from(outside) * square(&[one]);
            assert_eq!(length, all * square(&errors), "{layer:?}");
            let largest = |entries: &[i16]| entries.iter().map(|entry| u32::from(entry.unsigned_abs())).max();
            let expected = largest(&inputs).max(largest(&[one])).unwrap_or(0) * largest(&errors).unwrap_or(0);
            assert!(peak == expected && (layer.active == 0 || indices == filled.indices), "{layer:?}");
            assert!(all <= u128::from(SIZE).pow(2));
            // Inputs are truncated to units of their own length over 2^13, errors with the scale.
            let unit = SIZE as f64 / (filled_square(&filled) + f64::from(layer.active + bias)).sqrt();
            for (value, input) in filled.values.iter().zip(&inputs) {
                assert!((f64::from(*value) * unit - f64::from(*input)).abs() < 1.01, "{layer:?}");
            }
            let unit = scale * SIZE as f64 * (filled_square(&filled) + f64::from(layer.active + bias)).sqrt();
            for (error, quantised) in filled.errors.iter().zip(&errors) {
                assert!(
                    (f64::from(*error) * unit).abs() > 32_000.0
                        || (f64::from(*error) * unit - f64::from(*quantised)).abs() < 1.02,
                    "{layer:?}"
                );
            }
        }
    }
}

/// Rows are filled where they are, by index; rows at the clip keep nearly all of their length, and rows with anything
/// that is not finite, or with indices that are out of order or range, are zero, whatever was there before.
#[test]
fn wrong_rows_count_as_zero() {
    let layers = [LayerShape::dense(2, 2), LayerShape::one_hot(2, 5, 3)];
    let fine = ([0.5f32, -0.25], [1u32, 3], [1.0f32, -2.0, 0.5]);
    let wrong = [
        ([f32::NAN, 0.0], fine.1, fine.2),
        ([f32::INFINITY, 0.0], fine.1, fine.2),
        (fine.0, [3, 1], fine.2),
        (fine.0, [3, 3], fine.2),
        (fine.0, [3, 5], fine.2),
        (fine.0, fine.1, [0.0, f32::NEG_INFINITY, 0.0]),
    ];
    let (mut buffer, mut factors) = (Vec::new(), Vec::new());
    for bad in wrong {
        for order in [[fine, bad, fine], [bad, fine, bad]] {
            for (step, rows) in [[fine; 3], order].into_iter().enumerate() {
                let sized = quantise(&layers, 3, 1.0, 1, &mut buffer, &mut factors, |range, layers| {
                    for (at, row) in range.enumerate() {
                        layers[0].values[2 * at..][..2].copy_from_slice(&rows[row].0);
                        layers[0].errors[2 * at..][..2].copy_from_slice(&rows[row].2[..2]);
                        layers[1].indices[2 * at..][..2].copy_from_slice(&rows[row].1);
                        layers[1].errors[3 * at..][..3].copy_from_slice(&rows[row].2);
                    }
                });
                assert!(sized);
                check(&factors, &rows.map(|row| step == 0 || format!("{row:?}") == format!("{fine:?}")));
            }
        }
    }
}

fn check(factors: &[Factors], counts: &[bool]) {
    let limit = u128::from(SIZE).pow(4);
    for (row, &counts) in counts.iter().enumerate() {
        let dense = square(&factors[0].inputs[3 * row..][..3]) * square(&factors[0].errors[2 * row..][..2]);
        let one = square(&[factors[1].ones[row]]);
        let named = 3 * one * square(&factors[1].errors[3 * row..][..3]);
        let all = dense + named;
        assert!(all <= limit && (all > limit / 100 * 98) == counts && (all == 0) != counts, "row {row}: {all}");
        assert!(counts || (one == 0 && factors[0].peaks[row] == 0 && factors[1].peaks[row] == 0), "row {row}");
    }
}
