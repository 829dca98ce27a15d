//! What happened in a queue since it was opened, and what is in it.

use crate::Histogram;

/// Counts since the queue was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows that were published.
    pub rows_written: u64,
    /// Rows that were acknowledged or deleted.
    pub rows_removed: u64,
    /// Batches written. Rows and acknowledgements divided by batches give the factor of group commit.
    pub batches: u64,
    /// Batches that ended rows.
    pub removals: u64,
    /// Reads of files to get rows.
    pub reads: u64,
    /// Rows that an earlier read had already brought into memory.
    pub read_hits: u64,
    /// Writes to the log.
    pub writes: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Conditions that somebody asked for.
    pub compiles: u64,
    /// Conditions that were already compiled.
    pub compile_hits: u64,
    /// Waits that found a row at once.
    pub wait_immediate: u64,
    /// Waits that were handed a row.
    pub wait_delayed: u64,
    /// Waits that ended without a row of this queue.
    pub wait_timeout: u64,
    /// Rows that were handed to waiting sessions.
    pub handed_over: u64,
    /// Rows given back by their owner.
    pub restored_by_abort: u64,
    /// Rows given back because their owner went away.
    pub restored_by_close: u64,
    /// Relayed rows that had already arrived before.
    pub duplicates: u64,
    /// Rows that were left out because another one with their key came before.
    pub left_out: u64,
    /// Rows that were ended and given again.
    pub replayed: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Leases that ended with their time.
    pub leases_expired: u64,
    /// Leases that were given back because the work failed.
    pub leases_failed: u64,
    /// Tokens that were refused.
    pub leases_refused: u64,
    /// Tries that failed because their connection ended.
    pub tries_cut: u64,
    /// Rows without tries left that were moved to the queue for them.
    pub dead_lettered: u64,
    /// Rows whose contents were compared with a condition.
    pub evaluations: u64,
    /// Segments that were rewritten because they were sparse.
    pub compacted: u64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Compactions and checkpoints that failed, and will be tried again.
    pub maintenance_errors: u64,
    /// For how long rows had waited when they were given to somebody; each time they were. Rows that were
    /// there before the queue was opened are not counted, unless they were due after that.
    pub waited: Histogram,
    /// How long those who ended rows had had them.
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

/// What is in a queue now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rows that nobody owns.
    pub waiting: u64,
    /// Rows that somebody owns: a session, a prepared transaction, a lease; delayed ones and those that are
    /// due later too.
    pub owned: u64,
    /// Owned rows that are leased.
    pub leased: u64,
    /// Owned rows that were given back, and wait again later; those that are due later too.
    pub delayed: u64,
    /// Owned rows that have no tries left, and are given to nobody.
    pub dead: u64,
    /// Rows that nobody owns and nobody is given yet, because an earlier one of their key is there.
    pub behind: u64,
    /// Keys of which somebody has a row, or of which one waits for another try.
    pub keys_busy: u64,
    /// Transactions that take part, are not prepared, and were neither committed nor rolled back.
    pub transactions: u64,
    /// Prepared transactions, whose decision is awaited.
    pub prepared: u64,
    /// Rows that prepared transactions add or end whose decision was forgotten: somebody has to decide.
    pub in_doubt: u64,
    /// Rows that were ended and can still be read and given again.
    pub kept: u64,
    /// Bytes of these rows.
    pub kept_bytes: u64,
    /// When the oldest row was inserted: milliseconds since 1970, exact to the second.
    pub oldest_ms: Option<u64>,
    /// Bytes of the segment files.
    pub bytes: u64,
    /// Bytes of the rows that were not ended.
    pub live_bytes: u64,
    /// Bytes of memory that the index takes.
    pub memory: u64,
    /// Sessions that wait for a row.
    pub waiters: u64,
    /// Rows published per second, over the last ten seconds.
    pub written_per_s: u64,
    /// Rows ended per second, over the last ten seconds.
    pub removed_per_s: u64,
    /// What happened so far.
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
            transactions: self.transactions + other.transactions,
            prepared: self.prepared + other.prepared,
            in_doubt: self.in_doubt + other.in_doubt,
            kept: self.kept + other.kept,
            kept_bytes: self.kept_bytes + other.kept_bytes,
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
