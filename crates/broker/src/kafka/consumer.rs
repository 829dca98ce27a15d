//! Records that are read, and how far they were.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::cluster::{Cluster, check};
use crate::kafka::message::{
    COMMIT, COMMITTED, COORDINATOR, Committed, End, ask_committed, ask_coordinator, commit, commit_errors,
    committed, coordinator,
};
use crate::kafka::record::Record;

/// How often a consumer looks for new partitions, and whether the topic was made anew.
const LOOK: Duration = Duration::from_secs(30);
/// The cluster is told how far the consumer is when it has read all that is there, and after so many records.
const COMMIT_EACH: u32 = 1000;

/// Reads all partitions of a topic. The cluster remembers how far under the name of a group, which has no
/// members: each consumer gets all records.
pub struct Consumer {
    cluster: Cluster,
    group: String,
    coordinator: i32,
    places: Vec<Place>,
    ready: VecDeque<Record>,
    /// How many records were read since the cluster was told.
    untold: u32,
    looked: Instant,
    /// Which partition is asked for first.
    turn: usize,
}

#[derive(Default)]
struct Place {
    /// The offset that is fetched next.
    next: i64,
    /// All before it were acknowledged, or are not for consumers.
    done: i64,
    /// The cluster knows that all before it were.
    told: i64,
    is_at_end: bool,
}

impl Consumer {
    /// Connects. A group that the cluster does not know begins with the first records.
    ///
    /// # Errors
    ///
    /// No server answers, there is no such topic, the user may not read it, or the offset that the group has
    /// come to is not there: records were deleted before they came, or the cluster has lost some.
    pub fn open(address: &Address, topic: &str, group: &str) -> Result<Consumer, Error> {
        let cluster = Cluster::connect(address, topic)?;
        let (group, looked) = (group.to_owned(), Instant::now());
        let (places, ready) = (Vec::new(), VecDeque::new());
        let mut consumer =
            Consumer { cluster, group, coordinator: -1, places, ready, untold: 0, looked, turn: 0 };
        if consumer.cluster.id == [0; 16] {
            let what = format!("the topic {topic}");
            let why =
                "it has no id, by which a topic that is made anew would be told from this one: that takes \
                       Kafka 2.8 or later"
                    .to_owned();
            return Err(Error::Kafka { what, why, passes: false });
        }
        let group = consumer.named();
        let asked = ask_coordinator(&consumer.group);
        // The first consumer of a cluster makes it lay out where it remembers.
        consumer.coordinator = consumer.cluster.patiently(|cluster| {
            let (error, server) = cluster.ask(cluster.any(), &COORDINATOR, &asked, coordinator)?;
            check(error, &group).map(|()| server)
        })?;
        consumer.begin()?;
        Ok(consumer)
    }

    fn named(&self) -> String {
        format!("the group {}", self.group)
    }

    /// Asks how far the group has come.
    fn begin(&mut self) -> Result<(), Error> {
        let partitions: Vec<i32> = (0..).take(self.cluster.leaders.len()).collect();
        let (asked, group) = (ask_committed(&self.group, &self.cluster.name, &partitions), self.named());
        let (coordinator, note) = (self.coordinator, self.note());
        let known = self.cluster.patiently(|cluster| {
            let known = cluster.ask(coordinator, &COMMITTED, &asked, committed)?;
            known.iter().try_for_each(|partition| check(partition.error, &group))?;
            Ok(known)
        })?;
        for partition in partitions {
            let [first, end] = [End::First, End::Next]
                .map(|end| self.cluster.patiently(|cluster| cluster.offset(partition, end)));
            let (first, end) = (first?, end?);
            // What was noted in a topic of the same name is of no use. Who resets a group notes nothing.
            let ours = |known: &&Committed| {
                known.partition == partition
                    && known.offset >= 0
                    && ["", &note].contains(&known.note.as_str())
            };
            let next = known.iter().find(ours).map_or(first, |known| known.offset);
            if next < first || next > end {
                return Err(self.lost(partition, first..end, next));
            }
            self.places.push(Place { next, done: next, told: next, is_at_end: false });
        }
        Ok(())
    }

