//! `remora backup mysql:` of servers on btrfs and XFS, mounted for the test alone.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Places, Product, Sandbox, Settings};

use crate::ssh;
use crate::support::{Ended, Running, connect, pause_writer, places, until};
use crate::tree::{Volume, run, volumes};

/// A server under constant writes is backed up three times while it runs. It has tables of three engines.
#[test]
fn a_server_is_backed_up_while_it_works() {
    for volume in volumes() {
        let server = server_on(&volume);
        let mut session = connect(server.socket());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| write(&server, &over));
            let _stops = Stops(&over);
            for generation in 1..=3 {
                let socket = server.socket().display().to_string();
                let line = [
                    "backup",
                    "mysql:",
                    "--socket",
                    &socket,
                    "--no-defaults",
                    "-uroot",
                    "--to",
                    "repo",
                    "--name",
                    "mysql",
                    "--track",
                    "--lock",
                    "touch locked &&",
                ];
                let ended = volume.remora(&line).exits(0).says(&[
                    &format!("mysql@{generation}"),
                    "the lock (backup-stage) was held for",
                    "binary log position: binlog.000001",
                    "has started on a copy, all of ",
                ]);
                let (stood_still, clones) = ("the server was frozen for ", volume.kind == "xfs");
                assert_eq!(ended.err.contains(stood_still), clones, "{}", ended.err);
            }
        });
        assert!(volume.folder.path().join("locked").exists());
        let written = session.value("SELECT COUNT(*) FROM app.InnoDB").unwrap();
        // Only the snapshot kept for the next run is left, and nothing that the server was started on.
        assert_eq!(left(&volume, &server), 1);
        drop(session);
        drop(server);
        let listed = volume.remora(&["list", "repo"]).exits(0).out;
        assert_eq!(listed.matches("  proven  mysql: on ").count(), 3, "{listed}");
        let listed = volume.remora(&["list", "repo", "--json"]).exits(0).out;
        assert!(listed.contains("binlog.000001") && listed.contains("backup-stage"), "{listed}");
        volume
            .remora(&["verify", "repo", "--boot", "--work", "."])
            .exits(0)
            .says(&["all sound", "mysql@3 has been booted"]);
        assert!(written.unwrap().parse::<u32>().unwrap() > 0);
    }
}

/// A server whose data lie on a volume, with a table of each of three engines.
fn server_on(volume: &Volume) -> Sandbox {
    server_with(volume, &["--log-bin=binlog"], None)
}

fn server_with(volume: &Volume, more: &[&str], name: Option<&Places>) -> Sandbox {
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let options = ["--innodb-buffer-pool-size=64M", "--server-id=1"].iter().chain(more);
    let settings = Settings {
        folder: Some(volume.data().join("server")),
        options: options.map(ToString::to_string).collect(),
        name: name.map(|_| "scratch".to_owned()),
        ..Settings::default()
    };
    let own = places();
    let server = Sandbox::start(&installation, name.unwrap_or(&own), &settings).unwrap();
    let mut session = connect(server.socket());
    session.execute("CREATE DATABASE app").unwrap();
    for engine in ["InnoDB", "MyISAM", "Aria"] {
        let columns = "(id INT AUTO_INCREMENT PRIMARY KEY, text TEXT)";
        session.execute(&format!("CREATE TABLE app.{engine} {columns} ENGINE={engine}")).unwrap();
    }
    server
}

#[test]
fn a_server_without_a_snapshot_is_reported() {
    let Some(volume) = Volume::new("ext4") else { return };
    let server = server_on(&volume);
    let socket = server.socket().display().to_string();
    let line = ["backup", "mysql:", "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo"];
    let line = [&line[..], &["--name", "mysql"]].concat();
    let snapshot = [line.as_slice(), &["--way", "snapshot"]].concat();
    volume.remora(&snapshot).exits(1).says(&[
        "lies on ext4",
        "no snapshot can be made",
        "without --way snapshot",
    ]);
    assert!(!volume.folder.path().join("repo/mysql/000001.blk").exists());
    volume.remora(&line).exits(0).says(&["mysql: commits waited for", "mysql@1 (full)"]);
}

