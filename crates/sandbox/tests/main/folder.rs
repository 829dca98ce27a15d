//! Sandboxes in their own folders: found again, listed, and never put over something else.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox::{Error, Places, Sandbox, Settings, list};

use crate::{Cleanup, installations, mariadb, sql, start};

/// A cache of its own for the names, so that tests do not see each other's sandboxes.
fn own_places(folder: &Path) -> Places {
    Places { cache: folder.join("cache") }
}

fn free(folder: &Path) -> Settings {
    Settings { folder: Some(folder.to_owned()), tie_to_parent: false, ..Settings::default() }
}

#[test]
fn a_server_that_is_not_tied_outlives_its_handle() {
    for installation in installations() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("server");
        let _cleanup = Cleanup(&folder);
        let server = start(&installation, &free(&folder));
        sql(&server, "CREATE DATABASE a");
        let pid = server.pid();
        drop(server);
        let mut server = Sandbox::open(&folder).unwrap();
        assert!(server.is_running());
        assert_eq!((server.pid(), server.installation()), (pid, &installation));
        server.restart().unwrap();
        assert_eq!(sql(&server, "SHOW DATABASES LIKE 'a'"), "a\n");
        assert_ne!(server.pid(), pid);
        server.stop().unwrap();
        assert!(!Sandbox::open(&folder).unwrap().is_running());
        // A stopped sandbox is started again with its data.
        let server = start(&installation, &free(&folder));
        assert_eq!(sql(&server, "SHOW DATABASES LIKE 'a'"), "a\n");
        server.remove().unwrap();
        assert!(!folder.exists());
    }
}

#[test]
fn a_tied_server_leaves_its_own_folder_behind() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { folder: Some(folder.path().to_owned()), ..Settings::default() };
    let server = start(&mariadb(), &settings);
    sql(&server, "CREATE DATABASE a");
    drop(server);
    let server = Sandbox::open(folder.path()).unwrap();
    assert!(!server.is_running());
    assert!(server.data().join("a").is_dir());
}

#[test]
fn a_named_server_is_removed_with_this_process_if_it_is_new() {
    let base = tempfile::tempdir().unwrap();
    let places = own_places(base.path());
    let settings = Settings { name: Some("a".to_owned()), remove_at_end: true, ..Settings::default() };
    let mut server = Sandbox::start(&mariadb(), &places, &settings).unwrap();
    let folder = server.folder().to_owned();
    server.kill().unwrap();
    server.restart().unwrap();
    drop(server);
    assert!(!folder.exists() && list(&places).is_empty());
    // One that was there before has data that somebody wants.
    let kept = Settings { remove_at_end: false, ..settings.clone() };
    drop(Sandbox::start(&mariadb(), &places, &kept).unwrap());
    drop(Sandbox::start(&mariadb(), &places, &settings).unwrap());
    assert!(folder.exists());
}

#[test]
fn a_long_path_gets_a_short_socket() {
    for installation in installations() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a".repeat(90)).join("b".repeat(90));
        let _cleanup = Cleanup(&folder);
        let mut server = start(&installation, &free(&folder));
        assert!(server.socket().as_os_str().len() < 108 && !server.socket().starts_with(&folder));
        server.restart().unwrap();
        let socket = server.socket().to_owned();
        drop(server);
        let mut server = Sandbox::open(&folder).unwrap();
        assert_eq!(server.socket(), socket);
        assert_eq!(sql(&server, "SELECT 1"), "1\n");
        // Its temporary folder may have been cleared away while it was stopped.
        server.stop().unwrap();
        std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
        server.restart().unwrap();
        let socket = server.socket().to_owned();
        drop(server);
        let server = Sandbox::open(&folder).unwrap();
        assert_eq!(sql(&server, "SELECT 1"), "1\n");
        server.remove().unwrap();
        assert!(!socket.parent().unwrap().exists());
    }
}

#[test]
fn a_longest_possible_path_gets_its_socket_inside() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let used = parent.as_os_str().len() + "/".len() + "/server.sock".len();
    let folder = parent.join("c".repeat(107 - used));
    let server = start(&mariadb(), &Settings { folder: Some(folder.clone()), ..Settings::default() });
    assert!(server.socket().starts_with(&folder));
    assert_eq!(server.socket().as_os_str().len(), 107);
}

