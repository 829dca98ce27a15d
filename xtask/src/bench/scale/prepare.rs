//! Makes what the sizes of a series mean.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use anyhow::Result;

use super::super::import;
use super::stage::Stage;

/// The file of nodes, for an empty table.
pub(super) fn rows(stage: &Stage, rows: u64) -> Result<()> {
    import::write_plain(&stage.folder().join("nodes.tsv"), rows)?;
    stage.sql(&format!("CREATE DATABASE scale; {}", import::TABLE.replace("bench.", "scale.")))
}

/// Tables with three rows each.
pub(super) fn tables(stage: &Stage, tables: u64) -> Result<()> {
    let path = stage.folder().join("tables.sql");
    let mut file = std::io::BufWriter::new(File::create(&path)?);
    writeln!(file, "CREATE DATABASE scale; USE scale;")?;
    for table in 0..tables {
        writeln!(
            file,
            "CREATE TABLE t{table:05} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(40), KEY (a));
             INSERT INTO t{table:05} (a, b) VALUES (1, 'one'), ({table}, 'two'), (3, NULL);"
        )?;
    }
    file.flush()?;
    stage.shell("$SQL < tables.sql && rm tables.sql")
}

/// 2,000 rows with an id and so many columns: numbers, and every fourth a text.
pub(super) fn columns(stage: &Stage, columns: u64) -> Result<()> {
    let (mut defined, mut values) = (String::new(), String::new());
    for column in 0..columns {
        let is_text = column % 4 == 3;
        defined += &format!(", c{column} {}", if is_text { "VARCHAR(12)" } else { "INT" });
        values += &if is_text {
            format!(", CONCAT('text ', (seq * {column}) % 97)")
        } else {
            format!(", (seq * {}) % 100003", column + 7)
        };
    }
    stage.sql(&format!(
        "CREATE DATABASE scale; CREATE TABLE scale.wide (id INT PRIMARY KEY{defined});
         INSERT INTO scale.wide SELECT seq{values} FROM mysql.seq_1_to_2000"
    ))
}

/// One row with one value.
pub(super) fn value(stage: &Stage, bytes: u64) -> Result<()> {
    stage.sql(&format!(
        "CREATE DATABASE scale; CREATE TABLE scale.large (id INT PRIMARY KEY, value LONGBLOB);
         INSERT INTO scale.large VALUES (1, REPEAT(MD5('a value'), {}))",
        bytes / 32
    ))
}

/// A volume with 256 pieces of a MiB of words and numbers, spread over it.
pub(super) fn volume(stage: &Stage, gib: u64) -> Result<()> {
    let file = File::create(stage.folder().join("volume"))?;
    file.set_len(gib << 30)?;
    for place in 0..256 {
        file.write_all_at(&piece(place), place * (gib << 22))?;
    }
    Ok(())
}

/// So many backups of a volume of 16 MiB, of which a page changes each time.
pub(super) fn generations(stage: &Stage, generations: u64) -> Result<()> {
    let file = File::create(stage.folder().join("volume"))?;
    for place in 0..16 {
        file.write_all_at(&piece(place), place << 20)?;
    }
    for generation in 0..generations {
        file.write_all_at(&piece(generation)[..16 << 10], (generation % 1_024) << 14)?;
        stage.shell("$REMORA backup file:volume --to repo -q")?;
    }
    Ok(())
}

/// Binary logs of transactions with ten rows each.
pub(super) fn log(stage: &Stage, mib: u64) -> Result<()> {
    // Measured: a transaction has this many bytes.
    let transactions = (mib << 20) / 10_700;
    stage.sql("CREATE DATABASE scale; CREATE TABLE scale.t (id INT PRIMARY KEY, a INT, b VARCHAR(2000))")?;
    stage.sql(
        "CREATE PROCEDURE scale.work(n INT) BEGIN
           FOR i IN 1..n DO
             INSERT INTO scale.t SELECT i * 10 + seq, i, REPEAT(MD5(i * 10 + seq), 32) FROM mysql.seq_0_to_9;
           END FOR; END",
    )?;
    stage.sql(&format!("CALL scale.work({transactions}); FLUSH BINARY LOGS"))
}

/// A queue with so many messages, and procedures that put and take.
pub(super) fn messages(stage: &Stage, messages: u64) -> Result<()> {
    stage.sql("CREATE DATABASE scale; CREATE TABLE scale.q (id BIGINT, body VARCHAR(100)) ENGINE=QUEUE")?;
    stage.sql(
        "CREATE PROCEDURE scale.put(n INT) BEGIN
           FOR i IN 1..n DO INSERT INTO scale.q VALUES (i, REPEAT('x', 80)); END FOR; END",
    )?;
    stage.sql(
        "CREATE PROCEDURE scale.take(n INT) BEGIN
           FOR i IN 1..n DO DO queue_wait('scale.q'); SELECT id INTO @id FROM scale.q; END FOR; DO queue_end(); END",
    )?;
    stage.sql(&format!("INSERT INTO scale.q SELECT seq, REPEAT('x', 80) FROM mysql.seq_1_to_{messages}"))
}

/// Addresses of a server: to what watches, each is another server.
pub(super) fn watched(stage: &Stage, _servers: u64) -> Result<()> {
    stage.shell(
        "for n in $(seq $SIZE); do ln -s $SOCKET socket.$n; echo unix://root@$PWD/socket.$n; done > servers",
    )
}

/// A MiB of text that another number gives another one of; it compresses to about a third.
fn piece(number: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity((1 << 20) + 64);
    let mut state = number.wrapping_add(1);
    while text.len() < 1 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(format!("row {number} of {}, {:x};", state >> 60, state >> 40).as_bytes());
    }
    text.truncate(1 << 20);
    text
}
