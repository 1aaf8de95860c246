//! Sums and splits against naive ones: sizes on both sides of each limit at which the code takes another path.

use sage_numerics::{
    FactorShape, Factors, KeyIndex, OneHotMoments, Rescaler, balanced_chunks, split_range, sum_outer_products,
    triangle_row,
};

/// A linear congruential generator (Knuth's multiplier); the high half of each step.
fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    }
}

#[test]
fn ranges_cover_everything_once() {
    for count in [0usize, 1, 2, 7, 64, 1000] {
        for most in [0usize, 1, 2, 3, 7, 8, 2000] {
            let ranges = split_range(count, most);
            let all: Vec<usize> = ranges.iter().cloned().flatten().collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count} {most}");
            assert_eq!(ranges.len(), most.clamp(1, count.max(1)), "{count} {most}");
            let lengths = ranges.iter().map(ExactSizeIterator::len);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1), "{count} {most}");
        }
    }
}

#[test]
fn chunks_keep_every_item_in_order_and_share_the_work() {
    let mut word = words(1);
    for most in 1..9 {
        let items: Vec<(usize, usize)> = (0..100).map(|at| (at, (word() % 9) as usize)).collect();
        let total: usize = items.iter().map(|item| item.1).sum();
        let chunks = balanced_chunks(items.clone(), most, |item| item.1);
        assert!(chunks.len() <= most && (most == 1 || chunks.len() > 1), "{most}");
        for chunk in &chunks {
            let size: usize = chunk.iter().map(|item| item.1).sum();
            assert!(size <= total / most + 9, "{most}: {size} of {total}");
        }
        assert_eq!(chunks.concat(), items);
    }
}

/// The sums of all outer products, one product at a time.
fn naive(factors: &Factors, shape: FactorShape, size: usize) -> Vec<i64> {
    let mut sums = vec![0i64; size];
    for row in 0..factors.peaks.len() {
        let errors = &factors.errors[row * shape.outputs..][..shape.outputs];
        let dense = factors.inputs[row * shape.columns..][..shape.columns].iter().copied().enumerate();
        let one = factors.ones[row];
        let indices = factors.indices[row * shape.active..][..shape.active].iter().map(|&index| index as usize);
        let ones = indices.filter(|_| one != 0).chain(shape.bias.filter(|_| shape.active > 0));
        let ones = ones.map(|index| (shape.columns + index, one));
        for (column, input) in dense.chain(ones) {
            for (at, &error) in errors.iter().enumerate() {
                sums[column * shape.outputs + at] += i64::from(input) * i64::from(error);
            }
        }
    }
    sums
}

fn factors(rows: usize, shape: FactorShape, columns: usize, word: &mut impl FnMut() -> u64) -> Factors {
    let mut entry = |count: usize| (0..count).map(|_| (word() % 16_383) as i16 - 8_191).collect::<Vec<i16>>();
    let (inputs, errors) = (entry(rows * shape.columns), entry(rows * shape.outputs));
    let mut ones = entry(rows);
    // A row that counts as zero.
    if let Some(first) = ones.first_mut() {
        *first = 0;
    }
    let mut indices = Vec::new();
    for _ in 0..rows {
        let start = indices.len();
        let mut left = shape.active;
        for column in 0..columns {
            if left > 0 && (word() % (columns - column) as u64) < left as u64 {
                indices.push(column as u32);
                left -= 1;
            }
        }
        assert_eq!(indices.len() - start, shape.active);
    }
    let largest = |entries: &[i16]| entries.iter().map(|entry| u32::from(entry.unsigned_abs())).max().unwrap_or(0);
    let peak = |row: usize| {
        let input = largest(&inputs[row * shape.columns..][..shape.columns]);
        input.max(u32::from(ones[row].unsigned_abs())) * largest(&errors[row * shape.outputs..][..shape.outputs])
    };
    let peaks = (0..rows).map(peak).collect();
    Factors { inputs, ones, indices, errors, peaks }
}

