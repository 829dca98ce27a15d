//! The template: an empty table that the server creates, and its files.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crc_fast::CrcAlgorithm::Crc64Nvme;
use disk::{Attributes, Disk, Files, Kind};
use innodb::export::Export;
use innodb::table::{Table, Version, sql};
use innodb::write::Plan;
use server::definition::quoted;
use server::{Session, TableName};

use crate::error::io;
use crate::{Error, File, file_name};

/// The endings of a table's files.
const ENDS: [&str; 3] = ["ibd", "cfg", "frm"];

/// The names that belong to a target. They are always the same, so that a run finds what a killed run left
/// behind.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The table that is filled.
    pub(super) template: TableName,
    /// The former target, until it is dropped.
    pub(super) old: TableName,
    /// Our rows and those that others inserted while the template had the target's name.
    pub(super) kept: TableName,
    /// An empty table that shows where the server stores its files.
    pub(super) probe: TableName,
    /// The tables of a trial: the one whose file is written, and the one filled by INSERT.
    pub(super) trial: [TableName; 2],
    /// The name of the lock that is held meanwhile.
    pub(super) lock: String,
}

impl Names {
    pub(super) fn of(target: &TableName) -> Names {
        let name = |start: &str| beside(target, start);
        Names {
            lock: format!("remora.ibd.{:016x}", hash(target)),
            template: name("_remora_ibd_"),
            old: name("_remora_old_"),
            kept: name("_remora_kept_"),
            probe: name("_remora_here_"),
            trial: [name("_remora_try_"), name("_remora_ref_")],
        }
    }
}

/// A table in the target's database, whose name begins with `start`.
fn beside(target: &TableName, start: &str) -> TableName {
    TableName { schema: target.schema.clone(), table: format!("{start}{:016x}", hash(target)) }
}

fn hash(target: &TableName) -> u64 {
    let text = format!("{}\0{}", target.schema, target.table);
    crc_fast::checksum(Crc64Nvme, text.as_bytes())
}

/// The paths of a table's files that exist.
pub(super) fn files(disk: &dyn Disk, data: &Path, table: &TableName) -> Result<Vec<PathBuf>, Error> {
    let schema = table.schema.to_lowercase();
    let is_its = |folder: &OsString| {
        folder.to_str().is_some_and(|folder| file_name::decode(folder).to_lowercase() == schema)
    };
    let folders = disk.list(data).map_err(io(data))?.into_iter().filter(is_its);
    let paths =
        folders.flat_map(|folder| ENDS.map(|end| data.join(&folder).join(format!("{}.{end}", table.table))));
    Ok(paths.filter(|path| disk.stat(path).is_ok()).collect())
}

/// The empty table as the server created it, and where its files are.
pub(super) struct TemplateTable {
    pub(super) table: Table,
    pub(super) plan: Plan,
    /// The indexes in the order of the plan, by name.
    pub(super) names: Vec<String>,
    pub(super) ibd: PathBuf,
    export: Export,
    frm: Vec<u8>,
    attributes: Attributes,
}

/// A definition as a table.
pub(super) fn parse(session: &Session, definition: &str) -> Result<Table, Error> {
    let version = session.about.version;
    let version =
        u32::from(version.major) * 10_000 + u32::from(version.minor) * 100 + u32::from(version.patch);
    Ok(sql::parse(definition, Version(version))?)
}

/// A definition under another name.
pub(super) fn renamed(definition: &str, name: &TableName) -> Result<String, Error> {
    let rest = definition.strip_prefix("CREATE TABLE ").and_then(|rest| rest.strip_prefix(quoted(rest)?));
    let rest = rest
        .ok_or_else(|| Error::Refused("its definition is not as SHOW CREATE TABLE prints it".to_owned()))?;
    Ok(format!("CREATE TABLE {name}{rest}"))
}

impl TemplateTable {
    /// Reads the empty table's definition and files.
    pub(super) fn read(
        session: &mut Session,
        disk: &dyn Files,
        name: &TableName,
        ibd: PathBuf,
    ) -> Result<TemplateTable, Error> {
        let definition = session.definition(name)?;
        let table = parse(session, &definition)?;
        session.execute(&format!("FLUSH TABLES {name} FOR EXPORT"))?;
        let read = TemplateTable::exported(disk, table, ibd);
        session.execute("UNLOCK TABLES")?;
        read
    }

    fn exported(disk: &dyn Files, table: Table, ibd: PathBuf) -> Result<TemplateTable, Error> {
        let load = |end: &str| {
            let path = ibd.with_extension(end);
            let mut bytes = Vec::new();
            disk.open(&path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(io(&path))?;
            Ok::<_, Error>(bytes)
        };
        let export = Export::parse(load("cfg")?)?;
        let space = *File::open(disk, &ibd)?.space();
        let names: Vec<String> = export.indexes.iter().map(|index| index.0.clone()).collect();
        if names.first() != Some(&table.clustered().name) || names.len() != table.indexes().len() {
            return Err(Error::Rejected(format!("the server has the indexes {}", names.join(", "))));
        }
        let roots = export.indexes.iter().map(|index| index.1).collect();
        let plan = Plan { space_id: space.id, flags: space.flags, roots };
        let frm = load("frm")?;
        let attributes = disk.entry(&ibd).map_err(io(&ibd))?.attributes;
        Ok(TemplateTable { table, plan, names, ibd, export, frm, attributes })
    }

    /// Makes an empty file with the owner and the mode of the server's own file.
    pub(super) fn create(
        &self,
        disk: &dyn Files,
        end: &str,
    ) -> Result<(PathBuf, Box<dyn disk::Sink>), Error> {
        let path = self.ibd.with_extension(end);
        let sink = disk.create(&path).map_err(io(&path))?;
        disk.set_attributes(&path, &Kind::File, self.attributes).map_err(io(&path))?;
        let now = disk.entry(&path).map_err(io(&path))?.attributes;
        if (now.uid, now.gid) != (self.attributes.uid, self.attributes.gid) {
            return Err(Error::Refused(format!(
                "{} would not belong to the server's user: run this as that user, or as root",
                path.display()
            )));
        }
        Ok((path, sink))
    }

    /// Writes the `.cfg` file. `next` is the next AUTO_INCREMENT value.
    pub(super) fn write_export(&self, disk: &dyn Files, next: u64) -> Result<(), Error> {
        self.write(disk, "cfg", &self.export.with_auto_increment(next))
    }

    /// Writes the table's definition, as the server had it.
    pub(super) fn write_definition(&self, disk: &dyn Files) -> Result<(), Error> {
        self.write(disk, "frm", &self.frm)
    }

    fn write(&self, disk: &dyn Files, end: &str, bytes: &[u8]) -> Result<(), Error> {
        let (path, mut sink) = self.create(disk, end)?;
        sink.write_all(bytes).and_then(|()| sink.flush()).and_then(|()| sink.sync()).map_err(io(&path))
    }
}
