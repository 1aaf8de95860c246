//! Dictionary encoding of blocks: a small number per row instead of a key as text.
//!
//! The key behind a row's code is the one that [`BlockRule::key`] gives for the row alone. The encoder only remembers
//! the cells it has seen.

use std::collections::BTreeMap;

use super::key::{BlockRule, Cell};

/// Slots of the cache before the map. Rows mostly arrive in the order of time, so a few blocks repeat.
const RECENT: usize = 4096;

/// Numbers blocks in the order of their first rows.
pub struct BlockEncoder {
    rule: BlockRule,
    categories: Vec<String>,
    codes: BTreeMap<Cell, u32>,
    cells: Vec<Cell>,
    recent: Vec<(Cell, u32)>,
}

/// The columns of rows that determine their blocks. Columns that the rule does not use are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyColumns<'rows> {
    /// User numbers.
    pub users: &'rows [i64],
    /// Times in microseconds since 1970, UTC.
    pub times: &'rows [i64],
    /// Indices of categories in their list.
    pub categories: &'rows [i32],
}

impl BlockEncoder {
    /// An encoder for a rule, with the categories of its attribute if it has one.
    pub fn new(rule: BlockRule, categories: Vec<String>) -> Self {
        Self {
            rule,
            categories,
            codes: BTreeMap::new(),
            cells: Vec::new(),
            recent: vec![(Cell::default(), u32::MAX); RECENT],
        }
    }

    /// Appends the code of each row's block to `codes`.
    pub fn encode(&mut self, rows: usize, columns: KeyColumns<'_>, codes: &mut Vec<u32>) {
        codes.reserve(rows);
        if self.rule.levels() == 1
            && let Some(width) = self.rule.time
        {
            let width = width.microseconds();
            for &time in &columns.times[..rows] {
                let code = self.code(Cell { users: 0, slot: time.div_euclid(width), attribute: 0 });
                codes.push(code);
            }
            return;
        }
        for row in 0..rows {
            let user = columns.users.get(row).copied().unwrap_or_default();
            let time = columns.times.get(row).copied().unwrap_or_default();
            let category = columns.categories.get(row).copied().unwrap_or_default();
            let cell = self.rule.cell(user, time, u32::try_from(category).unwrap_or(u32::MAX));
            let code = self.code(cell);
            codes.push(code);
        }
    }

    #[inline]
    fn code(&mut self, cell: Cell) -> u32 {
        // Multiplication by a large odd number spreads neighbouring cells. The slot's cell is compared below.
        let mixed =
            cell.slot.wrapping_add(cell.users.wrapping_mul(0x9E37_79B9)).wrapping_add(i64::from(cell.attribute) << 7);
        let slot = (mixed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        let recent = &mut self.recent[slot as usize];
        if recent.0 == cell && recent.1 != u32::MAX {
            return recent.1;
        }
        let fresh = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        let code = *self.codes.entry(cell).or_insert(fresh);
        if code == fresh {
            self.cells.push(cell);
        }
        *recent = (cell, code);
        code
    }

    /// The number of blocks seen so far.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether no block has been seen.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The key of the block with this code, or `None` if no stored row can be in it.
    pub fn key(&self, code: u32) -> Option<String> {
        self.rule.key(*self.cells.get(code as usize)?, &self.categories)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Width;

    #[test]
    fn codes_stand_for_the_keys_of_single_rows() {
        let categories = ["FR".to_owned(), "a/b".to_owned()];
        let width = Width::parse("90m").expect("a width");
        for (user_range, time, attribute) in [
            (None, Some(Width::HOUR), None),
            (Some(7), None, None),
            (None, None, Some("country".to_owned())),
            (Some(1000), Some(width), Some("country".to_owned())),
        ] {
            let rule = BlockRule { user_range, time, attribute };
            let mut encoder = BlockEncoder::new(rule.clone(), categories.to_vec());
            let users: Vec<i64> = (0..20_000_i64).map(|row| row * 7919 % 100_003).collect();
            let times: Vec<i64> =
                (0..20_000_i64).map(|row| (row * 104_729 % 1_000_003 - 500_000) * 100_000_000).collect();
            let indices: Vec<i32> = (0..20_000).map(|row| row % 2).collect();
            let mut codes = Vec::new();
            encoder.encode(20_000, KeyColumns { users: &users, times: &times, categories: &indices }, &mut codes);
            for row in 0..20_000 {
                let cell = rule.cell(users[row], times[row], indices[row] as u32);
                assert_eq!(encoder.key(codes[row]), rule.key(cell, &categories), "row {row}");
            }
            assert!(!encoder.is_empty() && encoder.len() <= 20_000);
        }
    }
}