/// Narrow and wide layers, with and without dense columns, one-hot columns and bias, alone and together, on one thread
/// and several; what the sums held before is gone.
#[test]
fn sums_of_outer_products_are_exact() {
    let mut word = words(2);
    let shape = |columns, outputs, active, bias| FactorShape { columns, outputs, active, bias };
    let cases = [
        (3, 5, shape(2, 3, 0, None)),
        (70, 9, shape(5, 4, 0, None)),
        (70, 9, shape(0, 7, 2, Some(9))),
        (70, 40, shape(3, 17, 3, None)),
        (130, 9, shape(0, 63, 2, Some(9))),
        (130, 9, shape(0, 64, 2, Some(9))),
        (200, 30, shape(4, 65, 5, Some(30))),
        (66, 4, shape(0, 513, 1, None)),
        (300, 5, shape(0, 1030, 2, Some(5))),
        // More sums than are gathered nearby, and fewer products than sums.
        (40, 3000, shape(0, 8, 3, Some(3000))),
        (2, 300, shape(0, 8, 1, None)),
        (900, 6, shape(0, 16, 2, Some(6))),
    ];
    let layers: Vec<(Factors, FactorShape, usize)> = cases
        .into_iter()
        .map(|(rows, columns, shape)| {
            let one_hot = if shape.active > 0 { columns + usize::from(shape.bias.is_some()) } else { 1 };
            let size = (shape.columns + one_hot) * shape.outputs;
            (factors(rows, shape, columns, &mut word), shape, size)
        })
        .collect();
    let expected: Vec<Vec<i64>> = layers.iter().map(|(factors, shape, size)| naive(factors, *shape, *size)).collect();
    for threads in [1, 2, 3, 8] {
        for (at, (factors, shape, size)) in layers.iter().enumerate() {
            let mut sums = vec![77; *size];
            sum_outer_products([(factors, *shape, &mut sums)].into_iter(), threads);
            assert!(sums == expected[at], "layer {at} alone, {threads} threads");
        }
        let mut sums: Vec<Vec<i64>> = layers.iter().map(|layer| vec![-5; layer.2]).collect();
        let together = layers.iter().zip(&mut sums).map(|((factors, shape, _), sums)| (factors, *shape, sums));
        sum_outer_products(together, threads);
        for (at, (sums, expected)) in sums.iter().zip(&expected).enumerate() {
            assert!(sums == expected, "layer {at} of all, {threads} threads");
        }
    }
}

/// The unit takes part, and every path gives floor(n m / 2^k) plus what is added.
#[test]
fn rescaled_integers_have_their_unit() {
    let mut word = words(3);
    for (multiplier, shift) in
        [(5, 3), (5, 19), (5, 20), (0x9e_3779_b97f, 45), ((1 << 40) - 1, 25), ((1 << 40) - 1, 41), (1 << 39, 20)]
    {
        for bits in [8, 30, 41, 42, 43, 50, 60] {
            let limit = i64::try_from((1i128 << 62 << shift) / i128::from(multiplier)).unwrap_or(i64::MAX);
            let numbers: Vec<i64> = (0..50)
                .map(|at| {
                    let number = (word() << 32 | word()) as i64 & ((1 << bits) - 1);
                    if at % 2 == 0 { number } else { -number }
                })
                .collect();
            let added: Vec<i32> = (0..50).map(|_| word() as u32 as i32).collect();
            for unit in [1.0, 0.125, 3.5e-7] {
                let mut out = vec![0.0; 50];
                Rescaler { limit, multiplier, shift, unit }.apply(&numbers, &added, &mut out);
                for ((number, added), out) in numbers.iter().zip(&added).zip(out) {
                    let scaled = (i128::from((*number).clamp(-limit, limit)) * i128::from(multiplier)) >> shift;
                    let expected = ((scaled + i128::from(*added)) as f64 * unit) as f32;
                    assert_eq!(out, expected, "{number} {multiplier} {shift} {bits} {unit}");
                }
            }
        }
    }
}

