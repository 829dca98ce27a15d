//! Rules about memory: buffers, caches, and connections.

use super::{Advice, Facts};

/// For larger allocations the C library requests memory from the system each time, and gives it back:
/// `DEFAULT_MMAP_THRESHOLD_MAX` of glibc.
const MMAP_BYTES: i128 = 32 << 20;

pub(super) fn connections(facts: &Facts) -> Option<Advice> {
    let (used, refused) =
        (facts.count("max_used_connections"), facts.count("connection_errors_max_connections"));
    let most = facts.number("max_connections")?;
    if i128::from(used) < most && refused == 0 {
        return None;
    }
    Some(Advice {
        rule: "connections",
        seen: format!("max_connections = {most}, most at once {used}, refused since the start {refused}"),
        why: "clients were or will be refused, the administrator too; extra_port of MariaDB keeps a door open, and \
              only a restart sets it",
        source: "counters max_used_connections and connection_errors_max_connections of this server",
        remedy: "SET GLOBAL max_connections = more; extra_port = 3307 in the option file of MariaDB"
            .to_owned(),
    })
}

pub(super) fn memory(facts: &Facts) -> Option<Advice> {
    const SHARED: [&str; 5] = [
        "innodb_buffer_pool_size",
        "key_buffer_size",
        "aria_pagecache_buffer_size",
        "query_cache_size",
        "innodb_log_buffer_size",
    ];
    let machine = i128::from(facts.memory_bytes?);
    let set: Vec<(&str, i128)> =
        SHARED.into_iter().filter_map(|name| Some((name, facts.number(name)?))).collect();
    let all: i128 = set.iter().map(|(_, bytes)| bytes).sum();
    // Less than this is left for connections, the page cache and everything else that runs there.
    if all < machine - machine / 20 {
        return None;
    }
    let set: Vec<String> = set.iter().map(|(name, bytes)| format!("{name} = {bytes}")).collect();
    Some(Advice {
        rule: "memory",
        seen: format!("{}, together {all} bytes; the machine has {machine}", set.join(", ")),
        why: "they can't fit: the machine swaps, or the kernel ends the server when they are filled",
        source: "MemTotal of this machine; https://mariadb.com/kb/en/mariadb-memory-allocation/",
        remedy: "innodb_buffer_pool_size: at most 70 to 80 % of the memory, if the machine does nothing else"
            .to_owned(),
    })
}

pub(super) fn table_cache(facts: &Facts) -> Option<Advice> {
    let size = facts.number("table_open_cache")?;
    let (hits, misses, overflows) = (
        facts.count("table_open_cache_hits"),
        facts.count("table_open_cache_misses"),
        facts.count("table_open_cache_overflows"),
    );
    // Tables were thrown out for others, and one use in a hundred had to open one again.
    if overflows == 0 || overflows.saturating_mul(100) < hits.saturating_add(misses) {
        return None;
    }
    Some(Advice {
        rule: "table cache",
        seen: format!(
            "table_open_cache = {size}; of {} uses {misses} had to open a table, and {overflows} threw another out",
            hits.saturating_add(misses)
        ),
        why: "tables are closed and opened again and again, each time under a lock that all share",
        source: "counters table_open_cache_misses and _overflows of this server",
        remedy: "SET GLOBAL table_open_cache: as many as connections use at once, 2000 by default; open_files_limit must \
                 allow it"
            .to_owned(),
    })
}

pub(super) fn thread_cache(facts: &Facts) -> Option<Advice> {
    let is_pool = facts.value("thread_handling").is_some_and(|handling| handling.starts_with("pool"));
    facts.number("thread_cache_size").filter(|size| *size == 0 && !is_pool)?;
    Some(Advice {
        rule: "thread cache",
        seen: format!(
            "thread_cache_size = 0, {} threads were made for {} connections",
            facts.count("threads_created"),
            facts.count("connections")
        ),
        why: "each connection makes a thread of the system, and ends it",
        source: "https://mariadb.com/kb/en/server-system-variables/#thread_cache_size",
        remedy: "SET GLOBAL thread_cache_size = DEFAULT".to_owned(),
    })
}

