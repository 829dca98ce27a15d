//! Encrypted repositories: the tests of other repositories hold for them, too, and nobody without a key
//! learns anything.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::backup::{Request, Summary};
use block::tree::{self, Layout, TreeSource};
use block::{
    BLOCK, EncryptedStore, Error, Folder, Repository, Scan, Store, Upload, backup, is_encrypted, prune,
    rekey, restore,
};
use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, Guard, RealDisk, Share, Source};
use seal::{FullKey, Key};

use crate::contract::keeps_what_is_left;
use crate::store_contract::contract;
use crate::support::{
    REPO, Random, TARGET, VOLUME, back_up, back_up_bytes, damages, generations, keep, opened, repository,
    restored, sound, store, with_key, world,
};
use crate::{crash, damage, model, repair};

/// A key and its put key.
fn keys() -> (Key, Key) {
    let full = FullKey::generate().unwrap();
    (Key::Full(full.clone()), Key::Put(full.put()))
}

#[test]
fn an_encrypted_folder_keeps_the_contract() {
    let disk = Arc::new(FaultDisk::default());
    let folder = Folder::new(disk, "/new/repo".into());
    let sealed = EncryptedStore::open(Box::new(folder), &keys().0).unwrap();
    contract(&sealed);
    keeps_what_is_left(&sealed);
}

#[test]
fn crashes_of_encrypted_backups() {
    let all: [fn(); 3] = [
        crash::a_backup_is_there_or_not,
        crash::kept_generations_survive_a_prune_that_crashes,
        crash::a_restored_file_has_its_name_only_when_it_is_whole,
    ];
    // Without a key all of them run each day.
    let today = all.iter().enumerate().filter(|(at, _)| sandbox::is_turn(*at, 3));
    with_key(&keys().0, || today.for_each(|(_, test)| test()));
}

#[test]
fn flip_any_ciphertext_byte() {
    with_key(&keys().0, || {
        damage::every_flipped_byte_is_found_and_named();
        damage::every_cut_is_found();
        damage::a_missing_file_is_found();
        repair::a_restore_is_right_or_says_so_whichever_byte_is_flipped();
    });
}

#[test]
fn encrypted_repositories_match_the_model() {
    with_key(&keys().0, model::random_lives_come_back_whole);
}

