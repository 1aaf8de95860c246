//! The certificate of the server: read at the start, and again whenever its files change.
//!
//! New connections use a renewed certificate. If the new files are invalid, this is reported once and the previous
//! certificate stays in use, so that a half-written renewal does not interrupt the service.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::ServeError;
use crate::diagnostics::note;

/// How often the files are checked.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The modification time and the length of a file.
type Stamp = (SystemTime, u64);

/// A certificate and its key, with the files they are read from.
pub(crate) struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads both files.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, ServeError> {
        let current = RwLock::new(config(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// An acceptor with the current certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads the files again whenever they change. Never returns.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut seen = self.stamps();
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let now = self.stamps();
            if now == seen {
                continue;
            }
            seen = now;
            match config(&self.certificate, &self.key) {
                Ok(fresh) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
                    note("the certificate was read again; new connections use it");
                }
                Err(error) => note(&format!("{error}; the previous certificate stays in use")),
            }
        }
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        let stamp = |path: &Path| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        };
        [stamp(&self.certificate), stamp(&self.key)]
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
    let unreadable = |path: &Path, reason: String| ServeError::Certificate { path: path.to_owned(), reason };
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unreadable(certificate, error.to_string()))?;
    let own = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, own));
    Ok(Arc::new(config.map_err(|error| unreadable(certificate, error.to_string()))?))
}
