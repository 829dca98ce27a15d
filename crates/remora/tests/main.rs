//! The real program against real servers: every MariaDB and MySQL that is on this machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]
#![expect(clippy::disallowed_methods, reason = "a test lays out its own files")]

#[path = "main/running.rs"]
mod running;
#[path = "../../bucket/tests/main/fake.rs"]
#[expect(dead_code, reason = "tests of the crate bucket need more of it")]
mod store;
#[path = "main/support.rs"]
mod support;

#[path = "main/arrived.rs"]
mod arrived;
#[path = "main/backup.rs"]
mod backup;
#[path = "main/binlog.rs"]
mod binlog;
#[path = "main/binlog_history.rs"]
mod binlog_history;
#[path = "main/binlog_wire.rs"]
mod binlog_wire;
#[path = "main/boot.rs"]
mod boot;
#[path = "main/byte.rs"]
mod byte;
#[path = "main/children.rs"]
mod children;
#[path = "main/children_random.rs"]
mod children_random;
#[path = "main/concurrent.rs"]
mod concurrent;
#[path = "main/crash.rs"]
mod crash;
#[path = "main/cron.rs"]
mod cron;
#[path = "main/doctor.rs"]
mod doctor;
#[path = "main/doubt.rs"]
mod doubt;
#[path = "main/dump.rs"]
mod dump;
#[path = "main/duplicate.rs"]
mod duplicate;
#[path = "main/encrypted_log.rs"]
mod encrypted_log;
#[path = "main/extract.rs"]
mod extract;
#[path = "main/extract_backup.rs"]
mod extract_backup;
#[path = "main/extract_dump.rs"]
mod extract_dump;
#[path = "main/failover.rs"]
mod failover;
#[path = "main/form.rs"]
mod form;
#[path = "main/galera.rs"]
mod galera;
#[path = "main/gate.rs"]
mod gate;
#[path = "main/hot.rs"]
mod hot;
#[path = "main/huge.rs"]
mod huge;
#[path = "main/ibd.rs"]
mod ibd;
#[path = "main/ibd_far.rs"]
mod ibd_far;
#[path = "main/ibd_room.rs"]
mod ibd_room;
#[path = "main/ibd_step.rs"]
mod ibd_step;
#[path = "main/ibd_values.rs"]
mod ibd_values;
#[path = "main/kafka.rs"]
mod kafka;
#[path = "main/keep.rs"]
mod keep;
#[path = "main/key.rs"]
mod key;
#[path = "main/lock.rs"]
mod lock;
#[path = "main/log.rs"]
mod log;
#[path = "main/log_where.rs"]
mod log_where;
#[path = "main/lvm.rs"]
mod lvm;
#[path = "main/mirror.rs"]
mod mirror;
#[path = "main/moment.rs"]
mod moment;
#[path = "main/mount.rs"]
mod mount;
#[path = "main/mount_large.rs"]
mod mount_large;
#[path = "main/mount_options.rs"]
mod mount_options;
#[path = "main/mysql97.rs"]
mod mysql97;
#[path = "main/one_table.rs"]
mod one_table;
#[path = "main/option.rs"]
mod option;
#[path = "main/pack.rs"]
mod pack;
#[path = "main/poke.rs"]
mod poke;
#[path = "main/pruned.rs"]
mod pruned;
#[path = "main/queue.rs"]
mod queue;
#[path = "main/queue_broker.rs"]
mod queue_broker;
#[path = "main/queue_kafka.rs"]
mod queue_kafka;
#[path = "main/queue_mend.rs"]
mod queue_mend;
#[path = "main/queue_status.rs"]
mod queue_status;
#[path = "main/real_store.rs"]
mod real_store;
#[path = "main/reject.rs"]
mod reject;
#[path = "main/reverse.rs"]
mod reverse;
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
#[path = "main/segments.rs"]
mod segments;
#[path = "main/segments_read.rs"]
mod segments_read;
#[path = "main/server.rs"]
mod server;
#[path = "main/size.rs"]
mod size;
#[path = "main/ssh.rs"]
mod ssh;
#[path = "main/stat.rs"]
mod stat;
#[path = "main/story.rs"]
mod story;
#[path = "main/table.rs"]
mod table;
#[path = "main/target.rs"]
mod target;
#[path = "main/tmpfs.rs"]
mod tmpfs;
#[path = "main/tree.rs"]
mod tree;
#[path = "main/uncache.rs"]
mod uncache;
#[path = "main/until.rs"]
mod until;
#[path = "main/until_before.rs"]
mod until_before;
#[path = "main/until_goal.rs"]
mod until_goal;
#[path = "main/until_history.rs"]
mod until_history;
#[path = "main/until_source.rs"]
mod until_source;
#[path = "main/until_xa.rs"]
mod until_xa;
#[path = "main/url.rs"]
mod url;
#[path = "main/value.rs"]
mod value;
#[path = "main/vars.rs"]
mod vars;
#[path = "main/verify_log.rs"]
mod verify_log;
