//! Records that are sent, each once.

use std::collections::BTreeSet;

use crate::Error;
use crate::kafka::address::Address;
use crate::kafka::cluster::{Cluster, Piece, check};
use crate::kafka::message::{End, PRODUCE, SENDER, ask_sender, partition_of, produce, produced, sender};
use crate::kafka::record::{Record, Sender, batch};

/// How many of the last records of each partition are looked at when a producer begins.
const LOOKED_AT: i64 = 1000;
/// How many origins are remembered at least.
const REMEMBERED: usize = 50_000;
/// How long replicas may take for a record, in milliseconds: less than a connection waits for an answer.
const REPLICAS_MS: i32 = 8_000;
/// A server hangs up at a request of more than 100 MiB, unless it is told otherwise; the rest is for what is
/// around a message.
const REQUEST_MAX: usize = (100 << 20) - 4096;
/// The server has this batch already: it was sent again.
const DUPLICATE: i16 = 46;
/// The server knows this sender no longer, or has lost records of it.
const STRANGER: [i16; 3] = [45, 47, 59];

/// Sends rows as records to the partitions of a topic, one after the other. Each names its row, and what is
/// in a partition already is not sent.
///
/// A server drops a batch that it gets twice from one producer, since batches are numbered. Another producer,
/// such as the same one after a kill, has other numbers. So the producer reads the last records when it
/// begins, and before each record what others have sent meanwhile.
pub struct Producer {
    cluster: Cluster,
    id: i64,
    epoch: i16,
    partitions: Vec<Partition>,
    origins: Origins,
}

struct Partition {
    /// The number of the next record of this producer.
    sequence: i32,
    /// Up to where records were looked at.
    seen: i64,
}

/// The rows that are there.
#[derive(Default)]
struct Origins {
    known: BTreeSet<String>,
    /// Those that came before them. They are forgotten when as many more have come.
    older: BTreeSet<String>,
    /// Rows that came a second time.
    doubles: u64,
}

impl Origins {
    fn has(&self, origin: &str) -> bool {
        self.known.contains(origin) || self.older.contains(origin)
    }

    fn add(&mut self, origin: &str) {
        self.known.insert(origin.to_owned());
        if self.known.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.known);
        }
    }

    fn add_all(&mut self, records: &[Record]) {
        for origin in records.iter().filter_map(|record| record.origin.as_deref()) {
            if self.has(origin) {
                self.doubles += 1;
            } else {
                self.add(origin);
            }
        }
    }
}

impl Producer {
    /// Connects, and looks at the last records of each partition.
    ///
    /// # Errors
    ///
    /// No server answers, there is no such topic, or the user may not write to it.
    pub fn open(address: &Address, topic: &str) -> Result<Producer, Error> {
        let cluster = Cluster::connect(address, topic)?;
        let mut producer =
            Producer { cluster, id: -1, epoch: -1, partitions: Vec::new(), origins: Origins::default() };
        (producer.id, producer.epoch) = producer.cluster.patiently(|cluster| {
            let (error, id, epoch) = cluster.ask(cluster.any(), &SENDER, &ask_sender(), sender)?;
            check(error, "an idempotent producer")?;
            Ok((id, epoch))
        })?;
        for at in 0..producer.cluster.leaders.len() {
            let partition = number(at);
            let [first, next] = [End::First, End::Next];
            let begin = producer.cluster.patiently(|cluster| {
                Ok((cluster.offset(partition, next)? - LOOKED_AT).max(cluster.offset(partition, first)?))
            })?;
            producer.partitions.push(Partition { sequence: 0, seen: begin });
            producer.look(at)?;
        }
        // They were there before.
        producer.origins.doubles = 0;
        Ok(producer)
    }

