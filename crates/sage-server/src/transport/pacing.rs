//! Deadlines for slow clients: bodies that arrive slowly, and responses that are read slowly.
//!
//! A response is sent in pieces of [`PIECE`] bytes, and its memory stays reserved until the last piece is handed over. When
//! a write blocks, the client has `--stall-seconds` to read [`PROGRESS`] bytes; otherwise the connection is closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::problem::Problem;
use crate::transport::admission::{Reason, Refusals, Reservation};

/// The bytes of a response that are handed over at a time.
const PIECE: usize = 64 << 10;
/// The bytes that a stalled client must read before its deadline.
const PROGRESS: usize = 256 << 10;

/// The deadlines of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyDeadline {
    /// From the first byte to the last.
    whole: Duration,
    /// From one piece to the next.
    piece: Duration,
}

impl BodyDeadline {
    /// For a client with a token, which may stall for this long.
    pub(crate) const fn token(stall: Duration) -> Self {
        Self { whole: stall.saturating_mul(4), piece: stall }
    }

    /// For a client without a token.
    pub(crate) const fn anonymous(stall: Duration) -> Self {
        Self { whole: stall, piece: stall }
    }
}

/// Reads a whole body of at most `most` bytes, reserving memory for each piece as it arrives.
pub(crate) async fn whole(
    body: Body, headers: &HeaderMap, most: usize, deadline: BodyDeadline, memory: &mut Reservation, refusals: &Refusals,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body is incomplete, or larger than the {most} bytes allowed here");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let end = Instant::now() + deadline.whole;
    let mut pieces = body.into_data_stream();
    let mut read: Vec<Bytes> = Vec::new();
    let mut total = 0;
    loop {
        let until = end.min(Instant::now() + deadline.piece);
        let piece = tokio::time::timeout_at(until, pieces.next()).await.map_err(|_| {
            refusals.count(Reason::BodyTimeout);
            Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long; send it again")
        })?;
        let Some(piece) = piece else { break };
        let piece = piece.map_err(|_| too_large())?;
        total += piece.len();
        if total > most {
            return Err(too_large());
        }
        memory.grow(piece.len())?;
        read.push(piece);
    }
    Ok(match <[Bytes; 1]>::try_from(read) {
        Ok([only]) => only,
        Err(pieces) => {
            memory.grow(total)?;
            let mut joined = BytesMut::with_capacity(total);
            pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
            memory.shrink(total);
            joined.freeze()
        }
    })
}

/// A response body that keeps its memory reserved until it is sent.
pub(crate) fn metered(bytes: Bytes, mut memory: Reservation) -> Body {
    if bytes.len() <= PIECE {
        return Body::from(bytes);
    }
    memory.shrink(bytes.len());
    let pieces = futures::stream::unfold((bytes, memory), |(mut rest, mut memory)| async move {
        if rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(PIECE.min(rest.len()));
        memory.shrink(rest.len());
        Some((Ok::<_, io::Error>(piece), (rest, memory)))
    });
    Body::from_stream(pieces)
}

