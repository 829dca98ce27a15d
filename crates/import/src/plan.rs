//! Decides what to do: recognises the files, looks at the table, and plans how the files go into the table.

mod create;
mod first_look;
mod typed;

use std::collections::BTreeMap;

use rows::{ColumnStats, Decoder, Encoding, Findings, GuessedOptions, LineEnd, Nulls};
use server::{Grants, Scope, Session, quote_name};

use crate::context::Context;
use crate::dialect::{self, DialectDecision};
use crate::job::{Job, LoadStrategy, Names, Order, State};
use crate::mapping::{self, Mapping};
use crate::privileges::{self, LoadTarget};
use crate::request::{FieldTarget, Mode, OnDuplicate, Request};
use crate::source::Files;
use crate::survey::{Survey, SurveyResult, SurveyedTypes};
use crate::target::{self, Table};
use crate::{Error, other_files};
use create::{Create, NewTable};
use first_look::FirstLook;
use progress::Progress;

/// The target size of a chunk: small enough that all sessions end at about the same time, large enough that a
/// commit for each does not matter.
const CHUNK_BYTES: usize = 8 << 20;
/// A smaller target size for small files, so that every session gets some chunks.
const CHUNK_BYTES_MIN: usize = 256 << 10;

/// Engines of tables that are only a way to rows elsewhere: what is put into a table that is made like such a
/// one is in the same place at once.
const ELSEWHERE: [&str; 6] = ["MRG_MyISAM", "FEDERATED", "CONNECT", "SPIDER", "SPHINX", "OQGRAPH"];

/// The decisions.
pub(crate) struct Plan {
    /// The part that will be kept in the ledger.
    pub job: Job,
    /// The table, if it exists.
    pub table: Option<Table>,
    /// The table to create, if it must be created.
    pub create: Option<Create>,
    /// The database to create before it.
    pub schema: Option<String>,
    /// What was found out about the files, in one line.
    pub findings: String,
}

/// What the first rows of a file show.
struct Sample {
    /// Whether the files are empty.
    empty: bool,
    findings: Findings,
    stats: Vec<ColumnStats>,
    heading: Vec<u8>,
    /// Files whose columns are in another order.
    orders: BTreeMap<usize, Order>,
}

/// The session for planning, and the names of the work tables unless it is a preview.
pub(crate) type PlanningSession<'a> = Option<(&'a mut Session, Option<&'a Names>)>;

/// The name of a database to make, if the account sees none of this name.
fn missing_schema(session: &mut Session, request: &Request) -> Result<Option<String>, Error> {
    let schema = &request.table.schema;
    let query =
        format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = {}", session.quote(schema));
    if session.value(&query)?.is_some() {
        return Ok(None);
    }
    if request.create_database {
        return Ok(Some(schema.clone()));
    }
    let name = quote_name(schema);
    let how =
        if request.create { "--create-database makes it" } else { "--create --create-database make both" };
    Err(Error::Target(format!("there is no database {name}, or this account can't see it; {how}")))
}

