//! A connection with TLS whose packets we read ourselves.
//!
//! The driver keeps to itself what it decrypts, and it does not know all packets of the binary log. So a
//! connection of our own is made for them: greeting, TLS, login. The exchange is described in the servers'
//! documents under "Connection Phase". A connection without TLS needs none of this: its socket is enough.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql::consts::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

use crate::connect::first_answer;
use crate::stream::{PAYLOAD_MAX, server_error};
use crate::{Error, SslMode, Target};

/// The longest packet that we say we take, as other clients do.
const PACKET_BYTES_MAX: u32 = 1 << 30;
/// `utf8mb4_general_ci`, which all servers know.
const UTF8MB4: u8 = 45;
/// The length of what a password is scrambled with.
const NONCE_BYTES: usize = 20;

/// A connection that is logged in.
pub(crate) struct Secure {
    tls: StreamOwned<ClientConnection, TcpStream>,
}

impl Read for Secure {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.tls.read(room)
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tls.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tls.flush()
    }
}

/// Waits until a socket can be read, or has an error to tell. Returns false if nothing came in time, or a
/// signal.
pub(crate) fn arrives(socket: &impl std::os::fd::AsFd, wait: Duration) -> io::Result<bool> {
    let mut wanted = [PollFd::new(socket, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut wanted, Some(&wait)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Secure {
    /// Waits until there is something to read, or the end. What comes may be TLS's own, and then it is none.
    pub(crate) fn arrives(&mut self, wait: Duration) -> io::Result<bool> {
        let until = Instant::now() + wait;
        let StreamOwned { conn, sock } = &mut self.tls;
        loop {
            let state = conn.process_new_packets().map_err(io::Error::other)?;
            if state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
                return Ok(true);
            }
            if !arrives(sock, until.saturating_duration_since(Instant::now()))? {
                return Ok(false);
            }
            if conn.read_tls(sock)? == 0 {
                return Ok(true);
            }
        }
    }
}

impl Target {
    /// Makes a connection with TLS and logs in. `None` if TLS is not wanted, or only preferred and not
    /// offered.
    pub(crate) fn connect_securely(&self) -> Result<Option<Secure>, Error> {
        if self.socket.is_some() || self.tls.mode == SslMode::Disabled {
            return Ok(None);
        }
        let nowhere = || self.unreachable("the name has no address".into(), "check the name");
        first_answer(self.addresses()?, |host| self.securely_at(host)).unwrap_or_else(|| Err(nowhere()))
    }

    fn securely_at(&self, host: &str) -> Result<Option<Secure>, Error> {
        let addresses = (host, self.port).to_socket_addrs().map_err(|error| self.broke_off(&error, false))?;
        // A name that is checked may have several addresses, and the server may listen on only one of them.
        let mut socket = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses {
            socket = TcpStream::connect_timeout(&address, self.connect_timeout);
            if socket.is_ok() {
                break;
            }
        }
        let socket = socket.map_err(|error| self.not_connected(error.kind(), error.to_string()))?;
        let plain = |error: io::Error| self.broke_off(&error, false);
        // A server that accepts and then says nothing must not block us for ever.
        socket.set_read_timeout(Some(self.connect_timeout)).map_err(plain)?;
        socket.set_nodelay(true).map_err(plain)?;
        let mut wire = Packets { wire: socket, sequence: 0 };
        let greeting = wire.read().map_err(plain)?;
        if greeting.first() == Some(&0xFF) {
            return Err(self.refused(server_error(&greeting)));
        }
        let greeting: HandshakePacket<'_> = ParseBuf(&greeting)
            .parse(())
            .map_err(|error| Error::Protocol { what: format!("{error}; is this a MySQL port?") })?;
        if !greeting.capabilities().contains(CapabilityFlags::CLIENT_SSL) {
            if self.tls.mode == SslMode::Preferred {
                return Ok(None);
            }
            return Err(self.tls_error("the server offers none".into()));
        }
        let flags = greeting.capabilities() & wanted();
        wire.write_one(&SslRequest::new(flags, PACKET_BYTES_MAX, UTF8MB4)).map_err(plain)?;
        let Packets { wire, sequence } = wire;
        let tls = self.encrypt(host, wire)?;
        let mut wire = Packets { wire: Secure { tls }, sequence };
        self.log_in(&mut wire, &greeting, flags)?;
        wire.wire.tls.sock.set_read_timeout(None).map_err(plain)?;
        Ok(Some(wire.wire))
    }

    fn encrypt(
        &self,
        host: &str,
        mut socket: TcpStream,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, Error> {
        let config = self.tls_config()?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| self.tls_error(error.to_string()))?;
        let tls = |error: rustls::Error| self.tls_error(error.to_string());
        let mut connection = ClientConnection::new(Arc::new(config), name).map_err(tls)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|error| self.broke_off(&error, true))?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    fn tls_config(&self) -> Result<ClientConfig, Error> {
        let tls = |error: rustls::Error| self.tls_error(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(tls)?;
        let verifies = matches!(self.tls.mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
        let checks_name = self.tls.mode == SslMode::VerifyIdentity;
        let ca = if verifies { Some(self.authorities(&provider)?) } else { None };
        let trust = Trust { ca, checks_name, provider };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust));
        let (Some(cert), Some(key)) = (&self.tls.cert, &self.tls.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let bytes = std::fs::read(key).map_err(|error| self.unusable(key, &error))?;
        let key = PrivateKeyDer::from_pem_slice(&bytes)
            .or_else(|_| PrivateKeyDer::try_from(bytes))
            .map_err(|error| self.unusable(key, &error))?;
        builder.with_client_auth_cert(self.certificates(cert)?, key).map_err(tls)
    }

    /// Who may have signed a server's certificate: the given CA, or else the public ones.
    fn authorities(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let mut roots = RootCertStore::empty();
        match &self.tls.ca {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                for certificate in self.certificates(path)? {
                    roots.add(certificate).map_err(|error| self.unusable(path, &error))?;
                }
            }
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| self.tls_error(error.to_string()))
    }

    /// The certificates in a PEM file, or the one in a DER file.
    fn certificates(&self, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
        let bytes = std::fs::read(path).map_err(|error| self.unusable(path, &error))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|error| self.unusable(path, &error))?;
        Ok(if found.is_empty() { vec![CertificateDer::from(bytes)] } else { found })
    }

    fn unusable(&self, path: &Path, error: &dyn std::fmt::Display) -> Error {
        self.tls_error(format!("{}: {error}", path.display()))
    }

    fn log_in(
        &self,
        wire: &mut Packets<Secure>,
        greeting: &HandshakePacket<'_>,
        flags: CapabilityFlags,
    ) -> Result<(), Error> {
        let lost = |error: io::Error| self.broke_off(&error, true);
        let strange = |what: String| Error::Protocol { what };
        let password = self.password.as_ref().map(|password| password.expose());
        let mut nonce = greeting.scramble_1_ref().to_vec();
        nonce.extend_from_slice(greeting.scramble_2_ref().unwrap_or_default());
        nonce.resize(NONCE_BYTES, 0);
        let plugin = match greeting.auth_plugin() {
            Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
            _ => AuthPlugin::MysqlNativePassword,
        };
        let proof = plugin.gen_data(password, &nonce).map(|proof| proof.to_vec());
        let attributes = [("program_name".to_owned(), "remora".to_owned())].into_iter().collect();
        let answer = HandshakeResponse::new(
            proof,
            // Every server that offers TLS knows utf8mb4.
            (5, 5, 3),
            Some(self.user.as_bytes()),
            None::<&[u8]>,
            Some(plugin),
            flags,
            Some(attributes),
            PACKET_BYTES_MAX,
        );
        wire.write_one(&answer).map_err(lost)?;
        loop {
            let said = wire.read().map_err(lost)?;
            match said.as_slice() {
                [0, ..] => return Ok(()),
                [0xFF, ..] => return Err(self.refused(server_error(&said))),
                // caching_sha2_password: it remembers us, and the end comes next; or it wants the password,
                // which TLS hides.
                [1, 3, ..] => {}
                [1, 4, ..] => {
                    let password = password.unwrap_or_default();
                    wire.write(&[password.as_bytes(), b"\0"].concat()).map_err(lost)?;
                }
                [0xFE, _, ..] => {
                    let wanted: AuthSwitchRequest<'_> =
                        ParseBuf(&said).parse(()).map_err(|error| strange(error.to_string()))?;
                    let plugin = wanted.auth_plugin();
                    let proof = match plugin {
                        AuthPlugin::MysqlNativePassword
                        | AuthPlugin::CachingSha2Password
                        | AuthPlugin::Ed25519 => plugin.gen_data(password, wanted.plugin_data()),
                        other => {
                            let name = String::from_utf8_lossy(other.as_bytes()).into_owned();
                            return Err(strange(format!(
                                "the account logs in by {name}, which is not possible here: use another account"
                            )));
                        }
                    };
                    wire.write(&proof.map(|proof| proof.to_vec()).unwrap_or_default()).map_err(lost)?;
                }
                _ => return Err(strange("the server's answer to the login is none".to_owned())),
            }
        }
    }
}

/// What we can do, as far as it matters here.
fn wanted() -> CapabilityFlags {
    CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_SSL
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_PLUGIN_AUTH
        | CapabilityFlags::CLIENT_CONNECT_ATTRS
}

/// Packets of the login, numbered. All of them are short.
struct Packets<W> {
    wire: W,
    sequence: u8,
}

impl<W: Read + Write> Packets<W> {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.wire.read_exact(&mut head)?;
        let [a, b, c, number] = head;
        self.sequence = number.wrapping_add(1);
        let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        if len == PAYLOAD_MAX {
            return Err(io::Error::other("a packet that is too long for a login"));
        }
        let mut payload = vec![0; len];
        self.wire.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut packet = payload.len().to_le_bytes()[..3].to_vec();
        packet.push(self.sequence);
        packet.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.wire.write_all(&packet)?;
        self.wire.flush()
    }

    fn write_one(&mut self, message: &impl MySerialize) -> io::Result<()> {
        let mut payload = Vec::new();
        message.serialize(&mut payload);
        self.write(&payload)
    }
}

/// Which certificates of servers are good.
#[derive(Debug)]
struct Trust {
    /// Checks who has signed it. `None`: any certificate is good.
    ca: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(ca) = &self.ca else { return Ok(ServerCertVerified::assertion()) };
        match ca.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.ca {
            Some(ca) => ca.verify_tls12_signature(message, certificate, signed),
            // Certificates that servers make for themselves may be of a form that is not read here.
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.ca {
            Some(ca) => ca.verify_tls13_signature(message, certificate, signed),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
