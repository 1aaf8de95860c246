//! Memory for the bodies, parsed values and responses of requests: reserved before it is allocated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::{Count, PATIENCE, Reason, Refusals, Share};
use crate::problem::Problem;

/// Memory that a request has reserved; released when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    own: Share,
    all: Share,
    most_own: usize,
    most_all: usize,
    /// The most bytes of one request.
    most: usize,
    refusals: Arc<Refusals>,
}

impl Reservation {
    /// An empty reservation from the caller's share and the whole, with the most bytes of the caller, of the whole and of
    /// one request.
    pub(super) fn new(
        [own, all]: [&Count; 2], [most_own, most_all, most]: [usize; 3], refusals: Arc<Refusals>,
    ) -> Self {
        Self { own: own.empty_share(), all: all.empty_share(), most_own, most_all, most, refusals }
    }

    /// Reserves more bytes. Waits until other requests release theirs, if necessary.
    pub(crate) async fn wait_for(&mut self, bytes: usize) -> Result<(), Problem> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.all.amount.saturating_add(bytes) <= self.most {
            if self.take(bytes).is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.grow(bytes)
    }

    fn take(&mut self, bytes: usize) -> Option<()> {
        self.own.grow(bytes, self.most_own)?;
        let all = self.all.grow(bytes, self.most_all);
        if all.is_none() {
            self.own.shrink(self.own.amount - bytes);
        }
        all
    }

    /// Reserves more bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.all.amount.saturating_add(bytes) > self.most {
            self.refusals.count(Reason::Memory);
            let detail = format!(
                "this request needs more memory than the {} MB that one may have; send fewer values at a time, or raise \
                 --most-memory",
                self.most / 1_000_000
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        self.take(bytes).ok_or_else(|| {
            self.refusals.count(Reason::Memory);
            Problem::busy("the memory for requests is in use; try again")
        })
    }

    /// Returns all but so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.own.shrink(bytes);
        self.all.shrink(bytes);
    }
}

/// An upper bound of the memory that a JSON text takes once it is parsed into values: 32 bytes for each value, and a
/// node of an ordered map for every eleven fields of an object, at least one. Strings are skipped.
pub(crate) fn json_bytes(body: &[u8]) -> usize {
    const VALUE: usize = 64;
    const OBJECT: usize = 768;
    let (mut total, mut quoted, mut escaped) = (body.len().saturating_add(VALUE), false, false);
    for byte in body {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'{') => total = total.saturating_add(OBJECT),
            // A list doubles its buffer as it grows, and a field of an object has its name beside its value.
            (false, b'[' | b',' | b':') => total = total.saturating_add(VALUE),
            _ => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_takes_is_bounded_from_above() {
        for (text, least) in
            [("[0,0,0,0,0,0,0,0]", 8 * 32), ("[{\"\":0},{\"\":0},{\"\":0}]", 3 * 640), ("[[],[],[]]", 3 * 32)]
        {
            assert!(json_bytes(text.as_bytes()) >= least, "{text}");
        }
        // Brackets inside a string are not counted.
        let text = format!("\"{}\\\"{{{{\"", "{[,".repeat(1000));
        assert!(json_bytes(text.as_bytes()) < 2 * text.len());
    }
}
