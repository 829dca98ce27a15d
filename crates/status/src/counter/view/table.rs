//! The views, column by column.

use super::formula::{
    checkpoint_age, checkpoint_share, connections_used, delay, first_rate, gauge_of, owned, part_of,
    published, queues, rate_of, ratio, redo_room, removed, sources, stopped, waiting,
};
use super::{Column, Formula, Shape, View};

/// What a column is called: in records, and on a screen.
struct ColumnName {
    key: &'static str,
    head: &'static str,
}

const fn name(key: &'static str, head: &'static str) -> ColumnName {
    ColumnName { key, head }
}

const fn column(
    name: ColumnName,
    shape: Shape,
    names: &'static [&'static str],
    formula: Formula,
    what: &'static str,
) -> Column {
    let ColumnName { key, head } = name;
    Column { key, head, shape, what, names, formula }
}

/// The sum of counters, per second.
const fn rate(
    key: &'static str,
    head: &'static str,
    names: &'static [&'static str],
    what: &'static str,
) -> Column {
    column(name(key, head), Shape::PerSecond, names, rate_of, what)
}

/// A counter of bytes, per second.
const fn bytes_rate(
    key: &'static str,
    head: &'static str,
    names: &'static [&'static str],
    what: &'static str,
) -> Column {
    column(name(key, head), Shape::BytesPerSecond, names, rate_of, what)
}

/// A current number.
const fn gauge(
    key: &'static str,
    head: &'static str,
    names: &'static [&'static str],
    what: &'static str,
) -> Column {
    column(name(key, head), Shape::Count, names, gauge_of, what)
}

