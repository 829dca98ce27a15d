//! The near side of a connection, which sends requests.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clone::{CloneReport, CloneRequest};
use crate::request::Request;
use crate::wire::{self, CommandOutput, Decoder, Encoder, MAGIC, VERSION, corrupt};

/// The first message of the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// BLAKE3 of the program that runs there.
    pub program: [u8; 32],
    /// The id of the user as whom it runs.
    pub uid: u32,
    /// The machine's name.
    pub host: OsString,
}

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let out = Encoder(MAGIC.to_vec()).u32(VERSION).bytes(&self.program).u32(self.uid);
        out.bytes(self.host.as_encoded_bytes()).0
    }

    fn decode(payload: &[u8]) -> io::Result<Greeting> {
        let rest = payload.strip_prefix(MAGIC).ok_or_else(|| corrupt("the other side is not remora"))?;
        let mut input = Decoder(rest);
        if input.u32()? != VERSION {
            return Err(corrupt("the far side speaks another version"));
        }
        let program =
            <[u8; 32]>::try_from(input.bytes()?).map_err(|_| corrupt("a hash has another length"))?;
        let greeting = Greeting { program, uid: input.u32()?, host: input.text()? };
        input.end()?;
        Ok(greeting)
    }
}

/// A connection to a far side that has greeted.
#[derive(Clone)]
pub struct Connection {
    wire: Arc<Mutex<Wire>>,
    greeting: Arc<Greeting>,
}

pub(crate) struct Wire {
    input: BufReader<Box<dyn Read + Send>>,
    output: BufWriter<Box<dyn Write + Send>>,
    /// Requests whose answers have not been read yet.
    open: usize,
    /// Answers to the first of them that were read early, to reach a later one.
    early: VecDeque<io::Result<Vec<u8>>>,
    /// Set after an error of the connection itself: nothing more can be sent.
    broken: bool,
}

impl Wire {
    pub(crate) fn tell(&mut self, request: &Request) -> io::Result<()> {
        let (kind, payload) = request.encode();
        self.whole(|wire| wire::send(&mut wire.output, kind, &payload))
    }

    /// Sends a request whose answer is read later.
    pub(crate) fn begin(&mut self, request: &Request) -> io::Result<()> {
        self.tell(request)?;
        self.whole(|wire| wire.output.flush())?;
        self.open += 1;
        Ok(())
    }

    /// The answer to the first request without one.
    pub(crate) fn answer(&mut self) -> io::Result<Vec<u8>> {
        self.early.pop_front().unwrap_or_else(|| self.receive())
    }

    /// The answer to the last request.
    fn last_answer(&mut self) -> io::Result<Vec<u8>> {
        while self.open > 1 && !self.broken {
            let early = self.receive();
            self.early.push_back(early);
        }
        self.receive()
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        if self.open == 0 {
            return Err(corrupt("an answer without a request"));
        }
        let gone = || {
            let text = "the connection to the other machine ended";
            io::Error::new(io::ErrorKind::ConnectionAborted, text)
        };
        let (kind, payload) = self.whole(|wire| match wire::receive(&mut wire.input) {
            // The connection ended, and not a file that is read through it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(gone()),
            other => other?.ok_or_else(gone),
        })?;
        self.open -= 1;
        match kind {
            wire::OK => Ok(payload),
            wire::ERROR => Err(wire::decode_error(&payload)),
            _ => self.whole(|_| Err(corrupt("an answer of no known kind"))),
        }
    }

    fn whole<T>(&mut self, act: impl FnOnce(&mut Wire) -> io::Result<T>) -> io::Result<T> {
        if self.broken {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the connection to the other machine is lost",
            ));
        }
        let done = act(self);
        self.broken = done.is_err();
        done
    }
}

impl Connection {
    /// Waits for the greeting of the far side, which must be the first thing in `input`.
    ///
    /// # Errors
    /// `InvalidData` when something other than this build's far side answers, `UnexpectedEof` when nothing
    /// does.
    pub fn new(input: Box<dyn Read + Send>, output: Box<dyn Write + Send>) -> io::Result<Connection> {
        let mut input = BufReader::new(input);
        let (kind, payload) = wire::receive(&mut input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if kind != wire::OK {
            return Err(corrupt("the far side does not greet"));
        }
        let greeting = Arc::new(Greeting::decode(&payload)?);
        let wire =
            Wire { input, output: BufWriter::new(output), open: 0, early: VecDeque::new(), broken: false };
        Ok(Connection { wire: Arc::new(Mutex::new(wire)), greeting })
    }

    /// The greeting of the far side.
    #[must_use]
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Runs a command there, with empty input, and waits for its end. No shell is involved: arguments are
    /// passed unchanged.
    ///
    /// # Errors
    /// When it can't be started, or the connection ends.
    pub fn run(&self, command: &[OsString]) -> io::Result<CommandOutput> {
        CommandOutput::decode(&self.ask(&Request::Run(command.to_vec()))?)
    }

    /// Copies a folder there so that the files share their blocks.
    ///
    /// # Errors
    /// Those of [`crate::clone()`], and when the connection ends.
    pub fn clone_folder(&self, cloning: &CloneRequest) -> io::Result<CloneReport> {
        CloneReport::decode(&self.ask(&Request::Clone(cloning.clone()))?)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut wire = self.lock();
        wire.begin(request)?;
        wire.last_answer()
    }

    pub(crate) fn ask_for_nothing(&self, request: &Request) -> io::Result<()> {
        Decoder(&self.ask(request)?).end()
    }

    pub(crate) fn handle(&self, request: &Request) -> io::Result<u32> {
        let answer = self.ask(request)?;
        let mut input = Decoder(&answer);
        let handle = input.u32()?;
        input.end()?;
        Ok(handle)
    }
}
