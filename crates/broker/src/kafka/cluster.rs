//! A cluster as far as one topic needs it: which server leads which partition, and connections to them.

use std::time::{Duration, Instant};

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::link::Link;
use crate::kafka::message::{
    FETCH, FetchRequest, Kind, METADATA, Metadata, OFFSETS, OffsetAt, error_info, fetch_request, fetched,
    list_offsets_request, metadata_request, offsets,
};
use crate::kafka::record::Record;

/// For how long something is tried again within a call: a partition has another leader by then, as a rule.
const RETRY_TIME: Duration = Duration::from_secs(10);
/// How long to wait before that.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
const UNKNOWN_TOPIC: i16 = 3;
const OUT_OF_RANGE: i16 = 1;
/// What a server gives as the leader of a partition that has none.
const NO_LEADER: i16 = 5;

/// A host and its port.
type HostPort = (String, u16);

pub(crate) struct Cluster {
    address: Address,
    links: Vec<(HostPort, Link)>,
    servers: Vec<(i32, HostPort)>,
    /// The topic.
    pub(crate) name: String,
    /// Its id. A topic that is created again has another one, and counts its records from the beginning.
    pub(crate) id: [u8; 16],
    /// The server that leads each partition.
    pub(crate) leaders: Vec<i32>,
}

/// What was fetched of a partition.
pub(crate) struct FetchedPartition {
    pub(crate) partition: i32,
    pub(crate) records: Vec<Record>,
    /// The offset behind what was fetched.
    pub(crate) next: i64,
    /// Whether nothing more was there.
    pub(crate) is_at_end: bool,
    /// Whether the partition has no such offset.
    pub(crate) is_out_of_range: bool,
}

impl Cluster {
    /// Connects to the first server that answers, and finds the topic.
    ///
    /// # Errors
    ///
    /// No server answers, or the cluster has no such topic for this user.
    pub(crate) fn connect(address: &Address, topic: &str) -> Result<Cluster, Error> {
        let mut cluster = Cluster {
            address: address.clone(),
            links: Vec::new(),
            servers: Vec::new(),
            name: topic.to_owned(),
            id: [0; 16],
            leaders: Vec::new(),
        };
        cluster.refresh_metadata()?;
        Ok(cluster)
    }

