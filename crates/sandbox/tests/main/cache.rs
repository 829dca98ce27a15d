//! The initialised data folders: made once, and made again when one has been damaged.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use sandbox::{Error, Places, Product, Sandbox, Settings};

use crate::{installations, mariadb, sql};

/// The only initialised data folder in a cache.
fn pristine(places: &Places) -> PathBuf {
    let mut folders = std::fs::read_dir(places.cache.join("pristine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    let folder = folders.next().unwrap();
    assert_eq!(folders.next(), None);
    folder
}

/// Harms the folder, then checks that the next server is complete and comes from a new folder.
fn is_made_again_after(places: &Places, harm: impl Fn(&Path)) {
    let folder = pristine(places);
    let witness = folder.join("witness");
    OpenOptions::new().create_new(true).write(true).open(&witness).unwrap();
    harm(&folder);
    let server = Sandbox::start(&mariadb(), places, &Settings::default()).unwrap();
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM mysql.global_priv, mysql.db"), "0\n");
    assert!(!witness.exists(), "the harmed folder must not be used");
}

#[test]
fn a_harmed_folder_is_made_again() {
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    drop(Sandbox::start(&mariadb(), &places, &Settings::default()).unwrap());
    is_made_again_after(&places, |folder| std::fs::remove_file(folder.join("seal.json")).unwrap());
    is_made_again_after(&places, |folder| std::fs::remove_file(folder.join("data/mysql/db.frm")).unwrap());
    is_made_again_after(&places, |folder| {
        OpenOptions::new().write(true).open(folder.join("data/ibdata1")).unwrap().set_len(1 << 20).unwrap();
    });
    is_made_again_after(&places, |folder| std::fs::remove_dir_all(folder.join("data")).unwrap());
}

#[test]
fn an_unharmed_folder_is_used_again() {
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    drop(Sandbox::start(&mariadb(), &places, &Settings::default()).unwrap());
    let witness = pristine(&places).join("witness");
    OpenOptions::new().create_new(true).write(true).open(&witness).unwrap();
    drop(Sandbox::start(&mariadb(), &places, &Settings::default()).unwrap());
    assert!(witness.exists());
}

#[test]
fn first_starts_at_the_same_time_share_one_folder() {
    for installation in installations() {
        let cache = tempfile::tempdir().unwrap();
        let places = Places { cache: cache.path().to_owned() };
        std::thread::scope(|scope| {
            let begin = || Sandbox::start(&installation, &places, &Settings::default()).unwrap();
            let starts: Vec<_> = (0..3).map(|_| scope.spawn(begin)).collect();
            for start in starts {
                assert_eq!(sql(&start.join().unwrap(), "SELECT 1"), "1\n");
            }
        });
        pristine(&places);
    }
}

#[test]
fn system_tables_that_cannot_be_created_are_no_data_folder() {
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    let share = cache.path().join("share");
    std::fs::create_dir(&share).unwrap();
    let broken = sandbox::Installation { share, ..mariadb() };
    Sandbox::start(&broken, &places, &Settings::default()).unwrap_err();
    let server = Sandbox::start(&mariadb(), &places, &Settings::default()).unwrap();
    assert_eq!(sql(&server, "SELECT 1"), "1\n");
}

#[test]
fn what_is_missing_says_what_to_type() {
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    for product in [Product::MariaDb114, Product::MySql56] {
        match sandbox::find(&places, product) {
            Err(Error::Missing { command, .. }) => assert!(command.contains(product.id()), "{command}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn products_are_named() {
    for product in Product::ALL {
        assert_eq!(product.id().parse::<Product>().unwrap(), product);
    }
    assert!("mariadb".parse::<Product>().is_err());
    assert_eq!(Product::MariaDb1011.to_string(), "MariaDB 10.11");
}
