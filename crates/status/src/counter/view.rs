//! What people look at: numbers made of several counters, by subject.

mod names;

pub use names::NAMES;

use super::change::Interval;
use super::number::Number;
use super::part::{Queue, Replica};

/// How a number is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Things for each second.
    PerSecond,
    /// Bytes for each second.
    BytesPerSecond,
    /// Things there are now.
    Count,
    /// Bytes there are now.
    Bytes,
    /// A share, 0 to 1.
    Share,
    /// Seconds.
    Seconds,
}

impl Shape {
    /// What stands behind the key in data for programs.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Shape::PerSecond => "_per_s",
            Shape::BytesPerSecond => "_bytes_per_s",
            Shape::Count => "",
            Shape::Bytes => "_bytes",
            Shape::Share => "_share",
            Shape::Seconds => "_s",
        }
    }
}

/// One number of a view.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name for programs, without the [`Shape::suffix`].
    pub key: &'static str,
    /// Its name above a column.
    pub head: &'static str,
    /// How it is to be shown.
    pub shape: Shape,
    /// What it is.
    pub what: &'static str,
    /// The number; `None` where the server does not tell, or the interval has no changes.
    pub of: fn(&Interval<'_>) -> Option<f64>,
}

impl Column {
    /// Its whole name for programs.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.key, self.shape.suffix())
    }
}

/// Numbers of one subject.
pub struct View {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Its numbers, from left to right.
    pub columns: &'static [Column],
}

/// All views; the first one is what is shown when none is named.
pub const VIEWS: [View; 9] =
    [OVERVIEW, BUFFER_POOL, REDO, HANDLER, TEMPORARY, LOCK, REPLICATION, BINLOG, QUEUE];

/// The view of a name.
#[must_use]
pub fn of(name: &str) -> Option<&'static View> {
    static ALL: [View; 9] = VIEWS;
    ALL.iter().find(|view| view.name == name)
}

