//! What was measured, as a table and in `docs/scale`.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::plot;
use super::point::{MEASURES, Point};
use super::series::{SERIES, Series};
use crate::root;

/// The page, in which the tables are.
const PAGE: &str = "docs/scale.md";
/// The measurements of a series, and its plot, are in this folder.
const FOLDER: &str = "docs/scale";

/// The table of a series.
pub(super) fn table(series: &Series, points: &[Point]) -> String {
    let mut sizes: Vec<u64> = points.iter().map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut table = format!("| {} | |", series.unit);
    table.extend(sizes.iter().map(|size| format!(" {} |", thousands(*size))));
    table += &format!(" grows as |\n|---|---|{}---|\n", "--:|".repeat(sizes.len()));
    for (step, points) in series.by_step(points) {
        table.extend(MEASURES.iter().filter_map(|measure| measure.line(step, &points)));
    }
    table
}

/// Keeps what was measured of a series; what the steps and sizes were before is replaced.
pub(super) fn keep(series: &Series, points: &[Point]) -> Result<()> {
    let path = kept(series);
    std::fs::create_dir_all(root().join(FOLDER))?;
    let lines: String = points.iter().map(Point::line).collect();
    std::fs::write(&path, format!("{HEAD}{lines}")).with_context(|| path.display().to_string())
}

const HEAD: &str = "command\tsize\twall s\tprocessor s\tserver s\tmemory MB\twritten MB\tfiles\n";

fn kept(series: &Series) -> PathBuf {
    root().join(FOLDER).join(format!("{}.tsv", series.name))
}

/// Puts the tables of what was kept into the page, and makes the plots.
pub(super) fn write() -> Result<()> {
    let path = root().join(PAGE);
    let mut page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for series in &SERIES {
        let Ok(text) = std::fs::read_to_string(kept(series)) else { continue };
        let points: Option<Vec<Point>> = text.lines().skip(1).map(Point::read).collect();
        let points = points.with_context(|| format!("{}: not what was written", kept(series).display()))?;
        page = replaced(&page, series.name, &table(series, &points))?;
        std::fs::write(
            root().join(FOLDER).join(format!("{}.svg", series.name)),
            plot::draw(series, &points)?,
        )?;
    }
    Ok(std::fs::write(&path, page)?)
}

/// The page with another table between the two comments of a series.
fn replaced(page: &str, name: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- measured: {name} -->\n"), "<!-- end -->");
    let (before, rest) = page.split_once(&begin).with_context(|| format!("{PAGE} has no {begin}"))?;
    let (_, after) = rest.split_once(end).with_context(|| format!("{PAGE}: {name} has no end"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", table.trim_end()))
}

fn thousands(size: u64) -> String {
    let digits = size.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::as_f64;

    fn points() -> Vec<Point> {
        let point = |size: u64| Point {
            step: SERIES[0].steps[0].name.to_owned(),
            size,
            wall_s: as_f64(size) / 1e4,
            memory_mb: 20.0,
            ..Point::default()
        };
        [10_000, 100_000, 1_000_000].map(point).to_vec()
    }

    #[test]
    fn a_table_has_a_line_for_each_measure_that_there_is() {
        let table = table(&SERIES[0], &points());
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| import | wall s | 1.00 | 10.0 | 100 | n^1.00 |",
                "| import | memory MB | 20.0 | 20.0 | 20.0 | constant |",
            ]
        );
        assert!(table.starts_with("| rows | | 10,000 | 100,000 | 1,000,000 | grows as |\n"), "{table}");
    }

    #[test]
    fn what_is_kept_is_read() {
        for point in points() {
            assert_eq!(Point::read(point.line().trim_end()), Some(point));
        }
    }

    #[test]
    fn only_the_table_is_replaced() {
        let page = "a\n<!-- measured: rows -->\nold\n<!-- end -->\nb <!-- end -->\n";
        let new = "a\n<!-- measured: rows -->\n\nnew\n\n<!-- end -->\nb <!-- end -->\n";
        assert_eq!(replaced(page, "rows", "new\n").ok().as_deref(), Some(new));
    }
}
