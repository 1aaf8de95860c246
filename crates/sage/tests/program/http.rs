//! A server in a process of its own, and the few words of HTTP that tests need to talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Place;

/// A server that is up.
pub(crate) struct Serving {
    pub(crate) child: Child,
    address: String,
}

/// What it answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.body))
    }
}

impl Serving {
    /// Starts one on the directory of a place and waits until it is ready.
    pub(crate) fn start(place: &Place) -> Self {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("http://").expect("an address").to_owned();
        Self { child, address }
    }

    /// Where it is, for a browser.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut text = format!("{verb} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(text.as_bytes()).expect("sent");
        // A body that is too large is refused before it is read to its end.
        drop(stream.write_all(body));
        stream
    }

    /// Asks with these headers.
    pub(crate) fn ask(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.send(verb, path, headers, body);
        let mut bytes = Vec::new();
        // After a refusal the rest of the body may come back as a reset; what was answered is there.
        drop(stream.read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn with_token(&self, verb: &str, path: &str, token: &str, body: &str) -> Reply {
        self.ask(verb, path, &[("Authorization", &format!("Bearer {token}"))], body.as_bytes())
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Reply {
        self.with_token("GET", path, token, "")
    }

    /// The JSON of an answer that is good.
    pub(crate) fn good(&self, verb: &str, path: &str, token: &str, body: &str) -> Value {
        let reply = self.with_token(verb, path, token, body);
        assert!((200..300).contains(&reply.status), "{verb} {path}: {} {}", reply.status, reply.body);
        reply.json()
    }

    /// A connection on which events come.
    pub(crate) fn listen(&self, token: &str) -> BufReader<TcpStream> {
        let authorization = format!("Bearer {token}");
        let mut lines = BufReader::new(self.send("GET", "/v1/events", &[("Authorization", &authorization)], b""));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert!(line.contains("200"), "{line}");
        lines
    }

    /// Listens to events after this one until one holds the text; gives all that was heard.
    pub(crate) fn hear(&self, token: &str, after: &str, wanted: &str) -> String {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Last-Event-ID", after)];
        let mut lines = BufReader::new(self.send("GET", "/v1/events", &headers, b""));
        let (began, mut heard) = (Instant::now(), String::new());
        while !heard.contains(wanted) {
            assert!(began.elapsed() < Duration::from_secs(60), "{wanted} was not heard in\n{heard}");
            let mut line = String::new();
            if lines.read_line(&mut line).expect("a line") == 0 {
                panic!("the events ended before {wanted}\n{heard}");
            }
            heard += &line;
        }
        heard
    }

    /// Asks until the answer to a question is as it should be.
    pub(crate) fn wait_for(&self, path: &str, token: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.good("GET", path, token, "");
            if reached(&found) {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{path}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as a machine that loses power would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("an end");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
