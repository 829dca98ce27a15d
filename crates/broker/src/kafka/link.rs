//! A connection to one broker of the cluster.

use std::io::{self, Read};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::message::{
    AUTHENTICATE, HANDSHAKE, Kind, NEEDED, VERSIONS, authenticated, mechanisms, versions,
};
use crate::kafka::scram::{Hash, Scram};
use crate::kafka::wire::{Reader, Writer};
use crate::secure::secure;
use crate::socket::{ANSWER, Socket, connected, is_timeout};

/// The largest answer that is accepted: more than one fetch, with room for a large batch.
const ANSWER_MAX: usize = 256 << 20;
/// Bytes per read.
const PIECE: usize = 1 << 20;
/// Error code: unsupported SASL mechanism.
const UNSUPPORTED_MECHANISM: i16 = 33;

/// The SASL mechanisms, the strongest first.
#[derive(Clone, Copy)]
enum Mechanism {
    Scram(Hash),
    Plain,
}

const MECHANISMS: [(&str, Mechanism); 3] = [
    ("SCRAM-SHA-512", Mechanism::Scram(Hash::Sha512)),
    ("SCRAM-SHA-256", Mechanism::Scram(Hash::Sha256)),
    ("PLAIN", Mechanism::Plain),
];

pub(crate) struct Link {
    socket: Socket,
    server: String,
    requests: i32,
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// The broker can't be reached, has an unsupported version, does not speak Kafka, or refuses the login.
    pub(crate) fn connect(address: &Address, host: &str, port: u16) -> Result<Link, Error> {
        let Some((user, password)) = &address.login else { return Link::open(address, host, port) };
        let mut refused = None;
        // A user may have no credentials for a mechanism that the broker supports. It closes the connection
        // after a refusal.
        for (name, mechanism) in MECHANISMS {
            let mut link = Link::open(address, host, port)?;
            match link.log_in(name, mechanism, (user, password)) {
                Err(error @ Error::Refused { .. }) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
                Ok(true) => return Ok(link),
                Ok(false) => {}
            }
        }
        Err(refused.unwrap_or_else(|| Error::Refused {
            server: address.shown(host, port),
            why: "it supports none of the SASL mechanisms SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN".to_owned(),
        }))
    }

    fn open(address: &Address, host: &str, port: u16) -> Result<Link, Error> {
        let server = address.shown(host, port);
        let io = |source| Error::Io { server: server.clone(), source };
        let socket = connected(host, port).map_err(io)?;
        let socket = if address.tls {
            let secure = secure(host, address.trusted.as_deref(), socket).map_err(|error| match error {
                Ok(error) => io(error),
                Err(why) => Error::Tls { server: server.clone(), why },
            })?;
            Socket::Secure(Box::new(secure))
        } else {
            Socket::Plain(socket)
        };
        let mut link = Link { socket, server, requests: 0 };
        let answer = link.request(&VERSIONS, &[], Duration::ZERO)?;
        let (_, known) = versions(&answer).ok_or_else(|| link.malformed("an answer about versions"))?;
        let knows = |kind: &Kind| {
            known.iter().any(|&[key, low, high]| key == kind.key && (low..=high).contains(&kind.version))
        };
        if !NEEDED.iter().all(knows) {
            let why = "unsupported version: Kafka 2.8 to 4 is required".to_owned();
            return Err(Error::Refused { server: link.server, why });
        }
        Ok(link)
    }

    /// Authenticates with this mechanism. Returns false if the broker does not support it.
    fn log_in(
        &mut self,
        name: &str,
        mechanism: Mechanism,
        (user, password): (&str, &str),
    ) -> Result<bool, Error> {
        let mut asked = Writer::default();
        asked.text(name);
        let answer = self.request(&HANDSHAKE, &asked.0, Duration::ZERO)?;
        match mechanisms(&answer).ok_or_else(|| self.malformed("an answer about logins"))? {
            (0, _) => {}
            (UNSUPPORTED_MECHANISM, _) => return Ok(false),
            _ => return Err(self.refused("this listener has no SASL: leave out user:password@".to_owned())),
        }
        match mechanism {
            Mechanism::Plain => self.say(&format!("\0{user}\0{password}")).map(drop)?,
            Mechanism::Scram(hash) => {
                let mut random = [0; 16];
                let none =
                    || Error::Io { server: self.server.clone(), source: io::Error::other("no random bytes") };
                SystemRandom::new().fill(&mut random).map_err(|_| none())?;
                let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
                let scram = Scram::begin(hash, (user, password), &nonce);
                let heard = self.say(&scram.first())?;
                let proof = scram.prove(&heard).ok_or_else(|| self.malformed("a login of another form"))?;
                if self.say(&proof.message)? != proof.answer {
                    return Err(
                        self.refused("the broker could not prove that it knows the password".to_owned())
                    );
                }
            }
        }
        Ok(true)
    }

    /// Sends a SASL message and returns the answer.
    fn say(&mut self, text: &str) -> Result<String, Error> {
        let mut asked = Writer::default();
        asked.bytes(text.as_bytes());
        let answer = self.request(&AUTHENTICATE, &asked.0, Duration::ZERO)?;
        match authenticated(&answer).ok_or_else(|| self.malformed("an answer in a login"))? {
            (0, _, heard) => Ok(String::from_utf8_lossy(heard).into_owned()),
            (_, why, _) => Err(self.refused(why)),
        }
    }

    /// Sends a request and returns the answer, for which the server may take some time on top of the usual
    /// one.
    ///
    /// # Errors
    ///
    /// The connection is lost and can't be used any more.
    pub(crate) fn request(&mut self, kind: &Kind, body: &[u8], wait: Duration) -> Result<Vec<u8>, Error> {
        self.exchange(kind, body, wait).map_err(|source| Error::Io {
            server: self.server.clone(),
            source: match source.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the broker closed the connection; check credentials (user:password@) or TLS (kafka+tls://)",
                ),
                _ if is_timeout(&source) => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
                _ => source,
            },
        })
    }

    fn exchange(&mut self, kind: &Kind, body: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
        self.requests = self.requests.wrapping_add(1);
        let mut asked = Writer::default();
        asked.i16(kind.key);
        asked.i16(kind.version);
        asked.i32(self.requests);
        asked.text("remora");
        if kind.flexible {
            asked.i8(0);
        }
        asked.0.extend(body);
        let mut sent = Writer::default();
        sent.bytes(&asked.0);
        self.socket.write(&sent.0)?;
        self.socket.tcp().set_read_timeout(Some(wait + ANSWER))?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let bad = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        if length > ANSWER_MAX {
            return bad("not the Kafka protocol; is it a TLS listener (kafka+tls://)?");
        }
        let mut answer = Vec::new();
        while answer.len() < length {
            // No more room than what has come may need.
            let before = answer.len();
            answer.resize(length.min(before + PIECE), 0);
            self.socket.read_exact(&mut answer[before..])?;
        }
        let mut reader = Reader(&answer);
        let number = reader.i32();
        if number != Some(self.requests) || (kind.flexible && reader.tags().is_none()) {
            return bad("not the Kafka protocol: an answer to another request");
        }
        let head = answer.len() - reader.0.len();
        answer.drain(..head);
        Ok(answer)
    }

    /// The error for an answer that can't be read.
    pub(crate) fn malformed(&self, what: &'static str) -> Error {
        Error::Protocol { server: self.server.clone(), protocol: "Kafka", what }
    }

    fn refused(&self, why: String) -> Error {
        Error::Refused { server: self.server.clone(), why }
    }
}
