//! From request keys to grants, in the same time however many there are.
//!
//! Keys are digests, so their first bytes are as good as random and serve as the place in a table. The
//! table is only ever asked for one key; it is never walked, so its layout cannot reach a decision. What it
//! finds is looked at by the caller, so an entry of a charge that was taken back does no harm.

use crate::event::RequestKey;

/// A table with room for at least twice its entries: some bytes of a key and one more than the place of its
/// grant, or zeros. Small, so that many stay in the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyIndex {
    slots: Vec<(u32, u32)>,
    used: usize,
}

fn print_of(key: RequestKey) -> u32 {
    let [a, b, c, d, ..] = key.bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl KeyIndex {
    /// A table that need not grow for so many entries.
    pub(crate) fn with_room(entries: usize) -> Self {
        Self { slots: vec![(0, 0); (2 * entries + 1).next_power_of_two().max(64)], used: 0 }
    }

    /// The place entered for the key; `is` tells whether the grant at a place is the one.
    pub(crate) fn find(&self, key: RequestKey, is: impl Fn(usize) -> bool) -> Option<usize> {
        let print = print_of(key);
        let run = self.run(print).map(|at| self.slots[at]).take_while(|&(_, next)| next > 0);
        run.filter(|&(other, _)| other == print).map(|(_, next)| next as usize - 1).find(|&place| is(place))
    }

    /// Enters a key that is not there, for the grant at `place`, which is below 2^32 - 1.
    pub(crate) fn insert(&mut self, key: RequestKey, place: usize) {
        if 2 * (self.used + 1) > self.slots.len() {
            let larger = vec![(0, 0); (4 * self.used).next_power_of_two().max(64)];
            let entries = std::mem::replace(&mut self.slots, larger);
            entries.into_iter().filter(|&(_, next)| next > 0).for_each(|entry| self.put(entry));
        }
        self.put((print_of(key), place as u32 + 1));
        self.used += 1;
    }

    fn put(&mut self, entry: (u32, u32)) {
        if let Some(at) = self.run(entry.0).find(|&at| self.slots[at].1 == 0) {
            self.slots[at] = entry;
        }
    }

    /// The slots in which a key may stand, from the first one on.
    fn run(&self, print: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.slots.len()).map(move |step| (print as usize).wrapping_add(step) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_is_found() {
        let mut index = KeyIndex::default();
        let key = |number: u64| RequestKey::from_text(&number.to_string());
        assert_eq!(index.find(key(1), |_| true), None);
        for number in 0..3000 {
            index.insert(key(number), number as usize);
        }
        for number in 0..3000 {
            let found = index.find(key(number), |place| place == number as usize);
            assert_eq!(found, Some(number as usize));
            assert_eq!(index.find(key(number), |_| false), None);
        }
    }

    /// Keys that share their first bytes stand beside each other and are told apart by their grants.
    #[test]
    fn equal_first_bytes_are_told_apart() {
        let mut index = KeyIndex::default();
        let key = |last: u8| {
            let mut bytes = [255; 32];
            bytes[31] = last;
            RequestKey::from_digest(bytes)
        };
        (0..40).for_each(|last| index.insert(key(last), usize::from(last)));
        for last in 0..40u8 {
            let found = index.find(key(last), |place| place == usize::from(last));
            assert_eq!(found, Some(usize::from(last)));
        }
    }
}