/// Rows by the definition: a one at each active column, one more, and the label; a row with wrong indices has no features.
fn naive_moments(rows: &[(Vec<u32>, i64)], columns: usize) -> Vec<i128> {
    let size = columns + 2;
    let mut total = vec![0i128; size * (size + 1) / 2];
    for (indices, label) in rows {
        let valid =
            indices.windows(2).all(|pair| pair[0] < pair[1]) && indices.iter().all(|&index| (index as usize) < columns);
        let mut values = vec![0i128; size];
        if valid {
            indices.iter().for_each(|&index| values[index as usize] = 1);
            values[columns] = 1;
        }
        values[columns + 1] = i128::from(*label);
        for row in 0..size {
            for column in row..size {
                total[triangle_row(size, row) + column] += values[row] * values[column];
            }
        }
    }
    total
}

/// Dense and sparse columns, more rows than one group and than all words, with rows that are out of order or range.
#[test]
fn moments_of_one_hot_rows_equal_naive_ones() {
    let mut word = words(4);
    for (active, columns) in [(1, 1), (1, 12), (1, 13), (2, 24), (2, 25), (3, 7), (3, 60)] {
        for (count, wrong) in [(1, 0), (63, 0), (64, 0), (65, 0), (200, 50), (64 * 32, 0), (64 * 33 + 5, 700)] {
            let mut rows: Vec<(Vec<u32>, i64)> = Vec::new();
            for row in 0..count {
                let mut indices: Vec<u32> = (0..columns as u32).collect();
                while indices.len() > active {
                    indices.remove((word() % indices.len() as u64) as usize);
                }
                if wrong > 0 && row % wrong == wrong / 2 {
                    match word() % 3 {
                        0 => indices.reverse(),
                        1 => indices[active - 1] = columns as u32,
                        _ => indices[0] = u32::MAX,
                    }
                }
                rows.push((indices, (word() % 2001) as i64 - 1000));
            }
            let expected = naive_moments(&rows, columns);
            let mut total = vec![0; expected.len()];
            let mut sums = OneHotMoments::new(active, columns, &mut total);
            for (indices, label) in &rows {
                sums.push(|out| {
                    out.copy_from_slice(indices);
                    *label
                });
            }
            sums.finish();
            assert!(total == expected, "{active} of {columns}, {count} rows, {wrong}");
        }
    }
}

/// A row that writes nothing finds zeros, not the indices of an earlier row.
#[test]
fn a_row_starts_with_zeros() {
    let mut rows = vec![(vec![1, 2], 3); 64 * 3];
    rows.extend(vec![(vec![0, 0], 5); 64]);
    let expected = naive_moments(&rows, 4);
    let mut total = vec![0; expected.len()];
    let mut sums = OneHotMoments::new(2, 4, &mut total);
    for (indices, label) in &rows {
        sums.push(|out| {
            if indices[1] > 0 {
                out.copy_from_slice(indices);
            }
            *label
        });
    }
    sums.finish();
    assert_eq!(total, expected);
}

/// Keys with equal first bytes are distinguished by the caller's comparison, also after the table has grown.
#[test]
fn keys_that_collide_are_found() {
    let key = |at: usize| {
        let mut key = [0u8; 32];
        key[0] = (at % 3) as u8;
        key[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        key
    };
    for mut index in [KeyIndex::default(), KeyIndex::with_capacity(5), KeyIndex::with_capacity(300)] {
        for at in 0..300 {
            index.insert(&key(at), at);
            for known in (0..=at).step_by(7).chain([at]) {
                assert_eq!(index.find(&key(known), |found| found == known), Some(known));
            }
            assert_eq!(index.find(&key(at + 1), |found| found == at + 1), None);
        }
    }
}
