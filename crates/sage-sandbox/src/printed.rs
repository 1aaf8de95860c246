//! What a command printed: only its end is kept, and how much there was.

/// The end of a stream of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    bytes: Vec<u8>,
    total: u64,
    room: usize,
}

impl Tail {
    pub(crate) fn with_room(room: usize) -> Self {
        Self { bytes: Vec::new(), total: 0, room }
    }

    pub(crate) fn push(&mut self, more: &[u8]) {
        self.total = self.total.saturating_add(more.len() as u64);
        self.bytes.extend_from_slice(more);
        // Moved only when twice as long as wanted, so that a byte is moved once on average.
        if self.bytes.len() > self.room.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.room);
        }
    }

    /// The last bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.room)..]
    }

    /// The last bytes as text, with a mark where they are none.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn the_end_is_kept() {
        let mut tail = Tail::with_room(4);
        for piece in ["ab", "cdefghijkl", "", "m"] {
            tail.push(piece.as_bytes());
        }
        assert_eq!((tail.bytes(), tail.total()), (&b"jklm"[..], 13));
        assert_eq!(Tail::with_room(4).text(), "");
    }
}
