//! `--format dump` and `parquet`: a dump folder as output, which `remora load` takes.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use codec::Codec;
use disk::Disk;
use dump::{DumpBuilder, DumpOrigin, Format, Source};
use failure::usage;
use physical::{Table, TableFiles};
use repository::AnyDisk;
use server::catalogue::{self, Kind, Object, Settings};
use server::definition::{counted, with_counter, without_counter};
use server::{TableName, quote_name};

use super::place::Place;
use super::{Arguments, Form, Wish, chosen};

/// The format of the data files, and their compression, which is that of `remora dump`.
fn format(form: Form) -> (Format, (Codec, u32)) {
    match form {
        Form::Dump(Format::Parquet) => (Format::Parquet, dump::PARQUET_CODEC),
        _ => (Format::Tsv, (Codec::Zstd, 1)),
    }
}

/// A dump that is being made.
pub(super) struct Folder<'a> {
    maker: DumpBuilder<'a>,
    /// The tables that are in it.
    tables: Vec<TableName>,
    objects: Vec<Object>,
    /// What is missing, a line each.
    omitted: Vec<String>,
}

/// Refuses options that do not go with a dump folder.
pub(super) fn check(arguments: &Arguments, disk: &AnyDisk) -> anyhow::Result<()> {
    let name = &arguments.output;
    let is_file = ["tsv", "csv"].iter().any(|end| name.extension().is_some_and(|is| is == *end));
    if is_file || name == Path::new("-") {
        return Err(usage("--format dump and parquet make a folder: name one with -o"));
    }
    // A backup that is recovered first may take hours.
    disk.check(name)?;
    let is_there = disk.stat(name).is_ok() || disk.list(name).is_ok();
    anyhow::ensure!(!is_there, "{} exists already; name another folder", name.display());
    if arguments.deleted {
        return Err(usage("--deleted writes rows that no table has: a dump can't hold them"));
    }
    Ok(())
}

/// Refuses tables whose whole definitions are not known. Those of MySQL 8 and later are in their files.
pub(super) fn check_definitions(arguments: &Arguments, place: &Place) -> anyhow::Result<()> {
    let has_own = || chosen(arguments, &place.source).map(|all| all.iter().all(|table| table.frm.is_none()));
    anyhow::ensure!(
        arguments.schema.is_some() || place.catalogue.is_some() || has_own()?,
        "a dump needs complete definitions, and .frm files lack foreign keys: give the output of SHOW CREATE TABLE, or of 'remora dump --no-data', with --schema"
    );
    Ok(())
}

/// The table as the dump describes it: as --schema says, as the server says that has recovered it, or as its
/// file says. None for a sequence, which is no table of a dump.
pub(super) fn described(
    files: &TableFiles,
    table: &Table,
    statements: Option<&str>,
    place: &Place,
) -> Result<Option<catalogue::Table>, physical::Error> {
    if let Some(statements) = statements {
        return files.described(table, statements).map(Some);
    }
    let Some((catalogue, _)) = &place.catalogue else {
        let own = files.dictionary(&*place.disk)?.map(|own| own.create_table()).transpose()?;
        let own =
            own.ok_or_else(|| physical::Error::Missing("its complete definition is not known".to_owned()))?;
        return files.described(table, &own).map(Some);
    };
    let is_it =
        |table: &&catalogue::Table| table.name.schema == files.schema && table.name.table == files.name;
    let is_sequence = |object: &Object| {
        object.kind == Kind::Sequence && object.schema == files.schema && object.name == files.name
    };
    match catalogue.tables.iter().find(is_it) {
        Some(known) => Ok(Some(known.clone())),
        None if catalogue.objects.iter().any(is_sequence) => Ok(None),
        None => Err(physical::Error::Missing("the server that has recovered it does not know it".to_owned())),
    }
}

