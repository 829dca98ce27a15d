//! The engine in a real server: what Q4M's own test cases ask for, and what happens when the server is
//! killed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/alter_kill.rs"]
mod alter_kill;
#[path = "main/bad_values.rs"]
mod bad_values;
#[path = "main/case.rs"]
mod case;
#[path = "main/client_package.rs"]
mod client_package;
#[path = "main/closed_client.rs"]
mod closed_client;
#[path = "main/commit_order.rs"]
mod commit_order;
#[path = "main/core_panic.rs"]
mod core_panic;
#[path = "../../../examples/crawler/crawl.rs"]
mod crawl;
#[path = "main/crawler.rs"]
mod crawler;
#[path = "main/ddl.rs"]
mod ddl;
#[path = "main/deduplication.rs"]
mod deduplication;
#[path = "main/examples.rs"]
mod examples;
#[path = "main/failed_statement.rs"]
mod failed_statement;
#[path = "main/full_disk.rs"]
mod full_disk;
#[path = "main/galera.rs"]
mod galera;
#[path = "main/go_client.rs"]
mod go_client;
#[path = "main/java_client.rs"]
mod java_client;
#[path = "main/kept_rows.rs"]
mod kept_rows;
#[path = "main/kill.rs"]
mod kill;
#[path = "main/kill_mode.rs"]
mod kill_mode;
#[path = "main/lease.rs"]
mod lease;
#[path = "main/lease_end.rs"]
mod lease_end;
#[path = "main/limits.rs"]
mod limits;
#[path = "main/lock.rs"]
mod lock;
#[path = "main/many_clients.rs"]
mod many_clients;
#[path = "main/message_groups.rs"]
mod message_groups;
#[path = "main/node_client.rs"]
mod node_client;
#[path = "main/patterns.rs"]
mod patterns;
#[path = "main/paused.rs"]
mod paused;
#[path = "main/php_client.rs"]
mod php_client;
#[path = "main/priority.rs"]
mod priority;
#[path = "main/python_client.rs"]
mod python_client;
#[path = "main/reader.rs"]
mod reader;
#[path = "main/relay.rs"]
mod relay;
#[path = "main/replica.rs"]
mod replica;
#[path = "main/ruby_client.rs"]
mod ruby_client;
#[path = "main/scheduled.rs"]
mod scheduled;
#[path = "main/schedules.rs"]
mod schedules;
#[path = "main/server.rs"]
mod server;
#[path = "main/table.rs"]
mod table;
#[path = "main/times.rs"]
mod times;
#[path = "main/transaction.rs"]
mod transaction;
#[path = "main/tries.rs"]
mod tries;
#[path = "main/unreturned_rows.rs"]
mod unreturned_rows;
#[path = "main/value.rs"]
mod value;
