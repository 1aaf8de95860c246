//! A client that costs little, since it shares the machine with what it measures: one thread, questions that are
//! written whole, responses of which only the status and the length are read. One question at a time on each
//! connection, which stays open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A question, as it is sent.
#[derive(Clone)]
pub(crate) struct Question {
    head: String,
    body: String,
    expected: u16,
}

impl Question {
    pub(crate) fn post(path: &str, token: Option<&str>, body: &str) -> Self {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        Self { head, body: body.to_owned(), expected: 200 }.with(token)
    }

    pub(crate) fn get(path: &str, token: &str) -> Self {
        Self::bare(path).with(Some(token))
    }

    pub(crate) fn bare(path: &str) -> Self {
        Self { head: format!("GET {path} HTTP/1.1\r\nHost: bench\r\n"), body: String::new(), expected: 200 }
    }

    fn with(mut self, token: Option<&str>) -> Self {
        if let Some(token) = token {
            self.head += &format!("Authorization: Bearer {token}\r\n");
        }
        self
    }

    /// That takes a compressed answer.
    pub(crate) fn zipped(mut self) -> Self {
        self.head += "Accept-Encoding: gzip\r\n";
        self
    }

    /// Whose good answer has this status.
    pub(crate) const fn answered(mut self, status: u16) -> Self {
        self.expected = status;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        format!("{}\r\n{}", self.head, self.body).into_bytes()
    }

    /// The body of the answer, on a connection of its own.
    pub(crate) fn once(&self, address: &str) -> String {
        String::from_utf8_lossy(&self.exchange(address)).into_owned()
    }

    /// How long the body of the answer is.
    pub(crate) fn length(&self, address: &str) -> usize {
        self.exchange(address).len()
    }

    fn exchange(&self, address: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(&self.bytes()).expect("sent");
        let mut found = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = stream.read(&mut buffer).expect("an answer");
            found.extend_from_slice(&buffer[..read]);
            if let Some((status, start, length)) = parsed(&found)
                && found.len() >= start + length
            {
                assert_eq!(status, self.expected, "{}", String::from_utf8_lossy(&found));
                return found.split_off(start);
            }
            assert!(read > 0, "the answer is cut off: {}", String::from_utf8_lossy(&found));
        }
    }
}

/// The first number of a text, which is that of a prediction.
pub(crate) fn first_number(text: &str) -> f64 {
    let start = text.find(|sign: char| sign.is_ascii_digit() || sign == '-').unwrap_or(0);
    let rest = &text[start..];
    let end = rest.find(|sign: char| !matches!(sign, '0'..='9' | '.' | '-' | 'e' | 'E' | '+')).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or(f64::NAN)
}

/// The status of an answer, where its body begins and how long that is; nothing while the head is not whole.
fn parsed(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((status, end + 4, length.unwrap_or(0)))
}

/// Questions answered each second by so many connections, each with one after the other.
pub(crate) fn rate(address: &str, connections: usize, time: Duration, next: impl Fn() -> Question) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let next = Rc::new(next);
    local.block_on(&runtime, async {
        let began = Instant::now();
        let ask = |next: Rc<_>| count_responses(address, began, time, next);
        let all = futures::future::join_all((0..connections).map(|_| ask(Rc::clone(&next)))).await;
        all.into_iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64()
    })
}

async fn count_responses<Next: Fn() -> Question>(address: &str, began: Instant, time: Duration, next: Rc<Next>) -> u64 {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a setting");
    let mut buffer = vec![0; 1 << 14];
    let mut count = 0;
    while began.elapsed() < time {
        let question = next();
        stream.write_all(&question.bytes()).await.expect("sent");
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..]).await.expect("an answer");
            assert!(read > 0, "a connection was closed");
            filled += read;
            if let Some((status, start, length)) = parsed(&buffer[..filled])
                && filled >= start + length
            {
                assert_eq!(status, question.expected, "{}", String::from_utf8_lossy(&buffer[..filled]));
                break;
            }
        }
        count += 1;
    }
    count
}
