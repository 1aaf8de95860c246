//! A server process, and a minimal HTTP client for tests. Every response is checked against the OpenAPI document of the
//! server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::PATIENCE;
use crate::shape;
use crate::workdir::Workdir;

/// A running server.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    described: OnceLock<Value>,
}

/// The disclosure interval of test servers, in seconds.
const INTERVAL: &str = "1";

/// A response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.body))
    }
}

impl Serving {
    /// Starts a server on a directory, and waits until it is ready and all releases are disclosed.
    pub(crate) fn start(workdir: &Workdir) -> Self {
        let serving =
            Self::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", INTERVAL]));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        std::thread::sleep(Duration::from_millis(1000 - now.as_millis() as u64 % 1000));
        serving
    }

    /// Starts a server with this command, and waits until it is ready.
    pub(crate) fn from(command: Command) -> Self {
        Self::talking(command, Stdio::null())
    }

    /// The same, with this standard error.
    pub(crate) fn talking(mut command: Command, talk: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(talk).spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().split_once("://").expect("an address").1.to_owned();
        Self { child, address, described: OnceLock::new() }
    }

    /// The OpenAPI document of the server.
    pub(crate) fn described(&self) -> &Value {
        self.described.get_or_init(|| self.exchange("GET", "/openapi.json", &[], b"").json())
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_end(&self) {
        let ended = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(ended.is_ok_and(|status| status.success()));
    }

    /// A server that was started by other means.
    pub(crate) fn at(child: Child, address: &str) -> Self {
        Self { child, address: address.trim().to_owned(), described: OnceLock::new() }
    }

    /// Stops the server, and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.ask_to_end();
        self.child.wait().expect("an end").code()
    }

    /// Its address, for a browser.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut text = format!("{verb} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(text.as_bytes()).expect("sent");
        // A body that is too large is refused before it is read completely.
        drop(stream.write_all(body));
        stream
    }

    /// Sends a request with these headers, and checks the response against the OpenAPI document.
    pub(crate) fn ask(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let reply = self.exchange(verb, path, headers, body);
        let kind = reply.header("content-type").unwrap_or_default();
        if reply.header("content-encoding").is_none()
            && let Some(fault) = shape::fault(self.described(), verb, path, reply.status, kind, &reply.body)
        {
            panic!("{verb} {path}: {fault}");
        }
        reply
    }

    fn exchange(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.send(verb, path, headers, body);
        let mut bytes = Vec::new();
        // After a refusal the connection may be reset; the response is already there.
        drop(stream.read_to_end(&mut bytes));
        Reply::read(&bytes)
    }

    pub(crate) fn with_token(&self, verb: &str, path: &str, token: &str, body: &str) -> Reply {
        self.ask(verb, path, &[("Authorization", &format!("Bearer {token}"))], body.as_bytes())
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Reply {
        self.with_token("GET", path, token, "")
    }

    /// The JSON of a successful response.
    pub(crate) fn good(&self, verb: &str, path: &str, token: &str, body: &str) -> Value {
        let reply = self.with_token(verb, path, token, body);
        assert!((200..300).contains(&reply.status), "{verb} {path}: {} {}", reply.status, reply.body);
        reply.json()
    }

    /// A connection that receives events.
    pub(crate) fn listen(&self, token: &str) -> BufReader<TcpStream> {
        let authorization = format!("Bearer {token}");
        let mut lines = BufReader::new(self.send("GET", "/v1/events", &[("Authorization", &authorization)], b""));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert!(line.contains("200"), "{line}");
        lines
    }

    /// Listens to events after this one until one contains the text. Returns all of them.
    pub(crate) fn hear(&self, token: &str, after: &str, wanted: &str) -> String {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Last-Event-ID", after)];
        let mut lines = BufReader::new(self.send("GET", "/v1/events", &headers, b""));
        let (began, mut heard) = (Instant::now(), String::new());
        while !heard.contains(wanted) {
            assert!(began.elapsed() < PATIENCE, "{wanted} was not heard in\n{heard}");
            let mut line = String::new();
            if lines.read_line(&mut line).expect("a line") == 0 {
                panic!("the events ended before {wanted}\n{heard}");
            }
            heard += &line;
        }
        heard
    }

    /// Repeats a request until its response meets a condition.
    pub(crate) fn wait_for(&self, path: &str, token: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.good("GET", path, token, "");
            if reached(&found) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the server, as a power failure would.
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
