//! The printed output of a command: its last bytes and its total size.

/// The last bytes of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    bytes: Vec<u8>,
    total: u64,
    capacity: usize,
}

impl Tail {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::new(), total: 0, capacity }
    }

    pub(crate) fn push(&mut self, more: &[u8]) {
        self.total = self.total.saturating_add(more.len() as u64);
        self.bytes.extend_from_slice(more);
        // Trimmed only at twice the capacity, so that each byte is moved once on average.
        if self.bytes.len() > self.capacity.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.capacity);
        }
    }

    /// The last bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.capacity)..]
    }

    /// The last bytes as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The total number of bytes.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn the_end_is_kept() {
        let mut tail = Tail::with_capacity(4);
        for piece in ["ab", "cdefghijkl", "", "m"] {
            tail.push(piece.as_bytes());
        }
        assert_eq!((tail.bytes(), tail.total()), (&b"jklm"[..], 13));
        assert_eq!(Tail::with_capacity(4).text(), "");
    }
}