/// A folder made in a data folder would become a database.
#[test]
fn a_data_folder_at_the_top_of_its_file_system_is_reported() {
    for volume in volumes() {
        let mut server = server_on(&volume);
        server.stop().unwrap();
        let other = Volume::new(volume.kind).unwrap();
        run(Command::new("cp").arg("--archive").arg(server.data().join(".")).arg(other.top()));
        drop(server);
        let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
        let settings = Settings { data: Some(other.top()), ..Settings::default() };
        let server = Sandbox::start(&installation, &places(), &settings).unwrap();
        let socket = server.socket().display().to_string();
        let line = ["backup", "mysql:", "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo"];
        other.remora(&line).exits(1).says(&["no room beside it", "one folder higher"]);
    }
}

/// The server's own protocol goes through the same ssh connection.
#[test]
fn a_remote_server_is_backed_up_and_restored() {
    for volume in volumes() {
        let server = server_on(&volume);
        let there = ssh::Server::start();
        let (source, socket) = (format!("mysql:{}", there.machine()), server.socket().display().to_string());
        let line =
            ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo", "--track"];
        there.run(&line).exits(0).says(&["127.0.0.1@1 (full)", "was held for"]);
        connect(server.socket()).execute("INSERT INTO app.InnoDB (text) VALUES ('one more')").unwrap();
        there.run(&line).exits(0).says(&["127.0.0.1@2 (changes to 1)"]);
        let back = format!("{}{}", there.machine(), volume.top().join("back").display());
        there.run(&["restore", "repo", "--to", &back]).exits(0);
        run(Command::new("cmp")
            .args([volume.top().join("back/mysql/db.frm"), server.data().join("mysql/db.frm")]));
        let nowhere = ["backup", &source, "--socket", "/nowhere", "--no-defaults", "-uroot", "--to", "repo"];
        there.run(&nowhere).exits(10).says(&["no backup was made"]);
    }
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(server: &Sandbox, over: &AtomicBool) {
    let mut session = connect(server.socket());
    while !over.load(Ordering::Relaxed) {
        pause_writer();
        for engine in ["InnoDB", "MyISAM", "Aria"] {
            session.execute(&format!("INSERT INTO app.{engine} (text) VALUES (REPEAT(UUID(), 50))")).unwrap();
        }
    }
}

/// A run against the server, with these options.
fn backup(volume: &Volume, server: &Sandbox, more: &[&str]) -> Ended {
    volume.remora(&[&words(server)[..], more].concat())
}

fn words(server: &Sandbox) -> [&str; 10] {
    let socket = server.socket().to_str().unwrap();
    ["backup", "mysql:", "--socket", socket, "--no-defaults", "-uroot", "--to", "repo", "--name", "mysql"]
}

/// The number of our snapshots and copies beside the data folder, or beside the subvolume that holds it.
fn left(volume: &Volume, server: &Sandbox) -> usize {
    let folders = [volume.top(), server.folder().to_owned()];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).flatten();
    entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".remora-")).count()
}

fn generations(volume: &Volume) -> usize {
    volume.remora(&["list", "repo"]).out.lines().count()
}

/// If somebody lets the server continue while its files are cloned, the copy is of no single point in time.
#[test]
fn a_server_that_ran_during_the_clone_is_not_backed_up() {
    let Some(volume) = Volume::new("xfs") else { return };
    let server = server_on(&volume);
    let over = AtomicBool::new(false);
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
            }
        });
        let _stops = Stops(&over);
        let mut ended = backup(&volume, &server, &["--still", "3"]);
        // On a busy machine the clone may be over before the other thread has its turn.
        for _ in 0..20 {
            if ended.code != 0 {
                break;
            }
            std::fs::remove_dir_all(volume.folder.path().join("repo")).unwrap();
            ended = backup(&volume, &server, &["--still", "3"]);
        }
        let ended = ended.exits(1);
        let told = ["ran while its files were copied", "did not stop"];
        assert!(told.iter().any(|words| ended.err.contains(words)), "{}", ended.err);
    });
    assert_eq!((generations(&volume), left(&volume, &server)), (0, 0));
    // The server works, and a run that would take too long is not started.
    connect(server.socket()).execute("INSERT INTO app.InnoDB (text) VALUES ('x')").unwrap();
    backup(&volume, &server, &["--still", "0.000001"]).exits(1).says(&[
        "may stand still for",
        "--still",
        "xfs_fsr",
    ]);
    assert_eq!((generations(&volume), left(&volume, &server)), (0, 0));
    backup(&volume, &server, &["--no-prove"]).exits(0).says(&["the server was frozen for"]);
    backup(&volume, &server, &["--prove-for", "0s"]).exits(0).says(&["has started on a copy, 0 of "]);
    let listed = volume.remora(&["list", "repo"]).exits(0).out;
    let known = listed.lines().filter_map(|line| line.split("stored").nth(1)?.split("  mysql: on").next());
    let known: Vec<&str> = known.collect();
    assert_eq!(known, ["", "  booted"], "{listed}");
}

