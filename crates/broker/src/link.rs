//! Connections to a NATS server.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::Error;
use crate::address::Address;
use crate::protocol::{Message, Operation, parse};
use crate::secure::secure;
use crate::socket::{ANSWER, Socket, connected, is_timeout};

/// Bytes per read.
const PIECE: usize = 64 << 10;
/// Prefixes of the subjects that acknowledge a delivery and that request one.
pub(crate) const ACKNOWLEDGE: &str = "$JS.ACK.";
pub(crate) const NEXT: &str = "$JS.API.CONSUMER.MSG.NEXT.";
/// The id of the only subscription.
const OURS: u32 = 1;

/// A connection. Call [`Link::keep_alive`] now and then while it is idle: the server closes connections that
/// do not answer its PINGs for minutes.
pub struct Link {
    socket: Socket,
    /// Received bytes that were not parsed yet.
    input: Vec<u8>,
    server: String,
    /// Prefix of the subjects that answers are sent to.
    inbox: String,
    requests: u64,
    /// The largest message that the server accepts, in bytes.
    limit: usize,
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// The server can't be reached, does not speak NATS, or refuses the login.
    pub fn connect(address: &Address) -> Result<Link, Error> {
        let server = address.shown();
        let io = |source| Error::Io { server: server.clone(), source };
        let socket = connected(&address.host, address.port).map_err(io)?;
        let mut random = [0; 12];
        SystemRandom::new().fill(&mut random).map_err(|_| io(io::Error::other("no random bytes")))?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let inbox = format!("_INBOX.{random}");
        let socket = Socket::Plain(socket);
        let mut link = Link { socket, input: Vec::new(), server, inbox, requests: 0, limit: usize::MAX };
        link.log_in(address)?;
        Ok(link)
    }

    fn log_in(&mut self, address: &Address) -> Result<(), Error> {
        let until = Instant::now() + ANSWER;
        let Some(Operation::Info(info)) = self.next(until)? else {
            return Err(self.protocol("the first line is not INFO"));
        };
        let info: Value = serde_json::from_str(&info).map_err(|_| self.protocol("INFO is not JSON"))?;
        let limit = info["max_payload"].as_u64().and_then(|limit| usize::try_from(limit).ok());
        self.limit = limit.ok_or_else(|| self.protocol("INFO without max_payload"))?;
        if address.tls || info["tls_required"] == true {
            if info["tls_required"] != true && info["tls_available"] != true {
                let why = "the server offers none; use nats:// for an unencrypted connection".to_owned();
                return Err(Error::Tls { server: self.server.clone(), why });
            }
            let socket = self.socket.tcp().try_clone().map_err(|error| self.io(error))?;
            let trusted = address.trusted.as_deref();
            let secure = secure(&address.host, trusted, socket).map_err(|error| match error {
                Ok(error) => self.io(error),
                Err(why) => Error::Tls { server: self.server.clone(), why },
            })?;
            self.socket = Socket::Secure(Box::new(secure));
        }
        let mut login = json!({
            "verbose": false, "pedantic": false, "name": "remora", "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1, "headers": true, "no_responders": true, "tls_required": address.tls,
        });
        match (&address.user, &address.secret) {
            (Some(user), password) => (login["user"], login["pass"]) = (json!(user), json!(password)),
            (None, Some(token)) => login["auth_token"] = json!(token),
            (None, None) => {}
        }
        self.write(format!("CONNECT {login}\r\nSUB {}.* {OURS}\r\n", self.inbox).as_bytes())?;
        self.flush()
    }

    /// Waits until the server has processed everything sent so far.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the server rejected something that was sent.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write(b"PING\r\n")?;
        let until = Instant::now() + ANSWER;
        while self.receive(until)? != Some(Operation::Pong) {}
        Ok(())
    }

    /// Answers PINGs that have arrived meanwhile.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        match self.receive(Instant::now()) {
            Err(Error::Io { source, .. }) if is_timeout(&source) => Ok(()),
            heard => heard.map(drop),
        }
    }

    /// Sends a message and waits for the answer.
    pub(crate) fn request(
        &mut self,
        subject: &str,
        headers: &str,
        body: &[u8],
        wait: Duration,
    ) -> Result<Message, Error> {
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        self.send(subject, Some(&reply), headers, body)?;
        // A delivery of JetStream has the subject that the message was sent to.
        let is_answer = |message: &Message| {
            let is_delivery = || message.reply.as_deref().is_some_and(|reply| reply.starts_with(ACKNOWLEDGE));
            message.subject == reply || (subject.starts_with(NEXT) && is_delivery())
        };
        let until = Instant::now() + wait;
        loop {
            match self.receive(until)? {
                Some(Operation::Message(message)) if is_answer(&message) => return Ok(message),
                // An answer that came too late for its request.
                _ => {}
            }
        }
    }

    /// Sends a message. `headers` are lines that end with a carriage return and a line feed.
    pub(crate) fn send(
        &mut self,
        subject: &str,
        reply: Option<&str>,
        headers: &str,
        body: &[u8],
    ) -> Result<(), Error> {
        let headers = if headers.is_empty() { String::new() } else { format!("NATS/1.0\r\n{headers}\r\n") };
        let total = headers.len() + body.len();
        if total > self.limit {
            return Err(Error::TooLong { bytes: total, limit: self.limit });
        }
        let reply = reply.map_or_else(String::new, |reply| format!(" {reply}"));
        let mut sent = match headers.len() {
            0 => format!("PUB {subject}{reply} {total}\r\n"),
            header => format!("HPUB {subject}{reply} {header} {total}\r\n{headers}"),
        }
        .into_bytes();
        sent.extend(body);
        sent.extend(b"\r\n");
        self.write(&sent)
    }

    /// The next operation for the caller. PINGs are answered, and -ERR becomes an error.
    fn receive(&mut self, until: Instant) -> Result<Option<Operation>, Error> {
        match self.next(until)? {
            Some(Operation::Ping) => self.write(b"PONG\r\n").map(|()| None),
            Some(Operation::Err(why)) if ends_connection(&why) => {
                Err(self.io(io::Error::new(io::ErrorKind::ConnectionAborted, why)))
            }
            Some(Operation::Err(why)) => Err(Error::Refused { server: self.server.clone(), why }),
            Some(other) => Ok(Some(other)),
            None => Err(self.io(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))),
        }
    }

    /// The next operation; none if it is not there in time.
    fn next(&mut self, until: Instant) -> Result<Option<Operation>, Error> {
        loop {
            let found = parse(&self.input).map_err(|what| self.protocol(what))?;
            if let Some((operation, length)) = found {
                self.input.drain(..length);
                return Ok(Some(operation));
            }
            // A time limit of zero is none.
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.tcp().set_read_timeout(Some(left)).map_err(|error| self.io(error))?;
            let before = self.input.len();
            self.input.resize(before + PIECE, 0);
            let read = self.socket.read(&mut self.input[before..]);
            self.input.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    return Err(self.io(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the broker closed the connection; check credentials or TLS",
                    )));
                }
                Ok(_) => {}
                Err(error) if is_timeout(&error) && Instant::now() >= until => return Ok(None),
                Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(error)),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.socket.write(bytes).map_err(|error| self.io(error))
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { server: self.server.clone(), source }
    }

    fn protocol(&self, what: &'static str) -> Error {
        Error::Protocol { server: self.server.clone(), protocol: "NATS", what }
    }
}

/// Whether a server error only ends this connection, so that connecting again may help.
fn ends_connection(why: &str) -> bool {
    ["Stale Connection", "Slow Consumer", "Server Shutdown"].contains(&why)
}
