//! Encrypted tablespaces: their pages are checked without their keys, and a server that proves a copy gets
//! the keys where they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::Product;

use super::{OPTIONS, Scene, server, sound, under_load};
use crate::support::{connect, mariadbs, of_today, places, skipped};

/// The plugin with the keys, which `cargo xtask setup` brings. The one of 10.11 runs in 11.4, too.
pub(crate) fn plugin(product: Product) -> Option<PathBuf> {
    let of = if product == Product::MariaDb114 { Product::MariaDb1011 } else { product };
    let system = (of == Product::MariaDb1011).then(|| PathBuf::from("/usr/lib/mysql/plugin"));
    let folders = [Some(places().cache.join("plugins").join(of.id())), system];
    let mut found = folders.into_iter().flatten().map(|folder| folder.join("file_key_management.so"));
    let found = found.find(|path| path.is_file());
    if found.is_none() {
        let why = format!(
            "file_key_management.so of {of} is not there: 'cargo xtask setup --all-servers' brings it"
        );
        skipped("encrypted tables and logs", &why);
    }
    found
}

fn products() -> Vec<Product> {
    let all = mariadbs().into_iter();
    of_today(all.filter(|product| [Product::MariaDb1011, Product::MariaDb114].contains(product)).collect())
}

pub(crate) const KEY: &str = "F5502320F8429037B8DAEF761B189D12";

/// A server whose keys are in its data folder, where they must be left.
fn encrypted(product: Product, plugin: &Path) -> Scene {
    encrypted_with(product, plugin, |_| Vec::new())
}

/// The same; what changes the file with the keys tells further options.
fn encrypted_with(product: Product, plugin: &Path, change: impl Fn(&Path) -> Vec<String>) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    super::page::fresh(product, &data);
    fs::write(data.join("keys.txt"), format!("1;{KEY}\n2;{KEY}{KEY}\n")).unwrap();
    let mut own = vec!["--plugin-load-add=file_key_management".to_owned()];
    own.push(format!("--file-key-management-filename={}", data.join("keys.txt").display()));
    own.extend(change(&data));
    let more = ["--innodb-encrypt-tables=ON", "--innodb-encryption-threads=2"];
    let all: Vec<&str> = OPTIONS.into_iter().chain(own.iter().map(String::as_str)).chain(more).collect();
    let started = server(product, &all, &[plugin.to_owned()], Some(data));
    let mut scene = Scene::of(product, started, vec![plugin.to_owned()]);
    scene.options = own;
    // The data folder is removed with the scene.
    scene.data = Some(folder);
    let mut session = connect(scene.server.socket());
    session.execute("USE app").unwrap();
    for (name, more) in [
        ("squeezed", "PAGE_COMPRESSED=1"),
        ("zip", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4"),
        ("plain", "ENCRYPTED=NO"),
    ] {
        make(&mut session, name, more);
    }
    session.execute("SET GLOBAL innodb_checksum_algorithm = 'crc32'").unwrap();
    make(&mut session, "older", "");
    make(&mut session, "older_zip", "ROW_FORMAT=COMPRESSED");
    session.execute("SET GLOBAL innodb_checksum_algorithm = 'full_crc32'").unwrap();
    scene
}

fn make(session: &mut ::server::Session, name: &str, more: &str) {
    let columns = "(id INT PRIMARY KEY, text VARCHAR(200), KEY (text))";
    session.execute(&format!("CREATE TABLE {name} {columns} {more}")).unwrap();
    session
        .execute(&format!("INSERT INTO {name} SELECT seq, REPEAT(MD5(seq), 5) FROM seq_1_to_3000"))
        .unwrap();
}

/// The options of a server that `remora` starts, for a plugin that is in a folder of its own.
fn plugin_option(plugin: &Path) -> String {
    format!("--server-option=--plugin-dir={}", plugin.parent().unwrap().display())
}

#[test]
fn encrypted_tablespaces_are_copied_and_proven_with_their_keys() {
    let Some(plugin) = plugin(Product::MariaDb1011) else { return };
    let option = plugin_option(&plugin);
    for product in of_today(products()) {
        let scene = encrypted(product, &plugin);
        scene.fill(20_000);
        for number in 1..=2 {
            under_load(&scene, |_| {
                let said = scene.backup(&["--rate", "30M"]).exits(0);
                said.says(&[&format!("mysql@{number} ("), "the keys are not in the backup"]);
            });
            scene.is_exact_with(&[&option]);
        }
        let files = scene.run(&["list", "repo", "--files"]).exits(0).out;
        assert!(files.contains("app/zip.ibd") && !files.contains("keys.txt"), "{files}");
        scene.run(&["restore", "repo", "--to", "told"]).exits(0).says(&[
            "are encrypted",
            "keys.txt",
            "not in the backup",
        ]);
        let told = fs::read(scene.folder.path().join("told/app/zip.ibd")).unwrap();
        let of_key = |page: &[u8]| u32::from_be_bytes(page[26..30].try_into().unwrap());
        assert!(told.chunks(4096).any(|page| of_key(page) == 1), "{product}: nothing is encrypted");
        let back = scene.back();
        let mut session = connect(back.socket());
        for table in ["squeezed", "zip", "plain", "older", "older_zip"] {
            let found =
                session.value(&format!("SELECT CONCAT(COUNT(*), MAX(text)) FROM app.{table}")).unwrap();
            let wanted =
                session.value("SELECT CONCAT(3000, MAX(REPEAT(MD5(seq), 5))) FROM mysql.seq_1_to_3000");
            assert_eq!(found, wanted.unwrap(), "{product}: {table}");
        }
        sound(&mut session);
    }
}