/// A table was cut off, and the running server has not read it since.
#[test]
fn an_unsound_backup_is_stored_and_reported() {
    for volume in volumes() {
        let server = server_on(&volume);
        let mut session = connect(server.socket());
        session.execute("INSERT INTO app.MyISAM (text) VALUES ('one'), ('two'), ('three')").unwrap();
        session.execute("FLUSH TABLES").unwrap();
        let table = server.data().join("app/MyISAM.MYD");
        std::fs::OpenOptions::new().write(true).open(&table).unwrap().set_len(20).unwrap();
        let told = ["`app`.`MyISAM`: ", "mysql@1 is stored but not sound"];
        backup(&volume, &server, &[]).exits(4).says(&told);
        let listed = volume.remora(&["list", "repo"]).exits(0).out;
        assert!(listed.contains("NOT SOUND"), "{listed}");
        assert_eq!(left(&volume, &server), 0);
        volume.remora(&["verify", "repo", "--boot", "--work", "."]).exits(4);
    }
}

/// Everything that belongs to the server is in the backup, or is named.
#[test]
fn files_outside_of_the_data_folder_are_named() {
    let Some(volume) = Volume::new("btrfs") else { return };
    let elsewhere = volume.top().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let binlog = format!("--log-bin={}/binlog", elsewhere.display());
    let mut server = server_with(&volume, &[&binlog], None);
    let outside = elsewhere.display().to_string();
    let refused = |server: &Sandbox, words: &[&str]| {
        let ended = backup(&volume, server, &[]).exits(1).says(words).says(&[&*outside, "of no use"]);
        assert_eq!((generations(&volume), left(&volume, server)), (1, 0), "{ended:?}");
    };
    backup(&volume, &server, &[]).exits(0).says(&[
        "log_bin_basename is ",
        "lacks the binary log",
        "all sound",
    ]);

    let mut session = connect(server.socket());
    let table = "CREATE TABLE app.far (id INT) ENGINE=InnoDB DATA DIRECTORY=";
    session.execute(&format!("{table}'{outside}'")).unwrap();
    refused(&server, &["app/far.isl"]);
    session.execute("DROP TABLE app.far").unwrap();
    session.execute(&format!("{}'{outside}'", table.replace("InnoDB", "MyISAM"))).unwrap();
    refused(&server, &["app/far.MYD"]);
    session.execute("DROP TABLE app.far").unwrap();

    std::fs::create_dir(elsewhere.join("shop")).unwrap();
    let link = server.data().join("shop");
    std::os::unix::fs::symlink(elsewhere.join("shop"), &link).unwrap();
    refused(&server, &["shop leads to"]);
    std::fs::remove_file(&link).unwrap();
    run(Command::new("btrfs").args(["--quiet", "subvolume", "create"]).arg(&link));
    backup(&volume, &server, &[]).exits(1).says(&["shop is on another file system"]);
    run(Command::new("btrfs").args(["--quiet", "subvolume", "delete"]).arg(&link));
    // One that leads to where it is taken in is as good as none.
    std::os::unix::fs::symlink(server.data().join("app/db.opt"), server.data().join("link")).unwrap();
    backup(&volume, &server, &[]).exits(0).says(&["not proven: links"]);
    backup(&volume, &server, &["--prove"]).exits(3).says(&["not proven: links"]);
    drop(session);

    server.stop().unwrap();
    // A subvolume counts as a file system of its own here.
    run(Command::new("mv").arg(server.data().join("ibdata1")).arg(&elsewhere));
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let files = format!("--innodb-data-file-path={outside}/ibdata1:12M:autoextend");
    let options = ["--innodb-data-home-dir=", &files].map(str::to_owned).to_vec();
    let settings = Settings { folder: Some(server.folder().to_owned()), options, ..Settings::default() };
    drop(server);
    let server = Sandbox::start(&installation, &places(), &settings).unwrap();
    backup(&volume, &server, &[]).exits(1).says(&["innodb_data_file_path leads to", &outside]);
}

