//! How small samples are recognised; whole files are cases in `tests/cases`.

use super::*;

fn found(sample: &str) -> Findings {
    sniff(sample.as_bytes(), true, Encoding::Utf8, &Hints::default())
}

fn delimiter(sample: &str) -> (char, usize) {
    let findings = found(sample);
    (char::from(findings.dialect.delimiter), findings.columns)
}

#[test]
fn encodings_by_mark_pattern_and_validity() {
    assert_eq!(sniff_encoding(b""), Encoding::Utf8);
    assert_eq!(sniff_encoding(b"\xef\xbb\xbfa"), Encoding::Utf8);
    assert_eq!(sniff_encoding(b"\xff\xfea\0"), Encoding::Utf16Le);
    assert_eq!(sniff_encoding(b"\xfe\xff\0a"), Encoding::Utf16Be);
    assert_eq!(sniff_encoding(b"a\0,\0b\0\n\0"), Encoding::Utf16Le);
    assert_eq!(sniff_encoding(b"\0a\0,\0b\0\n"), Encoding::Utf16Be);
    assert_eq!(sniff_encoding(b"a\0\n\0"), Encoding::Utf16Le);
    assert_eq!(sniff_encoding(b"\0a\0\n"), Encoding::Utf16Be);
    assert_eq!(sniff_encoding(b"caf\xe9,1\n"), Encoding::Latin1);
    assert_eq!(sniff_encoding("caf\u{e9}".as_bytes()), Encoding::Utf8);
    assert_eq!(sniff_encoding(b"cut off \xc3"), Encoding::Utf8);
}

#[test]
fn nothing_and_next_to_nothing_are_comma_separated() {
    for (sample, columns, header) in [("", 1, false), ("\n", 1, false), ("x", 1, false), ("5\n6\n", 1, false)]
    {
        let findings = found(sample);
        assert_eq!(
            (findings.dialect, findings.columns, findings.header),
            (Dialect::CSV, columns, header),
            "{sample:?}"
        );
    }
}

#[test]
fn the_delimiter_is_the_one_that_divides_alike() {
    assert_eq!(delimiter("1,5;2,5\n3,5;4,5\n"), (';', 2));
    assert_eq!(delimiter("a\tSmith, J\nb\tDoe, J\n"), ('\t', 2));
    assert_eq!(delimiter("a|b|c\n1|2,5|3\n"), ('|', 3));
    assert_eq!(delimiter("Hello, world\nThis is prose\nwith, commas, here\nand none there\n").1, 1);
    assert_eq!(delimiter("Berlin, 3\nRome, 5\n"), (',', 2));
    assert_eq!(delimiter("1;\"a,b\";2\n2;\"c,d\";3\n"), (';', 3));
}

#[test]
fn a_file_of_one_column_has_a_delimiter_that_divides_nothing() {
    assert_eq!(delimiter("apple\npear, ripe\nquince\n"), ('\t', 1));
    assert_eq!(delimiter("apple\npear, ripe; a|b\tc\nquince\n"), ('\u{1f}', 1));
}

#[test]
fn hints_are_taken_as_they_are() {
    let hints =
        Hints { delimiter: Some(b':'), header: Some(true), line_end: Some(LineEnd::Lf), ..Hints::default() };
    let findings = sniff(b"1:a,b\r\n2:c,d\r\n", true, Encoding::Utf8, &hints);
    assert_eq!((findings.dialect.delimiter, findings.columns, findings.header), (b':', 2, true));
    assert_eq!(
        (findings.dialect.line_end, findings.names),
        (LineEnd::Lf, vec!["1".to_owned(), "a,b".to_owned()])
    );
}

#[test]
fn the_server_s_dialect_is_known_by_its_escapes() {
    assert_eq!(found("1\t\\N\n2\tx\n").dialect, Dialect::LOAD_DATA);
    assert_eq!(found("1\ta\\\tb\n2\tc\\\nd\n").dialect, Dialect::LOAD_DATA);
    assert_eq!(found("1\tC:\\temp\\new\n2\tC:\\data\n").dialect.escape, None);
    assert_eq!(found("1\ta\\\\b\n2\tc\n").dialect, Dialect::LOAD_DATA);
    assert_eq!(found("1\t\\\\server\\share\n2\tx\\\\y\n").dialect.escape, None);
    let quoted = found("1,\"say \\\"hi\\\"\",\\N\n2,\"x\",3\n").dialect;
    assert_eq!((quoted.quote, quoted.escape), (Some(b'"'), Some(b'\\')));
}

#[test]
fn quotes_that_break_the_rules_are_text() {
    assert_eq!(found("1\t\"Weird Al\" Yankovic\n2\tQueen\n").dialect.quote, None);
    assert_eq!(found("1\t'tis\n2\t'twas\n").dialect.quote, Some(b'"'));
    assert_eq!(found("'a','b, c'\n'd','e'\n").dialect.quote, Some(b'\''));
    assert_eq!(found("'a','b'\n'd','e'\n").dialect.quote, Some(b'\''));
    let swallowed = format!("1,a\n2,b\n3,\"c\n{}", "4,d\n".repeat(100));
    assert_eq!(sniff(swallowed.as_bytes(), false, Encoding::Utf8, &Hints::default()).dialect.quote, None);
}

