//! A server on a generation that is mounted: what starts it must give it a folder for temporary files of its
//! own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::Product;

use crate::mount::{Mounted, is_possible};
use crate::recovery_scene::Scene;
use crate::support::{connect, places, until};

/// Every line of the manual and of a command's help that starts a server says so.
#[test]
fn no_page_starts_a_server_without_a_tmpdir_of_its_own() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![top.join("README.md")];
    for folder in ["docs/manual", "docs", "crates/remora/src/commands", "examples", "demo"] {
        let entries = fs::read_dir(top.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.is_file()));
    }
    assert!(pages.len() > 60);
    for page in pages {
        let text = String::from_utf8_lossy(&fs::read(&page).unwrap()).into_owned();
        for line in text.lines().filter(|line| line.contains("mariadbd ") || line.contains("mysqld ")) {
            let is_safe = !line.contains("--datadir") || line.contains("--tmpdir");
            assert!(is_safe, "{}: {line}", page.display());
        }
    }
}

#[test]
fn a_ready_option_file_starts_a_server_beside_others() {
    if !is_possible() {
        return;
    }
    let scene = Scene::new(Product::MariaDb1011, &["--lower-case-table-names=1"]);
    scene.backup();
    let folder = scene.folder.path();
    let own = folder.join("own");
    let mounted = Mounted::new(folder, &["--writable", "--options", own.to_str().unwrap()]);
    let file = own.join("db-1.cnf");
    let daemon = sandbox::find(&places(), Product::MariaDb1011).unwrap().daemon;
    let mut command = Command::new(daemon);
    command.arg(format!("--defaults-file={}", file.display())).stdin(Stdio::null());
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let socket = own.join("db-1/s");
    until("the server listens", || {
        assert!(
            server.try_wait().unwrap().is_none(),
            "{}",
            fs::read_to_string(own.join("db-1/error.log")).unwrap()
        );
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let mut session = connect(&socket);
    let one = |session: &mut server::Session, query: &str| session.value(query).unwrap().unwrap();
    assert_eq!(one(&mut session, "SELECT @@tmpdir"), own.join("db-1").display().to_string());
    assert_eq!(one(&mut session, "SELECT @@lower_case_table_names"), "1");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM app.t"), "2");
    session.execute("SHUTDOWN").unwrap();
    drop(session);
    server.wait().unwrap();
    mounted.end().exits(0);
}