const WRITES: &[&str] = &[
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

const ROW_READS: &[&str] = &[
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
];

const DIRTY: &[&str] = &["Innodb_buffer_pool_pages_dirty", "Innodb_buffer_pool_pages_total"];
const DIRTY_WHAT: &str = "pages of the buffer pool that wait to be written";

/// The log sequence number counts what is logged. A server that does not show it shows the bytes written to
/// the file.
const REDO_WRITTEN: &[&str] = &["Innodb_lsn_current", "Innodb_redo_log_current_lsn", "Innodb_os_log_written"];
/// The age itself, or the two numbers whose difference it is; and the capacity, if a server shows it.
const CHECKPOINT: &[&str] = &[
    "Innodb_checkpoint_age",
    "Innodb_redo_log_current_lsn",
    "Innodb_redo_log_checkpoint_lsn",
    "Innodb_checkpoint_max_age",
];
const PURGE: &[&str] = &["Innodb_history_list_length"];
const PURGE_WHAT: &str = "transactions that purge has not cleaned up yet";
const DELAY_WHAT: &str = "seconds behind the source; with several sources, of the slowest";

pub(super) const OVERVIEW: View = View {
    name: "overview",
    what: "what matters most",
    columns: &[
        rate("statements", "stmt/s", &["Questions"], "statements that clients sent"),
        rate("selects", "sel/s", &["Com_select"], "SELECTs"),
        rate("writes", "write/s", WRITES, "INSERT, REPLACE, UPDATE, DELETE, LOAD DATA"),
        rate("slow", "slow/s", &["Slow_queries"], "statements that took longer than long_query_time"),
        gauge("running", "run", &["Threads_running"], "threads at work, without remora's"),
        gauge("connected", "conn", &["Threads_connected"], "connections, without remora's"),
        rate("rows_read", "rows rd", ROW_READS, "rows that were read from storage engines"),
        rate(
            "rows_written",
            "rows wr",
            &["Handler_write", "Handler_update", "Handler_delete"],
            "rows that were written to storage engines",
        ),
        rate(
            "pool_reads",
            "page rd",
            &["Innodb_buffer_pool_reads"],
            "pages that were not in the buffer pool",
        ),
        column(name("pool_dirty", "dirty"), Shape::Share, DIRTY, part_of, DIRTY_WHAT),
        column(name("redo", "redo/s"), Shape::BytesPerSecond, REDO_WRITTEN, first_rate, "redo log written"),
        column(
            name("checkpoint_age", "ckpt"),
            Shape::Share,
            CHECKPOINT,
            checkpoint_share,
            "redo log since the last checkpoint, as a share of its room",
        ),
        gauge("purge_lag", "purge", PURGE, PURGE_WHAT),
        rate("row_lock_waits", "lock/s", &["Innodb_row_lock_waits"], "waits for row locks that began"),
        rate("tmp_disk_tables", "tmpd/s", &["Created_tmp_disk_tables"], "temporary tables made on disk"),
        bytes_rate("received", "in/s", &["Bytes_received"], "bytes from clients"),
        bytes_rate("sent", "out/s", &["Bytes_sent"], "bytes to clients"),
        column(name("delay", "delay"), Shape::Seconds, &[], delay, DELAY_WHAT),
    ],
};

pub(super) const BUFFER_POOL: View = View {
    name: "buffer-pool",
    what: "InnoDB's cache of pages",
    columns: &[
        column(
            name("used", "used"),
            Shape::Share,
            &["Innodb_buffer_pool_pages_data", "Innodb_buffer_pool_pages_total"],
            part_of,
            "pages that hold data",
        ),
        column(name("dirty", "dirty"), Shape::Share, DIRTY, part_of, DIRTY_WHAT),
        gauge("free", "free", &["Innodb_buffer_pool_pages_free"], "pages that hold nothing"),
        rate("requests", "req/s", &["Innodb_buffer_pool_read_requests"], "pages asked for"),
        rate("reads", "read/s", &["Innodb_buffer_pool_reads"], "of those, pages read from disk"),
        column(
            name("miss", "miss"),
            Shape::Share,
            &["Innodb_buffer_pool_reads", "Innodb_buffer_pool_read_requests"],
            ratio,
            "the share of the pages asked for that were read from disk",
        ),
        rate(
            "read_ahead",
            "ahead/s",
            &["Innodb_buffer_pool_read_ahead"],
            "pages read before they were asked for",
        ),
        rate(
            "read_ahead_evicted",
            "vain/s",
            &["Innodb_buffer_pool_read_ahead_evicted"],
            "of those, pages dropped before anybody asked for them",
        ),
        rate("written", "write/s", &["Innodb_buffer_pool_pages_flushed"], "pages written"),
        rate("lru_written", "lru/s", &["Innodb_buffer_pool_pages_LRU_flushed"], "pages written to make room"),
        rate(
            "wait_free",
            "wait/s",
            &["Innodb_buffer_pool_wait_free"],
            "times that somebody waited for a free page",
        ),
        bytes_rate("data_read", "in/s", &["Innodb_data_read"], "bytes read from data files"),
        bytes_rate("data_written", "out/s", &["Innodb_data_written"], "bytes written to data files"),
        gauge("pending_reads", "pend rd", &["Innodb_data_pending_reads"], "reads under way"),
        gauge("pending_writes", "pend wr", &["Innodb_data_pending_writes"], "writes under way"),
    ],
};

pub(super) const REDO: View = View {
    name: "redo",
    what: "redo log, checkpoints and purge",
    columns: &[
        column(
            name("written", "redo/s"),
            Shape::BytesPerSecond,
            REDO_WRITTEN,
            first_rate,
            "redo log written",
        ),
        rate("requests", "req/s", &["Innodb_log_write_requests"], "requests to write it"),
        rate("writes", "write/s", &["Innodb_log_writes"], "writes to its file"),
        rate("fsyncs", "fsync/s", &["Innodb_os_log_fsyncs"], "syncs of its file"),
        rate("waits", "wait/s", &["Innodb_log_waits"], "times that its buffer was full"),
        column(
            name("checkpoint_age_now", "age"),
            Shape::Bytes,
            CHECKPOINT,
            checkpoint_age,
            "redo log since the last checkpoint",
        ),
        column(
            name("checkpoint_age", "ckpt"),
            Shape::Share,
            CHECKPOINT,
            checkpoint_share,
            "the same, as a share of the room",
        ),
        column(
            name("capacity", "room"),
            Shape::Bytes,
            CHECKPOINT,
            redo_room,
            "redo log that there is room for",
        ),
        gauge("purge_lag", "purge", PURGE, PURGE_WHAT),
        rate("transactions", "trx/s", &["Innodb_max_trx_id"], "transactions that began to write"),
        rate("data_fsyncs", "dsync/s", &["Innodb_data_fsyncs"], "syncs of all files of InnoDB"),
    ],
};

pub(super) const HANDLER: View = View {
    name: "handler",
    what: "rows, by how statements reached them",
    columns: &[
        rate(
            "read_first",
            "first/s",
            &["Handler_read_first"],
            "first rows of an index: often a full index scan",
        ),
        rate("read_key", "key/s", &["Handler_read_key"], "rows found by a key"),
        rate("read_next", "next/s", &["Handler_read_next"], "next rows in an index"),
        rate("read_prev", "prev/s", &["Handler_read_prev"], "previous rows in an index"),
        rate("read_rnd", "rnd/s", &["Handler_read_rnd"], "rows found by position: often after a sort"),
        rate("read_rnd_next", "scan/s", &["Handler_read_rnd_next"], "next rows of a table scan"),
        rate("write", "write/s", &["Handler_write"], "rows inserted"),
        rate("update", "upd/s", &["Handler_update"], "rows updated"),
        rate("delete", "del/s", &["Handler_delete"], "rows deleted"),
        rate("commit", "comm/s", &["Handler_commit"], "commits in storage engines"),
        rate("rollback", "rollb/s", &["Handler_rollback"], "rollbacks in storage engines"),
        rate("tmp_write", "tmpw/s", &["Handler_tmp_write"], "rows written to temporary tables"),
        rate("sent", "sent/s", &["Rows_sent"], "rows sent to clients"),
    ],
};

pub(super) const TEMPORARY: View = View {
    name: "temporary",
    what: "temporary tables and sorts",
    columns: &[
        rate("tables", "tmp/s", &["Created_tmp_tables"], "temporary tables made for statements"),
        rate("disk_tables", "tmpd/s", &["Created_tmp_disk_tables"], "of those, made on disk"),
        column(
            name("disk", "disk"),
            Shape::Share,
            &["Created_tmp_disk_tables", "Created_tmp_tables"],
            ratio,
            "the share of temporary tables that were made on disk",
        ),
        rate("files", "file/s", &["Created_tmp_files"], "temporary files made"),
        rate("rows", "rows/s", &["Handler_tmp_write"], "rows written to temporary tables"),
        column(
            name("space", "space"),
            Shape::Bytes,
            &["Tmp_space_used"],
            gauge_of,
            "space that temporary files take (MariaDB from 11.5)",
        ),
        rate("sorted_rows", "sort/s", &["Sort_rows"], "rows sorted"),
        rate("merge_passes", "merge/s", &["Sort_merge_passes"], "passes of sorts that did not fit in memory"),
        rate("full_joins", "fjoin/s", &["Select_full_join"], "joins without an index"),
        rate("scans", "scan/s", &["Select_scan"], "statements that read their whole first table"),
    ],
};

pub(super) const LOCK: View = View {
    name: "lock",
    what: "locks and connections",
    columns: &[
        rate("row_waits", "row/s", &["Innodb_row_lock_waits"], "waits for row locks that began"),
        gauge(
            "row_waiting",
            "now",
            &["Innodb_row_lock_current_waits"],
            "sessions that wait for a row lock now",
        ),
        column(
            name("row_wait_mean", "mean"),
            Shape::Seconds,
            &["Innodb_row_lock_time", "Innodb_row_lock_waits"],
            ratio,
            "mean time of a wait for a row lock",
        ),
        rate("deadlocks", "dead/s", &["Innodb_deadlocks"], "deadlocks"),
        rate("table_waits", "table/s", &["Table_locks_waited"], "waits for table locks"),
        rate("rollbacks", "rollb/s", &["Com_rollback"], "ROLLBACK statements"),
        rate("aborted_clients", "abort/s", &["Aborted_clients"], "connections that broke"),
        rate("aborted_connects", "fail/s", &["Aborted_connects"], "attempts to connect that failed"),
        rate("connections", "conn/s", &["Connections"], "attempts to connect"),
        column(
            name("connections_used", "used"),
            Shape::Share,
            &["Threads_connected"],
            connections_used,
            "connections, as a share of max_connections",
        ),
    ],
};

pub(super) const REPLICATION: View = View {
    name: "replication",
    what: "this server as a replica, and as a source",
    columns: &[
        column(name("delay", "delay"), Shape::Seconds, &[], delay, DELAY_WHAT),
        column(name("sources", "sources"), Shape::Count, &[], sources, "sources that it replicates from"),
        column(
            name("stopped", "stopped"),
            Shape::Count,
            &[],
            stopped,
            "of those, with a thread that does not run",
        ),
        rate("retried", "retry/s", &["Slave_retried_transactions"], "transactions that were tried again"),
        gauge("replicas", "readers", &["Slaves_connected"], "replicas that read from here (MariaDB)"),
        gauge(
            "semi_sync_clients",
            "semisyn",
            &["Rpl_semi_sync_master_clients"],
            "replicas that acknowledge commits",
        ),
        rate(
            "semi_sync_yes",
            "ack/s",
            &["Rpl_semi_sync_master_yes_tx"],
            "commits that a replica acknowledged",
        ),
        rate("semi_sync_no", "noack/s", &["Rpl_semi_sync_master_no_tx"], "commits that none acknowledged"),
        column(
            name("semi_sync_wait", "wait"),
            Shape::Seconds,
            &["Rpl_semi_sync_master_tx_wait_time", "Rpl_semi_sync_master_tx_waits"],
            ratio,
            "mean wait for an acknowledgement",
        ),
    ],
};

pub(super) const BINLOG: View = View {
    name: "binlog",
    what: "the binary log",
    columns: &[
        bytes_rate("written", "write/s", &["Binlog_bytes_written"], "bytes written to it (MariaDB)"),
        rate("transactions", "trx/s", &["Binlog_cache_use"], "transactions that went through its cache"),
        rate("cache_disk", "disk/s", &["Binlog_cache_disk_use"], "of those, too large for memory"),
        rate("commits", "comm/s", &["Binlog_commits"], "commits to it (MariaDB)"),
        rate(
            "group_commits",
            "group/s",
            &["Binlog_group_commits"],
            "groups of them that were synced together (MariaDB)",
        ),
        column(
            name("group_size", "size"),
            Shape::Count,
            &["Binlog_commits", "Binlog_group_commits"],
            ratio,
            "commits in a group (MariaDB)",
        ),
        column(
            name("disk", "disk"),
            Shape::Bytes,
            &["Binlog_disk_use"],
            gauge_of,
            "space that its files take (MariaDB from 11.4)",
        ),
    ],
};

pub(super) const QUEUE: View = View {
    name: "queue",
    what: "queues (ENGINE=QUEUE), all together; remora queue status shows each",
    columns: &[
        column(name("queues", "queues"), Shape::Count, &[], queues, "queues that were used since the start"),
        column(name("waiting", "waiting"), Shape::Count, &[], waiting, "rows that wait"),
        column(name("owned", "owned"), Shape::Count, &[], owned, "rows that somebody has taken"),
        column(name("in", "in/s"), Shape::PerSecond, &[], published, "rows published"),
        column(name("out", "out/s"), Shape::PerSecond, &[], removed, "rows that ended"),
    ],
};
