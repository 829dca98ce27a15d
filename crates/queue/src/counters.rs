//! Counters since a queue was opened, and its current contents.

use crate::Histogram;

/// Counts since the queue was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows published.
    pub rows_written: u64,
    /// Rows acknowledged or deleted.
    pub rows_removed: u64,
    /// Batches written. Rows and acknowledgements per batch are the group commit factor.
    pub batches: u64,
    /// Batches with acknowledgements.
    pub removals: u64,
    /// File reads for rows.
    pub reads: u64,
    /// Row reads served from the read-ahead buffer.
    pub read_hits: u64,
    /// Writes to the log.
    pub writes: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Condition compilations requested.
    pub compiles: u64,
    /// Condition compilations served from the cache.
    pub compile_hits: u64,
    /// Waits satisfied at once.
    pub wait_immediate: u64,
    /// Waits satisfied later.
    pub wait_delayed: u64,
    /// Waits that timed out.
    pub wait_timeout: u64,
    /// Rows delivered to waiting sessions.
    pub handed_over: u64,
    /// Rows returned by their owner.
    pub restored_by_abort: u64,
    /// Rows returned because their owner disconnected.
    pub restored_by_close: u64,
    /// Relayed rows discarded as duplicates.
    pub duplicates: u64,
    /// Rows discarded because a row with the same deduplication key came before.
    pub left_out: u64,
    /// Acknowledged rows that were replayed.
    pub replayed: u64,
    /// Leases granted.
    pub leases: u64,
    /// Leases that expired.
    pub leases_expired: u64,
    /// Leases returned as failed.
    pub leases_failed: u64,
    /// Stale tokens.
    pub leases_refused: u64,
    /// Tries that failed because their connection ended.
    pub tries_cut: u64,
    /// Rows moved to the dead letter queue.
    pub dead_lettered: u64,
    /// Condition evaluations.
    pub evaluations: u64,
    /// Segments compacted.
    pub compacted: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Failed compactions and checkpoints, which will be retried.
    pub maintenance_errors: u64,
    /// How long rows waited before each delivery. Rows older than the opening of the queue are not
    /// counted unless they became due later.
    pub waited: Histogram,
    /// How long consumers had rows before they acknowledged them.
    pub worked: Histogram,
}

impl Counters {
    /// The sum of both.
    pub(crate) fn and(&self, other: &Counters) -> Counters {
        Counters {
            rows_written: self.rows_written + other.rows_written,
            rows_removed: self.rows_removed + other.rows_removed,
            batches: self.batches + other.batches,
            removals: self.removals + other.removals,
            reads: self.reads + other.reads,
            read_hits: self.read_hits + other.read_hits,
            writes: self.writes + other.writes,
            syncs: self.syncs + other.syncs,
            compiles: self.compiles + other.compiles,
            compile_hits: self.compile_hits + other.compile_hits,
            wait_immediate: self.wait_immediate + other.wait_immediate,
            wait_delayed: self.wait_delayed + other.wait_delayed,
            wait_timeout: self.wait_timeout + other.wait_timeout,
            handed_over: self.handed_over + other.handed_over,
            restored_by_abort: self.restored_by_abort + other.restored_by_abort,
            restored_by_close: self.restored_by_close + other.restored_by_close,
            duplicates: self.duplicates + other.duplicates,
            left_out: self.left_out + other.left_out,
            replayed: self.replayed + other.replayed,
            leases: self.leases + other.leases,
            leases_expired: self.leases_expired + other.leases_expired,
            leases_failed: self.leases_failed + other.leases_failed,
            leases_refused: self.leases_refused + other.leases_refused,
            tries_cut: self.tries_cut + other.tries_cut,
            dead_lettered: self.dead_lettered + other.dead_lettered,
            evaluations: self.evaluations + other.evaluations,
            compacted: self.compacted + other.compacted,
            checkpoints: self.checkpoints + other.checkpoints,
            maintenance_errors: self.maintenance_errors + other.maintenance_errors,
            waited: self.waited.and(&other.waited),
            worked: self.worked.and(&other.worked),
        }
    }
}

/// The current contents of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rows without an owner.
    pub waiting: u64,
    /// Rows owned by a session, a prepared transaction or a lease, including delayed and scheduled ones.
    pub owned: u64,
    /// Leased rows.
    pub leased: u64,
    /// Rows that were returned with a delay, and scheduled rows.
    pub delayed: u64,
    /// Rows without tries left, which are not delivered.
    pub dead: u64,
    /// Rows that wait for an earlier row of their message group, for the rate of their key, or because it is
    /// paused.
    pub behind: u64,
    /// Message groups with an owned row or one that waits for another try.
    pub keys_busy: u64,
    /// Keys that are paused: nobody is given a row of them.
    pub keys_paused: u64,
    /// Open transactions that are not prepared.
    pub transactions: u64,
    /// Prepared transactions.
    pub prepared: u64,
    /// Rows of prepared transactions whose decision was lost: an administrator has to decide.
    pub in_doubt: u64,
    /// Acknowledged rows that are kept and can be replayed.
    pub kept: u64,
    /// Bytes of these rows.
    pub kept_bytes: u64,
    /// When the oldest row was inserted: milliseconds since 1970, exact to the second.
    pub oldest_ms: Option<u64>,
    /// Bytes of the segment files.
    pub bytes: u64,
    /// Bytes of live rows.
    pub live_bytes: u64,
    /// Memory used by the index, in bytes.
    pub memory: u64,
    /// Waiting sessions.
    pub waiters: u64,
    /// 1 if the queue is paused, 0 if not; of several queues, how many are.
    pub paused: u64,
    /// Rows published per second, over the last ten seconds.
    pub written_per_s: u64,
    /// Rows removed per second, over the last ten seconds.
    pub removed_per_s: u64,
    /// Counters since the queue was opened.
    pub counters: Counters,
}

impl Status {
    /// The sum of both.
    pub(crate) fn and(&self, other: &Status) -> Status {
        Status {
            waiting: self.waiting + other.waiting,
            owned: self.owned + other.owned,
            leased: self.leased + other.leased,
            delayed: self.delayed + other.delayed,
            dead: self.dead + other.dead,
            behind: self.behind + other.behind,
            keys_busy: self.keys_busy + other.keys_busy,
            keys_paused: self.keys_paused + other.keys_paused,
            transactions: self.transactions + other.transactions,
            prepared: self.prepared + other.prepared,
            in_doubt: self.in_doubt + other.in_doubt,
            kept: self.kept + other.kept,
            kept_bytes: self.kept_bytes + other.kept_bytes,
            paused: self.paused + other.paused,
            oldest_ms: [self.oldest_ms, other.oldest_ms].into_iter().flatten().min(),
            bytes: self.bytes + other.bytes,
            live_bytes: self.live_bytes + other.live_bytes,
            memory: self.memory + other.memory,
            waiters: self.waiters + other.waiters,
            written_per_s: self.written_per_s + other.written_per_s,
            removed_per_s: self.removed_per_s + other.removed_per_s,
            counters: self.counters.and(&other.counters),
        }
    }
}
