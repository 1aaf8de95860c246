//! Lines of JSON that a command sends. They come from code that nobody vouches for: whatever arrives, a line is
//! handed on, handed on as plain text, or counted.

use serde_json::Value;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A line of JSON.
    Json(Value),
    /// A line that is not JSON, with a mark where it is not text.
    Text(String),
}

impl Line {
    fn read(bytes: &[u8]) -> Self {
        // A depth that the parser does not follow makes it an error like any other.
        match serde_json::from_slice(bytes) {
            Ok(value) => Self::Json(value),
            Err(_) => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    begun: Vec<u8>,
    /// The line that has begun is too long already: its end is waited for and nothing of it is kept.
    skipping: bool,
    room: usize,
    pub(crate) total: u64,
    pub(crate) handed_on: u64,
    pub(crate) left_out: u64,
}

impl Lines {
    pub(crate) fn with_room(room: usize) -> Self {
        Self { begun: Vec::new(), skipping: false, room, total: 0, handed_on: 0, left_out: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Line)) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.last() == Some(&b'\n');
            let text = if ends { &piece[..piece.len() - 1] } else { piece };
            if self.begun.len() + text.len() > self.room {
                self.skipping = true;
                self.begun.clear();
            }
            if !self.skipping {
                self.begun.extend_from_slice(text);
            }
            if ends {
                self.end_line(&mut each);
            }
        }
    }

    /// The stream is over; what has no newline is a line too.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Line)) {
        if self.skipping || !self.begun.is_empty() {
            self.end_line(&mut each);
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(Line)) {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.skipping) {
            self.left_out += 1;
        } else if !line.trim_ascii().is_empty() {
            self.handed_on += 1;
            each(Line::read(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines};
    use serde_json::json;

    fn cut(pieces: &[&[u8]]) -> (Vec<Line>, u64) {
        let mut lines = Lines::with_room(12);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| seen.push(line));
        }
        lines.finish(|line| seen.push(line));
        assert_eq!(lines.handed_on, seen.len() as u64);
        (seen, lines.left_out)
    }

    #[test]
    fn lines_are_cut_wherever_the_pieces_end() {
        let expected = (vec![Line::Json(json!({"a": 1})), Line::Text("no json".to_owned()), Line::Json(json!(2))], 0);
        let whole = b"{\"a\": 1}\n\nno json\n2";
        assert_eq!(cut(&[whole]), expected);
        for middle in 0..whole.len() {
            assert_eq!(cut(&[&whole[..middle], &whole[middle..]]), expected, "cut at {middle}");
        }
    }

    #[test]
    fn what_is_too_long_is_counted() {
        assert_eq!(cut(&[b"1234567890123\n5\n"]), (vec![Line::Json(json!(5))], 1));
        assert_eq!(cut(&[b"123456789012\n"]).1, 0);
        assert_eq!(cut(&[b"123456789", b"012345", b"678"]), (vec![], 1));
    }

    #[test]
    fn garbage_is_handed_on_as_text() {
        let (lines, _) = cut(&[b"\xff\xfe\0\n", b"[[[[[[\n", b"{\"a\"\n"]);
        assert!(lines.iter().all(|line| matches!(line, Line::Text(_))), "{lines:?}");
        let deep = vec![b'['; 100_000];
        assert!(matches!(Line::read(&deep), Line::Text(_)));
    }
}