impl<'a> Folder<'a> {
    /// Makes the folder.
    pub(super) fn begin(
        arguments: &Arguments,
        disk: &'a AnyDisk,
        place: &Place,
        wishes: &[Wish],
    ) -> anyhow::Result<Folder<'a>> {
        let version = match (&place.catalogue, &place.source.data) {
            (Some((_, version)), _) => version.clone(),
            (None, Some(data)) => instance::version(&*place.disk, data),
            (None, None) => String::new(),
        };
        let source = Source::of_files(version);
        let mut omitted = Vec::new();
        let mut selection = super::selection(arguments.names.clone(), arguments.exclude.clone());
        let objects = match &place.catalogue {
            Some((catalogue, _)) => {
                omitted.extend(catalogue.omitted.iter().cloned());
                catalogue.objects.clone()
            }
            None => {
                omitted.extend(wishes.iter().filter(|wish| wish.has_triggers).map(|wish| {
                    format!("triggers of table {}: they are not in --schema's tables", wish.name)
                }));
                if wishes.iter().any(|wish| !wish.table.spaces().is_empty()) {
                    omitted.push(
                        "views, routines, triggers and events: MySQL has them in mysql.ibd, which is not read for them"
                            .to_owned(),
                    );
                }
                // Nothing else of their databases.
                selection.include =
                    wishes.iter().filter_map(|wish| wish.name.to_string().parse().ok()).collect();
                databases(wishes, place)
            }
        };
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let maker = DumpBuilder::begin(
            disk,
            &arguments.output,
            DumpOrigin { id, source, selection },
            format(arguments.format),
        )
        .with_context(|| format!("-o {}", arguments.output.display()))?;
        Ok(Folder { maker, tables: Vec::new(), objects, omitted })
    }

    /// Adds a table with these rows.
    pub(super) fn table(
        &mut self,
        wish: &Wish,
        rows: impl FnOnce(&mut dyn Write) -> Result<(), physical::Error>,
    ) -> anyhow::Result<()> {
        let Some(described) = &wish.described else { return Ok(()) };
        let mut table = described.clone();
        table.bytes = wish.files.iter().map(physical::File::len).sum();
        if counted(&table.definition).is_some() {
            let last = wish.files.iter().map(physical::File::last_auto_increment_value);
            let last = last.collect::<Result<Vec<u64>, _>>()?.into_iter().max().unwrap_or(0);
            // A server does not show an AUTO_INCREMENT counter that is still at its start.
            table.definition = match last {
                0 => without_counter(&table.definition),
                last => with_counter(&table.definition, last.saturating_add(1)),
            };
        }
        // Each partition has an order of its own.
        let is_ordered = wish.files.len() == 1 && physical::is_ordered_by(&wish.table, &table.key);
        self.maker.table::<anyhow::Error>(table, is_ordered, |out| Ok(rows(out)?))?;
        self.tables.push(wish.name.clone());
        Ok(())
    }

    /// Says that old rows of a table are not in the dump.
    pub(super) fn omit(&mut self, line: String) {
        self.omitted.push(line);
    }

    /// Completes the dump. `left_out`: what else is missing. Returns what only the dump misses.
    pub(super) fn finish(self, left_out: impl Iterator<Item = String>) -> anyhow::Result<Vec<String>> {
        let Folder { maker, tables, mut objects, mut omitted } = self;
        objects.retain(|object| {
            let is_there = |table: &String| {
                tables.iter().any(|known| known.schema == object.schema && known.table == *table)
            };
            let stays = object.table.as_ref().is_none_or(is_there);
            if !stays {
                omitted.push(format!("{}: its table is not in the dump", object.title()));
            }
            stays
        });
        let manifest = maker.finish(objects, omitted.iter().cloned().chain(left_out).collect())?;
        omitted.extend(manifest.odd());
        Ok(omitted)
    }
}

/// The databases of the tables, each with the character set that its `db.opt` names, or MySQL's dictionary.
fn databases(wishes: &[Wish], place: &Place) -> Vec<Object> {
    let known = place.source.database_collations(&*place.disk);
    let mut objects: Vec<Object> = Vec::new();
    for wish in wishes {
        let schema = &wish.name.schema;
        if objects.iter().any(|object| object.name == *schema) {
            continue;
        }
        let mut text = String::new();
        let options =
            wish.files.first().and_then(|file| file.path().parent()).map(|path| path.join("db.opt"));
        if let Some(mut file) = options.and_then(|path| place.disk.open(&path).ok()) {
            // Without it the database gets the defaults of its server.
            std::io::Read::read_to_string(&mut file, &mut text).ok();
        }
        let option = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let mut statement = format!("CREATE DATABASE IF NOT EXISTS {}", quote_name(schema));
        let own = option("default-character-set").zip(option("default-collation"));
        let own = own.or_else(|| {
            let collation = known.get(schema)?;
            Some((collation.charset().name.to_owned(), collation.name()))
        });
        if let Some((set, collation)) = own {
            statement.push_str(&format!(" /*!40100 DEFAULT CHARACTER SET {set} COLLATE {collation} */"));
        }
        if let Some(comment) = option("comment").filter(|comment| !comment.is_empty()) {
            let comment = comment.replace('\\', "\\\\").replace('\'', "''");
            statement.push_str(&format!(" COMMENT '{comment}'"));
        }
        objects.push(Object {
            kind: Kind::Database,
            schema: schema.clone(),
            name: schema.clone(),
            table: None,
            statements: vec![statement],
            settings: Settings::default(),
        });
    }
    objects
}