/// All files of the repository.
fn files(disk: &FaultDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let names = disk.names().into_iter().filter(|name| name.starts_with("/repo"));
    names.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

const PLANTED: &[u8] = b"planted row 4711 that nobody may read";

/// A volume with something to find, compressible or not.
fn volume() -> Vec<u8> {
    let mut bytes = Random(5).volume(40);
    for block in [0, 3, 9, 39] {
        bytes[block * BLOCK + 100..][..PLANTED.len()].copy_from_slice(PLANTED);
    }
    bytes
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn a_put_key_reads_nothing() {
    let disk = FaultDisk::default();
    let (full, put) = keys();
    let mut changed = volume();
    // The host with the put key begins the repository, and adds to it.
    let made = with_key(&put, || {
        back_up_bytes(&disk, &volume());
        changed[20 * BLOCK] ^= 1;
        changed[3 * BLOCK + 10] ^= 1;
        let made = back_up_bytes(&disk, &changed);
        assert_eq!(generations(&disk), [1, 2]);
        sound(&disk);
        let error = restored(&disk, None).unwrap_err();
        assert!(
            matches!(error, Error::Key(_)) && error.to_string().contains("needs the full key"),
            "{error}"
        );
        assert_eq!(disk.bytes(Path::new(TARGET)), None);
        made
    });
    assert_eq!((made.parent, made.changed), (1, 2), "it stores what changed, and no more");
    // Not what is outside, and not what the put key opens.
    for (name, bytes) in files(&disk) {
        assert!(!holds(&bytes, PLANTED), "{}", name.display());
        assert!(!holds(&bytes, b"remoblk\n") && !holds(&bytes, b"chnk"), "{}", name.display());
        let name = name.file_name().unwrap().to_str().unwrap();
        let sealed = EncryptedStore::open(store(&disk), &put).unwrap();
        let Ok(source) = Store::open(&sealed, name) else { continue };
        let mut clear = vec![0; usize::try_from(source.stat().unwrap().len).unwrap()];
        assert_eq!(source.read_full_at(0, &mut clear).unwrap(), clear.len());
        assert!(!holds(&clear, PLANTED), "{name}");
        assert!(!name.ends_with(".blk") || holds(&clear, b"chnk"), "the test looks at the wrong place");
    }
    with_key(&full, || {
        sound(&disk);
        assert!(restored(&disk, Some(1)).unwrap() == volume());
        assert!(restored(&disk, Some(2)).unwrap() == changed);
    });
    // It may also remove what is old.
    with_key(&put, || keep(&disk, &[2]).unwrap());
    with_key(&full, || {
        sound(&disk);
        assert!(restored(&disk, None).unwrap() == changed);
    });
}

#[test]
fn put_key_finds_damage_of_stored_bytes() {
    let disk = FaultDisk::default();
    let (full, put) = keys();
    let mut random = Random(7);
    let volume: Vec<u8> = (0..300 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    with_key(&put, || back_up_bytes(&disk, &volume));
    let file = Path::new(REPO).join("000001.blk");
    let good = disk.bytes(&file).unwrap();
    disk.corrupt(&file, good.len() / 2, 1);
    with_key(&put, || assert_ne!(damages(&disk), []));
    // What is damaged is stored again, although it can't be read.
    let made = with_key(&put, || back_up_bytes(&disk, &volume));
    assert!(made.healed > 0, "{made:?}");
    with_key(&full, || {
        assert!([1, 2].iter().all(|number| restored(&disk, Some(*number)).unwrap() == volume))
    });
}

#[test]
fn swapped_files_are_detected() {
    let disk = FaultDisk::default();
    with_key(&keys().0, || {
        back_up_bytes(&disk, &volume());
        back_up_bytes(&disk, &Random(6).volume(40));
        let [one, two] = ["000001.blk", "000002.blk"].map(|name| Path::new(REPO).join(name));
        let (first, second) = (disk.bytes(&one).unwrap(), disk.bytes(&two).unwrap());
        disk.put(&one, &second);
        disk.put(&two, &first);
        assert!(damages(&disk).len() >= 2);
        assert!(restored(&disk, None).is_err());
        disk.put(&one, &first);
        disk.put(&two, &second);
        sound(&disk);
    });
}

#[test]
fn without_the_right_key_nothing_can_be_read() {
    let disk = FaultDisk::default();
    let (full, _) = keys();
    with_key(&full, || back_up_bytes(&disk, &volume()));
    assert!(is_encrypted(&*store(&disk)).unwrap());
    let other = with_key(&keys().0, || opened(&disk).err().unwrap());
    assert!(matches!(other, Error::Key(_)) && other.to_string().contains(&full.id()), "{other}");
    // An unencrypted repository does not become encrypted in the middle.
    let plain = FaultDisk::default();
    back_up_bytes(&plain, &volume());
    assert!(!is_encrypted(&*store(&plain)).unwrap());
    let error = with_key(&full, || back_up(&plain, false).unwrap_err());
    assert!(error.to_string().contains("is not encrypted"), "{error}");
    assert_eq!(generations(&plain), [1]);
}

#[test]
fn rekey_killed() {
    let (old, new) = (FullKey::generate().unwrap(), FullKey::generate().unwrap());
    let first = |disk: &FaultDisk| {
        with_key(&Key::Full(old.clone()), || back_up_bytes(disk, &volume()));
    };
    let calm = FaultDisk::default();
    first(&calm);
    let before = calm.syncs();
    rekey(&*store(&calm), &Key::Full(old.clone()), &new).unwrap();
    assert!(calm.syncs() > before);
    let mut opened_by = [0, 0];
    for stop in before..=calm.syncs() {
        for unsynced in Unsynced::ALL {
            let disk = FaultDisk::stopping_at(stop);
            first(&disk);
            let done = rekey(&*store(&disk), &Key::Full(old.clone()), &new).is_ok();
            let disk = disk.after_crash(unsynced);
            let opens = [&old, &new].map(|key| with_key(&Key::Full(key.clone()), || opened(&disk).is_ok()));
            assert!(opens[0] != opens[1], "one of the two, always");
            assert!(!done || opens[1]);
            let key = if opens[1] { &new } else { &old };
            opened_by[usize::from(opens[1])] += 1;
            with_key(&Key::Full(key.clone()), || {
                assert!(restored(&disk, None).unwrap() == volume());
                sound(&disk);
            });
            // It can be done again, and then backups continue.
            if opens[0] {
                rekey(&*store(&disk), &Key::Full(old.clone()), &new).unwrap();
            }
            let changed = Random(9).volume(40);
            with_key(&Key::Put(new.put()), || back_up_bytes(&disk, &changed));
            with_key(&Key::Full(new.clone()), || {
                assert!(restored(&disk, Some(1)).unwrap() == volume());
                assert!(restored(&disk, Some(2)).unwrap() == changed);
            });
        }
    }
    assert!(opened_by[0] > 0 && opened_by[1] > 0, "{opened_by:?}");
}

/// Equal texts under one key would be equal bytes: no two sealed pieces of all files that ever existed are.
#[test]
fn nonce_never_twice() {
    let disk = FaultDisk::default();
    let (full, _) = keys();
    let mut seen: std::collections::BTreeMap<Vec<u8>, String> = std::collections::BTreeMap::new();
    let mut look = |disk: &FaultDisk| {
        for (name, bytes) in files(disk) {
            if name.extension().is_none_or(|end| end == "keys" || end == "lock") {
                continue;
            }
            // The salt, and with it the key, is new for each file that was begun.
            let salt = bytes.get(20..52).unwrap_or_default().to_vec();
            let name = name.display().to_string().replace(".partial", "");
            let known = seen.entry(salt).or_insert_with(|| name.clone());
            assert_eq!(*known, name, "the salt of another file");
        }
    };
    with_key(&full, || {
        for seed in 1..=3 {
            // A run that is interrupted, and continued.
            disk.put(Path::new(VOLUME), &Random(seed).volume(600));
            disk.damage(Path::new(VOLUME), 590 * BLOCK as u64);
            assert!(back_up(&disk, false).is_err());
            look(&disk);
            disk.put(Path::new(VOLUME), &Random(seed).volume(600));
            let made = back_up(&disk, false).unwrap();
            assert!(made.reused > 0, "the partial file was not used");
            look(&disk);
        }
        keep(&disk, &[3]).unwrap();
        look(&disk);
        sound(&disk);
        assert!(restored(&disk, None).unwrap() == Random(3).volume(600));
    });
}

#[test]
fn an_unencrypted_repository_is_as_before() {
    let disk = FaultDisk::default();
    back_up_bytes(&disk, &volume());
    assert!(files(&disk).iter().any(|(_, bytes)| bytes.starts_with(b"remoblk\n")));
    assert!(files(&disk).iter().all(|(name, _)| name.extension().is_none_or(|end| end != "keys")));
    let request = restore::Request::new(None, 1);
    let repository: Repository = repository(&disk);
    restore::to_new_file(&repository, &disk, Path::new(TARGET), request, world()).unwrap();
    disk.remove(Path::new(TARGET)).unwrap();
}

/// One more generation of a tree with the put key, as the program makes it.
fn back_up_tree(key: &Key, folder: &Path, top: &Path) -> Summary {
    let disk = Arc::new(RealDisk);
    let store = Folder::new(disk.clone(), folder.join("repo"));
    let repository = Repository::new(Box::new(EncryptedStore::open(Box::new(store), key).unwrap()));
    let (nodes, _) = tree::list(&RealDisk, top).unwrap();
    let newest = repository.list().unwrap().generations.last().map(|newest| newest.number);
    let before = newest.and_then(|newest| {
        assert!(matches!(tree::layout_of(&repository, Some(newest)), Err(Error::Key(_))));
        tree::load_placements(&repository, newest, nodes.iter().map(|node| node.path.clone())).unwrap()
    });
    assert_eq!(before.is_some(), newest.is_some());
    let layout = Layout::new(nodes, before.as_ref());
    let reader = TreeSource::of(disk, &layout, top);
    let made = backup(&repository, &mut Scan::new(Box::new(reader)), &Request::new("tree"), world()).unwrap();
    tree::save_placements(&repository, made.generation, &layout).unwrap();
    made
}

#[test]
fn files_of_a_tree_keep_their_places_for_a_put_key() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    RealDisk.make_folder(&top).unwrap();
    let write = |name: &str, blocks: usize| {
        let mut bytes = Random(name.len() as u64).volume(blocks);
        bytes[..PLANTED.len()].copy_from_slice(PLANTED);
        RealDisk.remove(&top.join(name)).ok();
        RealDisk.create(&top.join(name)).unwrap().write_all(&bytes).unwrap();
    };
    ["planted-a", "planted-bb", "planted-ccc"].into_iter().for_each(|name| write(name, 100));
    let (full, put) = keys();
    back_up_tree(&put, folder.path(), &top);
    // The first file needs more blocks: nothing behind it moves.
    write("planted-a", 130);
    let made = back_up_tree(&put, folder.path(), &top);
    assert!(made.parent == 1 && made.changed <= 33, "{made:?}");
    for name in RealDisk.list(&folder.path().join("repo")).unwrap() {
        let mut bytes = Vec::new();
        RealDisk.open(&folder.path().join("repo").join(&name)).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(!holds(&bytes, b"planted"), "{name:?}");
        let store = Folder::new(Arc::new(RealDisk), folder.path().join("repo"));
        let sealed = EncryptedStore::open(Box::new(store), &put).unwrap();
        let Ok(mut source) = Store::open(&sealed, name.to_str().unwrap()) else { continue };
        bytes.clear();
        source.read_to_end(&mut bytes).unwrap();
        assert!(!holds(&bytes, b"planted"), "{name:?} once opened");
    }
    let store = Folder::new(Arc::new(RealDisk), folder.path().join("repo"));
    let repository = Repository::new(Box::new(EncryptedStore::open(Box::new(store), &full).unwrap()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let back = folder.path().join("back");
    tree::restore(
        &repository,
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        restore::Request::new(None, 1),
        world(),
    )
    .unwrap();
    assert_eq!(RealDisk.stat(&back.join("planted-a")).unwrap().len, 130 * BLOCK as u64);
}

/// User and system time of this process so far, in seconds.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // The 14th and the 15th, in hundredths on every Linux; the first two are before the bracket.
    [11, 12].iter().map(|at| fields[*at].parse::<f64>().unwrap() / 100.0).sum()
}

/// Pages with rows of text, as a table has them.
fn rows(mib: usize) -> Vec<u8> {
    let mut random = Random(42);
    let mut bytes = Vec::with_capacity((mib << 20) + 200);
    while bytes.len() < mib << 20 {
        let (id, price) = (bytes.len() / 97, random.below(100_000));
        let row = format!(
            "{id:010}|user{price:05}@example.com|{:016x}|2026-11-{:02}|paid\n",
            random.next(),
            price % 30
        );
        bytes.extend_from_slice(row.as_bytes());
    }
    bytes.truncate(mib << 20);
    bytes
}

/// With `REMORA_SEAL_MIB=1024`, `--release` and `--nocapture` it says what encryption costs.
#[test]
fn encryption_costs_little_processor_time() {
    let mib = std::env::var("REMORA_SEAL_MIB").map_or(2, |mib| mib.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    let bytes = rows(mib);
    RealDisk.create(&volume).unwrap().write_all(&bytes).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (full, put) = keys();
    let mut spent: [Vec<f64>; 2] = Default::default();
    for round in 0..3 {
        for (is_sealed, spent) in spent.iter_mut().enumerate() {
            let path = folder.path().join(format!("repo{round}{is_sealed}"));
            let store = Box::new(Folder::new(Arc::clone(&disk), path.clone()));
            let repository = match is_sealed {
                0 => Repository::new(store),
                _ => Repository::new(Box::new(EncryptedStore::open(store, &put).unwrap())),
            };
            let before = processor_s();
            let mut scan = Scan::new(disk.open(&volume).unwrap());
            backup(&repository, &mut scan, &Request::new("volume"), world()).unwrap();
            spent.push(processor_s() - before);
        }
    }
    let [plain, sealed] = spent.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[1]
    });
    println!(
        "{mib} MiB: {plain:.2} s of processor time, encrypted {sealed:.2} s: {:+.1} %",
        (sealed / plain - 1.0) * 100.0
    );
    let store = Box::new(Folder::new(Arc::clone(&disk), folder.path().join("repo21")));
    let repository = Repository::new(Box::new(EncryptedStore::open(store, &full).unwrap()));
    let target = folder.path().join("restored");
    restore::to_new_file(&repository, &RealDisk, &target, restore::Request::new(None, 2), world()).unwrap();
    let mut restored = Vec::new();
    RealDisk.open(&target).unwrap().read_to_end(&mut restored).unwrap();
    assert!(restored == bytes);
}

#[test]
fn a_damaged_note_costs_only_the_note() {
    let disk = FaultDisk::default();
    let (full, _) = keys();
    with_key(&full, || {
        back_up_bytes(&disk, &volume());
        let note = Path::new(REPO).join("newest.note");
        let good = disk.bytes(&note).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            disk.put(&note, &bad);
            assert_eq!(generations(&disk), [1], "byte {at}");
            assert!(damages(&disk).iter().any(|damage| damage.place.contains("newest.note")), "byte {at}");
        }
        assert_eq!(back_up_bytes(&disk, &volume()).generation, 2);
        sound(&disk);
    });
}

/// A place from which nothing can be removed.
struct AppendOnly(Box<Folder>);

impl Store for AppendOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.0.open(name)
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>> {
        self.0.create(name)
    }
    fn leftover(&self, name: &str) -> io::Result<Option<Box<dyn Source>>> {
        self.0.leftover(name)
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.0.lock(name, share)
    }
    fn shown(&self, name: &str) -> String {
        self.0.shown(name)
    }
}

#[test]
fn a_prune_names_files_that_an_append_only_store_retains() {
    let disk = FaultDisk::default();
    let (full, _) = keys();
    with_key(&full, || {
        (1..=3).for_each(|seed| {
            disk.put(Path::new(VOLUME), &Random(seed).volume(20));
            back_up(&disk, true).unwrap();
        });
    });
    let sealed = EncryptedStore::open(Box::new(AppendOnly(store(&disk))), &full).unwrap();
    let done = prune(&Repository::new(Box::new(sealed)), &[3].into(), false, world()).unwrap();
    assert_eq!((done.forgotten, done.freed), (vec![1, 2], 0));
    assert!(done.retained.iter().any(|file| file.ends_with("000001.blk")), "{:?}", done.retained);
    with_key(&full, || {
        assert_eq!(generations(&disk), [3]);
        assert!(restored(&disk, None).unwrap() == Random(3).volume(20));
        assert!(keep(&disk, &[3]).unwrap().retained.is_empty(), "who may removes it");
        sound(&disk);
    });
}
