//! `sage serve`: serves a directory over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sage_server::diagnostics::{self, LogFormat};
use sage_server::{Configuration, ListenConfiguration};

use crate::commands::work::listen_for_stop;
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::operator::{OperatorArgs, ThreadArgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage token create --as mia
  sage serve
  sage serve --listen 0.0.0.0:7878 --dir sage-data --tls-certificate server.pem --tls-key server.key

The address is printed to standard output once the server is ready. The server owns the directory until it stops: other
commands cannot open it, except sage token. A directory that does not exist is created. Without a certificate nothing
is encrypted: then listen on this machine only, or use a proxy with TLS.";

/// Formats of messages by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormatName {
    /// Plain text
    Text,
    /// A JSON object on each line
    Json,
}

/// The address, TLS, and the limits of connections.
#[derive(Args, Clone, Debug)]
struct ListenArgs {
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", env = "SAGE_LISTEN", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// The certificate chain of the server, its own certificate first (PEM); enables TLS
    #[arg(long, value_name = "FILE", env = "SAGE_TLS_CERTIFICATE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", env = "SAGE_TLS_KEY", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// How many seconds a client has to send the header of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    head_seconds: u64,
    /// How many seconds a client may stall while it sends a body or reads a response; a whole body may take four times
    /// as long, without a token no longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    stall_seconds: u64,
    /// Address of a proxy in front of the server; its X-Forwarded headers are trusted, and cookies are sent over TLS
    /// only; can be repeated
    #[arg(long, value_name = "ADDRESS", env = "SAGE_PROXY", value_delimiter = ',')]
    proxy: Vec<IpAddr>,
    /// How many connections may be open; never more than three quarters of the file descriptors
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_CONNECTIONS", default_value_t = 4096, value_parser = at_least_one)]
    most_connections: usize,
    /// How many connections one address may have open
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_CONNECTIONS_EACH", default_value_t = 256, value_parser = at_least_one)]
    most_connections_each: usize,
}

/// A whole number that is not zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a whole number from 1 on".to_owned())
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// The disclosure interval in seconds: users without a role on a stream see the results of its attempts at the end
    /// of an interval; a stream file can set a longer one
    #[arg(long, value_name = "SECONDS", env = "SAGE_DISCLOSURE_INTERVAL", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    disclosure_interval: u64,
    /// How many requests per second one token may make
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_REQUESTS", default_value_t = 100_000)]
    most_requests: u32,
    /// How many changes per second one token may make, after a burst of five seconds' worth
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_CHANGES", default_value_t = 20)]
    most_changes: u32,
    /// How many megabytes of memory requests may use together; one token has half of it, one request a quarter
    #[arg(long, value_name = "MEGABYTES", env = "SAGE_MOST_MEMORY", default_value_t = 1024, value_parser = at_least_one)]
    most_memory: usize,
    /// How many event listeners one token may have
    #[arg(long, value_name = "NUMBER", env = "SAGE_MOST_LISTENERS", default_value_t = 16, value_parser = at_least_one)]
    most_listeners: usize,
    /// The format of messages on standard error: with json also a line for each request
    #[arg(long, value_name = "FORMAT", env = "SAGE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormatName,
    /// Export the signed log head to the files of --heads at this interval too, not only after events
    #[arg(long, value_name = "SECONDS", env = "SAGE_HEADS_EVERY", requires = "heads")]
    heads_every: Option<NonZeroU64>,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    #[command(flatten)]
    pub(crate) directory: DirectoryArgs,
}

impl ServeArgs {
    fn configuration(&self) -> Configuration {
        let ListenArgs { listen, tls_certificate, tls_key, .. } = self.listen.clone();
        let directory =
            self.directory.under(&self.operator).with_interval(Duration::from_secs(self.disclosure_interval));
        Configuration {
            listen: ListenConfiguration {
                address: listen,
                tls: tls_certificate.zip(tls_key),
                head_timeout: Duration::from_secs(self.listen.head_seconds),
                stall_timeout: Duration::from_secs(self.listen.stall_seconds),
                proxies: self.listen.proxy.clone(),
                connections: self.listen.most_connections,
                connections_each: self.listen.most_connections_each,
            },
            requests_per_second: self.most_requests,
            changes_per_second: self.most_changes,
            memory_bytes: self.most_memory.saturating_mul(1_000_000),
            listeners_each: self.most_listeners,
            head_export: self.heads_every.map(|seconds| Duration::from_secs(seconds.get())),
            directory: directory.directory(),
        }
    }
}

pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    diagnostics::set_format(match args.log_format {
        LogFormatName::Text => LogFormat::Text,
        LogFormatName::Json => LogFormat::Json,
    });
    args.threads.apply();
    let stop = listen_for_stop()?;
    sage_server::serve(&args.configuration(), stop, |address| {
        let mut out = std::io::stdout().lock();
        std::io::Write::write_all(&mut out, format!("{address}\n").as_bytes())?;
        std::io::Write::flush(&mut out)
    })?;
    Ok(())
}
