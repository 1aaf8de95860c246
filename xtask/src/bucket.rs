//! Runs the bucket tests against an in-memory S3 server on loopback, a Python package in its own virtual environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::bench;
use crate::workspace::{self, Failure};

/// A server that is stopped when this value is dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let python = bench::virtual_environment("bucket", "xtask/peers/bucket_requirements.txt")?;
        let mut command = Command::new(python);
        command.arg(workspace::root().join("xtask/peers/bucket.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("bucket.py: {error}"))?;
        let mut address = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut address).map_err(|error| format!("bucket.py: {error}"))?;
        }
        let server = Self { process, address: address.trim().to_owned() };
        if server.address.is_empty() { Err("bucket.py did not start".to_owned()) } else { Ok(server) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the tests that need a bucket.
pub(crate) fn check() -> Result<(), Failure> {
    let server = Server::start()?;
    let mut command = workspace::test_program("engine", &["bucket", "--", "--nocapture"]);
    command.env("SAGE_BUCKET", "s3://sage/blocks").env("AWS_ENDPOINT", &server.address).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "sage").env("AWS_SECRET_ACCESS_KEY", "sage").env("AWS_REGION", "us-east-1");
    workspace::run(&mut command)
}
