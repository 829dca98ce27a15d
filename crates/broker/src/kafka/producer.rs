//! The producer, which sends each row once.

use std::collections::BTreeSet;

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::cluster::{Cluster, FetchedPartition, check};
use crate::kafka::message::{
    INIT_PRODUCER_ID, OffsetAt, PRODUCE, init_producer_id_request, partition_of, produce, produced, sender,
};
use crate::kafka::record::{ProducerId, Record, batch};

/// How many of the last records of each partition a new producer scans.
const RECORDS_SCANNED: i64 = 1000;
/// How many origins are remembered, at least.
const ORIGINS_MIN: usize = 50_000;
/// Replication timeout in milliseconds: less than the timeout for an answer.
const REPLICAS_MS: i32 = 8_000;
/// By default a broker closes the connection on a request of more than 100 MiB; the rest is for what
/// surrounds the message.
const REQUEST_MAX: usize = (100 << 20) - 4096;
/// Error code: the broker already has this batch.
const DUPLICATE: i16 = 46;
/// Error codes: the broker no longer knows this producer, or has lost records of it.
const PRODUCER_UNKNOWN: [i16; 3] = [45, 47, 59];

/// Sends rows as records to the partitions of a topic, one at a time. Each record names its row, and a row
/// that the partition already has is not sent.
///
/// A broker drops a batch that one producer sends twice, because batches are numbered. A restarted producer
/// gets a new id and new numbers, so it first scans the last records, and before each record what others have
/// sent meanwhile.
pub struct Producer {
    cluster: Cluster,
    id: i64,
    epoch: i16,
    partitions: Vec<Partition>,
    origins: Origins,
}

struct Partition {
    /// The producer's next sequence number.
    sequence: i32,
    /// The offset up to which records were scanned.
    scanned: i64,
}

/// The rows that the topic has.
#[derive(Default)]
struct Origins {
    known: BTreeSet<String>,
    /// The previous generation, forgotten when the current one is full.
    older: BTreeSet<String>,
    /// Rows that were found twice.
    duplicates: u64,
}

impl Origins {
    fn has(&self, origin: &str) -> bool {
        self.known.contains(origin) || self.older.contains(origin)
    }

    fn add(&mut self, origin: &str) {
        self.known.insert(origin.to_owned());
        if self.known.len() >= ORIGINS_MIN {
            self.older = std::mem::take(&mut self.known);
        }
    }

    fn add_all(&mut self, records: &[Record]) {
        for origin in records.iter().filter_map(|record| record.origin.as_deref()) {
            if self.has(origin) {
                self.duplicates += 1;
            } else {
                self.add(origin);
            }
        }
    }
}

impl Producer {
    /// Connects and scans the last records of each partition.
    ///
    /// # Errors
    ///
    /// No broker answers, the topic does not exist, or the user may not write to it.
    pub fn open(address: &Address, topic: &str) -> Result<Producer, Error> {
        let cluster = Cluster::connect(address, topic)?;
        let mut producer =
            Producer { cluster, id: -1, epoch: -1, partitions: Vec::new(), origins: Origins::default() };
        (producer.id, producer.epoch) = producer.cluster.with_retries(|cluster| {
            let (error, id, epoch) =
                cluster.ask(cluster.any(), &INIT_PRODUCER_ID, &init_producer_id_request(), sender)?;
            check(error, "an idempotent producer")?;
            Ok((id, epoch))
        })?;
        for at in 0..producer.cluster.leaders.len() {
            let partition = number(at);
            let [first, next] = [OffsetAt::Earliest, OffsetAt::Latest];
            let begin = producer.cluster.with_retries(|cluster| {
                Ok((cluster.offset(partition, next)? - RECORDS_SCANNED)
                    .max(cluster.offset(partition, first)?))
            })?;
            producer.partitions.push(Partition { sequence: 0, scanned: begin });
            producer.scan_new_records(at)?;
        }
        // They were there before.
        producer.origins.duplicates = 0;
        Ok(producer)
    }

