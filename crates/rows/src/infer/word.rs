//! Words that may mean NULL, decided after all values of all columns were seen.

use super::{ColumnKind, ColumnStats};
use crate::field::AMONG_TYPED as WORDS;
use crate::{Field, Nulls};

/// Watches each column for words such as `NA`, which mean NULL among numbers but are values among words.
/// Words that do not count as NULL so far are kept apart until that is known.
#[derive(Clone, Debug)]
pub struct WordStats {
    columns: Vec<Column>,
}

#[derive(Clone, Debug, Default)]
struct Column {
    /// Bit n: word n occurred.
    met: u16,
    /// Statistics of these words as values, as far as they are not NULL yet.
    apart: ColumnStats,
}

impl WordStats {
    /// For this many columns; 0 when it is already known what is NULL.
    #[must_use]
    pub fn new(columns: usize) -> WordStats {
        WordStats { columns: vec![Column::default(); columns] }
    }

    /// Observes a field. Returns true when it is kept apart and must not be counted as a value.
    #[inline]
    pub fn take(&mut self, column: usize, field: &Field<'_>, nulls: &Nulls) -> bool {
        let raw = field.raw;
        let suspect =
            matches!(raw.first(), Some(b'N' | b'n' | b'#' | b'(')) && raw.len() <= 6 && !field.quoted;
        suspect && self.take_word(column, raw, nulls)
    }

    fn take_word(&mut self, column: usize, raw: &[u8], nulls: &Nulls) -> bool {
        let Some(column) = self.columns.get_mut(column) else { return false };
        let Some(number) = WORDS.iter().position(|word| *word == raw) else { return false };
        column.met |= 1 << number;
        let apart = !nulls.holds(raw);
        if apart {
            column.apart.observe(Some(raw));
        }
        apart
    }

    /// Adds what was observed in another part.
    pub fn merge(&mut self, later: &WordStats) {
        for (column, later) in self.columns.iter_mut().zip(&later.columns) {
            column.met |= later.met;
            column.apart.merge(&later.apart);
        }
    }

    /// Which words are NULL according to all values: those that occur only in columns of numbers, dates and
    /// the like. `None` if `nulls` already has exactly these; then the words kept apart are values, and
    /// `stats` gets them.
    pub fn settle(&self, nulls: &Nulls, stats: &mut [ColumnStats]) -> Option<Nulls> {
        let typed: Vec<bool> = stats.iter().map(is_typed_column).collect();
        let mut settled = nulls.clone();
        for (number, word) in WORDS.iter().enumerate() {
            let mut places = self
                .columns
                .iter()
                .zip(&typed)
                .filter(|(column, _)| column.met >> number & 1 == 1)
                .peekable();
            if places.peek().is_none() {
                continue;
            }
            let is_null = places.all(|(_, typed)| *typed);
            if is_null && !nulls.holds(word) {
                settled.words.push(word.to_vec());
            } else if !is_null {
                settled.words.retain(|known| known != word);
            }
        }
        if settled != *nulls {
            return Some(settled);
        }
        for (stats, column) in stats.iter_mut().zip(&self.columns) {
            stats.merge(&column.apart);
        }
        None
    }
}

fn is_typed_column(stats: &ColumnStats) -> bool {
    stats.has_values()
        && matches!(
            stats.decide().kind,
            ColumnKind::Boolean
                | ColumnKind::Int { .. }
                | ColumnKind::Decimal { .. }
                | ColumnKind::Double
                | ColumnKind::Date
                | ColumnKind::Time { .. }
                | ColumnKind::DateTime { .. }
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, fields};

    /// The columns of these rows, and what their words are.
    fn observed(rows: &[&str], nulls: &Nulls) -> (WordStats, Vec<ColumnStats>) {
        let mut row = Vec::new();
        let parts = rows.iter().map(|text| {
            fields(&Dialect::CSV, text.as_bytes(), &mut row);
            let (mut words, mut stats) = (WordStats::new(row.len()), vec![ColumnStats::new(); row.len()]);
            for (at, field) in row.iter().enumerate() {
                if !words.take(at, field, nulls) {
                    stats[at].observe((!field.is_null(nulls)).then_some(field.raw));
                }
            }
            (words, stats)
        });
        parts
            .reduce(|(mut words, mut stats), (more_words, more)| {
                words.merge(&more_words);
                stats.iter_mut().zip(&more).for_each(|(one, other)| one.merge(other));
                (words, stats)
            })
            .unwrap()
    }

    #[test]
    fn a_word_is_null_where_all_else_is_typed() {
        let rows = ["1,x,NA,1.5,true", "NA,None,2026-11-24,nan,(null)", "n/a,NaN,#N/A,\"N/A\",NAN"];
        let known = |words: &[&str]| Nulls {
            empty: false,
            words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        };
        let settled = |nulls: &Nulls| {
            let (words, mut stats) = observed(&rows, nulls);
            let settled = words.settle(nulls, &mut stats);
            (settled, stats.iter().map(|stats| stats.decide().to_string()).collect::<Vec<_>>())
        };
        // NA and the like stand among numbers and dates; None and NaN among words, and so does (null).
        let (found, _) = settled(&known(&[]));
        assert_eq!(found, Some(known(&["NA", "n/a", "#N/A"])));
        let (found, _) = settled(&known(&["NULL", "None", "NA"]));
        assert_eq!(found, Some(known(&["NULL", "NA", "n/a", "#N/A"])));
        let (found, types) = settled(&known(&["NA", "n/a", "#N/A"]));
        assert_eq!(found, None);
        let texts = ["VARCHAR(4) NOT NULL", "VARCHAR(3) NOT NULL", "VARCHAR(6) NOT NULL"];
        assert_eq!(types, ["TINYINT UNSIGNED NULL", texts[0], "DATE NULL", texts[1], texts[2]]);
    }
}