#[test]
fn names_are_listed() {
    let base = tempfile::tempdir().unwrap();
    let places = own_places(base.path());
    assert!(list(&places).is_empty());
    let named = |name: &str| Settings { name: Some(name.to_owned()), ..Settings::default() };
    let elsewhere = base.path().join("elsewhere");
    let settings = Settings { folder: Some(elsewhere.clone()), port: Some(0), ..named("b") };
    let second = Sandbox::start(&mariadb(), &places, &settings).unwrap();
    let mut first = Sandbox::start(&mariadb(), &places, &named("a")).unwrap();
    first.stop().unwrap();
    let listed = list(&places);
    let names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((listed[0].pid, listed[1].pid), (None, Some(second.pid())));
    assert_eq!((listed[0].port, listed[1].port), (None, second.port()));
    assert_eq!(listed[1].folder, elsewhere.canonicalize().unwrap());
    assert_eq!(listed[1].socket, second.socket());
    assert_eq!(listed[1].version, mariadb().version);
    assert!(listed[1].started_unix_s <= listed[0].started_unix_s && listed[1].started_unix_s > Some(0));
    // The name of another sandbox is not taken over.
    let taken = Settings { folder: Some(base.path().join("third")), ..named("b") };
    assert!(matches!(Sandbox::start(&mariadb(), &places, &taken), Err(Error::Occupied { .. })));
    // A removed sandbox is not listed, and its name is free.
    second.remove().unwrap();
    assert_eq!(list(&places).len(), 1);
    let again = Sandbox::start(&mariadb(), &places, &named("b")).unwrap();
    assert!(again.folder().starts_with(base.path().canonicalize().unwrap()));
    assert_eq!(list(&places).len(), 2);
}

#[test]
fn a_new_folder_is_closed_to_others() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("a");
    let _server = start(&mariadb(), &Settings { folder: Some(folder.clone()), ..Settings::default() });
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_name_is_one_plain_word() {
    let base = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", "a/b", "../a", "a b", "-x", "\u{fc}"] {
        let settings = Settings { name: Some(name.to_owned()), ..Settings::default() };
        let started = Sandbox::start(&mariadb(), &own_places(base.path()), &settings);
        assert!(matches!(started, Err(Error::Name { .. })), "{name:?}: {started:?}");
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { folder: Some(folder.path().to_owned()), ..Settings::default() };
    let again = || Sandbox::start(&mariadb(), &crate::places(), &settings);

    let file = folder.path().join("letter.txt");
    OpenOptions::new().create_new(true).write(true).open(&file).unwrap();
    assert!(matches!(again(), Err(Error::Occupied { .. })));
    assert!(file.is_file() && !folder.path().join("data").exists());
    std::fs::remove_file(&file).unwrap();

    let server = again().unwrap();
    match again() {
        Err(Error::Running { pid, .. }) => assert_eq!(pid, server.pid()),
        other => panic!("{other:?}"),
    }
    assert_eq!(sql(&server, "SELECT 1"), "1\n");
}

#[test]
fn another_process_is_never_taken_for_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { folder: Some(folder.path().to_owned()), ..Settings::default() };
    let server = start(&mariadb(), &settings);
    let pid = server.pid();
    drop(server);
    let file = folder.path().join("remora-sandbox.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let ours = text.replace(&format!("\"pid\": {pid}"), &format!("\"pid\": {}", std::process::id()));
    assert_ne!(text, ours);
    std::io::Write::write_all(
        &mut OpenOptions::new().write(true).truncate(true).open(&file).unwrap(),
        ours.as_bytes(),
    )
    .unwrap();
    let mut server = Sandbox::open(folder.path()).unwrap();
    assert_eq!(server.pid(), std::process::id());
    assert!(!server.is_running());
    server.kill().unwrap(); // would end this test
}

#[test]
fn no_sandbox_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent")] {
        assert!(matches!(Sandbox::open(&path), Err(Error::NoSandbox { .. })));
    }
}
