//! Servers, and tables that are there to be copied.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use disk::RealDisk;
use innodb::index_page::IndexPage;
use innodb::off_page::Reference;
use innodb::page::Pages as _;
use innodb::record::FieldValue;
use innodb::table::CLUSTERED_ROOT;
use innodb::table::{Table, Version, sql};
use innodb::tree::{Scratch, Tree};
use innodb::write::Row;
use innodb::{instant, leaf};
use physical::redo_copy::RedoCopier;
use physical::write::{Input, Outcome, Piece, Request, RowSink};
use physical::{Error, File, RedoPosition};
use progress::{Progress, Silent};
use sandbox::{Family, Places, Product, Sandbox, Settings};
use server::{Environment, Overrides, Session, TableName, Target};

/// The MariaDB servers that are here.
pub(crate) fn products() -> Vec<Product> {
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    let here = sandbox::test_servers(&places, |name| std::env::var_os(name))
        .unwrap_or_else(|error| panic!("{error}"));
    let products = here.into_iter().map(|installation| installation.product);
    products.filter(|product| product.family() == Family::MariaDb).collect()
}

/// Those on which a test runs today, as [`sandbox::of_today`] says.
pub(crate) fn of_today() -> Vec<Product> {
    sandbox::of_today(products(), |name| std::env::var_os(name))
}

/// Every `parts`-th of a test's cases, as [`sandbox::part_of_today`] says.
pub(crate) fn part_of_today<C>(cases: Vec<C>, parts: usize) -> Vec<C> {
    sandbox::part_of_today(cases, parts, |name| std::env::var_os(name))
}

/// Runs a test on all of them at once: one after the other it would be the last of all tests to end.
pub(crate) fn on_products_at_once(test: impl Fn(Product) + Sync) {
    let products = of_today();
    std::thread::scope(|scope| {
        products.iter().for_each(|product| drop(scope.spawn(|| test(*product))));
    });
}

pub(crate) fn start(product: Product, options: &[&str]) -> Sandbox {
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    let installation = sandbox::find(&places, product).unwrap();
    let options = ["--innodb-buffer-pool-size=64M"].iter().chain(options).map(ToString::to_string).collect();
    Sandbox::start(&installation, &places, &Settings { options, ..Settings::default() }).unwrap()
}

fn target(socket: &Path) -> Target {
    let overrides = Overrides {
        socket: Some(socket.to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Target::resolve(&overrides, &Environment::default()).unwrap()
}

pub(crate) fn connect(server: &Sandbox) -> Session {
    let mut session = target(server.socket()).connect().unwrap();
    session.execute("CREATE DATABASE IF NOT EXISTS `a-b`").unwrap();
    session.execute("USE `a-b`").unwrap();
    session.execute("SET sql_mode = CONCAT(@@sql_mode, ',NO_UNSIGNED_SUBTRACTION')").unwrap();
    session
}

/// Reads all of the log that the server has flushed by now, and tells where the server was before that.
pub(crate) fn catch_up(follow: &mut RedoCopier, session: &mut Session) -> Result<RedoPosition, Error> {
    let position = RedoPosition::read(session)?;
    follow.step(position.flushed, &mut || Ok(RedoPosition::read(session)?.current))?;
    Ok(position)
}

#[track_caller]
pub(crate) fn execute(session: &mut Session, statement: &str) {
    session.execute(statement).unwrap_or_else(|error| panic!("{statement:.300}: {error}"));
}

pub(crate) fn definition(session: &mut Session, table: &str) -> String {
    session.strings(&format!("SHOW CREATE TABLE {}", quoted(table))).unwrap().remove(0).remove(1).unwrap()
}

pub(crate) fn quoted(name: &str) -> String {
    server::quote_name(name)
}

/// The rows of a table as they are stored, in the order of its key, read from its file.
pub(crate) fn rows(session: &mut Session, server: &Sandbox, table: &str) -> Vec<Row> {
    let version = session.about.version;
    let version =
        u32::from(version.major) * 10_000 + u32::from(version.minor) * 100 + u32::from(version.patch);
    let parsed = sql::parse(&definition(session, table), Version(version)).unwrap();
    execute(session, &format!("FLUSH TABLES {} FOR EXPORT", quoted(table)));
    let rows = read(&parsed, &file(server, table));
    execute(session, "UNLOCK TABLES");
    rows
}

/// The file of a table.
pub(crate) fn file(server: &Sandbox, table: &str) -> PathBuf {
    let coded: String = table
        .chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() || char == '_' {
                char.to_string()
            } else {
                format!("@{:04x}", u32::from(char))
            }
        })
        .collect();
    server.data().join("a@002db").join(format!("{coded}.ibd"))
}