/// Makes a plan. Without a session this is only possible for a table that will be created.
pub(crate) fn make(
    request: &Request,
    files: &Files<'_>,
    context: &Context<'_>,
    door: PlanningSession<'_>,
) -> Result<Plan, Error> {
    let (mut session, names) = door.map_or((None, None), |(session, names)| (Some(session), names));
    let table = match session.as_deref_mut() {
        Some(session) => target::describe(session, &request.table)?,
        None => None,
    };
    let schema = match (&table, session.as_deref_mut()) {
        (None, Some(session)) => missing_schema(session, request)?,
        _ => None,
    };
    if let (None, Some(session), false) = (&table, session.as_deref_mut(), request.create) {
        // A table that the account can't see looks as if it did not exist.
        let wanted = [(Scope::Table(&request.table), ["SELECT", "INSERT"].as_slice())];
        Grants::of(session)?.missing(&wanted).map_or(Ok(()), Err)?;
    }
    check_existence(request, table.as_ref(), session.is_some())?;
    let mut first = sample(request, files, table.as_ref(), &DialectDecision::default(), context.progress)?;
    if request.create && first.empty {
        return Err(Error::Mismatch(format!("{} is empty: no table can be created from it", files.name(0))));
    }
    context.progress.note(&form(&first, files.name(0)));
    let strategy = strategy(request, table.as_ref(), context.progress)?;
    if let (Some(session), Some(names)) = (session.as_deref_mut(), names) {
        let target = LoadTarget { names, strategy, exists: table.is_some() };
        privileges::check(session, request, &target, context.progress)?;
    }
    let mut job = job(request, files, &first, strategy);
    job.exists = table.is_some();
    job.before = table.as_ref().map(|table| table.definition.clone()).unwrap_or_default();
    let mut create = None;
    let mapping = match &table {
        Some(_) if !request.create && first.empty => Mapping::default(),
        Some(table) if !request.create => {
            mapping::onto_table(request, &first.findings, table, &first.stats, context.progress)?
        }
        _ => {
            let packet = session.as_ref().map_or(usize::MAX, |session| {
                usize::try_from(session.about.max_allowed_packet).unwrap_or(usize::MAX)
            });
            let look = |decision: &DialectDecision| {
                sample(request, files, table.as_ref(), decision, context.progress)
            };
            let guess = Guess { sample: &mut first, job: &mut job, packet };
            let found = surveyed(request, files, context, guess, &look)?;
            let make = NewTable { request, files, findings: &first.findings, progress: context.progress };
            let (made, mapping) = make.table(&found, session.as_deref())?;
            create = Some(made);
            mapping
        }
    };
    if let Some(table) = &table {
        job.texts = into_text(&mapping, table);
    }
    job.fields = mapping.fields;
    if job.strategy == LoadStrategy::ByChunk
        && job.guessed.any()
        && (0..files.len()).all(|file| files.is_readable_again(file))
    {
        // Chunks that are committed one by one can't be taken back, so the files are checked first.
        dialect::confirm(files, job.cut(usize::MAX), &job.dialect_check(), context)?;
        job.guessed = GuessedOptions::default();
    }
    job.set = mapping.set;
    job.time_zone = mapping.time_zone.or_else(|| request.time_zone.clone());
    let findings = first.findings.to_string();
    Ok(Plan { job, table, create, schema, findings })
}

/// The fields that go into text columns or into variables, where any word may be a value.
fn into_text(mapping: &Mapping, table: &Table) -> Vec<usize> {
    let is_text = |name: &str| table.columns.iter().any(|column| column.name == name && column.is_text());
    let fields = mapping.fields.iter().enumerate().filter(|(_, field)| match &field.target {
        FieldTarget::Column(name) => is_text(name),
        FieldTarget::Variable(_) => true,
        FieldTarget::Skip => false,
    });
    fields.map(|(at, _)| at).collect()
}

/// What is guessed from a sample.
struct Guess<'a> {
    sample: &'a mut Sample,
    job: &'a mut Job,
    /// The most bytes that the server takes at once.
    packet: usize,
}

/// Examines every value, and starts again when one contradicts the guesses from the sample. In the end all
/// values agree with both results.
fn surveyed(
    request: &Request,
    files: &Files<'_>,
    context: &Context<'_>,
    mut guess: Guess<'_>,
    look: &dyn Fn(&DialectDecision) -> Result<Sample, Error>,
) -> Result<Box<SurveyedTypes>, Error> {
    let mut decision = DialectDecision::default();
    loop {
        let survey = survey(request, files, context, &guess);
        let Guess { sample, job, .. } = &mut guess;
        match survey? {
            SurveyResult::SurveyedTypes(mut found) => {
                let Some(nulls) = found.words.settle(&job.nulls, &mut found.columns) else {
                    // Every byte was examined, so no guess is left.
                    job.guessed = GuessedOptions::default();
                    return Ok(found);
                };
                context.progress.note(&format!("the whole file shows that {}", null_words(&nulls)));
                (job.nulls, job.guessed.nulls) = (nulls, false);
            }
            SurveyResult::FileContradiction(contradiction) => {
                let kind = contradiction.first.kind;
                context.progress.note(&format!("{contradiction}: looking again"));
                decision.take(contradiction)?;
                let mut now = look(&decision)?;
                decision.compare(kind, &sample.findings, &mut now.findings);
                context.progress.note(&now.findings.to_string());
                let before = std::mem::take(&mut job.before);
                **job = Job { exists: job.exists, before, ..self::job(request, files, &now, job.strategy) };
                **sample = now;
            }
        }
    }
}