/// The connection to the other machine breaks during the read: a new one is made to clean up there.
#[test]
fn a_remote_snapshot_is_removed_when_ssh_or_the_remote_program_is_killed() {
    for volume in volumes() {
        let server = server_on(&volume);
        let there = ssh::Server::start();
        let source = format!("mysql:{}{}", there.machine(), server.socket().display());
        // Incompressible data are stored at once.
        let noise = format!("of={}", server.data().join("aaa").display());
        run(Command::new("dd").args(["if=/dev/urandom", "bs=1M", "count=60", &noise]));
        let line = [
            "backup",
            &source,
            "--no-defaults",
            "-uroot",
            "--to",
            "repo",
            "--name",
            "db",
            "--rate",
            "1M",
            "--no-prove",
        ];
        for kill_ssh in [true, false] {
            let mut command = there.command(&line);
            let piped = std::process::Stdio::piped;
            let running = Running::new(command.stdout(piped()).stderr(piped()).spawn().unwrap());
            let partial = there.path("repo/db/000001.blk.partial");
            until("something is stored", || {
                std::fs::metadata(&partial).is_ok_and(|found| found.len() > 9999)
            });
            assert_eq!(left(&volume, &server), 1);
            let killed = if kill_ssh {
                let children = format!("/proc/{0}/task/{0}/children", running.pid());
                std::fs::read_to_string(children).unwrap()
            } else {
                let helpers: Vec<String> = there.helpers().iter().map(ToString::to_string).collect();
                assert!(!helpers.is_empty());
                helpers.join(" ")
            };
            run(Command::new("kill").arg("-9").args(killed.split_whitespace()));
            let ended = running.end();
            assert!(ended.code == 1, "ssh: {kill_ssh}, killed {killed}: {}", ended.err);
            assert_eq!(left(&volume, &server), 0);
            std::fs::remove_file(partial).unwrap();
        }
    }
}

#[test]
fn a_server_is_named_by_socket_sandbox_or_machine() {
    let Some(volume) = Volume::new("btrfs") else { return };
    let cache = volume.folder.path().join("cache");
    let places = Places::customary(|name| {
        if name == "XDG_CACHE_HOME" { Some(cache.clone().into()) } else { std::env::var_os(name) }
    });
    let server = server_with(&volume, &[], Some(&places.unwrap()));
    let socket = server.socket().display().to_string();
    let backup = |source: &str, more: &[&str]| {
        let mut command = crate::support::remora(volume.folder.path());
        command
            .env("XDG_CACHE_HOME", &cache)
            .args(["backup", source, "--to", "repo", "--no-prove"])
            .args(more);
        Ended::of(&command.stdin(std::process::Stdio::null()).output().unwrap())
    };
    let named = format!("{}-scratch", rustix::system::uname().nodename().to_str().unwrap());
    backup("mysql:scratch", &[]).exits(0).says(&[&format!("{named}@1 (full)")]);
    // Backups under a former name are continued.
    let rename = |from: &str, to: &str| {
        let repository = volume.folder.path().join("repo");
        std::fs::rename(repository.join(from), repository.join(to)).unwrap();
    };
    rename(&named, "scratch");
    backup("mysql:scratch", &[]).exits(0).says(&["scratch@2 (changes to 1)"]);
    let login = ["--no-defaults", "-uroot"];
    for (generation, source) in [(3, format!("mysql:{socket}")), (4, format!("mysql:unix://{socket}"))] {
        let name = ["--name", "scratch"];
        backup(&source, &[login, name].concat()).exits(0).says(&[&format!("scratch@{generation}")]);
    }
    backup("mysql:nobody", &[])
        .exits(2)
        .says(&["no sandbox is called nobody; known: scratch", "mysql:ssh://user@nobody"]);
    backup("mysql:a b", &[]).exits(2).says(&["mysql:/path/to.sock", "mysql:NAME"]);
    backup("mysql:", &["--no-defaults", "-h", "192.0.2.1"])
        .exits(1)
        .says(&["is another machine", "mysql:ssh://user@192.0.2.1"]);
    volume.remora(&["verify", "repo/other"]).exits(1).says(&["no backups called other", "those of scratch"]);
}
