//! A hash table from digests to positions in a list.
//!
//! The first bytes of a digest are uniformly distributed and serve as the hash. The table is only used for lookups and
//! never iterated, so its layout cannot influence a decision. The caller compares each hit with its own list, so a stale
//! entry does no harm, and a missing entry makes a key count as new.

/// A hash table with open addressing and at least twice as many slots as entries. A slot holds the first four bytes of a
/// key and the position plus one, or zeros if it is empty. Slots are small, so that many stay in the cache.
#[derive(Clone, Debug, Default)]
pub struct KeyIndex {
    slots: Vec<(u32, u32)>,
    used: usize,
}

fn key_prefix(key: &[u8; 32]) -> u32 {
    let [a, b, c, d, ..] = *key;
    u32::from_le_bytes([a, b, c, d])
}

impl KeyIndex {
    /// Creates a table that holds `entries` entries without growing.
    pub fn with_capacity(entries: usize) -> Self {
        Self { slots: vec![(0, 0); (2 * entries + 1).next_power_of_two().max(64)], used: 0 }
    }

    /// The position inserted for the key; `is` reports whether the item at a position has this key.
    pub fn find(&self, key: &[u8; 32], is: impl Fn(usize) -> bool) -> Option<usize> {
        let prefix = key_prefix(key);
        let occupied = self.probe_sequence(prefix).map(|at| self.slots[at]).take_while(|&(_, next)| next > 0);
        occupied.filter(|&(other, _)| other == prefix).map(|(_, next)| next as usize - 1).find(|&position| is(position))
    }

    /// Inserts a key that is not present, for the item at `position`, which is below 2^32 - 1.
    pub fn insert(&mut self, key: &[u8; 32], position: usize) {
        if 2 * (self.used + 1) > self.slots.len() {
            let larger = vec![(0, 0); (4 * self.used).next_power_of_two().max(64)];
            let entries = std::mem::replace(&mut self.slots, larger);
            entries.into_iter().filter(|&(_, next)| next > 0).for_each(|entry| self.put(entry));
        }
        self.put((key_prefix(key), position as u32 + 1));
        self.used += 1;
    }

    fn put(&mut self, entry: (u32, u32)) {
        if let Some(at) = self.probe_sequence(entry.0).find(|&at| self.slots[at].1 == 0) {
            self.slots[at] = entry;
        }
    }

    /// The slots that may hold a key, in probing order.
    fn probe_sequence(&self, prefix: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.slots.len()).map(move |step| (prefix as usize).wrapping_add(step) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_keys_are_found() {
        let mut index = KeyIndex::default();
        let mut draw = crate::tests::words(5);
        let keys: Vec<[u8; 32]> = (0..3000).map(|_| std::array::from_fn(|_| draw() as u8)).collect();
        assert_eq!(index.find(&keys[1], |_| true), None);
        for (number, key) in keys.iter().enumerate() {
            index.insert(key, number);
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(index.find(key, |position| position == number), Some(number));
            assert_eq!(index.find(key, |_| false), None);
        }
    }

    /// Keys with equal prefixes occupy adjacent slots; the caller's comparison distinguishes them.
    #[test]
    fn keys_with_equal_prefixes_are_distinguished() {
        let mut index = KeyIndex::default();
        let key = |last: u8| {
            let mut bytes = [255; 32];
            bytes[31] = last;
            bytes
        };
        (0..40).for_each(|last| index.insert(&key(last), usize::from(last)));
        for last in 0..40u8 {
            let found = index.find(&key(last), |position| position == usize::from(last));
            assert_eq!(found, Some(usize::from(last)));
        }
    }
}