fn check_existence(request: &Request, table: Option<&Table>, connected: bool) -> Result<(), Error> {
    let name = &request.table;
    match table {
        None if !request.create && connected => Err(Error::Target(format!(
            "there is no table {name}; --create creates it with types that fit the files"
        ))),
        Some(_) if request.create && request.mode != Mode::Replace => Err(Error::Target(format!(
            "{name} already exists; omit --create to load into it as it is, \
             or add --replace to put a new one in its place"
        ))),
        Some(table) if request.mode == Mode::New && !table.empty => {
            Err(Error::Target(format!("{name} is not empty; --append adds rows, --replace replaces them")))
        }
        _ => Ok(()),
    }
}

/// How rows get into the table. A swap keeps no triggers, no foreign keys, no history, and on MySQL no names
/// of CHECK constraints. So tables with any of them are loaded in one transaction.
fn strategy(
    request: &Request,
    table: Option<&Table>,
    progress: &dyn Progress,
) -> Result<LoadStrategy, Error> {
    let Some(table) = table else { return Ok(LoadStrategy::Shadow) };
    let name = &request.table;
    let append = matches!(request.mode, Mode::Append { .. });
    let is_elsewhere = ELSEWHERE.iter().any(|engine| table.engine.eq_ignore_ascii_case(engine));
    if is_elsewhere && !table.transactional && !request.create {
        return Err(Error::Target(format!(
            "the rows of {name} are not in it ({}), and half an import could not be undone; import into the table \
             that has them",
            table.engine
        )));
    }
    let ties: Vec<String> = [
        table.versioned.then(|| "a history of its rows".to_owned()),
        (is_elsewhere && !request.create).then(|| format!("its rows elsewhere ({})", table.engine)),
        (!table.triggers.is_empty()).then(|| format!("triggers ({})", table.triggers.join(", "))),
        table.triggers_hidden.then(|| {
            "possibly triggers, which this account can't see without the privilege TRIGGER".to_owned()
        }),
        // A table that can't roll back is swapped nevertheless, and its constraints get new names.
        (table.checks_named && table.transactional).then(|| "named CHECK constraints".to_owned()),
        (!table.foreign_keys.is_empty()).then(|| "foreign keys".to_owned()),
        (!table.referenced_by.is_empty())
            .then(|| format!("foreign keys of {} pointing at it", table.referenced_by.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect();
    // A created table is InnoDB, whatever the replaced table was.
    if !table.transactional && !request.create {
        return match append || !ties.is_empty() {
            true => Err(Error::Target(format!(
                "{name} is {}, which can't roll back a failed import; import into a new or empty table, or with --replace",
                table.engine
            ))),
            false => {
                if request.on_duplicate != OnDuplicate::Error {
                    return Err(Error::Target(format!(
                        "{name} is {}, which can't roll back a chunk, so --on-duplicate does not work with it",
                        table.engine
                    )));
                }
                progress.note(&format!("{} can't roll back: one session, and no --resume", table.engine));
                Ok(LoadStrategy::ShadowUnsafe)
            }
        };
    }
    let replaced = request.mode == Mode::Replace && !table.empty && !request.defer_checks;
    if replaced && !table.followed_by.is_empty() {
        return Err(Error::Target(format!(
            "to delete the rows of {name} would delete or change rows of {} (ON DELETE); --defer-checks replaces \
             them without that, and checks at the end that no row is left without its parent",
            table.followed_by.join(", ")
        )));
    }
    match request.mode {
        Mode::Append { by_chunk: true } => Ok(LoadStrategy::ByChunk),
        Mode::Append { by_chunk: false } => {
            progress.note(
                "all or nothing: one session, one transaction; --by-chunk is faster and commits each chunk",
            );
            Ok(LoadStrategy::OneTransaction)
        }
        _ if ties.is_empty() => Ok(LoadStrategy::Shadow),
        _ if request.create => Err(Error::Target(format!(
            "{name} has {}, which a replaced table would lose; drop them first, or load without --create",
            ties.join(" and ")
        ))),
        _ => {
            progress.note(&format!("{name} has {}: one session, one transaction", ties.join(" and ")));
            Ok(LoadStrategy::OneTransaction)
        }
    }
}

/// The form of the first file, for people.
fn form(first: &Sample, name: &str) -> String {
    if first.empty { format!("{name} is empty") } else { first.findings.to_string() }
}

/// Recognises the form of the first file, and checks that the others have the same header.
fn sample(
    request: &Request,
    files: &Files<'_>,
    table: Option<&Table>,
    decision: &DialectDecision,
    progress: &dyn Progress,
) -> Result<Sample, Error> {
    if let Some(FirstLook { findings, stats, heading }) = first_look::look(request, files)? {
        return Ok(Sample { empty: false, findings, stats, heading, orders: BTreeMap::new() });
    }
    let mut hints = decision.hints(&request.hints);
    if let Some(table) = table.filter(|_| !request.create) {
        hints.columns = Some(table.columns.iter().map(|column| column.name.clone()).collect());
    }
    let mut first: Option<Sample> = None;
    let mut line_end = None;
    for file in 0..files.len() {
        let (head, whole) = files.head(file)?;
        let known = first.as_ref().map(|sample| sample.findings.encoding);
        let encoding = dialect::encoding(files.name(file), &head, &hints, known)?;
        let mut text = decoded(&head, whole, encoding);
        if whole {
            text.truncate(rows::without_end_marks(&text, hints.line_end).len());
        }
        dialect::check(files.name(file), &text, &hints)?;
        if text.is_empty() {
            continue;
        }
        match &mut first {
            None => {
                let sample = look(request, &text, whole, (encoding, &hints));
                let keys = dialect::json_keys(files, &sample.findings, &hints, progress)?;
                let hints = rows::Hints { json_keys: keys.or(hints.json_keys.clone()), ..hints.clone() };
                let sample = look(request, &text, whole, (encoding, &hints));
                line_end = other_files::sure_line_end(&text, &sample.findings);
                first = Some(sample);
            }
            Some(known) => {
                let text = dialect::strict(&known.findings, &text, whole);
                let other = other_files::look_again(request, &text, whole, &known.findings);
                let own = other_files::sure_line_end(&text, &other);
                line_end = other_files::same_line_end((line_end, own), (files, file))?;
                if known.findings.header {
                    let order = other_files::order(&known.findings, (&other, &text), (files, file))?;
                    known.orders.extend(order.map(|order| (file, order)));
                }
            }
        }
    }
    if let (Some(sample), Some(line_end)) = (&mut first, line_end) {
        if line_end == LineEnd::Any && sample.findings.dialect.line_end != LineEnd::Any {
            progress.note("lines end with \\r\\n in some files and with \\n in others");
        }
        sample.findings.dialect.line_end = line_end;
        if !sample.orders.is_empty() {
            progress.note("the columns are in a different order in some files; fields are assigned by name");
        }
    }
    let sample = match first {
        Some(sample) => sample,
        None if files.is_empty() => return Err(Error::Mismatch("there is no file to import".to_owned())),
        None => {
            let encoding = hints.encoding.unwrap_or(Encoding::Utf8);
            Sample { empty: true, ..look(request, b"", true, (encoding, &hints)) }
        }
    };
    sample.findings.notes.iter().for_each(|note| progress.note(note));
    Ok(sample)
}

fn look(request: &Request, text: &[u8], whole: bool, (encoding, hints): (Encoding, &rows::Hints)) -> Sample {
    let findings = rows::sniff(text, whole, encoding, hints);
    let nulls = request.nulls.as_ref().unwrap_or(&findings.nulls);
    let text = dialect::strict(&findings, text, whole);
    let text = text.as_ref();
    let heading = rows::records(&findings.dialect, text).next().unwrap_or_default().to_vec();
    let mut stats = vec![ColumnStats::new(); findings.columns];
    let (mut row, mut scratch) = (Vec::new(), Vec::new());
    let records = rows::records(&findings.dialect, text).skip(usize::from(findings.header));
    // The last record of a sample may be incomplete.
    let count = records.clone().count().saturating_sub(usize::from(!whole));
    for record in records.take(count).take(10_000) {
        rows::fields(&findings.dialect, record, &mut row);
        if row.len() == findings.columns {
            for (stats, field) in stats.iter_mut().zip(&row) {
                stats.observe((!field.is_null(nulls)).then(|| field.text(&findings.dialect, &mut scratch)));
            }
        }
    }
    Sample { empty: false, findings, stats, heading, orders: BTreeMap::new() }
}

/// The first bytes as text. A character that is cut off at the end of the sample is left out. Bytes that are
/// invalid in the encoding end the text; loading will report them.
fn decoded(head: &[u8], whole: bool, encoding: Encoding) -> Vec<u8> {
    let mut text = Vec::new();
    Decoder::new(encoding).decode(head, whole, &mut text).ok();
    text
}

fn job(request: &Request, files: &Files<'_>, sample: &Sample, strategy: LoadStrategy) -> Job {
    let findings = &sample.findings;
    let sessions = request.sessions.unwrap_or(3).max(1);
    let share = files
        .text_bytes()
        .map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX) / (4 * sessions));
    Job {
        version: Job::VERSION,
        state: State::Loading,
        strategy,
        replace: request.mode == Mode::Replace,
        exists: false,
        files: (0..files.len()).map(|file| files.name(file).to_owned()).collect(),
        encoding: findings.encoding,
        format: findings.format.clone(),
        dialect: findings.dialect,
        nulls: request.nulls.clone().unwrap_or_else(|| findings.nulls.clone()),
        header: findings.header,
        skip_repeated_header: request.skip_repeated_header == Some(true),
        guessed: GuessedOptions {
            nulls: findings.guessed.nulls && request.nulls.is_none(),
            header: request.skip_repeated_header.is_none() && files.table(0).is_none(),
            ..findings.guessed
        },
        texts: Vec::new(),
        heading: sample.heading.clone(),
        skip_lines: findings.skip_lines,
        chunk_bytes: request.chunk_bytes.unwrap_or(share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES)),
        fields: Vec::new(),
        set: Vec::new(),
        deferred: Vec::new(),
        definition: String::new(),
        before: String::new(),
        no_binlog: request.no_binlog,
        filled: None,
        on_duplicate: request.on_duplicate,
        time_zone: None,
        sql_mode: request.sql_mode.clone(),
        meaning: Some(request.meaning()),
        orders: sample.orders.clone(),
    }
}

fn survey(
    request: &Request,
    files: &Files<'_>,
    context: &Context<'_>,
    guess: &Guess<'_>,
) -> Result<SurveyResult, Error> {
    let job = &*guess.job;
    context.progress.phase("looking at every value", files.bytes());
    let survey = Survey {
        files,
        cut: job.cut(guess.packet),
        nulls: &job.nulls,
        orders: &job.orders,
        columns: guess.sample.findings.columns,
        names: &guess.sample.findings.names,
        skipped: job.skipped(),
        dialect_check: &job.dialect_check(),
        rejects_max: request.rejects_max,
        threads: context.cores,
        stop: &context.stop,
        progress: context.progress,
    };
    survey.run()
}

/// The texts that mean NULL, as a part of a sentence.
fn null_words(nulls: &Nulls) -> String {
    match nulls.words.as_slice() {
        [] => "no word is NULL".to_owned(),
        words => {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            format!("{} is NULL", words.join(", "))
        }
    }
}
