//! Snapshots of logical volumes, made with the system's LVM.
//!
//! A *thick* snapshot has a fixed amount of room for writes to the volume meanwhile; when that is used up it
//! becomes invalid, and can't be read any more. A *thin* one takes room from the pool that it shares with the
//! volume; when that is used up nothing can be written to the volume itself.

mod delta;

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use host::Machine;
use progress::{Progress, size};
use serde_json::Value;

use crate::lvm::delta::Pool;
use crate::{Layouts, Mark, Snapshot, new_name};

/// The default room for a snapshot is one in this many parts of the volume: a fifth.
const SHARE: u64 = 5;
/// A thin pool that is fuller than this, in percent, must not be filled further by a backup.
const POOL_MAX: f64 = 98.0;
/// The message of `lvremove` about a volume that does not exist.
const GONE: &str = "Failed to find logical volume";
/// The tag of all our snapshots, and the beginning of the tag of a kept one, before its stamp.
const OURS: &str = "remora";
const KEPT: &str = "remora_kept_";

/// A logical volume and its snapshot.
#[derive(Debug)]
pub struct LogicalVolume {
    /// Volume group and name, as in `lvs`.
    group: String,
    name: String,
    kind: Kind,
    /// Our snapshot: its name, and the tag that tells who owns it. Set from the moment when it may exist.
    snapshot: Option<String>,
    mark: String,
    /// The one that was kept from the generation before.
    kept: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// With this much room for the snapshot, in bytes.
    Thick { room: u64 },
    /// In this pool.
    Thin { pool: String },
}

impl LogicalVolume {
    /// Whether a device is a logical volume.
    pub fn is_one(machine: &Machine, path: &Path) -> bool {
        lvs(machine, "lv_name", &[path.as_os_str()]).is_ok_and(|rows| !rows.is_empty())
    }

