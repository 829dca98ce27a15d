//! The real program against real servers: every MariaDB and MySQL that is on this machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]
#![expect(clippy::disallowed_methods, reason = "a test lays out its own files")]

#[path = "main/running.rs"]
mod running;
#[path = "main/screen.rs"]
mod screen;
#[path = "../../bucket/tests/main/fake.rs"]
#[expect(dead_code, reason = "tests of the crate bucket need more of it")]
mod store;
#[path = "main/support.rs"]
mod support;

#[path = "main/archive_prune.rs"]
mod archive_prune;
#[path = "main/arrival_time.rs"]
mod arrival_time;
#[path = "main/backup.rs"]
mod backup;
#[path = "main/binlog.rs"]
mod binlog;
#[path = "main/binlog_history.rs"]
mod binlog_history;
#[path = "main/binlog_statements.rs"]
mod binlog_statements;
#[path = "main/binlog_wire.rs"]
mod binlog_wire;
#[path = "main/blockers.rs"]
mod blockers;
#[path = "main/characters.rs"]
mod characters;
#[path = "main/complete.rs"]
mod complete;
#[path = "main/cron.rs"]
mod cron;
#[path = "main/demo.rs"]
mod demo;
#[path = "main/dialect_guess.rs"]
mod dialect_guess;
#[path = "main/doctor.rs"]
mod doctor;
#[path = "main/documents.rs"]
mod documents;
#[path = "main/dump.rs"]
mod dump;
#[path = "main/duplicate_keys.rs"]
mod duplicate_keys;
#[path = "main/encrypted_log.rs"]
mod encrypted_log;
#[path = "main/extract.rs"]
mod extract;
#[path = "main/extract_backup.rs"]
mod extract_backup;
#[path = "main/extract_dump.rs"]
mod extract_dump;
#[path = "main/extract_mysql.rs"]
mod extract_mysql;
#[path = "main/failover.rs"]
mod failover;
#[path = "main/file_format.rs"]
mod file_format;
#[path = "main/galera.rs"]
mod galera;
#[path = "main/gate.rs"]
mod gate;
#[path = "main/hot.rs"]
mod hot;
#[path = "main/huge_transaction.rs"]
mod huge_transaction;
#[path = "main/import_concurrent.rs"]
mod import_concurrent;
#[path = "main/import_crash.rs"]
mod import_crash;
#[path = "main/import_options.rs"]
mod import_options;
#[path = "main/import_parquet.rs"]
mod import_parquet;
#[path = "main/import_restrictions.rs"]
mod import_restrictions;
#[path = "main/kafka.rs"]
mod kafka;
#[path = "main/key.rs"]
mod key;
#[path = "main/large_rows.rs"]
mod large_rows;
#[path = "main/lock.rs"]
mod lock;
#[path = "main/log.rs"]
mod log;
#[path = "main/log_files.rs"]
mod log_files;
#[path = "main/log_where.rs"]
mod log_where;
#[path = "main/lvm.rs"]
mod lvm;
#[path = "main/mirror.rs"]
mod mirror;
#[path = "main/mount.rs"]
mod mount;
#[path = "main/mount_large.rs"]
mod mount_large;
#[path = "main/mount_options.rs"]
mod mount_options;
#[path = "main/mysql97.rs"]
mod mysql97;
#[path = "main/mysql_log.rs"]
mod mysql_log;
#[path = "main/pack.rs"]
mod pack;
#[path = "main/physical.rs"]
mod physical;
#[path = "main/physical_disk_space.rs"]
mod physical_disk_space;
#[path = "main/physical_far.rs"]
mod physical_far;
#[path = "main/physical_kill.rs"]
mod physical_kill;
#[path = "main/physical_values.rs"]
mod physical_values;
#[path = "main/places.rs"]
mod places;
#[path = "main/poke.rs"]
mod poke;
#[path = "main/python.rs"]
mod python;
#[path = "main/queue.rs"]
mod queue;
#[path = "main/queue_broker.rs"]
mod queue_broker;
#[path = "main/queue_kafka.rs"]
mod queue_kafka;
#[path = "main/queue_repair.rs"]
mod queue_repair;
#[path = "main/queue_status.rs"]
mod queue_status;
#[path = "main/real_store.rs"]
mod real_store;
#[path = "main/recovery_scene.rs"]
mod recovery_scene;
#[path = "main/reject.rs"]
mod reject;
#[path = "main/restore_tables.rs"]
mod restore_tables;
#[path = "main/reverse.rs"]
mod reverse;
#[path = "main/reverse_children.rs"]
mod reverse_children;
#[path = "main/reverse_children_random.rs"]
mod reverse_children_random;
#[path = "main/reverse_definitions.rs"]
mod reverse_definitions;
#[path = "main/reverse_refused.rs"]
mod reverse_refused;
#[path = "main/round_trip.rs"]
mod round_trip;
#[path = "main/routines.rs"]
mod routines;
#[path = "main/sandbox_command.rs"]
mod sandbox_command;
#[path = "main/schema.rs"]
mod schema;
#[path = "main/segments.rs"]
mod segments;
#[path = "main/segments_read.rs"]
mod segments_read;
#[path = "main/setup.rs"]
mod setup;
#[path = "main/snapshot_server.rs"]
mod snapshot_server;
#[path = "main/ssh.rs"]
mod ssh;
#[path = "main/stat.rs"]
mod stat;
#[path = "main/table.rs"]
mod table;
#[path = "main/table_properties.rs"]
mod table_properties;
#[path = "main/text_values.rs"]
mod text_values;
#[path = "main/tmpfs.rs"]
mod tmpfs;
#[path = "main/top.rs"]
mod top;
#[path = "main/tree.rs"]
mod tree;
#[path = "main/uncache.rs"]
mod uncache;
#[path = "main/until.rs"]
mod until;
#[path = "main/until_edges.rs"]
mod until_edges;
#[path = "main/until_generation.rs"]
mod until_generation;
#[path = "main/until_history.rs"]
mod until_history;
#[path = "main/until_mysql.rs"]
mod until_mysql;
#[path = "main/until_settings.rs"]
mod until_settings;
#[path = "main/until_xa.rs"]
mod until_xa;
#[path = "main/url.rs"]
mod url;
#[path = "main/vars.rs"]
mod vars;
#[path = "main/verify_boot.rs"]
mod verify_boot;
#[path = "main/verify_log.rs"]
mod verify_log;
#[path = "main/web.rs"]
mod web;
#[path = "main/wrong_delete.rs"]
mod wrong_delete;
