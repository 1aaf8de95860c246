//! Gzip compression of long responses, for clients that accept it.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::call::Reply;

/// Shorter responses fit in one packet, so compressing them gains nothing.
const LEAST: usize = 1400;

/// Whether an `Accept-Encoding` allows gzip: it contains `gzip` or `*` with a weight above zero.
pub(crate) fn is_wanted(accepted: Option<&str>) -> bool {
    let weight = |part: &str| {
        let (name, rest) = part.split_once(';').unwrap_or((part, ""));
        let named = matches!(name.trim(), "gzip" | "*");
        let weight = rest.trim().strip_prefix("q=").map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
        named.then_some(weight)
    };
    accepted.is_some_and(|text| text.split(',').find_map(weight).is_some_and(|weight: f64| weight > 0.0))
}

/// Compresses a response if it is a long text.
pub(crate) fn compressed(mut answer: Reply) -> Reply {
    let is_text =
        ["text/", "application/json", "application/problem+json"].iter().any(|kind| answer.kind.starts_with(kind));
    if answer.body.len() < LEAST || !is_text {
        return answer;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(answer.body.len() / 8), Compression::fast());
    // Writing to memory cannot fail; if it did, the response would be sent uncompressed.
    let Ok(bytes) = encoder.write_all(&answer.body).and_then(|()| encoder.finish()) else { return answer };
    answer.body = Bytes::from(bytes);
    answer.headers.push(("content-encoding", "gzip".to_owned()));
    answer.headers.push(("vary", "accept-encoding".to_owned()));
    answer
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn only_clients_that_accept_gzip_get_it() {
        for (accepted, wanted) in [
            (Some("gzip"), true),
            (Some("deflate, gzip;q=0.5"), true),
            (Some("*"), true),
            (Some("gzip;q=0"), false),
            (Some("br"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(is_wanted(accepted), wanted, "{accepted:?}");
        }
    }

    #[test]
    fn compression_is_lossless() {
        let text = "blocks ".repeat(10_000);
        let answer = compressed(Reply::new("text/html; charset=utf-8", text.clone()));
        assert!(answer.body.len() < text.len() / 20);
        let mut read = String::new();
        GzDecoder::new(&answer.body[..]).read_to_string(&mut read).expect("gzip");
        assert_eq!(read, text);
        assert_eq!(compressed(Reply::new("text/plain", "short")).body, "short");
        assert!(compressed(Reply::new("application/octet-stream", text)).headers.is_empty());
    }
}