    /// Finds a volume. `room`: bytes for the snapshot, if it is a thick one.
    pub fn find(machine: &Machine, path: &Path, room: Option<u64>) -> io::Result<LogicalVolume> {
        let fields = "vg_name,lv_name,lv_size,lv_attr,pool_lv,vg_free,vg_extent_size";
        let rows = lvs(machine, fields, &[path.as_os_str()]).map_err(|error| match error.kind() {
            io::ErrorKind::Other => io::Error::other(format!("is no logical volume there: {error}")),
            _ => error,
        })?;
        let row = rows.first().ok_or_else(|| io::Error::other("is no logical volume"))?;
        let (group, name) = (text(row, "vg_name").to_owned(), text(row, "lv_name").to_owned());
        let kind = kind(row, room).map_err(io::Error::other)?;
        Ok(LogicalVolume { group, name, kind, snapshot: None, mark: String::new(), kept: None })
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}/{name}", self.group)
    }

    /// Examines the snapshots of earlier runs: one is useful, the others are removed.
    fn sort_out(
        &mut self,
        machine: &Machine,
        (kept, all): (Option<&str>, &[String]),
        progress: &dyn Progress,
    ) -> io::Result<()> {
        for row in lvs(machine, "lv_name,lv_tags,pool_lv,origin", &[OsStr::new(&self.group)])? {
            let tags: Vec<&str> = text(&row, "lv_tags").split(',').collect();
            let stamp = tags.iter().find_map(|tag| tag.strip_prefix(KEPT));
            // The repository may have been in another place when it was kept.
            let is_of_name = stamp.is_some_and(|stamp| all.iter().any(|one| one == stamp));
            let has_moved = is_of_name && tags.contains(&OURS) && text(&row, "origin") == self.name;
            if !tags.contains(&self.mark.as_str()) && !has_moved {
                continue;
            }
            let name = text(&row, "lv_name");
            let left = self.full_name(name);
            let in_pool = matches!(&self.kind, Kind::Thin { pool } if pool == text(&row, "pool_lv"));
            if stamp.is_some() && stamp == kept && in_pool {
                self.kept = Some(name.to_owned());
                continue;
            }
            match remove(machine, &left) {
                Ok(()) if stamp.is_some() => {}
                Ok(()) => progress.note(&format!("removed the snapshot {left}, which a killed run has left")),
                Err(error) => {
                    progress
                        .warn(&format!("an earlier run has left the snapshot {left}, which stays: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Changes the existing snapshot.
    fn change(&self, machine: &Machine, words: &[&str]) -> io::Result<()> {
        let name = self.full_name(self.snapshot.as_deref().unwrap_or_default());
        let command = [&["lvchange", "--quiet", "--yes"], words, &["--", &name]].concat();
        machine.tool(&command.iter().map(OsStr::new).collect::<Vec<_>>()).map(drop)
    }
}

impl Snapshot for LogicalVolume {
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()> {
        self.mark = format!("remora_{}", mark.whose);
        self.sort_out(machine, (mark.kept, mark.all), progress)?;
        if let Kind::Thick { room } = self.kind {
            let volume = self.full_name(&self.name);
            progress.note(&format!("the snapshot of {volume} has room for {} of changes", size(room)));
        }
        // LVM writes out the rest when it creates the snapshot, while nobody else can write.
        machine.run(&[OsStr::new("sync")]).map(drop)
    }

    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()> {
        let name = format!("remora_{}", new_name()?);
        let mut words = ["lvcreate", "--quiet", "--yes", "--snapshot", "--permission", "r"].to_vec();
        words.extend(["--addtag", OURS, "--addtag", &self.mark, "--name", &name]);
        let room = match &self.kind {
            Kind::Thick { room } => format!("{room}b"),
            Kind::Thin { .. } => String::new(),
        };
        match &self.kind {
            Kind::Thick { .. } => words.extend(["--size", &room]),
            // Otherwise the device would not exist until somebody asks for it.
            Kind::Thin { .. } => words.extend(["--setactivationskip", "n", "--activate", "y"]),
        }
        let volume = self.full_name(&self.name);
        words.extend(["--", &volume]);
        self.snapshot = Some(name.clone());
        machine.tool_locked(&words.iter().map(OsStr::new).collect::<Vec<_>>(), lock).map(drop)
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.group).join(self.snapshot.as_deref().unwrap_or_default())
    }

    fn changes(&self, machine: &Machine, _: Option<Layouts<'_>>) -> io::Result<Option<Vec<Range<u64>>>> {
        let Kind::Thin { pool } = &self.kind else {
            return Err(io::Error::other("nothing tells what changed in a volume that is not thin"));
        };
        let (Some(kept), Some(snapshot)) = (&self.kept, &self.snapshot) else { return Ok(None) };
        let number = |name: &str| -> io::Result<String> {
            let rows = lvs(machine, "thin_id", &[OsStr::new(&self.full_name(name))])?;
            let number = rows.first().map(|row| text(row, "thin_id").to_owned()).unwrap_or_default();
            if number.is_empty() { Err(io::Error::other("lvs gave no thin_id")) } else { Ok(number) }
        };
        Pool::new(&self.group, pool).delta(machine, &number(kept)?, &number(snapshot)?).map(Some)
    }

    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()> {
        if matches!(self.kind, Kind::Thick { .. }) {
            return self.remove(machine);
        }
        // Nobody needs it as a device until it is removed.
        self.change(machine, &["--setactivationskip", "y", "--addtag", &format!("{KEPT}{stamp}")])?;
        self.change(machine, &["--activate", "n"])?;
        self.snapshot = None;
        self.kept.take().map_or(Ok(()), |kept| remove(machine, &self.full_name(&kept)))
    }

    fn check(&self, machine: &Machine) -> io::Result<()> {
        let snapshot = self.full_name(self.snapshot.as_deref().unwrap_or_default());
        let mut names = vec![snapshot];
        if let Kind::Thin { pool } = &self.kind {
            names.push(self.full_name(pool));
        }
        let names: Vec<&OsStr> = names.iter().map(OsStr::new).collect();
        let rows = lvs(machine, "lv_name,lv_attr,snap_percent,data_percent,metadata_percent", &names)?;
        sound(&rows).map_err(|trouble| io::Error::other(format!("{}/{}: {trouble}", self.group, self.name)))
    }

    fn remove(&mut self, machine: &Machine) -> io::Result<()> {
        let Some(name) = &self.snapshot else { return Ok(()) };
        remove(machine, &self.full_name(name))?;
        self.snapshot = None;
        Ok(())
    }
}

/// The kind of a volume, and the room for its snapshot.
fn kind(row: &Value, room: Option<u64>) -> Result<Kind, String> {
    let name = format!("{}/{}", text(row, "vg_name"), text(row, "lv_name"));
    match text(row, "lv_attr").chars().next() {
        Some('V') if room.is_some() => Err(format!(
            "{name} is thin: its snapshot takes room from its pool, --snapshot-size is not for it"
        )),
        Some('V') => Ok(Kind::Thin { pool: text(row, "pool_lv").to_owned() }),
        Some('t') => Err(format!("{name} is a thin pool; name a volume in it")),
        Some('s' | 'S') => Err(format!("{name} is a snapshot itself; back it up as block:/dev/{name}")),
        _ => {
            let (free, extent) = (number(row, "vg_free")?, number(row, "vg_extent_size")?.max(1));
            let wanted = match room {
                Some(room) => room,
                None => (number(row, "lv_size")? / SHARE).min(free),
            };
            let room = wanted.max(1).next_multiple_of(extent);
            if free == 0 {
                let group = text(row, "vg_name");
                return Err(format!("the volume group {group} has no room for a snapshot; see vgextend(8)"));
            }
            Ok(Kind::Thick { room })
        }
    }
}

/// Whether a snapshot, and its pool if it has one, is sound according to `lvs`.
fn sound(rows: &[Value]) -> Result<(), String> {
    for row in rows {
        let attributes = text(row, "lv_attr");
        let percent = |field: &str| text(row, field).parse::<f64>().unwrap_or(0.0);
        match attributes.chars().next() {
            Some('t') if percent("data_percent") > POOL_MAX || percent("metadata_percent") > POOL_MAX => {
                return Err(format!(
                    "its pool {} is full ({} % of the data, {} % of the metadata), and a snapshot makes it fuller; see \
                     lvextend(8)",
                    text(row, "lv_name"),
                    text(row, "data_percent"),
                    text(row, "metadata_percent"),
                ));
            }
            // The fifth letter is its state: invalid, perhaps also suspended.
            Some('s' | 'S')
                if matches!(attributes.chars().nth(4), Some('I' | 'S'))
                    || percent("snap_percent") >= 100.0 =>
            {
                return Err("more was written to it than its snapshot has room for; \
                            --snapshot-size gives that more"
                    .to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a snapshot, if it exists.
fn remove(machine: &Machine, name: &str) -> io::Result<()> {
    match machine.tool(&["lvremove", "--quiet", "--force", "--", name].map(OsStr::new)) {
        Err(error) if error.to_string().contains(GONE) => Ok(()),
        removed => removed.map(drop),
    }
}

/// The answer of `lvs` for logical volumes: an object for each; all values are texts, sizes are in bytes.
fn lvs(machine: &Machine, fields: &str, names: &[&OsStr]) -> io::Result<Vec<Value>> {
    let words = ["lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "--options", fields, "--"];
    let told = machine.tool(&[&words.map(OsStr::new), names].concat())?;
    rows(&told).ok_or_else(|| io::Error::other("lvs said something that is not understood"))
}

fn rows(told: &[u8]) -> Option<Vec<Value>> {
    let mut told: Value = serde_json::from_slice(told).ok()?;
    match told.pointer_mut("/report/0/lv")?.take() {
        Value::Array(rows) => Some(rows),
        _ => None,
    }
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(row: &Value, field: &str) -> Result<u64, String> {
    text(row, field).parse().map_err(|_| format!("lvs gave no {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of LVM 2.03.16.
    const TOLD: &str = r#"  {
      "report": [
          {
              "lv": [
                  {"vg_name":"vg0", "lv_name":"thick", "lv_size":"100663296", "lv_attr":"owi-aos---", "pool_lv":"", "vg_free":"696254464", "vg_extent_size":"4194304"},
                  {"vg_name":"vg0", "lv_name":"thin", "lv_size":"100663296", "lv_attr":"Vwi-aotz--", "pool_lv":"pool-a", "vg_free":"696254464", "vg_extent_size":"4194304"},
                  {"vg_name":"vg0", "lv_name":"pool-a", "lv_size":"134217728", "lv_attr":"twi-aotz--", "pool_lv":"", "vg_free":"696254464", "vg_extent_size":"4194304"},
                  {"vg_name":"vg0", "lv_name":"snap", "lv_size":"4194304", "lv_attr":"sri-a-s---", "pool_lv":"", "vg_free":"696254464", "vg_extent_size":"4194304"}
              ]
          }
      ]
  }"#;

    #[test]
    fn volumes_are_recognised_by_the_report_of_lvs() {
        let rows = rows(TOLD.as_bytes()).unwrap();
        let kind = |row: usize, room| kind(&rows[row], room);
        assert_eq!(kind(0, None), Ok(Kind::Thick { room: 20_971_520 }));
        assert_eq!(kind(0, Some(7)), Ok(Kind::Thick { room: 4_194_304 }));
        assert_eq!(kind(0, Some(4_194_305)), Ok(Kind::Thick { room: 8_388_608 }));
        assert_eq!(kind(1, None), Ok(Kind::Thin { pool: "pool-a".to_owned() }));
        for (row, room, why) in
            [(1, Some(7), "--snapshot-size is not"), (2, None, "thin pool"), (3, None, "block:/dev/vg0/snap")]
        {
            let error = kind(row, room).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_full_group_has_no_room_and_a_nearly_full_one_what_is_left() {
        let with = |free: &str| kind(&rows(TOLD.replace("696254464", free).as_bytes()).unwrap()[0], None);
        assert_eq!(with("4194304"), Ok(Kind::Thick { room: 4_194_304 }));
        assert!(with("0").unwrap_err().contains("the volume group vg0 has no room"));
    }

    #[test]
    fn snapshots_that_can_be_relied_on_and_others() {
        let said = |attributes: &str, percents: [&str; 3]| {
            let [snap, data, metadata] = percents;
            let row = serde_json::json!({
                "lv_name": "x", "lv_attr": attributes, "snap_percent": snap, "data_percent": data,
                "metadata_percent": metadata,
            });
            sound(&[row]).err().unwrap_or_default()
        };
        for (attributes, percents) in [
            ("sri-a-s---", ["99.99", "99.99", ""]),
            ("sri-s-s---", ["0.00", "", ""]),
            ("Vri-a-tz--", ["", "100.00", ""]),
            ("twi-aotz--", ["", "98.00", "98.00"]),
        ] {
            assert_eq!(said(attributes, percents), "");
        }
        for (attributes, percents, why) in [
            ("sri-I-s---", ["", "", ""], "--snapshot-size"),
            ("sri-S-s---", ["", "", ""], "--snapshot-size"),
            ("sri-a-s---", ["100.00", "100.00", ""], "--snapshot-size"),
            ("twi-aotz--", ["", "98.01", "10.00"], "pool x is full (98.01 % of the data"),
            ("twi-aotz--", ["", "5.00", "99.00"], "99.00 % of the metadata"),
        ] {
            assert!(said(attributes, percents).contains(why), "{attributes} {percents:?}");
        }
    }
}
