//! The certificate of the server: read at the start, and again whenever its files change.
//!
//! A renewed certificate is used by the next connection. Files that cannot be used are reported once and the
//! certificate before them stays in use, so a renewal that is half written interrupts nothing.

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

/// When a file was changed and how long it is.
type Stamp = (SystemTime, u64);

/// A certificate and its key, as their files have them.
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

    /// Accepts a connection with the certificate as it is now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Watches the files for ever, and reads them again when they change.
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
                Err(error) => note(&format!("{error}; the certificate before it stays in use")),
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
