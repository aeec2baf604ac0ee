//! TLS: what is spoken, which certificates are taken, and how they are renewed.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::TlsFiles;
use rcgen::CertifiedKey;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

use crate::serve_api_support::Shelf;
use crate::serve_api_support::http::{get, talk};

type Certificate = CertifiedKey<rcgen::KeyPair>;

fn certificate() -> Certificate {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
}

fn write(files: &TlsFiles, certificate: &str, key: &str) {
    std::fs::write(&files.certificate, certificate).expect("a file");
    std::fs::write(&files.key, key).expect("a file");
}

fn files(shelf: &Shelf, certificate: &Certificate) -> TlsFiles {
    let files = TlsFiles { certificate: shelf.path("cert.pem"), key: shelf.path("key.pem") };
    write(&files, &certificate.cert.pem(), &certificate.signing_key.serialize_pem());
    files
}

/// A client that trusts these certificates alone.
fn trusting(certificates: &[&Certificate], versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    certificates.iter().for_each(|one| roots.add(one.cert.der().clone()).expect("a certificate"));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).expect("versions");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Who comes back by a ticket is shown no certificate.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The status of `/livez` over TLS, and the certificate that was shown.
fn live_over_tls(server: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<(u16, CertificateDer<'static>)> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection, stream);
    let answers = talk(&mut stream, &get("/livez").bytes("localhost"));
    let shown = stream.conn.peer_certificates().and_then(|chain| chain.first()).cloned();
    answers.first().map(|answer| answer.status).zip(shown).ok_or_else(|| std::io::Error::other("no answer"))
}

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

#[test]
fn tls_is_spoken_from_1_2_on_and_nothing_else_on_its_port() {
    let shelf = Shelf::new();
    let (own, other) = (certificate(), certificate());
    let server = shelf.serve(|options| options.tls = Some(files(&shelf, &own)));
    for versions in [&BOTH[..1], &BOTH[1..], &BOTH] {
        let (status, shown) = live_over_tls(server.address, &trusting(&[&own], versions)).expect("an answer");
        assert_eq!((status, &shown), (200, own.cert.der()));
    }
    assert!(live_over_tls(server.address, &trusting(&[&other], &BOTH)).is_err(), "another certificate is not shown");
    // The same ClientHello for TLS 1.2, 1.1 and 1.0.
    for minor in [3, 2, 1] {
        let extensions =
            b"\x00\x0d\x00\x06\x00\x04\x04\x03\x08\x04\x00\x0a\x00\x04\x00\x02\x00\x1d\x00\x0b\x00\x02\x01\x00";
        let suites = b"\x00\x00\x06\xc0\x2b\xc0\x09\x00\x2f\x01\x00\x00\x18";
        let body = [&[3, minor][..], &[7; 32], suites, extensions].concat();
        let hello = [&[0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8][..], &body].concat();
        let received = send(server.address, &hello);
        if minor == 3 {
            assert_eq!(received.first(), Some(&0x16), "a handshake: {received:?}");
        } else {
            assert_eq!(received.first(), Some(&0x15), "an alert: {received:?}");
            assert_eq!(received.get(5..), Some(&[2, 70][..]), "fatal, for the version: {received:?}");
        }
    }
    let received = send(server.address, &get("/livez").bytes("localhost"));
    assert!(!received.starts_with(b"HTTP/") && !String::from_utf8_lossy(&received).contains("alive"), "{received:?}");
    // Who connects and says nothing keeps nobody waiting.
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    live_over_tls(server.address, &trusting(&[&own], &BOTH)).expect("an answer");
    drop(silent);
}

/// What comes back for these bytes.
fn send(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(server).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    stream.write_all(bytes).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let mut received = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut received);
    received
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let shelf = Shelf::new();
    let (own, other) = (certificate(), certificate());
    let files = files(&shelf, &own);
    let (pem, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let refused = |certificate: &str, key: &str, named: &Path, words: &[&str]| {
        write(&files, certificate, key);
        let error = shelf.try_serve(|options| options.tls = Some(files.clone())).err().expect("a refusal").to_string();
        assert!(error.contains(&named.display().to_string()), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "no {words:?} in {error}");
        let secret: String = key.lines().skip(1).take(1).collect();
        assert!(secret.is_empty() || !error.contains(&secret), "the key is shown: {error}");
    };
    refused(&pem, &other.signing_key.serialize_pem(), &files.key, &["another certificate"]);
    refused("", &key, &files.certificate, &["no certificate"]);
    refused(&key, &key, &files.certificate, &["no certificate"]);
    refused(&pem, "", &files.key, &["no private key"]);
    refused(&pem, &pem, &files.key, &["no private key"]);
    refused(&pem, &key.replace("MI", "!!"), &files.key, &["no private key"]);
    refused(&pem.replacen("MI", "!!", 1), &key, &files.certificate, &[]);
    refused(&format!("{}\n{pem}", pem.replacen("MI", "MA", 1)), &key, &files.key, &[]);
    let missing = TlsFiles { certificate: PathBuf::from("nowhere.pem"), ..files.clone() };
    let error = shelf.try_serve(|options| options.tls = Some(missing)).err().expect("a refusal").to_string();
    assert!(error.contains("nowhere.pem"), "{error}");
}

/// Ends the clients, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_certificate_is_renewed_without_a_dropped_request() {
    let shelf = Shelf::new();
    let (old, new) = (certificate(), certificate());
    let files = files(&shelf, &old);
    let server = shelf.serve(|options| options.tls = Some(files.clone()));
    let (config, stop) = (trusting(&[&old, &new], &BOTH), AtomicBool::new(false));
    let shown = |wanted: &Certificate| {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let (status, shown) = live_over_tls(server.address, &config).expect("an answer");
            assert_eq!(status, 200);
            if shown == *wanted.cert.der() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    let asked: usize = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let ask = || {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                let (status, _) = live_over_tls(server.address, &config).expect("an answer");
                assert_eq!(status, 200);
                asked += 1;
            }
            asked
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        assert!(shown(&old));
        // Half of a renewal, and a bad one, change nothing.
        std::fs::write(&files.certificate, new.cert.pem()).expect("a file");
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(live_over_tls(server.address, &config).expect("an answer").1, *old.cert.der());
        std::fs::write(&files.key, "not a key").expect("a file");
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(live_over_tls(server.address, &config).expect("an answer").1, *old.cert.der());
        write(&files, &new.cert.pem(), &new.signing_key.serialize_pem());
        assert!(shown(&new), "the new certificate is not shown");
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no request was dropped")).sum()
    });
    assert!(asked > 100, "only {asked} requests ran meanwhile");
}