    /// Sends a row unless the topic has it, and waits until all in-sync replicas have it. The key selects the
    /// partition; without one it is the first.
    ///
    /// # Errors
    ///
    /// The broker refuses it, or the connection is lost and it is unknown whether the record was stored.
    pub fn send(&mut self, origin: &str, key: Option<&[u8]>, body: &[u8], time_ms: i64) -> Result<(), Error> {
        let at = key.map_or(0, |key| partition_of(key, self.partitions.len()));
        self.scan_new_records(at)?;
        if self.origins.has(origin) {
            return Ok(());
        }
        if body.len() + key.map_or(0, <[u8]>::len) > REQUEST_MAX {
            let why = format!("{} bytes exceed the request limit (socket.request.max.bytes)", body.len());
            return Err(Error::Kafka { what: self.cluster.part(number(at)), why, is_transient: false });
        }
        let sender = ProducerId { id: self.id, epoch: self.epoch, sequence: self.partitions[at].sequence };
        let batch = batch(sender, time_ms, origin, [key, Some(body)]);
        let asked = produce(&self.cluster.name, number(at), REPLICAS_MS, &batch);
        // Sent again with the same number, it is dropped if it is there.
        let sent = self.cluster.with_retries(|cluster| {
            let (error, offset, why) =
                cluster.ask(cluster.leader(number(at))?, &PRODUCE, &asked, produced)?;
            match error {
                DUPLICATE => Ok(Some(-1)),
                error if PRODUCER_UNKNOWN.contains(&error) => Ok(None),
                error => {
                    let why = if why.is_empty() { why } else { format!(" ({why})") };
                    let what =
                        format!("{}, a message of {} bytes{why}", cluster.part(number(at)), batch.len());
                    check(error, &what).map(|()| Some(offset))
                }
            }
        })?;
        let Some(offset) = sent else {
            let why = "the broker no longer knows this producer".to_owned();
            return Err(Error::Kafka { what: self.cluster.part(number(at)), why, is_transient: true });
        };
        let partition = &mut self.partitions[at];
        partition.sequence = partition.sequence.wrapping_add(1) & i32::MAX;
        // Else the next look finds the earlier messages, and then this one.
        if offset == partition.scanned {
            partition.scanned += 1;
            self.origins.add(origin);
        }
        Ok(())
    }

    /// Scans the records that were added to a partition since the last scan.
    fn scan_new_records(&mut self, at: usize) -> Result<(), Error> {
        loop {
            let scanned = self.partitions[at].scanned;
            let fetched = self.cluster.with_retries(|cluster| cluster.fetch_one(number(at), scanned))?;
            let FetchedPartition { records, next, is_at_end, is_out_of_range, .. } = fetched;
            let partition = &mut self.partitions[at];
            if is_out_of_range {
                // The oldest records are gone, as in a topic that keeps little, or the newest.
                let first = self.cluster.offset(number(at), OffsetAt::Earliest)?;
                partition.scanned = if first > scanned {
                    first
                } else {
                    self.cluster.offset(number(at), OffsetAt::Latest)?
                };
                continue;
            }
            self.origins.add_all(&records);
            partition.scanned = next;
            if is_at_end {
                return Ok(());
            }
        }
    }

    /// Scans all partitions once more, so that [`Producer::duplicates`] is complete.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn finish(&mut self) -> Result<(), Error> {
        (0..self.partitions.len()).try_for_each(|at| self.scan_new_records(at))
    }

    /// How many rows were stored twice since it began although each was looked for: the first copy was in
    /// flight when its forwarder was killed.
    pub fn duplicates(&self) -> u64 {
        self.origins.duplicates
    }
}

/// The number of a partition.
fn number(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{ORIGINS_MIN, Origins};
    use crate::kafka::record::Record;

    #[test]
    fn a_row_that_comes_again_is_counted() {
        let record = |origin: Option<&str>| Record { origin: origin.map(str::to_owned), ..Record::default() };
        let mut origins = Origins::default();
        origins.add_all(&[record(Some("a:1")), record(None), record(None), record(Some("a:2"))]);
        assert_eq!(origins.duplicates, 0);
        origins.add_all(&[record(Some("a:1"))]);
        assert_eq!((origins.duplicates, origins.known.len()), (1, 2));
        for number in 3..2 * ORIGINS_MIN {
            origins.add(&format!("a:{number}"));
            assert!(origins.has("a:2") && origins.has(&format!("a:{number}")));
        }
        origins.add("b:1");
        assert!(!origins.has("a:2") && origins.has("b:1"));
        assert_eq!(origins.older.len(), ORIGINS_MIN);
    }
}
