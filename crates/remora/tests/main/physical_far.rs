//! Tables whose files are written on another machine, over a real sshd.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::mount;
use crate::physical::{TABLE, files, same, text};
use crate::ssh::Server;
use crate::support::{Ended, Place, Running, on_own_mariadb, remora, until};

/// `remora ARGUMENTS` for a server whose data folder this process can't see: an empty one is mounted over it.
fn far(machine: &Server, place: &Place, arguments: &[&str]) -> Command {
    let mut inner = machine.command(arguments);
    inner.args(["--server-at", &machine.machine(), "--no-defaults", "-u", "root", "-S"]).arg(&place.socket);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]);
    command.arg(place.value("SELECT @@datadir")).arg(inner.get_program()).args(inner.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_table_is_written_on_another_machine() {
    if !mount::is_possible() {
        return;
    }
    on_own_mariadb(|place| {
        let machine = Server::start();
        let run = |arguments: &[&str]| Ended::of(&far(&machine, place, arguments).output().unwrap());
        let into = |table: &str| format!("{}.{table}", place.schema);
        let path = |name: &str| place.path(name).display().to_string();
        place.sql(&[
            &format!("CREATE TABLE t {TABLE}"),
            "CREATE TABLE sent LIKE t",
            "CREATE TABLE wild LIKE t",
            "SET GLOBAL time_zone = '+00:00'",
        ]);
        place.import(&[&place.file("rows.csv", text(1..20_000)), "--into", "sent"]).exits(0);
        let import = |name: &str, table: &str| {
            run(&["import", &path(name), "--into", &into(table), "--physical"]).exits(0)
        };
        import("rows.csv", "t").says(&["written directly"]);
        same(place, "t", "sent");
        place.file("wild.csv", text((1..4000).map(|id| id * 1999 % 4001)));
        import("wild.csv", "wild").says(&["sorted first"]);
        assert_eq!(place.count("wild"), 3999);
        // A dump.
        let server = ["-u", "root", "-S", place.socket.to_str().unwrap()];
        let dump = path("far.dump");
        let mut command = remora(machine.path("").as_path());
        command.args(["dump", &into("t"), "-o", &dump, "--no-defaults"]).args(server);
        Ended::of(&command.output().unwrap()).exits(0);
        place.sql(&["RENAME TABLE t TO other"]);
        run(&["load", &dump, "--physical"]).exits(0).says(&["incremental backups of mariadb-backup"]);
        same(place, "t", "other");
    });
}

#[test]
fn a_connection_that_ends_leaves_the_old_table() {
    if !mount::is_possible() {
        return;
    }
    on_own_mariadb(|place| {
        let machine = Server::start();
        place.sql(&[&format!("CREATE TABLE t {TABLE}"), "SET GLOBAL time_zone = '+00:00'"]);
        let path = place.path(&place.file("rows.csv", text(1..50_000))).display().to_string();
        let into = format!("{}.t", place.schema);
        let folder = PathBuf::from(place.value("SELECT @@datadir")).join(&place.schema);
        let import = || far(&machine, place, &["import", &path, "--into", &into, "--physical"]);
        let half_way = || {
            let mut running = Running::new(import().spawn().unwrap());
            until("pages in the file", || {
                assert!(!running.has_ended());
                files(&folder).iter().any(|(name, len)| name.ends_with(".ibd") && *len > 1 << 20)
            });
            running
        };
        let running = half_way();
        for helper in machine.helpers() {
            assert!(Command::new("kill").args(["-9", &helper.to_string()]).status().unwrap().success());
        }
        running.end().exits(1);
        assert_eq!(place.count("t"), 0);
        half_way().kill();
        assert_eq!(place.count("t"), 0);
        until("nobody is there", || machine.helpers().is_empty());
        let working = "info LIKE '%remora%' AND info NOT LIKE '%processlist%'";
        place.until(&format!("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {working}"));
        Ended::of(&import().output().unwrap()).exits(0);
        assert_eq!(place.count("t"), 49_999);
        assert_eq!((place.leftovers(), files(&folder)), (Vec::new(), Vec::new()));
    });
}