    /// Sends a row, unless it is there already, and returns when all replicas have it that are in sync. The
    /// partition is that of the key; without one it is the first.
    ///
    /// # Errors
    ///
    /// The server refuses it, or the connection is lost, and nobody knows whether it arrived.
    pub fn send(&mut self, origin: &str, key: Option<&[u8]>, body: &[u8], time_ms: i64) -> Result<(), Error> {
        let at = key.map_or(0, |key| partition_of(key, self.partitions.len()));
        self.look(at)?;
        if self.origins.has(origin) {
            return Ok(());
        }
        if body.len() + key.map_or(0, <[u8]>::len) > REQUEST_MAX {
            let why =
                format!("{} bytes are more than a request may have (socket.request.max.bytes)", body.len());
            return Err(Error::Kafka { what: self.cluster.part(number(at)), why, passes: false });
        }
        let sender = Sender { id: self.id, epoch: self.epoch, sequence: self.partitions[at].sequence };
        let batch = batch(sender, time_ms, origin, [key, Some(body)]);
        let asked = produce(&self.cluster.name, number(at), REPLICAS_MS, &batch);
        // Sent again with the same number, it is dropped if it is there.
        let sent = self.cluster.patiently(|cluster| {
            let (error, offset, why) =
                cluster.ask(cluster.leader(number(at))?, &PRODUCE, &asked, produced)?;
            match error {
                DUPLICATE => Ok(Some(-1)),
                error if STRANGER.contains(&error) => Ok(None),
                error => {
                    let why = if why.is_empty() { why } else { format!(" ({why})") };
                    let what =
                        format!("{}, a message of {} bytes{why}", cluster.part(number(at)), batch.len());
                    check(error, &what).map(|()| Some(offset))
                }
            }
        })?;
        let Some(offset) = sent else {
            let why = "it no longer knows this producer".to_owned();
            return Err(Error::Kafka { what: self.cluster.part(number(at)), why, passes: true });
        };
        let partition = &mut self.partitions[at];
        partition.sequence = partition.sequence.wrapping_add(1) & i32::MAX;
        // Else the next look finds what came before it, and then this one.
        if offset == partition.seen {
            partition.seen += 1;
            self.origins.add(origin);
        }
        Ok(())
    }

    /// Reads what has come to a partition since it was looked at.
    fn look(&mut self, at: usize) -> Result<(), Error> {
        loop {
            let seen = self.partitions[at].seen;
            let piece = self.cluster.patiently(|cluster| cluster.fetch_one(number(at), seen))?;
            let Piece { records, next, is_at_end, is_outside, .. } = piece;
            let partition = &mut self.partitions[at];
            if is_outside {
                // The oldest records are gone, as in a topic that keeps little, or the newest.
                let first = self.cluster.offset(number(at), End::First)?;
                partition.seen =
                    if first > seen { first } else { self.cluster.offset(number(at), End::Next)? };
                continue;
            }
            self.origins.add_all(&records);
            partition.seen = next;
            if is_at_end {
                return Ok(());
            }
        }
    }

    /// Looks at all partitions once more, so that [`Producer::doubles`] knows what came last.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn finish(&mut self) -> Result<(), Error> {
        (0..self.partitions.len()).try_for_each(|at| self.look(at))
    }

    /// How many rows came twice since it began, although each was looked for: its first copy was under way
    /// when its forwarder was killed.
    pub fn doubles(&self) -> u64 {
        self.origins.doubles
    }
}

/// The number of a partition.
fn number(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Origins, REMEMBERED};
    use crate::kafka::record::Record;

    #[test]
    fn a_row_that_comes_again_is_counted() {
        let record = |origin: Option<&str>| Record { origin: origin.map(str::to_owned), ..Record::default() };
        let mut origins = Origins::default();
        origins.add_all(&[record(Some("a:1")), record(None), record(None), record(Some("a:2"))]);
        assert_eq!(origins.doubles, 0);
        origins.add_all(&[record(Some("a:1"))]);
        assert_eq!((origins.doubles, origins.known.len()), (1, 2));
        for number in 3..2 * REMEMBERED {
            origins.add(&format!("a:{number}"));
            assert!(origins.has("a:2") && origins.has(&format!("a:{number}")));
        }
        origins.add("b:1");
        assert!(!origins.has("a:2") && origins.has("b:1"));
        assert_eq!(origins.older.len(), REMEMBERED);
    }
}