    /// What is noted with offsets: which topic they are of.
    fn note(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.cluster.id))
    }

    /// The error for an offset that a partition does not have.
    fn lost(&self, partition: i32, there: std::ops::Range<i64>, next: i64) -> Error {
        let why = if next < there.start {
            format!(
                "messages {next} to {} were deleted before they came (retention.ms, retention.bytes); to go on with the \
                 first that is there: kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {} --topic {} \
                 --reset-offsets --to-earliest --execute",
                there.start - 1,
                self.group,
                self.cluster.name
            )
        } else {
            format!(
                "it ends before message {}, and those before {next} have come: the cluster has lost messages, and new \
                 ones get their numbers, under which the queue knows the old ones; receive into another queue",
                there.end
            )
        };
        Error::Kafka { what: self.cluster.part(partition), why, passes: false }
    }

    /// The id of the topic.
    pub fn topic(&self) -> [u8; 16] {
        self.cluster.id
    }

    /// The lowest offset of a record's partition that may still come.
    pub fn floor(&self, record: &Record) -> i64 {
        let at = usize::try_from(record.partition).unwrap_or_default();
        self.places.get(at).map_or(0, |place| place.told)
    }

    /// The next record; none if there is none in that time. The one before must be acknowledged.
    ///
    /// # Errors
    ///
    /// The connection is lost, the topic has other partitions or leaders than at the beginning, or records
    /// can't be read.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Record>, Error> {
        if let Some(record) = self.ready.pop_front() {
            return Ok(Some(record));
        }
        // All that were fetched are done, and what was fetched and is not for consumers.
        self.places.iter_mut().for_each(|place| place.done = place.next);
        if self.looked.elapsed() >= LOOK {
            self.look()?;
        }
        self.turn = self.turn.wrapping_add(1);
        let mut leaders = Vec::new();
        for leader in &self.cluster.leaders {
            if !leaders.contains(leader) {
                leaders.push(*leader);
            }
        }
        let wait = wait / u32::try_from(leaders.len()).unwrap_or(u32::MAX).max(1);
        for leader in leaders {
            let led = (0..).zip(&self.cluster.leaders).zip(&self.places);
            let led = led.filter(|((_, of), _)| **of == leader);
            let mut from: Vec<(i32, i64)> =
                led.map(|((partition, _), place)| (partition, place.next)).collect();
            // A server fills its answer from the first one on.
            let first = self.turn % from.len();
            from.rotate_left(first);
            self.fetch(&from, wait)?;
        }
        if self.ready.is_empty() {
            self.commit()?;
        }
        Ok(self.ready.pop_front())
    }

    fn fetch(&mut self, from: &[(i32, i64)], wait: Duration) -> Result<(), Error> {
        for piece in self.cluster.fetch(from, true, wait)? {
            let at = usize::try_from(piece.partition).unwrap_or_default();
            let Some(place) = self.places.get_mut(at) else { continue };
            if piece.is_outside {
                let what = self.cluster.part(piece.partition);
                // The next beginning says what is missing.
                return Err(Error::Kafka {
                    what,
                    why: format!("there is no offset {}", place.next),
                    passes: true,
                });
            }
            (place.next, place.is_at_end) = (piece.next, piece.is_at_end);
            self.ready.extend(piece.records);
        }
        Ok(())
    }

    /// Whether the topic is as it was.
    fn look(&mut self) -> Result<(), Error> {
        let (id, leaders) = (self.cluster.id, self.cluster.leaders.clone());
        self.cluster.learn()?;
        self.looked = Instant::now();
        if (id, &leaders) != (self.cluster.id, &self.cluster.leaders) {
            let what = format!("the topic {}", self.cluster.name);
            return Err(Error::Kafka { what, why: "it has changed".to_owned(), passes: true });
        }
        Ok(())
    }

    /// Says that a record need not come again. Should that be lost, it comes again.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the cluster refuses to remember it.
    pub fn acknowledge(&mut self, record: &Record) -> Result<(), Error> {
        let at = usize::try_from(record.partition).unwrap_or_default();
        if let Some(place) = self.places.get_mut(at) {
            place.done = record.offset + 1;
        }
        self.untold += 1;
        if self.untold >= COMMIT_EACH { self.commit() } else { Ok(()) }
    }

    /// Tells the cluster what was acknowledged.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the cluster refuses to remember it.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.untold = 0;
        let places = (0..).zip(&self.places).filter(|(_, place)| place.done != place.told);
        let done: Vec<(i32, i64)> = places.map(|(partition, place)| (partition, place.done)).collect();
        if done.is_empty() {
            return Ok(());
        }
        let asked = commit(&self.group, &self.cluster.name, &done, &self.note());
        let errors = self.cluster.ask(self.coordinator, &COMMIT, &asked, commit_errors)?;
        errors.iter().try_for_each(|&error| check(error, &self.named()))?;
        self.places.iter_mut().for_each(|place| place.told = place.done);
        Ok(())
    }

    /// Whether nothing waits.
    pub fn is_done(&self) -> bool {
        self.ready.is_empty() && self.places.iter().all(|place| place.is_at_end)
    }
}
