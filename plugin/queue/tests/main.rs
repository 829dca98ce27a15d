//! The engine in a real server: what Q4M's own test cases ask for, and what happens when the server is
//! killed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/case.rs"]
mod case;
#[path = "main/change.rs"]
mod change;
#[path = "main/commit_order.rs"]
mod commit_order;
#[path = "../../../examples/crawler/crawl.rs"]
mod crawl;
#[path = "main/crawler.rs"]
mod crawler;
#[path = "main/crowd.rs"]
mod crowd;
#[path = "main/ddl.rs"]
mod ddl;
#[path = "main/dedupe.rs"]
mod dedupe;
#[path = "main/due.rs"]
mod due;
#[path = "main/example.rs"]
mod example;
#[path = "main/fault.rs"]
mod fault;
#[path = "main/fifo.rs"]
mod fifo;
#[path = "main/full.rs"]
mod full;
#[path = "main/galera.rs"]
mod galera;
#[path = "main/keep.rs"]
mod keep;
#[path = "main/kill.rs"]
mod kill;
#[path = "main/kill_mode.rs"]
mod kill_mode;
#[path = "main/lease.rs"]
mod lease;
#[path = "main/lease_end.rs"]
mod lease_end;
#[path = "main/lock.rs"]
mod lock;
#[path = "main/policy.rs"]
mod policy;
#[path = "main/priority.rs"]
mod priority;
#[path = "main/reader.rs"]
mod reader;
#[path = "main/relay.rs"]
mod relay;
#[path = "main/replica.rs"]
mod replica;
#[path = "main/server.rs"]
mod server;
#[path = "main/strict.rs"]
mod strict;
#[path = "main/table.rs"]
mod table;
#[path = "main/times.rs"]
mod times;
#[path = "main/transaction.rs"]
mod transaction;
#[path = "main/unit.rs"]
mod unit;
#[path = "main/unseen.rs"]
mod unseen;
#[path = "main/value.rs"]
mod value;
