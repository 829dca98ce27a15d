//! The consumer, and the offsets that it commits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::cluster::{Cluster, check};
use crate::kafka::message::{
    COMMIT, COMMITTED, COORDINATOR, Committed, OffsetAt, commit, commit_errors, committed, coordinator,
    find_coordinator_request, offset_fetch_request,
};
use crate::kafka::record::Record;

/// How often a consumer checks for new partitions and whether the topic was recreated.
const TOPIC_CHECK: Duration = Duration::from_secs(30);
/// Offsets are committed at the end of the topic and after this many records.
const COMMIT_EACH: u32 = 1000;

/// Reads all partitions of a topic. Offsets are committed under a group id without members, so each consumer
/// gets all records.
pub struct Consumer {
    cluster: Cluster,
    group: String,
    coordinator: i32,
    positions: Vec<PartitionPosition>,
    ready: VecDeque<Record>,
    /// How many records were read since the cluster was told.
    uncommitted: u32,
    topic_checked: Instant,
    /// Which partition is asked for first.
    first_partition: usize,
}

#[derive(Default)]
struct PartitionPosition {
    /// The offset that is fetched next.
    next: i64,
    /// All before it were acknowledged, or are not for consumers.
    acknowledged: i64,
    /// The cluster knows that all before it were.
    committed: i64,
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
        let (group, topic_checked) = (group.to_owned(), Instant::now());
        let (positions, ready) = (Vec::new(), VecDeque::new());
        let mut consumer = Consumer {
            cluster,
            group,
            coordinator: -1,
            positions,
            ready,
            uncommitted: 0,
            topic_checked,
            first_partition: 0,
        };
        if consumer.cluster.id == [0; 16] {
            let what = format!("the topic {topic}");
            let why =
                "the topic has no id, so a recreated one could not be recognised: Kafka 2.8 or later is required"
                    .to_owned();
            return Err(Error::Kafka { what, why, is_transient: false });
        }
        let group = consumer.group_name();
        let asked = find_coordinator_request(&consumer.group);
        // The first consumer of a cluster makes it lay out where it remembers.
        consumer.coordinator = consumer.cluster.with_retries(|cluster| {
            let (error, server) = cluster.ask(cluster.any(), &COORDINATOR, &asked, coordinator)?;
            check(error, &group).map(|()| server)
        })?;
        consumer.begin()?;
        Ok(consumer)
    }

    fn group_name(&self) -> String {
        format!("the group {}", self.group)
    }

    /// Asks how far the group has come.
    fn begin(&mut self) -> Result<(), Error> {
        let partitions: Vec<i32> = (0..).take(self.cluster.leaders.len()).collect();
        let (asked, group) =
            (offset_fetch_request(&self.group, &self.cluster.name, &partitions), self.group_name());
        let (coordinator, note) = (self.coordinator, self.note());
        let known = self.cluster.with_retries(|cluster| {
            let known = cluster.ask(coordinator, &COMMITTED, &asked, committed)?;
            known.iter().try_for_each(|partition| check(partition.error, &group))?;
            Ok(known)
        })?;
        for partition in partitions {
            let [first, end] = [OffsetAt::Earliest, OffsetAt::Latest]
                .map(|end| self.cluster.with_retries(|cluster| cluster.offset(partition, end)));
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
            self.positions.push(PartitionPosition {
                next,
                acknowledged: next,
                committed: next,
                is_at_end: false,
            });
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
                "messages {next} to {} were deleted before they were received (retention.ms, retention.bytes); to continue with \
                 the first that is left: kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {} --topic {} \
                 --reset-offsets --to-earliest --execute",
                there.start - 1,
                self.group,
                self.cluster.name
            )
        } else {
            format!(
                "the partition ends before message {}, but messages up to {next} were received: the cluster has lost messages and \
                 reuses their offsets, which the queue would take for duplicates; receive into another queue",
                there.end
            )
        };
        Error::Kafka { what: self.cluster.part(partition), why, is_transient: false }
    }

    /// The id of the topic.
    pub fn topic(&self) -> [u8; 16] {
        self.cluster.id
    }

    /// The lowest offset of the record's partition that may still be delivered.
    pub fn floor(&self, record: &Record) -> i64 {
        let at = usize::try_from(record.partition).unwrap_or_default();
        self.positions.get(at).map_or(0, |position| position.committed)
    }

    /// The next record; `None` after the timeout. The previous one must be acknowledged.
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
        self.positions.iter_mut().for_each(|position| position.acknowledged = position.next);
        if self.topic_checked.elapsed() >= TOPIC_CHECK {
            self.check_topic()?;
        }
        self.first_partition = self.first_partition.wrapping_add(1);
        let mut leaders = Vec::new();
        for leader in &self.cluster.leaders {
            if !leaders.contains(leader) {
                leaders.push(*leader);
            }
        }
        let wait = wait / u32::try_from(leaders.len()).unwrap_or(u32::MAX).max(1);
        for leader in leaders {
            let led = (0..).zip(&self.cluster.leaders).zip(&self.positions);
            let led = led.filter(|((_, of), _)| **of == leader);
            let mut from: Vec<(i32, i64)> =
                led.map(|((partition, _), position)| (partition, position.next)).collect();
            // A server fills its answer from the first one on.
            let first = self.first_partition % from.len();
            from.rotate_left(first);
            self.fetch(&from, wait)?;
        }
        if self.ready.is_empty() {
            self.commit()?;
        }
        Ok(self.ready.pop_front())
    }

    fn fetch(&mut self, from: &[(i32, i64)], wait: Duration) -> Result<(), Error> {
        for fetched in self.cluster.fetch(from, true, wait)? {
            let at = usize::try_from(fetched.partition).unwrap_or_default();
            let Some(position) = self.positions.get_mut(at) else { continue };
            if fetched.is_out_of_range {
                let what = self.cluster.part(fetched.partition);
                // The next beginning says what is missing.
                return Err(Error::Kafka {
                    what,
                    why: format!("there is no offset {}", position.next),
                    is_transient: true,
                });
            }
            (position.next, position.is_at_end) = (fetched.next, fetched.is_at_end);
            self.ready.extend(fetched.records);
        }
        Ok(())
    }

    /// Whether the topic is as it was.
    fn check_topic(&mut self) -> Result<(), Error> {
        let (id, leaders) = (self.cluster.id, self.cluster.leaders.clone());
        self.cluster.refresh_metadata()?;
        self.topic_checked = Instant::now();
        if (id, &leaders) != (self.cluster.id, &self.cluster.leaders) {
            let what = format!("the topic {}", self.cluster.name);
            return Err(Error::Kafka {
                what,
                why: "the topic was recreated, or its partitions have other leaders".to_owned(),
                is_transient: true,
            });
        }
        Ok(())
    }

    /// Acknowledges a record. If that is lost, the record is delivered again.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the cluster refuses to remember it.
    pub fn acknowledge(&mut self, record: &Record) -> Result<(), Error> {
        let at = usize::try_from(record.partition).unwrap_or_default();
        if let Some(position) = self.positions.get_mut(at) {
            position.acknowledged = record.offset + 1;
        }
        self.uncommitted += 1;
        if self.uncommitted >= COMMIT_EACH { self.commit() } else { Ok(()) }
    }

    /// Commits the acknowledged offsets.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the cluster refuses to remember it.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.uncommitted = 0;
        let positions =
            (0..).zip(&self.positions).filter(|(_, position)| position.acknowledged != position.committed);
        let done: Vec<(i32, i64)> =
            positions.map(|(partition, position)| (partition, position.acknowledged)).collect();
        if done.is_empty() {
            return Ok(());
        }
        let asked = commit(&self.group, &self.cluster.name, &done, &self.note());
        let errors = self.cluster.ask(self.coordinator, &COMMIT, &asked, commit_errors)?;
        errors.iter().try_for_each(|&error| check(error, &self.group_name()))?;
        self.positions.iter_mut().for_each(|position| position.committed = position.acknowledged);
        Ok(())
    }

    /// Whether all records were read.
    pub fn is_done(&self) -> bool {
        self.ready.is_empty() && self.positions.iter().all(|position| position.is_at_end)
    }
}