const fn column(
    (key, head): (&'static str, &'static str),
    shape: Shape,
    what: &'static str,
    of: fn(&Interval<'_>) -> Option<f64>,
) -> Column {
    Column { key, head, shape, what, of }
}

/// A column that is the rate of one counter.
macro_rules! rate {
    ($key:literal, $head:literal, $name:literal, $what:literal) => {
        column(($key, $head), Shape::PerSecond, $what, |i| i.rate($name))
    };
}

/// A column that is the value of one gauge.
macro_rules! gauge {
    ($key:literal, $head:literal, $name:literal, $what:literal) => {
        column(($key, $head), Shape::Count, $what, |i| i.gauge($name))
    };
}

const OVERVIEW: View = View {
    name: "overview",
    what: "what matters, a line for each interval",
    columns: &[
        rate!("statements", "stmt/s", "Questions", "statements that clients sent"),
        rate!("selects", "sel/s", "Com_select", "SELECTs"),
        column(("writes", "write/s"), Shape::PerSecond, "INSERT, REPLACE, UPDATE, DELETE, LOAD DATA", |i| {
            sum(i, &WRITES)
        }),
        rate!("slow", "slow/s", "Slow_queries", "statements slower than long_query_time"),
        column(("running", "run"), Shape::Count, "threads at work, without remora's", |i| {
            i.gauge("Threads_running")
        }),
        column(("connected", "conn"), Shape::Count, "connections, without remora's", |i| {
            i.gauge("Threads_connected")
        }),
        column(("rows_read", "rows rd"), Shape::PerSecond, "rows that storage engines handed over", |i| {
            sum(i, &ROW_READS)
        }),
        column(("rows_written", "rows wr"), Shape::PerSecond, "rows that storage engines wrote", |i| {
            sum(i, &["Handler_write", "Handler_update", "Handler_delete"])
        }),
        rate!("pool_reads", "page rd", "Innodb_buffer_pool_reads", "pages that were not in the buffer pool"),
        column(
            ("pool_dirty", "dirty"),
            Shape::Share,
            "pages of the buffer pool that wait to be written",
            dirty,
        ),
        column(("redo", "redo/s"), Shape::BytesPerSecond, "redo log written", redo),
        column(("checkpoint_age", "ckpt"), Shape::Share, "redo log in use since the last checkpoint", age),
        gauge!(
            "purge_lag",
            "purge",
            "Innodb_history_list_length",
            "transactions that purge has not yet cleaned up"
        ),
        rate!("row_lock_waits", "lock/s", "Innodb_row_lock_waits", "waits for row locks that began"),
        rate!("tmp_disk_tables", "tmpd/s", "Created_tmp_disk_tables", "temporary tables made on disk"),
        column(("received", "in/s"), Shape::BytesPerSecond, "bytes from clients", |i| {
            i.rate("Bytes_received")
        }),
        column(("sent", "out/s"), Shape::BytesPerSecond, "bytes to clients", |i| i.rate("Bytes_sent")),
        column(
            ("delay", "delay"),
            Shape::Seconds,
            "seconds behind the source, of the worst replica thread",
            delay,
        ),
    ],
};

const WRITES: [&str; 9] = [
    "Com_insert",
    "Com_insert_select",
    "Com_replace",
    "Com_replace_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete",
    "Com_delete_multi",
    "Com_load",
];

const ROW_READS: [&str; 7] = [
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
];

const BUFFER_POOL: View = View {
    name: "buffer-pool",
    what: "InnoDB's cache of pages",
    columns: &[
        column(("used", "used"), Shape::Share, "pages that hold data", |i| {
            pages(i, "Innodb_buffer_pool_pages_data")
        }),
        column(("dirty", "dirty"), Shape::Share, "pages that wait to be written", dirty),
        gauge!("free", "free", "Innodb_buffer_pool_pages_free", "pages that hold nothing"),
        rate!("requests", "req/s", "Innodb_buffer_pool_read_requests", "pages asked for"),
        rate!("reads", "read/s", "Innodb_buffer_pool_reads", "pages that had to be read for it"),
        column(("miss", "miss"), Shape::Share, "of the pages asked for, those that had to be read", |i| {
            ratio(i, "Innodb_buffer_pool_reads", &["Innodb_buffer_pool_read_requests"])
        }),
        rate!(
            "read_ahead",
            "ahead/s",
            "Innodb_buffer_pool_read_ahead",
            "pages read before they were asked for"
        ),
        rate!(
            "read_ahead_evicted",
            "vain/s",
            "Innodb_buffer_pool_read_ahead_evicted",
            "of those, pages that nobody asked for"
        ),
        rate!("written", "write/s", "Innodb_buffer_pool_pages_flushed", "pages written"),
        rate!("lru_written", "lru/s", "Innodb_buffer_pool_pages_LRU_flushed", "pages written to make room"),
        rate!(
            "wait_free",
            "wait/s",
            "Innodb_buffer_pool_wait_free",
            "times that somebody waited for a free page"
        ),
        column(("data_read", "in/s"), Shape::BytesPerSecond, "bytes read from data files", |i| {
            i.rate("Innodb_data_read")
        }),
        column(("data_written", "out/s"), Shape::BytesPerSecond, "bytes written to data files", |i| {
            i.rate("Innodb_data_written")
        }),
        gauge!("pending_reads", "pend rd", "Innodb_data_pending_reads", "reads under way"),
        gauge!("pending_writes", "pend wr", "Innodb_data_pending_writes", "writes under way"),
    ],
};

const REDO: View = View {
    name: "redo",
    what: "redo log, checkpoints and purge",
    columns: &[
        column(("written", "redo/s"), Shape::BytesPerSecond, "redo log written", redo),
        rate!("requests", "req/s", "Innodb_log_write_requests", "requests to write it"),
        rate!("writes", "write/s", "Innodb_log_writes", "writes to its file"),
        rate!("fsyncs", "fsync/s", "Innodb_os_log_fsyncs", "syncs of its file"),
        rate!("waits", "wait/s", "Innodb_log_waits", "times that its buffer was full"),
        column(
            ("checkpoint_age_now", "age"),
            Shape::Bytes,
            "redo log since the last checkpoint",
            checkpoint_age,
        ),
        column(("checkpoint_age", "ckpt"), Shape::Share, "the same, of what there is room for", age),
        column(("capacity", "room"), Shape::Bytes, "redo log there is room for", redo_room),
        gauge!(
            "purge_lag",
            "purge",
            "Innodb_history_list_length",
            "transactions that purge has not yet cleaned up"
        ),
        rate!("transactions", "trx/s", "Innodb_max_trx_id", "transactions that began to write"),
        rate!("data_fsyncs", "dsync/s", "Innodb_data_fsyncs", "syncs of all files of InnoDB"),
    ],
};

const HANDLER: View = View {
    name: "handler",
    what: "rows, by the way that statements came by them",
    columns: &[
        rate!(
            "read_first",
            "first/s",
            "Handler_read_first",
            "first rows of an index: often a full index scan"
        ),
        rate!("read_key", "key/s", "Handler_read_key", "rows found by a key"),
        rate!("read_next", "next/s", "Handler_read_next", "next rows in an index"),
        rate!("read_prev", "prev/s", "Handler_read_prev", "previous rows in an index"),
        rate!("read_rnd", "rnd/s", "Handler_read_rnd", "rows found by position: often after a sort"),
        rate!("read_rnd_next", "scan/s", "Handler_read_rnd_next", "next rows of a table scan"),
        rate!("write", "write/s", "Handler_write", "rows inserted"),
        rate!("update", "upd/s", "Handler_update", "rows updated"),
        rate!("delete", "del/s", "Handler_delete", "rows deleted"),
        rate!("commit", "comm/s", "Handler_commit", "commits in storage engines"),
        rate!("rollback", "rollb/s", "Handler_rollback", "rollbacks in storage engines"),
        rate!("tmp_write", "tmpw/s", "Handler_tmp_write", "rows written to temporary tables"),
        rate!("sent", "sent/s", "Rows_sent", "rows sent to clients"),
    ],
};

const TEMPORARY: View = View {
    name: "temporary",
    what: "temporary tables and sorts",
    columns: &[
        rate!("tables", "tmp/s", "Created_tmp_tables", "temporary tables made for statements"),
        rate!("disk_tables", "tmpd/s", "Created_tmp_disk_tables", "of those, made on disk"),
        column(("disk", "disk"), Shape::Share, "the share of them", |i| {
            ratio(i, "Created_tmp_disk_tables", &["Created_tmp_tables"])
        }),
        rate!("files", "file/s", "Created_tmp_files", "temporary files made"),
        rate!("rows", "rows/s", "Handler_tmp_write", "rows written to temporary tables"),
        column(("space", "space"), Shape::Bytes, "room that temporary files take (MariaDB from 11.5)", |i| {
            i.gauge("Tmp_space_used")
        }),
        rate!("sorted_rows", "sort/s", "Sort_rows", "rows sorted"),
        rate!("merge_passes", "merge/s", "Sort_merge_passes", "passes of sorts that did not fit in memory"),
        rate!("full_joins", "fjoin/s", "Select_full_join", "joins without an index"),
        rate!("scans", "scan/s", "Select_scan", "statements that read their first table whole"),
    ],
};

const LOCK: View = View {
    name: "lock",
    what: "waits for each other",
    columns: &[
        rate!("row_waits", "row/s", "Innodb_row_lock_waits", "waits for row locks that began"),
        gauge!(
            "row_waiting",
            "now",
            "Innodb_row_lock_current_waits",
            "sessions that wait for a row lock now"
        ),
        column(("row_wait_mean", "mean"), Shape::Seconds, "how long a wait took that ended", |i| {
            let waits = i.change("Innodb_row_lock_waits").filter(|waits| *waits > 0.0)?;
            Some(i.change("Innodb_row_lock_time")? / 1000.0 / waits)
        }),
        rate!("deadlocks", "dead/s", "Innodb_deadlocks", "deadlocks"),
        rate!("table_waits", "table/s", "Table_locks_waited", "waits for table locks"),
        rate!("rollbacks", "rollb/s", "Com_rollback", "ROLLBACKs"),
        rate!("aborted_clients", "abort/s", "Aborted_clients", "connections that broke"),
        rate!("aborted_connects", "fail/s", "Aborted_connects", "connections that did not come about"),
        rate!("connections", "conn/s", "Connections", "connections tried"),
        column(("connections_used", "used"), Shape::Share, "connections, of max_connections", |i| {
            let most = i.now.settings.number("max_connections")?.as_f64();
            i.gauge("Threads_connected").map(|connected| connected / most)
        }),
    ],
};

const REPLICATION: View = View {
    name: "replication",
    what: "this server as a replica, and as a source",
    columns: &[
        column(
            ("delay", "delay"),
            Shape::Seconds,
            "seconds behind the source, of the worst replica thread",
            delay,
        ),
        column(("sources", "sources"), Shape::Count, "sources it replicates from", |i| {
            i.now.replicas.as_ref().map(|replicas| count(replicas.len()))
        }),
        column(("stopped", "stopped"), Shape::Count, "of those, where a thread does not run", |i| {
            let runs = |replica: &&Replica| replica.io == "Yes" && replica.sql == "Yes";
            let replicas = i.now.replicas.as_ref()?;
            Some(count(replicas.len() - replicas.iter().filter(runs).count()))
        }),
        rate!("retried", "retry/s", "Slave_retried_transactions", "transactions that were tried again"),
        gauge!("replicas", "readers", "Slaves_connected", "replicas that read from here (MariaDB)"),
        gauge!("semi_sync_clients", "semisyn", "Rpl_semi_sync_master_clients", "replicas that acknowledge"),
        rate!("semi_sync_yes", "ack/s", "Rpl_semi_sync_master_yes_tx", "commits that a replica acknowledged"),
        rate!("semi_sync_no", "noack/s", "Rpl_semi_sync_master_no_tx", "commits that none acknowledged"),
        column(("semi_sync_wait", "wait"), Shape::Seconds, "mean wait for an acknowledgement", |i| {
            let waits = i.change("Rpl_semi_sync_master_tx_waits").filter(|waits| *waits > 0.0)?;
            Some(i.change("Rpl_semi_sync_master_tx_wait_time")? / 1e6 / waits)
        }),
    ],
};

const BINLOG: View = View {
    name: "binlog",
    what: "the binary log",
    columns: &[
        column(("written", "write/s"), Shape::BytesPerSecond, "bytes written to it (MariaDB)", |i| {
            i.rate("Binlog_bytes_written")
        }),
        rate!("transactions", "trx/s", "Binlog_cache_use", "transactions that went through its cache"),
        rate!("cache_disk", "disk/s", "Binlog_cache_disk_use", "of those, too large for memory"),
        rate!("commits", "comm/s", "Binlog_commits", "commits to it (MariaDB)"),
        rate!(
            "group_commits",
            "group/s",
            "Binlog_group_commits",
            "groups of them that were synced together (MariaDB)"
        ),
        column(("group_size", "size"), Shape::Count, "commits in a group (MariaDB)", |i| {
            let groups = i.change("Binlog_group_commits").filter(|groups| *groups > 0.0)?;
            i.change("Binlog_commits").map(|commits| commits / groups)
        }),
        column(("disk", "disk"), Shape::Bytes, "room that its files take (MariaDB from 11.4)", |i| {
            i.gauge("Binlog_disk_use")
        }),
    ],
};

const QUEUE: View = View {
    name: "queue",
    what: "queues (ENGINE=QUEUE), all together; remora queue status shows each",
    columns: &[
        column(("queues", "queues"), Shape::Count, "queues that were used since the start", |i| {
            some_queues(i).map(<[Queue]>::len).map(count)
        }),
        column(("waiting", "waiting"), Shape::Count, "rows that wait", |i| {
            some_queues(i).map(|queues| total(queues.iter().map(|queue| queue.waiting)))
        }),
        column(("owned", "owned"), Shape::Count, "rows that somebody has taken", |i| {
            some_queues(i).map(|queues| total(queues.iter().map(|queue| queue.owned)))
        }),
        column(("in", "in/s"), Shape::PerSecond, "rows published", |i| queue_rate(i, |queue| queue.written)),
        column(("out", "out/s"), Shape::PerSecond, "rows that ended", |i| {
            queue_rate(i, |queue| queue.removed)
        }),
    ],
};

fn count(number: usize) -> f64 {
    Number::from(number as u64).as_f64()
}

fn total(numbers: impl Iterator<Item = u64>) -> f64 {
    numbers.map(Number::from).sum::<Number>().as_f64()
}

/// The rates of several counters together; those that the server does not have count nothing, but if it has
/// none of them there is no sum.
fn sum(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let rates: Vec<f64> = names.iter().filter_map(|name| i.rate(name)).collect();
    (!rates.is_empty()).then(|| rates.iter().sum())
}

/// The change of a counter as a share of that of others; nothing when those did not change.
fn ratio(i: &Interval<'_>, part: &str, of: &[&str]) -> Option<f64> {
    let all: f64 = of.iter().filter_map(|name| i.change(name)).sum();
    i.change(part).filter(|_| all > 0.0).map(|part| part / all)
}

fn pages(i: &Interval<'_>, name: &str) -> Option<f64> {
    let all = i.gauge("Innodb_buffer_pool_pages_total").filter(|all| *all > 0.0)?;
    i.gauge(name).map(|pages| pages / all)
}

fn dirty(i: &Interval<'_>) -> Option<f64> {
    pages(i, "Innodb_buffer_pool_pages_dirty")
}

/// Bytes of redo log for each second: by the log sequence number, which counts what is logged, where the
/// server tells it.
fn redo(i: &Interval<'_>) -> Option<f64> {
    ["Innodb_lsn_current", "Innodb_redo_log_current_lsn", "Innodb_os_log_written"]
        .into_iter()
        .find_map(|name| i.rate(name))
}

fn checkpoint_age(i: &Interval<'_>) -> Option<f64> {
    let lsn = || {
        let checkpoint = i.now.number("Innodb_redo_log_checkpoint_lsn")?;
        Some((i.now.number("Innodb_redo_log_current_lsn")? - checkpoint).as_f64())
    };
    i.gauge("Innodb_checkpoint_age").or_else(lsn)
}

fn redo_room(i: &Interval<'_>) -> Option<f64> {
    i.gauge("Innodb_checkpoint_max_age").or_else(|| i.now.settings.redo_capacity())
}

fn age(i: &Interval<'_>) -> Option<f64> {
    let room = redo_room(i).filter(|room| *room > 0.0)?;
    checkpoint_age(i).map(|age| age / room)
}

/// The largest delay. None while any of the replicas does not know its own: the largest is not known then.
fn delay(i: &Interval<'_>) -> Option<f64> {
    let delays: Option<Vec<u64>> = i.now.replicas.as_ref()?.iter().map(|replica| replica.delay_s).collect();
    delays?.into_iter().max().map(|seconds| Number::from(seconds).as_f64())
}

/// The queues; none for a server that has none, of which there is nothing to say.
fn some_queues<'a>(i: &Interval<'a>) -> Option<&'a [Queue]> {
    Some(i.now.queues.as_slice()).filter(|queues| !queues.is_empty())
}