#[test]
fn line_ends_inside_quotes_do_not_count() {
    let line_end = |sample| found(sample).dialect.line_end;
    assert_eq!(line_end("1,\"a\nb\"\r\n2,c\r\n"), LineEnd::CrLf);
    assert_eq!(line_end("1,a\r\n2,c\n"), LineEnd::Any);
    assert_eq!(line_end("1,a\r2,c\r"), LineEnd::Cr);
}

#[test]
fn headers_differ_from_what_is_below_them() {
    for sample in [
        "id,name\n1,Ann\n",
        "name,city\nAnn,Paris\nBob,Rome\n",
        "x,y\n1.5,2.5\n",
        ",a\n0,x\n1,y\n",
        "id,email\n",
        "t,f\n1,2\n",
        "a,a\n1,x\n",
        "x,\n1,2\n",
    ] {
        assert!(found(sample).header, "{sample:?}");
    }
    for sample in [
        "1,a\n2,b\n",
        "Ann,Paris\nBob,Rome\n",
        "Ann,NA\nBob,5\n",
        ",a\n5,b\n7,c\n",
        "name,name\nx,y\n",
        "name,city\nAnn,Paris\nname,Rome\n",
        "2023,2024\n1,2\n",
        "apple\npear\n",
    ] {
        assert!(!found(sample).header, "{sample:?}");
    }
}

#[test]
fn headers_are_known_by_the_table_s_columns() {
    let header = |sample: &str, columns: &[&str]| {
        let columns = Some(columns.iter().map(|name| (*name).to_owned()).collect());
        sniff(sample.as_bytes(), true, Encoding::Utf8, &Hints { columns, ..Hints::default() }).header
    };
    assert!(header("fruit\napple\n", &["Fruit"]));
    assert!(header("2023,2024\n1,2\n", &["2023", "2024", "2025"]));
    assert!(header("Ann,Paris\nBob,Rome\n", &["ann", "x"]));
    assert!(!header("Ann,Paris,x\nBob,Rome,y\n", &["ann", "z"]));
    assert!(!header("2023,2024\n1,2\n", &["2023"]));
}

#[test]
fn null_words_are_suggested_where_they_are_out_of_place() {
    let words = |sample| found(sample).nulls.words;
    assert_eq!(words("id,v\n1,NA\n2,3\n"), [b"NA"]);
    assert_eq!(words("id,c\n1,NA\n2,DE\n"), Vec::<Vec<u8>>::new());
    assert_eq!(words("id,c\n1,NULL\n2,DE\n"), [b"NULL"]);
    assert_eq!(words("id,c\n1,\"NULL\"\n2,DE\n"), Vec::<Vec<u8>>::new());
    assert!(found("1,\n2,x\n").nulls.empty);
    assert!(!found("1\t\\N\n2\t\n").nulls.empty);
}

#[test]
fn a_record_that_is_cut_off_does_not_count() {
    let sample = b"a,b,c\n1,2,3\n4,5";
    assert_eq!(sniff(sample, false, Encoding::Utf8, &Hints::default()).notes, Vec::<String>::new());
    assert_eq!(sniff(sample, true, Encoding::Utf8, &Hints::default()).notes.len(), 1);
}

#[test]
fn years_are_names_too() {
    for sample in [
        "country,code,1960,1961,1962\nAruba,ABW,1.5,,3\nAngola,AGO,,2,4\n",
        "country,1960,1961\nAruba,1.5,2\nAngola,3,4\n",
        "2020,2021,2022\n17,18,19.5\n1,2,3\n",
        "name,1,2,3\nAnn,5,5,9\nBob,7,1,2\n",
    ] {
        assert!(found(sample).header, "{sample:?}");
    }
    for sample in [
        "2020,2021,2022\n2021,2022,2023\n2024,2025,2026\n",
        "Ann,1,2,3\nBob,2,3,4\n",
        "1,2,3\n4,9,6\n",
        "Ann,5,7\nBob,3,9\n",
    ] {
        assert!(!found(sample).header, "{sample:?}");
    }
}

