//! The accept loop: connections are accepted, wrapped in TLS if configured, served and closed.
//!
//! Connections are closed if they exceed the limits, or if the client is too slow with the TLS handshake, with the
//! request header, or in reading a response. On shutdown the server accepts no new connection, completes the requests
//! in progress, and closes idle connections.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;

use crate::diagnostics::note;
use crate::transport::admission::Reason;
use crate::transport::browser::Exposure;
use crate::transport::certificates::Certificates;
use crate::transport::connections::{Most, Slot};
use crate::transport::pacing::PacedStream;
use crate::{ServeError, Server};

/// How long requests in progress may take after a stop is requested.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// The bytes of a request header, or of a response, that a connection buffers.
const MOST_BUFFERED: usize = 32 << 10;

/// How the server listens, and the limits of its connections.
#[derive(Clone, Debug)]
pub struct ListenConfiguration {
    /// The address; port 0 selects a free port.
    pub address: SocketAddr,
    /// The certificate chain and its key, as PEM files; with them everything goes over TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How long a client may take to send the head of a request.
    pub head_timeout: Duration,
    /// How long a client may stall while it sends a body or reads a response.
    pub stall_timeout: Duration,
    /// Addresses of trusted proxies.
    pub proxies: Vec<IpAddr>,
    /// The limit of open connections.
    pub connections: usize,
    /// The limit of open connections from one address.
    pub connections_each: usize,
}

/// A validated [`ListenConfiguration`], with its certificates.
pub(crate) struct Listening {
    address: SocketAddr,
    tls: Option<Arc<Certificates>>,
    patience: Patience,
    exposure: Exposure,
    most: Most,
}

/// The timeouts of clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the head of a request.
    head: Duration,
    /// For the next piece of a body or a response.
    pub(crate) stall: Duration,
}

impl ListenConfiguration {
    /// Reads the certificates, before the directory or the port is opened.
    pub(crate) fn prepare(&self) -> Result<Listening, ServeError> {
        let tls = match &self.tls {
            Some((certificate, key)) => Some(Arc::new(Certificates::read(certificate, key)?)),
            None => None,
        };
        let proxies = self.proxies.iter().map(IpAddr::to_canonical).collect();
        Ok(Listening {
            address: self.address,
            exposure: Exposure { tls: tls.is_some(), proxies },
            tls,
            patience: Patience { head: self.head_timeout, stall: self.stall_timeout },
            most: Most { all: self.connections, each_address: self.connections_each },
        })
    }
}

impl Listening {
    /// How clients reach the server.
    pub(crate) fn exposure(&self) -> Exposure {
        self.exposure.clone()
    }

    /// The timeouts of clients.
    pub(crate) const fn patience(&self) -> Patience {
        self.patience
    }

    /// The limits of open connections.
    pub(crate) const fn most(&self) -> Most {
        self.most
    }

    /// Serves until a stop is requested. Calls `ready` with the address once the port is open.
    pub(crate) async fn serve(
        self, server: Arc<Server>, router: Router, ready: impl FnOnce(String) -> Result<(), ServeError>,
    ) -> Result<(), ServeError> {
        let address = self.address;
        let taken = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(taken)?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        ready(format!("{scheme}://{}", listener.local_addr().map_err(taken)?))?;
        let (stop, stopped) = tokio::sync::watch::channel(());
        if let Some(certificates) = &self.tls {
            tokio::spawn(Arc::clone(certificates).follow());
        }
        loop {
            let stopping = pin!(stop_requested(&server));
            let accepted = match select(pin!(listener.accept()), stopping).await {
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
                    // Above the limit the connection is closed without a response, which would cost more than it.
                    let Some(slot) = slot else { continue };
                    let accepted = Accepted { stream, from, slot };
                    let (tls, router) = (self.tls.clone(), router.clone());
                    tokio::spawn(connected(accepted, tls, self.patience, router, stopped.clone()));
                }
                Err(error) => {
                    // No file descriptors are left, or the client has disconnected: try again after a pause.
                    note(&format!("a connection was not accepted: {}", error.kind()));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop((listener, stopped));
        // Open connections see the signal and drop their receivers.
        let _ = stop.send(());
        let _ = tokio::time::timeout(LAST_REQUESTS, stop.closed()).await;
        Ok(())
    }
}

/// Returns once the server gets the signal to stop.
async fn stop_requested(server: &Server) {
    while !server.stop.is_requested() {
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
    let stream = PacedStream::new(stream, stall, slot.refusals());
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
