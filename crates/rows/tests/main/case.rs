//! Whole files: each has a folder in `tests/cases`, with the file as `input` and the result in `expected`.

use std::fs;
use std::path::Path;

use rows::{
    Column, ColumnStats, Decoder, Dialect, Field, Findings, Habits, Hints, KeyStats, Limits, Nulls, Schema,
    column_names, create_table, fields, records, sniff, sniff_encoding, without_end_marks,
};

/// What an importer would tell a user about the file, and the table it would create.
fn report(input: &[u8]) -> String {
    let encoding = sniff_encoding(input);
    let mut text = Vec::new();
    Decoder::new(encoding).decode(input, true, &mut text).unwrap();
    text.truncate(without_end_marks(&text, None).len());
    let findings = sniff(&text, true, encoding, &Hints::default());
    let mut out = format!("{findings}\n");
    for note in &findings.notes {
        out += &format!("note: {note}\n");
    }
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let mut text = lines[usize::try_from(findings.skip_lines).unwrap()..].concat();
    if let Some(mut translator) = findings.format.translator(findings.dialect, 0) {
        let loose = std::mem::take(&mut text);
        translator.translate(&loose, true, &mut text).unwrap();
    }
    let (schema, counts) = infer(&findings, &text);
    out + &counts + "\n" + &create_table("`t`", &schema, Limits::default()) + "\n"
}

fn infer(findings: &Findings, text: &[u8]) -> (Schema, String) {
    let Findings { dialect, nulls, columns, .. } = findings;
    let mut stats = vec![ColumnStats::new(); *columns];
    let (mut key, mut good, mut ragged) = (KeyStats::new(), 0, 0);
    let mut row = Vec::new();
    for record in
        records(dialect, text).skip(usize::from(findings.header)).filter(|record| !record.is_empty())
    {
        fields(dialect, record, &mut row);
        if row.len() != *columns {
            ragged += 1;
            continue;
        }
        good += 1;
        observe(&row, (dialect, nulls), &mut stats, &mut key);
    }
    let names = column_names(&findings.names, *columns);
    let habits = findings.habits(Habits::default(), nulls, &stats);
    let types = stats.iter().map(|stats| stats.decide_by(&habits));
    let columns: Vec<Column> = names
        .into_iter()
        .zip(types)
        .map(|(name, found)| Column::new(&name, found, found.kind, None))
        .collect();
    let has_key = key.unique() && columns[0].column_type.suits_key();
    let key = columns.iter().take(usize::from(has_key)).map(|column| column.name.clone()).collect();
    (Schema { columns, key }, format!("{good} rows, {ragged} ragged\n"))
}

fn observe(
    row: &[Field<'_>],
    (dialect, nulls): (&Dialect, &Nulls),
    stats: &mut [ColumnStats],
    key: &mut KeyStats,
) {
    let mut scratch = Vec::new();
    for (at, (field, column)) in row.iter().zip(stats).enumerate() {
        let value = (!field.is_null(nulls)).then(|| field.text(dialect, &mut scratch));
        column.observe(value);
        if at == 0 {
            key.observe(value);
        }
    }
}

#[test]
fn every_case_has_the_expected_result() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|case| case.is_dir());
    cases.sort();
    assert!(cases.len() >= 15, "{} cases", cases.len());
    let mut wrong = String::new();
    for case in cases {
        let found = report(&fs::read(case.join("input")).unwrap());
        let expected = fs::read_to_string(case.join("expected")).unwrap_or_default();
        if found != expected {
            wrong += &format!("==> {}\n{found}", case.file_name().unwrap().display());
        }
    }
    assert!(wrong.is_empty(), "these cases are something else now:\n{wrong}");
}