#[test]
fn lines_before_the_table_are_skipped() {
    for (sample, skip, columns, names) in [
        ("sep=;\na;b\n1,5;2\n", 1, 2, "a|b"),
        ("\"sep=|\"\r\na|b\r\n1|2\r\n", 1, 2, "a|b"),
        ("# made by R\n# \"on Friday\nid,name\n1,Ann\n2,Bob\n", 2, 2, "id|name"),
        ("# remark\n#id\tname\n1\tAnn\n2\tBob\n", 1, 2, "#id|name"),
        ("#id,name\n1,Ann\n2,Bob\n", 0, 2, "#id|name"),
        ("Sales of 2024\n\nid,name,n\n1,Ann,5\n2,Bob,6\n", 2, 3, "id|name|n"),
        (
            "\"Data Source\",\"WDI\",\n\n\"Last Updated\",\"2024-01-01\",\n\n\
             \"Country Name\",\"Code\",\"1960\",\"1961\",\n\"Aruba\",\"ABW\",\"1\",\"\",\n\"Angola\",\"AGO\",\"\",\"5\",\n\
             \"Chad\",\"TCD\",\"\",\"5\",\n",
            4,
            5,
            "Country Name|Code|1960|1961|",
        ),
        ("name,1\n2,3,4\n5,6,7\n", 0, 3, ""),
        ("1,x\n1,x,y\n2,z,w\n3,v,u\n", 0, 3, ""),
    ] {
        let findings = found(sample);
        let shape = (findings.skip_lines, findings.columns, findings.names.join("|"));
        assert_eq!(shape, (skip, columns, names.to_owned()), "{sample:?}");
    }
    let said = Hints { skip_lines: Some(0), ..Hints::default() };
    assert_eq!(sniff(b"# x\nid,n\n1,2\n", true, Encoding::Utf8, &said).skip_lines, 0);
}

#[test]
fn rows_with_names_have_a_header_that_is_one_short() {
    let findings = found("\"mpg\" \"cyl\"\n\"Mazda RX4\" 21 6\n\"Datsun 710\" 22.8 4\n");
    assert_eq!((findings.dialect.delimiter, findings.columns, findings.header), (b' ', 3, true));
    assert_eq!(findings.names, ["", "mpg", "cyl"]);
    assert_eq!(found("a,b\n1,2,\n3,4,\n").names, ["a", "b"]);
}

#[test]
fn rare_delimiters_divide_where_all_agrees() {
    for (sample, expected) in [
        ("1.5 2.5\n3.5 4.5\n5.5 6.5\n", (' ', 2)),
        ("root:x:0:/root\nbin:x:1:/bin\n", (':', 4)),
        ("a^b^c\n1^2^3\n", ('^', 3)),
        ("a~b\n1~2\n", ('~', 2)),
        ("  1.5   2.5\n 13.5  14.5\n  5.5   6.5\n", (' ', 2)),
    ] {
        assert_eq!(delimiter(sample), expected, "{sample:?}");
    }
    for sample in [
        "Hello world\nGood bye\nSee you\n",
        "2024-01-01 10:00:00\n2024-01-02 11:00:00\n2024-01-02 11:00:01\n",
        "10:00\n11:30\n12:15\n",
        "aa:bb:cc:dd:ee:ff\n00:11:22:33:44:55\n01:11:22:33:44:55\n",
        "http://a:80/\nhttp://b:80/\n",
        "Total: 5\nSum: 6\nAll: 7\n",
    ] {
        assert_eq!(delimiter(sample).1, 1, "{sample:?}");
    }
}

#[test]
fn spaces_before_quotes_are_none_of_the_field() {
    let findings = found("id, name, city\n1, \"Smith, John\", Rome\n2, \"Doe, Jane\", Oslo\n");
    assert_eq!((findings.dialect.delimiter, findings.columns, findings.header), (b',', 3, true));
    assert!(matches!(&findings.format, Format::Lenient(lenient) if lenient.space_before_quote));
    assert_eq!(found("a,b\n\"x, \"\"y\"\"\",1\n\"z, w\",2\n").format, Format::Plain);
}

#[test]
fn lines_of_json_are_objects() {
    let findings = found("{\"id\": 1, \"n\": \"a\"}\n{\"n\": null, \"id\": 2, \"x\": [1, 2]}\n");
    assert_eq!(findings.names, ["id", "n", "x"]);
    assert_eq!(
        (findings.columns, findings.header, findings.to_string()),
        (3, true, "UTF-8, JSON lines (3 columns)".to_owned())
    );
    assert_eq!(found("{1234},x\n{5678},y\n").format, Format::Plain);
}

#[test]
fn quotes_that_most_fields_contradict_enclose_nothing() {
    let titles = "n\ttitle\n0\t\"\n0\t\"\"Up\"_(song)\n0\t\"Up\"_(film)\n0\t\"Heroes\"_tour\n0\t\"Heroes\"\n";
    let findings = found(titles);
    assert_eq!((findings.dialect.quote, findings.columns, findings.notes.len()), (None, 2, 0));
    // One slip among fields that are well quoted is a slip.
    let slip = "n,title\n\"1\",\"Up\"\n\"2\",\"He said \"hi\" to us\"\n\"3\",\"a,b\"\n";
    assert_eq!(found(slip).dialect.quote, Some(b'"'));
}

#[test]
fn a_backslash_and_a_number_are_a_character_in_other_languages() {
    assert_eq!(found("1|00i\\047m|2\n2|00i\\047v|2\n3|x|1\n").dialect.escape, None);
    assert_eq!(found("1|a\\0b|2\n2|\\N|2\n3|x|1\n").dialect.escape, Some(b'\\'));
}