/// A server without the keys says that everything is damaged. That is not noted.
#[test]
fn without_its_keys_a_copy_is_neither_sound_nor_damaged() {
    let Some(plugin) = plugin(Product::MariaDb1011) else { return };
    let option = plugin_option(&plugin);
    let scene = encrypted(Product::MariaDb1011, &plugin);
    scene.backup(&[]).exits(0);
    let data = scene.server.data().to_owned();
    let keys = scene.folder.path().join("other.txt");
    fs::rename(data.join("keys.txt"), &keys).unwrap();
    let verify = |more: &[&str]| {
        scene.run(&[&["verify", "repo", "--boot", "--work", ".", &*option][..], more].concat())
    };
    let listed = |state: &str| {
        let out = scene.run(&["list", "repo"]).exits(0).out;
        assert!(out.trim_end().contains(&format!("  {state}  mysql: on ")), "{out}");
    };
    verify(&[]).exits(1).says(&["keys.txt", "is not on this machine", "--server-option"]);
    let wrong = scene.folder.path().join("wrong.txt");
    fs::write(&wrong, format!("1;{}\n2;{KEY}\n", KEY.replace('F', "A"))).unwrap();
    let given = |path: &Path| format!("--server-option=--file-key-management-filename={}", path.display());
    verify(&[&given(&wrong)]).exits(1).says(&["could not decrypt", "are these its keys"]);
    listed("never recovered");
    let line = ["restore", "repo", "--tables", "app.zip", "--to", "some", &option, &given(&keys)];
    scene.run(&line).exits(0).says(&["3000 rows"]);
    verify(&[&given(&keys)]).exits(0).says(&["all sound"]);
    listed("proven");
}

#[test]
fn a_damaged_encrypted_page_is_named() {
    let Some(plugin) = plugin(Product::MariaDb1011) else { return };
    let scene = encrypted(Product::MariaDb1011, &plugin);
    let mut session = connect(scene.server.socket());
    for (table, bytes, place) in
        [("squeezed", 16_384, "page 3"), ("zip", 4096, "page 3"), ("older", 16_384, "page 3")]
    {
        session.execute(&format!("FLUSH TABLES app.{table} FOR EXPORT")).unwrap();
        let path = scene.server.data().join(format!("app/{table}.ibd"));
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[3 * bytes + 100] ^= 1;
        fs::write(&path, damaged).unwrap();
        let ended = scene.backup(&[]);
        fs::write(&path, whole).unwrap();
        session.execute("UNLOCK TABLES").unwrap();
        ended.exits(1).says(&[&format!("app/{table}.ibd: {place}"), "does not match its checksum"]);
    }
    scene.backup(&[]).exits(0);
}

#[test]
fn an_encrypted_redo_log_is_refused() {
    let Some(plugin) = plugin(Product::MariaDb1011) else { return };
    let keys = tempfile::NamedTempFile::new().unwrap();
    fs::write(keys.path(), format!("1;{KEY}\n")).unwrap();
    let file = format!("--file-key-management-filename={}", keys.path().display());
    let options = ["--plugin-load-add=file_key_management", &file, "--innodb-encrypt-log=ON"];
    let scene = Scene::with(Product::MariaDb1011, &options, vec![plugin]);
    scene.backup(&[]).exits(1).says(&["innodb_encrypt_log=ON", "no backup was made"]);
}

/// The key of the file with the keys is in a file that is not copied, or the administrator has to give it.
#[test]
fn the_key_of_the_keys_is_in_no_backup() {
    let Some(plugin) = plugin(Product::MariaDb1011) else { return };
    let option = plugin_option(&plugin);
    for in_file in [false, true] {
        let scene = encrypted_with(Product::MariaDb1011, &plugin, |data| {
            let (plain, keys) = (data.join("keys.plain"), data.join("keys.txt"));
            fs::rename(&keys, &plain).unwrap();
            let arguments = ["enc", "-aes-256-cbc", "-md", "sha1", "-k", "s3cret-word", "-in"];
            let made = Command::new("openssl").args(arguments).arg(&plain).arg("-out").arg(&keys).output();
            assert!(made.unwrap().status.success());
            fs::remove_file(plain).unwrap();
            let word = data.join("word");
            fs::write(&word, "s3cret-word\n").unwrap();
            let key = if in_file { format!("FILE:{}", word.display()) } else { "s3cret-word".to_owned() };
            vec![format!("--file-key-management-filekey={key}")]
        });
        scene.backup(&[]).exits(0);
        let listed = scene.run(&["list", "repo", "--json"]).exits(0).out;
        assert!(listed.contains("keys.txt") && !listed.contains("s3cret-word"), "{listed}");
        let files = scene.run(&["list", "repo", "--files"]).exits(0).out;
        assert!(!files.contains("keys.txt") && files.contains(" word\n") != in_file, "{files}");
        let verify = |more: &[&str]| {
            scene.run(&[&["verify", "repo", "--boot", "--work", ".", &*option][..], more].concat())
        };
        if in_file {
            verify(&[]).exits(0).says(&["all sound"]);
        } else {
            verify(&[]).exits(1).says(&["give the key of that file"]);
            let given = "--server-option=--file-key-management-filekey=s3cret-word";
            verify(&[given]).exits(0).says(&["all sound"]);
        }
    }
}