fn read(table: &Table, path: &Path) -> Vec<Row> {
    let mut file = File::open(&RealDisk, path).unwrap();
    let id = file.space().id;
    let layout = instant::layout(table, CLUSTERED_ROOT, id, &mut file).unwrap();
    let tree = Tree::read(CLUSTERED_ROOT, &layout, &mut file).unwrap();
    let mut numbers: Vec<u32> = Vec::new();
    for parent in 0..tree.parents.len() {
        numbers.extend(tree.leaves(parent, &layout, &mut file).unwrap());
    }
    if tree.parents.is_empty() {
        numbers.push(CLUSTERED_ROOT);
    }
    let (mut rows, mut scratch) = (Vec::new(), Scratch::default());
    for number in numbers {
        let bytes = *file.page(number).unwrap();
        let page = IndexPage::parse(&bytes, number).unwrap();
        leaf::rows(&page, &layout, &mut scratch, |found| -> Result<(), Error> {
            let mut row = Row::default();
            for at in 0..table.columns().len() {
                let is_it = |field: &innodb::table::Field| field.column == Some(at) && field.prefix.is_none();
                let field = layout.fields().iter().position(is_it);
                match field.map_or(FieldValue::Null, |field| found.stored(field)) {
                    FieldValue::Null => row.push(None),
                    FieldValue::Whole(value) => row.push(Some(value)),
                    FieldValue::External(local, reference) => {
                        let mut value = local.to_vec();
                        Reference::parse(reference).read(id, &mut file, &mut value)?;
                        row.push(Some(&value));
                    }
                }
            }
            if !found.deleted {
                rows.push(row);
            }
            Ok(())
        })
        .unwrap();
    }
    rows
}

/// How a table is filled in a test.
#[derive(Clone, Copy)]
pub(crate) struct Copy<'a> {
    pub(crate) target: &'a str,
    pub(crate) definition: &'a str,
    pub(crate) sorted: bool,
    pub(crate) memory: usize,
    pub(crate) unlogged: bool,
    /// Whether no other session can be had.
    pub(crate) alone: bool,
    pub(crate) threads: usize,
    /// The number of rows in a piece of the input.
    pub(crate) piece: usize,
    pub(crate) progress: &'a dyn Progress,
}

impl<'a> Copy<'a> {
    pub(crate) fn new(target: &'a str, definition: &'a str) -> Copy<'a> {
        Copy {
            target,
            definition,
            sorted: true,
            memory: 64 << 20,
            unlogged: false,
            alone: false,
            threads: 2,
            piece: 1000,
            progress: &Silent,
        }
    }

    pub(crate) fn make(&self, session: &mut Session, rows: &[Row]) -> Result<Outcome, Error> {
        self.make_but(session, rows, &mut |_| Ok(()))
    }

    /// The same; `before` is called before each piece of rows, with the number of its first row.
    pub(crate) fn make_but(
        &self,
        session: &mut Session,
        rows: &[Row],
        before: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<Outcome, Error> {
        let target = TableName { schema: "a-b".to_owned(), table: self.target.to_owned() };
        let folder = tempfile::tempdir().unwrap();
        let socket = if self.alone { None } else { session.value("SELECT @@socket").unwrap() };
        let socket = PathBuf::from(socket.unwrap_or_default());
        let request = Request {
            target: &target,
            definition: self.definition,
            sorted: self.sorted,
            threads: self.threads,
            memory: self.memory,
            bytes: None,
            folder: folder.path(),
            unlogged: self.unlogged,
            connect: &|| self::target(&socket).connect(),
            stop: &AtomicBool::new(false),
            progress: self.progress,
        };
        let mut pieces = rows.chunks(self.piece).enumerate();
        let mut next = || {
            let Some((number, piece)) = pieces.next() else { return Ok(None) };
            before(number * self.piece)?;
            let rows = piece.len() as u64;
            Ok(Some(Piece { input: (number * self.piece, piece), rows, bytes: rows }))
        };
        let rows = |table: &Table, (first, piece): (usize, &[Row]), before: u64, take: &mut RowSink<'_>| {
            assert_eq!(before, first as u64);
            for (at, stored) in piece.iter().enumerate() {
                let mut row = Row::default();
                // Hidden columns of keys that the server builds are the last, and not there yet.
                (0..table.columns().len().min(stored.len())).for_each(|at| row.push(stored.get(at)));
                take(&row, (first + at) as u64)?;
            }
            Ok(())
        };
        let mut back = Vec::new();
        let input = Input { next: &mut next, bytes: None, rows: &rows, back: Some(&mut back) };
        let outcome = physical::write::write(session, &RealDisk, &request, input)?;
        // Each row is a line, and what is in it is escaped.
        assert_eq!(
            back.iter().filter(|byte| **byte == b'\n').count() as u64,
            outcome.rows,
            "{}",
            self.target
        );
        Ok(outcome)
    }
}

/// A table passes CHECK TABLE, which also warns about rows that purge has not removed yet, or removes at this
/// moment.
#[track_caller]
pub(crate) fn sound(session: &mut Session, table: &str) {
    let mut last = Vec::new();
    for _ in 0..20 {
        session.execute("SET GLOBAL innodb_max_purge_lag_wait = 0").unwrap();
        last = session.strings(&format!("CHECK TABLE {table} EXTENDED")).unwrap();
        if last.len() == 1 {
            break;
        }
    }
    assert!(last.len() == 1 && last[0][3].as_deref() == Some("OK"), "{table}: {last:?}");
}
