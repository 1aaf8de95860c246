//! Connections: accepted, wrapped in TLS where that is asked for, served, and brought to their end.
//!
//! Clients that send their head slowly are cut off, and so are connections that take too long to agree on keys, that
//! do not read their response, or that are more than there may be. Asked to stop, the server takes no new connection,
//! lets every request that has begun be answered, and closes those that idle.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Args;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;

use super::Server;
use super::admission::Reason;
use super::browser::Exposure;
use super::certificates::Certificates;
use super::connections::{Most, Slot};
use super::pacing::Paced;
use crate::failure::Failure;
use crate::output::tell;

/// How long the requests that are under way may take once the server is asked to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// How much of a head, or of a response, a connection buffers.
const MOST_BUFFERED: usize = 32 << 10;

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
    /// How many seconds a client may stall while it sends a body or reads a response; a whole body may take four times
    /// as long, without a token no longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    stall_seconds: u64,
    /// Address of a proxy in front of the server; what it says of its clients is believed, and cookies are sent over
    /// TLS alone; repeats
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
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a whole number from 1 on".to_owned())
}

/// What a server listens with.
pub(super) struct Listening {
    address: SocketAddr,
    tls: Option<Arc<Certificates>>,
    patience: Patience,
    exposure: Exposure,
    most: Most,
}

/// How long clients are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the head of a request.
    head: Duration,
    /// For the next piece of a body or a response.
    pub(super) stall: Duration,
}

impl ListenArgs {
    /// Reads what is needed before anything is opened.
    pub(super) fn prepare(&self) -> Result<Listening, Failure> {
        let tls = match self.tls_certificate.as_deref().zip(self.tls_key.as_deref()) {
            Some((certificate, key)) => Some(Arc::new(Certificates::read(certificate, key)?)),
            None => None,
        };
        let proxies = self.proxy.iter().map(IpAddr::to_canonical).collect();
        Ok(Listening {
            address: self.listen,
            exposure: Exposure { tls: tls.is_some(), proxies },
            tls,
            patience: Patience {
                head: Duration::from_secs(self.head_seconds),
                stall: Duration::from_secs(self.stall_seconds),
            },
            most: Most { all: self.most_connections, each_address: self.most_connections_each },
        })
    }
}

impl Listening {
    /// How clients reach the server.
    pub(super) fn exposure(&self) -> Exposure {
        self.exposure.clone()
    }

    /// How long clients are waited for.
    pub(super) const fn patience(&self) -> Patience {
        self.patience
    }

    /// How many connections may be open.
    pub(super) const fn most(&self) -> Most {
        self.most
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
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        ready(format!("{scheme}://{}", listener.local_addr().map_err(taken)?))?;
        let (stop, stopped) = tokio::sync::watch::channel(());
        if let Some(certificates) = &self.tls {
            tokio::spawn(Arc::clone(certificates).follow());
        }
        loop {
            let asked = pin!(asked(&server));
            let accepted = match select(pin!(listener.accept()), asked).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => break,
            };
            match accepted {
                Ok((stream, from)) => {
                    let from = from.ip().to_canonical();
                    let slot = match self.exposure.is_proxy(from) {
                        true => server.connections.admit_proxy(from),
                        false => server.connections.admit(from),
                    };
                    // One too many is closed at once: an answer would cost more than the connection.
                    let Some(slot) = slot else { continue };
                    let accepted = Accepted { stream, from, slot };
                    let (tls, router) = (self.tls.clone(), router.clone());
                    tokio::spawn(connected(accepted, tls, self.patience, router, stopped.clone()));
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

/// A connection that was accepted.
struct Accepted {
    stream: TcpStream,
    from: IpAddr,
    slot: Slot,
}

async fn connected(
    accepted: Accepted, tls: Option<Arc<Certificates>>, Patience { head, stall }: Patience, router: Router,
    stopped: Receiver<()>,
) {
    let Accepted { stream, from, slot } = accepted;
    // An answer is one write; to hold it back for more would only delay it.
    drop(stream.set_nodelay(true));
    let stream = Paced::new(stream, stall, slot.refusals());
    match tls {
        None => served(stream, from, &slot, head, router, stopped).await,
        Some(certificates) => {
            let handshake = tokio::time::timeout(head, certificates.acceptor().accept(stream));
            let evicted = pin!(slot.evicted());
            match select(pin!(handshake), evicted).await {
                Either::Left((Ok(Ok(stream)), _)) => served(stream, from, &slot, head, router, stopped).await,
                Either::Left((Err(_), _)) => slot.refusals().count(Reason::HeadTimeout),
                _ => {}
            }
        }
    }
}

async fn served<Stream>(
    stream: Stream, from: IpAddr, slot: &Slot, head: Duration, router: Router, mut stopped: Receiver<()>,
) where
    Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(MOST_BUFFERED);
    let (service, peer) = (TowerToHyperService::new(router), slot.peer(from));
    let service = service_fn(move |mut request| {
        hyper::Request::extensions_mut(&mut request).insert(peer.clone());
        service.call(request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = match select(connection.as_mut(), select(pin!(stopped.changed()), pin!(slot.evicted()))).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right((Either::Left(_), _)) => None,
        // Dropped, and so closed.
        Either::Right((Either::Right(_), _)) => return,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if ended.is_err_and(|error| error.is_timeout()) {
        slot.refusals().count(Reason::HeadTimeout);
    }
}
