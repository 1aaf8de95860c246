//! The blocks of many rows at once, as small numbers instead of one text for each row.
//!
//! What it says must be what [`BlockRule::key`] says of each row alone; it only remembers which cells it has met.

use std::collections::BTreeMap;

use super::key::{BlockRule, Cell};

/// Entries of the table that is asked first. Rows mostly come in the order of time, a few blocks at once.
const RECENT: usize = 4096;

/// Numbers blocks in the order in which they are met.
pub struct Keyer {
    rule: BlockRule,
    categories: Vec<String>,
    codes: BTreeMap<Cell, u32>,
    cells: Vec<Cell>,
    recent: Vec<(Cell, u32)>,
}

/// The public attributes of rows that the rule asks for; what it does not ask for is left empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'rows> {
    /// User numbers.
    pub users: &'rows [i64],
    /// Times in microseconds since 1970, UTC.
    pub times: &'rows [i64],
    /// Places of categories in their list.
    pub categories: &'rows [i32],
}

impl Keyer {
    /// For a rule, with the list of categories of its attribute if it has one.
    pub fn new(rule: BlockRule, categories: Vec<String>) -> Self {
        Self {
            rule,
            categories,
            codes: BTreeMap::new(),
            cells: Vec::new(),
            recent: vec![(Cell::default(), u32::MAX); RECENT],
        }
    }

    /// Appends each row's block to `codes`.
    pub fn codes(&mut self, rows: usize, of: Attributes<'_>, codes: &mut Vec<u32>) {
        codes.reserve(rows);
        if self.rule.levels() == 1
            && let Some(width) = self.rule.time
        {
            let width = width.microseconds();
            for &time in &of.times[..rows] {
                let code = self.code(Cell { users: 0, slot: time.div_euclid(width), attribute: 0 });
                codes.push(code);
            }
            return;
        }
        for row in 0..rows {
            let user = of.users.get(row).copied().unwrap_or_default();
            let time = of.times.get(row).copied().unwrap_or_default();
            let category = of.categories.get(row).copied().unwrap_or_default();
            let cell = self.rule.cell(user, time, u32::try_from(category).unwrap_or(u32::MAX));
            let code = self.code(cell);
            codes.push(code);
        }
    }

    #[inline]
    fn code(&mut self, cell: Cell) -> u32 {
        // Mixing by a large odd number spreads neighbours; the true comparison follows.
        let mixed =
            cell.slot.wrapping_add(cell.users.wrapping_mul(0x9E37_79B9)).wrapping_add(i64::from(cell.attribute) << 7);
        let place = (mixed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        let recent = &mut self.recent[place as usize];
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

    /// How many blocks were met.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The key of a block that was met; nothing if no stored row can have it.
    pub fn key(&self, code: u32) -> Option<String> {
        self.rule.key(*self.cells.get(code as usize)?, &self.categories)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Width;

    #[test]
    fn many_at_once_fall_where_one_by_one_would() {
        let categories = ["FR".to_owned(), "a/b".to_owned()];
        let width = Width::parse("90m").expect("a width");
        for (user_range, time, attribute) in [
            (None, Some(Width::HOUR), None),
            (Some(7), None, None),
            (None, None, Some("country".to_owned())),
            (Some(1000), Some(width), Some("country".to_owned())),
        ] {
            let rule = BlockRule { user_range, time, attribute };
            let mut keyer = Keyer::new(rule.clone(), categories.to_vec());
            let users: Vec<i64> = (0..20_000_i64).map(|row| row * 7919 % 100_003).collect();
            let times: Vec<i64> =
                (0..20_000_i64).map(|row| (row * 104_729 % 1_000_003 - 500_000) * 100_000_000).collect();
            let places: Vec<i32> = (0..20_000).map(|row| row % 2).collect();
            let mut codes = Vec::new();
            keyer.codes(20_000, Attributes { users: &users, times: &times, categories: &places }, &mut codes);
            for row in 0..20_000 {
                let cell = rule.cell(users[row], times[row], places[row] as u32);
                assert_eq!(keyer.key(codes[row]), rule.key(cell, &categories), "row {row}");
            }
            assert!(!keyer.is_empty() && keyer.len() <= 20_000);
        }
    }
}
