//! The options that say what the files look like.

use clap::Args;
use import::Int96;
use import::option_value::{self, Delimiter, Maybe};
use rows::{DateOrder, Encoding, Lenient, LineEnd};

#[derive(Debug, Args)]
#[command(next_help_heading = "Format of the files")]
pub(super) struct FileFormatArgs {
    /// What kind of records: csv for all delimited text, or json for an object on each line
    #[arg(long, value_name = "KIND", value_parser = option_value::format)]
    pub(super) format: Option<bool>,

    /// What separates fields: one or more characters, or tab, comma, semicolon, pipe, space, or blanks for
    /// runs of spaces and tabs
    #[arg(long, value_name = "TEXT", value_parser = option_value::delimiter)]
    pub(super) delimiter: Option<Delimiter>,

    /// What encloses fields: a character, or none
    #[arg(long, value_name = "CHAR", value_parser = option_value::byte_or_none)]
    pub(super) quote: Option<Maybe>,

    /// The escape character (that of LOAD DATA is \), or none
    #[arg(long, value_name = "CHAR", value_parser = option_value::byte_or_none)]
    pub(super) escape: Option<Maybe>,

    /// What ends a line: lf, crlf, cr, or any for a mix of the first two
    #[arg(long, value_name = "KIND", value_parser = option_value::line_end)]
    pub(super) line_end: Option<LineEnd>,

    /// The first line names the columns
    #[arg(long, conflicts_with = "no_header")]
    pub(super) header: bool,

    /// The first line is a row
    #[arg(long)]
    pub(super) no_header: bool,

    /// What to do with a later line that repeats the header: skip or row [default: the import ends]
    #[arg(long, value_name = "WHAT", value_parser = option_value::repeated_header)]
    pub(super) repeated_header: Option<bool>,

    /// utf-8, utf-16le, latin1, shift_jis, gbk, windows-1251, iso-8859-2, ..., or binary for bytes as they
    /// are
    #[arg(long, value_name = "NAME")]
    pub(super) encoding: Option<Encoding>,

    /// An unquoted field with this text is NULL; '' for empty fields. May be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) null: Vec<String>,

    /// No field is NULL: an empty one is an empty string
    #[arg(long, conflicts_with = "null")]
    pub(super) no_null: bool,

    /// What comes first in dates such as 1/2/1999: dmy or mdy [default: what all values of the column agree
    /// on]
    #[arg(long, value_name = "ORDER", value_parser = option_value::date_order)]
    pub(super) date_order: Option<DateOrder>,

    /// Numbers have a decimal comma, even where it might separate thousands (1,234)
    #[arg(long)]
    pub(super) decimal_comma: bool,

    /// Lines to skip at the start of each file, before the header
    #[arg(long, value_name = "N")]
    pub(super) skip_lines: Option<u64>,

    /// Lines that begin with this character are comments, and left out
    #[arg(long, value_name = "CHAR", value_parser = option_value::byte)]
    pub(super) comment: Option<u8>,

    /// Leave out spaces and tabs around fields that are not in quotes
    #[arg(long)]
    pub(super) trim: bool,

    /// Rows with too few fields get empty ones at the end
    #[arg(long)]
    pub(super) pad: bool,

    /// What becomes of nested columns of Parquet and Arrow files: json for JSON text [default: they are
    /// refused]
    #[arg(long, value_name = "FORM", value_parser = ["json"])]
    pub(super) nested: Option<String>,

    /// In which zone the times of 96 bits in old Parquet files are: utc, as Spark and Hive write them, or
    /// local, as Impala does [default: they are refused]
    #[arg(long, value_name = "ZONE", value_parser = option_value::int96)]
    pub(super) int96: Option<Int96>,

    /// The folders of Parquet and Arrow files are named for columns, as by Hive: day=2026-11-28/0.parquet
    #[arg(long)]
    pub(super) hive: bool,

    /// Keys of JSON lines or columns of Parquet and Arrow files to read, in this order; others are left out
    /// [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) fields: Option<Vec<String>>,

    /// The file to read of a zip archive that has several
    #[arg(long, value_name = "NAME")]
    pub(super) member: Option<String>,
}

impl FileFormatArgs {
    pub(super) fn lenient(&self) -> Lenient {
        Lenient {
            delimiter: match &self.delimiter {
                Some(Delimiter::Text(text)) => Some(text.clone()),
                _ => None,
            },
            blanks: matches!(self.delimiter, Some(Delimiter::Blanks)),
            trim: self.trim,
            space_before_quote: false,
            comment: self.comment,
            // The number of fields is known only from the file.
            pad: self.pad.then_some(0),
        }
    }
}