pub(super) fn buffer_pool(facts: &Facts) -> Option<Advice> {
    let pool = facts.number("innodb_buffer_pool_size")?;
    let (reads, requests) =
        (facts.count("innodb_buffer_pool_reads"), facts.count("innodb_buffer_pool_read_requests"));
    let (free, all) =
        (facts.count("innodb_buffer_pool_pages_free"), facts.count("innodb_buffer_pool_pages_total"));
    // Nothing is free, the data are larger, and one request in a hundred goes to the disk.
    let is_full = free.saturating_mul(20) < all;
    if !is_full || i128::from(facts.innodb_bytes) <= pool || reads.saturating_mul(100) < requests {
        return None;
    }
    Some(Advice {
        rule: "buffer pool",
        seen: format!(
            "innodb_buffer_pool_size = {pool}, data {} bytes, {reads} of {requests} page requests went to the disk",
            facts.innodb_bytes
        ),
        why: "the pool is full and smaller than the data, and pages are read again and again",
        source: "counters innodb_buffer_pool_reads and _read_requests of this server",
        remedy: "innodb_buffer_pool_size: more, as far as the machine has memory for it".to_owned(),
    })
}

pub(super) fn log_buffer(facts: &Facts) -> Option<Advice> {
    let waits = Some(facts.count("innodb_log_waits")).filter(|waits| *waits > 0)?;
    Some(Advice {
        rule: "log buffer",
        seen: format!(
            "innodb_log_waits = {waits}, innodb_log_buffer_size = {}",
            facts.value("innodb_log_buffer_size").unwrap_or("?")
        ),
        why: "that many times a transaction waited because the buffer of the redo log was full",
        source: "https://mariadb.com/kb/en/innodb-status-variables/#innodb_log_waits",
        remedy: "innodb_log_buffer_size: twice as much in the option file".to_owned(),
    })
}

pub(super) fn binlog_cache(facts: &Facts) -> Option<Advice> {
    let (disk, all) = (facts.count("binlog_cache_disk_use"), facts.count("binlog_cache_use"));
    if disk == 0 || disk.saturating_mul(100) < all {
        return None;
    }
    Some(Advice {
        rule: "binlog cache",
        seen: format!(
            "{disk} of {all} transactions went to a temporary file, binlog_cache_size = {}",
            facts.value("binlog_cache_size").unwrap_or("?")
        ),
        why: "a transaction larger than the cache is written twice: to a temporary file and to the binary log",
        source: "https://mariadb.com/kb/en/replication-and-binary-log-status-variables/#binlog_cache_disk_use",
        remedy: "SET GLOBAL binlog_cache_size: as large as most transactions are".to_owned(),
    })
}

pub(super) fn query_cache(facts: &Facts) -> Option<Advice> {
    let size = facts.number("query_cache_size").filter(|size| *size > 0)?;
    let kind = facts.value("query_cache_type").filter(|kind| !matches!(*kind, "OFF" | "0"))?;
    Some(Advice {
        rule: "query cache",
        seen: format!("query_cache_type = {kind}, query_cache_size = {size}"),
        why: "one lock for all: the manual says that it does not scale well with high throughput on several cores; \
              MySQL 8.0 has none",
        source: "https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/buffers-caches-and-threads/query-cache",
        remedy: "SET GLOBAL query_cache_type = OFF, and measure both".to_owned(),
    })
}

pub(super) fn session_buffers(facts: &Facts) -> Vec<Advice> {
    let names = ["read_buffer_size", "read_rnd_buffer_size", "sort_buffer_size", "join_buffer_size"];
    let large = names.into_iter().filter_map(|name| Some((name, facts.number(name)?)));
    large
        .filter(|(_, bytes)| *bytes >= MMAP_BYTES)
        .map(|(name, bytes)| Advice {
            rule: "session buffer",
            seen: format!("{name} = {bytes} for everybody"),
            why: "each use of a buffer of 32 MiB or more takes memory from the system and gives it back: \
                  11 us where a smaller one costs 17 ns, before a byte is read into it",
            source: "measured: docs/manual/vars.md; glibc's mallopt(3), M_MMAP_THRESHOLD",
            remedy: format!("SET GLOBAL {name} = DEFAULT; SET SESSION {name} where a statement gains by it"),
        })
        .collect()
}
