//! TLS connections.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An encrypted connection.
pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Performs the TLS handshake and verifies the server certificate. The error is the reason of a failed
/// handshake, or the I/O error of the connection.
pub(crate) fn secure(
    host: &str,
    trusted: Option<&Path>,
    mut socket: TcpStream,
) -> Result<Secure, Result<io::Error, String>> {
    let config = config(trusted).map_err(Err)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| Err(error.to_string()))?;
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| Err(error.to_string()))?;
    while connection.is_handshaking() {
        // An untrusted certificate is reported as such an error too.
        connection.complete_io(&mut socket).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Err(error.to_string()),
            _ => Ok(error),
        })?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn config(trusted: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match trusted {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let unusable = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