    /// Asks which server leads which partition.
    ///
    /// # Errors
    ///
    /// No server answers; the topic is not there, or a partition has no leader at present.
    pub(crate) fn refresh_metadata(&mut self) -> Result<(), Error> {
        let asked = metadata_request(&self.name);
        let mut places = self.address.servers.clone();
        for (_, place) in &self.servers {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        let mut failed = None;
        for place in places {
            let learned = self.request(&place, &METADATA, &asked, Duration::ZERO).and_then(|answer| {
                Metadata::read(&answer).ok_or_else(|| self.malformed(&place, "an answer about the cluster"))
            });
            match learned {
                Ok(metadata) => return self.take(metadata),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or(Error::BadUrl("it names no host")))
    }

    fn take(&mut self, metadata: Metadata) -> Result<(), Error> {
        if metadata.error == UNKNOWN_TOPIC {
            return Err(Error::NoTopic(self.name.clone()));
        }
        let topic = format!("the topic {}", self.name);
        check(metadata.error, &topic)?;
        self.servers = metadata.servers.into_iter().map(|(id, host, port)| (id, (host, port))).collect();
        self.id = metadata.id;
        self.leaders.clear();
        for number in (0..).take(metadata.partitions.len()) {
            let found = metadata.partitions.iter().find(|partition| partition.index == number);
            let leader = found.map(|partition| partition.leader).filter(|leader| *leader >= 0);
            let what = || format!("partition {number} of {topic}");
            self.leaders.push(leader.ok_or_else(|| error(NO_LEADER, &what()))?);
        }
        match self.leaders[..] {
            [] => check(NO_LEADER, &topic),
            _ => Ok(()),
        }
    }

    fn request(
        &mut self,
        place: &HostPort,
        kind: &Kind,
        body: &[u8],
        wait: Duration,
    ) -> Result<Vec<u8>, Error> {
        // One that fails is not put back.
        let mut link = match self.links.iter().position(|(known, _)| known == place) {
            Some(at) => self.links.swap_remove(at).1,
            None => Link::connect(&self.address, &place.0, place.1)?,
        };
        let answer = link.request(kind, body, wait)?;
        self.links.push((place.clone(), link));
        Ok(answer)
    }

    /// Asks a server, and reads its answer.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the answer can't be read.
    pub(crate) fn ask<T>(
        &mut self,
        server: i32,
        kind: &Kind,
        body: &[u8],
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, Error> {
        let place = self.place(server)?;
        let answer = self.request(&place, kind, body, Duration::ZERO)?;
        read(&answer).ok_or_else(|| self.malformed(&place, "an answer that can't be read"))
    }

    /// Any server that is known.
    pub(crate) fn any(&self) -> i32 {
        self.servers.first().map_or(-1, |(server, _)| *server)
    }

    fn place(&self, server: i32) -> Result<HostPort, Error> {
        match self.servers.iter().find(|(known, _)| *known == server) {
            Some((_, place)) => Ok(place.clone()),
            None => Err(error(NO_LEADER, &format!("server {server} of the cluster"))),
        }
    }

    fn malformed(&self, (host, port): &HostPort, what: &'static str) -> Error {
        Error::Protocol { server: self.address.shown(host, *port), protocol: "Kafka", what }
    }

    /// The server that leads a partition.
    ///
    /// # Errors
    ///
    /// The topic has no such partition.
    pub(crate) fn leader(&self, partition: i32) -> Result<i32, Error> {
        let at = usize::try_from(partition).ok();
        let leader = at.and_then(|at| self.leaders.get(at)).copied();
        leader.ok_or_else(|| error(UNKNOWN_TOPIC, &self.part(partition)))
    }

    /// A partition as messages name it.
    pub(crate) fn part(&self, partition: i32) -> String {
        format!("partition {partition} of the topic {}", self.name)
    }

    /// The first or the next offset of a partition.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the server is no leader or refuses.
    pub(crate) fn offset(&mut self, partition: i32, end: OffsetAt) -> Result<i64, Error> {
        let asked = list_offsets_request(&self.name, &[partition], end);
        let found = self.ask(self.leader(partition)?, &OFFSETS, &asked, offsets)?;
        let &[(_, error, offset)] = &found[..] else { return Err(self.nothing(partition)) };
        check(error, &self.part(partition))?;
        Ok(offset)
    }

    fn nothing(&self, partition: i32) -> Error {
        error(UNKNOWN_TOPIC, &self.part(partition))
    }

    /// Fetches records of partitions that one server leads, each from an offset on. `wait` is how long the
    /// server waits for the first.
    ///
    /// # Errors
    ///
    /// The connection is lost, the server is no leader or refuses, or what it has can't be read.
    pub(crate) fn fetch(
        &mut self,
        from: &[(i32, i64)],
        committed: bool,
        wait: Duration,
    ) -> Result<Vec<FetchedPartition>, Error> {
        let Some(&(first, _)) = from.first() else { return Ok(Vec::new()) };
        let place = self.place(self.leader(first)?)?;
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let asked = fetch_request(&FetchRequest { topic: &self.name, from, committed, wait_ms });
        let answer = self.request(&place, &FETCH, &asked, wait)?;
        let (failed, parts) =
            fetched(&answer).ok_or_else(|| self.malformed(&place, "records that can't be read"))?;
        check(failed, &format!("the topic {}", self.name))?;
        let mut pieces = Vec::new();
        for part in parts {
            let partition = part.partition;
            let asked = from.iter().find(|(known, _)| *known == partition);
            let &(_, offset) =
                asked.ok_or_else(|| self.malformed(&place, "a partition that nobody asked for"))?;
            let is_out_of_range = part.error == OUT_OF_RANGE;
            if !is_out_of_range {
                check(part.error, &self.part(partition))?;
            }
            let end = if committed { part.stable } else { part.high };
            let (records, next) = part.batches(offset).read().map_err(|why| {
                let what = format!("{}, from offset {offset} on", self.part(partition));
                Error::Kafka { what, why: why.to_owned(), is_transient: false }
            })?;
            pieces.push(FetchedPartition {
                partition,
                records,
                next,
                is_at_end: next >= end || next == offset,
                is_out_of_range,
            });
        }
        Ok(pieces)
    }

    /// Fetches what a partition has now from an offset on, whether it is committed or not.
    ///
    /// # Errors
    ///
    /// Those of [`Cluster::fetch`].
    pub(crate) fn fetch_one(&mut self, partition: i32, from: i64) -> Result<FetchedPartition, Error> {
        let pieces = self.fetch(&[(partition, from)], false, Duration::ZERO)?;
        pieces.into_iter().next().ok_or_else(|| self.nothing(partition))
    }

    /// Tries something again for a while if that may help, with fresh metadata of the cluster.
    ///
    /// # Errors
    ///
    /// Those of the attempts.
    pub(crate) fn with_retries<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Cluster) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let until = Instant::now() + RETRY_TIME;
        let mut known = Ok(());
        loop {
            match known.and_then(|()| attempt(self)) {
                Err(error) if error.is_retryable() && Instant::now() < until => {}
                done => return done,
            }
            #[expect(clippy::disallowed_methods, reason = "nothing tells when a cluster has found a leader")]
            std::thread::sleep(RETRY_PAUSE);
            known = self.refresh_metadata();
        }
    }
}

/// An error for what a server says, unless it says that all is well.
///
/// # Errors
///
/// The server says an error.
pub(crate) fn check(code: i16, what: &str) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(error(code, what)) }
}

fn error(code: i16, what: &str) -> Error {
    let info = error_info(code);
    let name = if info.name.is_empty() { format!("error {code}") } else { info.name.to_owned() };
    Error::Kafka {
        what: what.to_owned(),
        why: format!("{name}{}", info.advice),
        is_transient: info.is_transient,
    }
}