/// Rows for each second over the queues that were there before too. A queue that was emptied or opened anew
/// has counted less than before; it is left out.
fn queue_rate(i: &Interval<'_>, rows: fn(&Queue) -> u64) -> Option<f64> {
    let before = i.earlier()?;
    let queues = some_queues(i)?;
    let change = |now: &Queue| {
        let then = before.queues.iter().find(|then| then.name == now.name)?;
        rows(now).checked_sub(rows(then))
    };
    (i.seconds > 0.0).then(|| total(queues.iter().filter_map(change)) / i.seconds)
}

#[cfg(test)]
mod tests {
    use super::super::kind::{Kind, of as kind_of};
    use super::*;

    #[test]
    fn every_status_variable_of_a_view_is_asked_for() {
        let words = include_str!("view.rs").split('"').skip(1).step_by(2);
        let named =
            words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()) && !word.contains(' '));
        let used: Vec<&str> = named.filter(|word| kind_of(word).kind != Kind::Untyped).collect();
        assert!(used.len() > 80, "{used:?}");
        let missing: Vec<_> = used.iter().filter(|name| !NAMES.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn names_of_columns_are_those_of_one_view_only_once() {
        for view in &VIEWS {
            let mut names: Vec<String> = view.columns.iter().map(Column::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), view.columns.len(), "{}", view.name);
        }
    }
}
