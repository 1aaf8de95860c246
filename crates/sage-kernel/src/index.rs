//! From request keys to grants, in the same time however many there are.
//!
//! Keys are digests, so their first bytes are as good as random and serve as the place in a table. The
//! table is only ever asked for one key; it is never walked, so its layout cannot reach a decision.

use crate::event::{GrantId, RequestKey};

/// A table with room for at least twice its entries: (first bytes of the key, grant).
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyIndex {
    slots: Vec<Option<(u64, GrantId)>>,
    used: usize,
}

fn print_of(key: RequestKey) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

impl KeyIndex {
    /// The grant entered for the key; `is` tells whether a grant with the same first bytes is the one.
    pub(crate) fn find(&self, key: RequestKey, is: impl Fn(GrantId) -> bool) -> Option<GrantId> {
        let print = print_of(key);
        self.run(print)
            .map_while(|place| self.slots[place])
            .find(|&(other, grant)| other == print && is(grant))
            .map(|(_, grant)| grant)
    }

    /// Enters a key that is not there.
    pub(crate) fn insert(&mut self, key: RequestKey, grant: GrantId) {
        if 2 * (self.used + 1) > self.slots.len() {
            let larger = vec![None; (4 * self.used).next_power_of_two().max(64)];
            let entries = std::mem::replace(&mut self.slots, larger);
            entries.into_iter().flatten().for_each(|entry| self.place(entry));
        }
        self.place((print_of(key), grant));
        self.used += 1;
    }

    /// Takes a key out, and closes the gap it leaves in its run.
    pub(crate) fn remove(&mut self, key: RequestKey, grant: GrantId) {
        let found = self.run(print_of(key)).take_while(|&place| self.slots[place].is_some());
        let Some(start) =
            found.into_iter().find(|&place| self.slots[place].is_some_and(|(_, other)| other == grant))
        else {
            return;
        };
        self.slots[start] = None;
        self.used -= 1;
        let mut place = (start + 1) & (self.slots.len() - 1);
        while let Some(entry) = self.slots[place].take() {
            self.place(entry);
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn place(&mut self, entry: (u64, GrantId)) {
        if let Some(place) = self.run(entry.0).find(|&place| self.slots[place].is_none()) {
            self.slots[place] = Some(entry);
        }
    }

    /// The places at which a key may stand, from the first one on.
    fn run(&self, print: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.slots.len()).map(move |step| (print as usize).wrapping_add(step) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_is_found_until_it_is_taken_out() {
        let mut index = KeyIndex::default();
        let key = |number: u64| RequestKey::from_text(&number.to_string());
        assert_eq!(index.find(key(1), |_| true), None);
        for number in 0..3000 {
            index.insert(key(number), GrantId(number));
        }
        for number in (0..3000).step_by(3) {
            index.remove(key(number), GrantId(number));
            index.remove(key(number), GrantId(number));
        }
        for number in 0..3000 {
            let found = index.find(key(number), |grant| grant == GrantId(number));
            assert_eq!(found, (number % 3 != 0).then_some(GrantId(number)));
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
        (0..40).for_each(|last| index.insert(key(last), GrantId(u64::from(last))));
        index.remove(key(7), GrantId(7));
        for last in 0..40u8 {
            let found = index.find(key(last), |grant| grant.0 == u64::from(last));
            assert_eq!(found.is_some(), last != 7);
        }
    }
}
