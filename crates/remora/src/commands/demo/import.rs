//! The first part: a file becomes a table.

use std::io::BufWriter;

use anyhow::Result;
use codec::Codec;

use super::Shown;
use super::stage::Stage;
use crate::exit::Exit;
use crate::report;

const FILE: &str = "hits.csv.zst";

pub(super) fn show(stage: &mut Stage) -> Result<Shown> {
    table(stage)?;
    stage.say("Which pages are missing, and how often does somebody look for them?")?;
    stage.sql(
        "SELECT COUNT(*) AS hits, LEFT(url, 60) AS missing FROM web.hits WHERE status = 404 \
         GROUP BY url ORDER BY hits DESC LIMIT 4",
    )?;
    Ok(Shown::Whole)
}

/// Makes the table of page views, unless it is there.
pub(super) fn table(stage: &mut Stage) -> Result<()> {
    if stage.is_imported {
        return Ok(());
    }
    stage.title("A file becomes a table")?;
    #[expect(clippy::disallowed_methods, reason = "nothing of it must survive a crash")]
    let file = std::fs::File::create(FILE)?;
    let mut out = BufWriter::with_capacity(1 << 20, Codec::Zstd.encoder(file, 3)?);
    pageviews::write(stage.rows, &mut out)?;
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()?;
    let size = report::size(file.metadata()?.len());
    stage.say(&format!(
        "{FILE} has a week of {}, made up: {size}. One command recognises its format, makes a table \
         that fits, and fills it. Where it can, it writes the pages of the table itself, which do not go \
         through the server's log.",
        progress::count(stage.rows, "page view"),
    ))?;
    let target = ["--into", "web.hits", "--create", "--create-database", "--url", stage.address.as_str()];
    let words = [&["import", FILE][..], &target, &["--physical=auto", "--no-binlog"]].concat();
    stage.ends(Exit::Done, &words)?;
    stage.is_imported = true;
    Ok(())
}
