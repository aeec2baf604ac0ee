//! TLS by rustls, with a certificate that can be renewed while the server runs.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, crypto::CryptoProvider};
use tokio_rustls::{TlsAcceptor, rustls};

use super::log;
use super::options::TlsFiles;
use super::service::changed_at;
use crate::{Error, Result};

/// Certificate and key as they are now.
pub(super) struct Tls {
    files: TlsFiles,
    current: ArcSwap<(Changed, Arc<CertifiedKey>)>,
    provider: Arc<CryptoProvider>,
}

/// When the two files were last written.
type Changed = [Option<SystemTime>; 2];

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

impl Tls {
    /// Reads certificate and key.
    pub fn open(files: TlsFiles) -> Result<Arc<Self>> {
        let provider = Arc::new(ring::default_provider());
        let current = ArcSwap::from_pointee((changed(&files), load(&files, &provider)?));
        Ok(Arc::new(Self { files, current, provider }))
    }

    /// What accepts connections.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor> {
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.refused(&self.files.certificate, error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Takes a new certificate, where the files have changed; a bad one changes nothing.
    pub fn renew(&self) {
        let now = changed(&self.files);
        if now == self.current.load().0 {
            return;
        }
        let (key, outcome) = match load(&self.files, &self.provider) {
            Ok(key) => (key, "renewed".to_owned()),
            Err(error) => (Arc::clone(&self.current.load().1), error.to_string()),
        };
        log::event("certificate", &[("outcome", outcome.into())]);
        self.current.store(Arc::new((now, key)));
    }

    fn refused(&self, path: &Path, found: String) -> Error {
        refused(path, found)
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().1))
    }
}

fn changed(files: &TlsFiles) -> Changed {
    [&files.certificate, &files.key].map(|path| changed_at(path))
}

fn load(files: &TlsFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>> {
    let read = |path: &Path| std::fs::read(path).map_err(Error::io("read", path));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| refused(&files.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(refused(&files.certificate, "no certificate".into()));
    }
    // What is wrong with a key may not repeat any of it.
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|_| refused(&files.key, "no private key that can be read".into()))?;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => refused(&files.key, "the key of another certificate".into()),
        other => refused(&files.key, other.to_string()),
    })?;
    Ok(Arc::new(key))
}

fn refused(path: &Path, found: String) -> Error {
    Error::File {
        path: path.into(),
        expected: "a certificate chain and its private key, in PEM".into(),
        found,
        remedy: "name the files with `--tls-cert` and `--tls-key`".into(),
    }
}
