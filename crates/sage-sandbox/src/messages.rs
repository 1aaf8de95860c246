//! Messages of a command: lines of JSON on a pipe. They come from untrusted code, so every line is either passed on as
//! JSON, passed on as plain text, or dropped and counted.

use serde_json::Value;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A line of JSON.
    Json(Value),
    /// A line that is not JSON; invalid UTF-8 is replaced.
    Text(String),
}

impl Line {
    fn parse(bytes: &[u8]) -> Self {
        // Nesting deeper than the parser's limit is an error like any other.
        match serde_json::from_slice(bytes) {
            Ok(value) => Self::Json(value),
            Err(_) => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    /// The current line is already too long: the bytes up to its end are discarded.
    skipping: bool,
    line_limit: usize,
    pub(crate) total: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
}

impl Lines {
    pub(crate) fn with_line_limit(line_limit: usize) -> Self {
        Self { partial: Vec::new(), skipping: false, line_limit, total: 0, delivered: 0, dropped: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Line)) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.last() == Some(&b'\n');
            let text = if ends { &piece[..piece.len() - 1] } else { piece };
            if self.partial.len() + text.len() > self.line_limit {
                self.skipping = true;
                self.partial.clear();
            }
            if !self.skipping {
                self.partial.extend_from_slice(text);
            }
            if ends {
                self.end_line(&mut each);
            }
        }
    }

    /// Ends the stream; a last line without a newline counts.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Line)) {
        if self.skipping || !self.partial.is_empty() {
            self.end_line(&mut each);
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(Line)) {
        let line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.skipping) {
            self.dropped += 1;
        } else if !line.trim_ascii().is_empty() {
            self.delivered += 1;
            each(Line::parse(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines};
    use serde_json::json;

    fn split(pieces: &[&[u8]]) -> (Vec<Line>, u64) {
        let mut lines = Lines::with_line_limit(12);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| seen.push(line));
        }
        lines.finish(|line| seen.push(line));
        assert_eq!(lines.delivered, seen.len() as u64);
        (seen, lines.dropped)
    }

    #[test]
    fn lines_are_split_wherever_the_pieces_end() {
        let expected = (vec![Line::Json(json!({"a": 1})), Line::Text("no json".to_owned()), Line::Json(json!(2))], 0);
        let whole = b"{\"a\": 1}\n\nno json\n2";
        assert_eq!(split(&[whole]), expected);
        for middle in 0..whole.len() {
            assert_eq!(split(&[&whole[..middle], &whole[middle..]]), expected, "cut at {middle}");
        }
    }

    #[test]
    fn long_lines_are_dropped_and_counted() {
        assert_eq!(split(&[b"1234567890123\n5\n"]), (vec![Line::Json(json!(5))], 1));
        assert_eq!(split(&[b"123456789012\n"]).1, 0);
        assert_eq!(split(&[b"123456789", b"012345", b"678"]), (vec![], 1));
    }

    #[test]
    fn garbage_is_delivered_as_text() {
        let (lines, _) = split(&[b"\xff\xfe\0\n", b"[[[[[[\n", b"{\"a\"\n"]);
        assert!(lines.iter().all(|line| matches!(line, Line::Text(_))), "{lines:?}");
        let deep = vec![b'['; 100_000];
        assert!(matches!(Line::parse(&deep), Line::Text(_)));
    }
}