/// A stream whose writes fail once the peer has not read for too long.
pub(crate) struct PacedStream<Stream> {
    stream: Stream,
    most: Duration,
    refusals: Arc<Refusals>,
    /// While writes block: the deadline, and the bytes written since.
    stalled: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<Stream> PacedStream<Stream> {
    pub(crate) const fn new(stream: Stream, most: Duration, refusals: Arc<Refusals>) -> Self {
        Self { stream, most, refusals, stalled: None }
    }

    /// Records the result of a write, and fails if the deadline has passed.
    fn paced(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                let most = self.most;
                let (sleep, _) = self.stalled.get_or_insert_with(|| (Box::pin(tokio::time::sleep(most)), 0));
                if sleep.as_mut().poll(context).is_ready() {
                    self.refusals.count(Reason::ReadTimeout);
                    let late = "the client does not read the response";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)));
                }
                Poll::Pending
            }
            Poll::Ready(Ok(count)) => {
                if let Some((_, taken)) = &mut self.stalled {
                    *taken += count;
                    if *taken >= PROGRESS {
                        self.stalled = None;
                    }
                }
                Poll::Ready(Ok(count))
            }
            failed => failed,
        }
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for PacedStream<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for PacedStream<Stream> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.paced(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // Everything is sent, so later writes get a new deadline.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.stalled = None;
            return flushed;
        }
        // With TLS, writes block here and not in `poll_write`.
        let paced = self.paced(context, flushed.map_ok(|()| 0));
        paced.map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        let paced = self.paced(context, shut.map_ok(|()| 0));
        paced.map_ok(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::transport::admission::{Admission, Capacity, Usage, Who};

    /// Long enough for a slow reader on a busy machine.
    const STALL: Duration = Duration::from_secs(3);

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(work)
    }

    fn admission() -> Admission {
        Admission::new(Capacity { memory_bytes: 4_000_000, listeners_each: 1 })
    }

    #[test]
    fn a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() {
        run(async {
            let refusals = admission().refusals;
            let (stuck, _kept) = tokio::io::duplex(1 << 10);
            let failed = PacedStream::new(stuck, STALL, Arc::clone(&refusals)).write_all(&[0; 1 << 20]).await;
            assert_eq!(failed.expect_err("the peer does not read").kind(), io::ErrorKind::TimedOut);
            let (slow, mut reader) = tokio::io::duplex(64 << 10);
            let reading = tokio::spawn(async move {
                let (mut buffer, mut read) = (vec![0; 64 << 10], 0);
                loop {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    match reader.read(&mut buffer).await {
                        Ok(0) | Err(_) => return read,
                        Ok(count) => read += count,
                    }
                }
            });
            let mut slow = PacedStream::new(slow, STALL, refusals);
            slow.write_all(&vec![0; 4 << 20]).await.expect("a slow reader is not cut off");
            drop(slow);
            assert_eq!(reading.await.expect("no panic"), 4 << 20);
        });
    }

    #[test]
    fn a_response_gives_its_memory_back_as_it_leaves() {
        run(async {
            let (admission, usage) = (admission(), Usage::default());
            let mut memory = admission.memory(Who::Token(&usage));
            memory.grow(900_000).expect("there is so much");
            let mut pieces = metered(Bytes::from(vec![7; 300_000]), memory).into_data_stream();
            assert_eq!(admission.in_use()[2], 300_000);
            let mut left = 300_000;
            while let Some(piece) = pieces.next().await {
                left -= piece.expect("a piece").len();
                assert_eq!(admission.in_use()[2], left);
            }
            assert_eq!(left, 0);
            // When a client disconnects, the memory of the unsent rest is released.
            let mut memory = admission.memory(Who::Token(&usage));
            memory.grow(300_000).expect("there is so much");
            drop(metered(Bytes::from(vec![7; 300_000]), memory));
            assert_eq!(admission.in_use()[2], 0);
        });
    }

    #[test]
    fn a_body_is_counted_as_it_arrives_and_cut_off_when_it_stalls() {
        run(async {
            let (admission, usage) = (admission(), Usage::default());
            let (memory, refusals) = (|| admission.memory(Who::Token(&usage)), Arc::clone(&admission.refusals));
            let piece = || Ok::<_, io::Error>(Bytes::from(vec![1; 1000]));
            let (deadline, none) = (BodyDeadline::token(STALL), HeaderMap::new());
            let mut own = memory();
            let all = Body::from_stream(futures::stream::iter([piece(), piece()]));
            let read = whole(all, &none, 2000, deadline, &mut own, &refusals).await.expect("a body");
            assert_eq!((read.len(), admission.in_use()[2]), (2000, 2000));
            let all = Body::from_stream(futures::stream::iter([piece(), piece()]));
            let refused = whole(all, &none, 1999, deadline, &mut memory(), &refusals).await;
            assert_eq!(refused.expect_err("one byte too many").status, StatusCode::PAYLOAD_TOO_LARGE);
            let stalls = futures::stream::iter([piece()]).chain(futures::stream::pending());
            let late = whole(Body::from_stream(stalls), &none, 2000, deadline, &mut memory(), &refusals).await;
            assert_eq!(late.expect_err("it stalls").status, StatusCode::REQUEST_TIMEOUT);
            assert_eq!(admission.in_use()[2], 2000, "refused bodies release their memory");
        });
    }
}
