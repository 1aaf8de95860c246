//! Connections: accepted, wrapped in TLS where that is asked for, served, and brought to their end.
//!
//! Who sends headers slowly is cut off, and so is a connection that takes too long to agree on keys. Asked to stop,
//! the server takes no new connection, lets every request that has begun be answered, and closes those that idle.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Args;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio_rustls::TlsAcceptor;

use super::Server;
use crate::failure::Failure;
use crate::output::tell;

/// How long the requests that are under way may take once the server is asked to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(30);

/// How connections are made.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListenArgs {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", env = "SAGE_LISTEN", default_value = "127.0.0.1:7878")]
    pub(super) listen: SocketAddr,
    /// A file with the certificates of the server, its own first (PEM); with it everything goes over TLS
    #[arg(long, value_name = "FILE", env = "SAGE_TLS_CERTIFICATE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// A file with the key of the certificate (PEM)
    #[arg(long, value_name = "FILE", env = "SAGE_TLS_KEY", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// How many seconds a client has to send the head of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    head_seconds: u64,
}

/// What a server listens with.
pub(super) struct Door {
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    head: Duration,
}

impl ListenArgs {
    /// Reads what is needed before anything is opened.
    pub(super) fn door(&self) -> Result<Door, Failure> {
        let tls = match self.tls_certificate.as_deref().zip(self.tls_key.as_deref()) {
            Some((certificate, key)) => Some(acceptor(certificate, key)?),
            None => None,
        };
        Ok(Door { address: self.listen, tls, head: Duration::from_secs(self.head_seconds) })
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
    let unreadable = |path: &Path, why: String| {
        let help = "name a PEM file with certificates as --tls-certificate, and one with their key as --tls-key";
        Failure::no_answer(format!("{}: {why}", path.display()), help)
    };
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unreadable(certificate, error.to_string()))?;
    let own = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, own));
    let config = config.map_err(|error| unreadable(certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Door {
    /// Whether what goes through it is hidden from others.
    pub(super) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until the server is asked to stop. The address is handed over once it is listened to.
    pub(super) async fn serve(
        self, server: Arc<Server>, router: Router, ready: impl FnOnce(String) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let address = self.address;
        let taken = |error| {
            let message = format!("{address} cannot be listened to: {error}");
            Failure::no_answer(message, "name another with --listen HOST:PORT")
        };
        let listener = TcpListener::bind(address).await.map_err(taken)?;
        let scheme = if self.is_secure() { "https" } else { "http" };
        ready(format!("{scheme}://{}", listener.local_addr().map_err(taken)?))?;
        let (stop, stopped) = tokio::sync::watch::channel(());
        let (tls, head) = (self.tls, self.head);
        loop {
            let asked = pin!(asked(&server));
            let accepted = match select(pin!(listener.accept()), asked).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(connected(stream, tls.clone(), head, router.clone(), stopped.clone()));
                }
                Err(error) => {
                    // No file descriptors are left, or the client is gone: others come when some are free again.
                    tell(&format!("a connection was not accepted: {}", error.kind()));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop((listener, stopped));
        // Whoever is connected hears it and lets go of the other end.
        let _ = stop.send(());
        let _ = tokio::time::timeout(LAST_REQUESTS, stop.closed()).await;
        Ok(())
    }
}

/// Until somebody asks the server to stop.
async fn asked(server: &Server) {
    while !server.stop.asked() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn connected(stream: TcpStream, tls: Option<TlsAcceptor>, head: Duration, router: Router, stopped: Receiver<()>) {
    // An answer is one write; to hold it back for more would only delay it.
    drop(stream.set_nodelay(true));
    match tls {
        None => served(stream, head, router, stopped).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(head, acceptor.accept(stream)).await {
                served(stream, head, router, stopped).await;
            }
        }
    }
}

async fn served<Stream>(stream: Stream, head: Duration, router: Router, mut stopped: Receiver<()>)
where
    Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(64 << 10);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // How a connection ends is the client's business: nothing is known of it that is worth telling.
    let stopping = matches!(select(connection.as_mut(), pin!(stopped.changed())).await, Either::Right(_));
    if stopping {
        connection.as_mut().graceful_shutdown();
        drop(connection.await);
    }
}
