//! `remora-iceberg`: the files of a dump of Parquet as tables of Iceberg.
//!
//! Nothing of the data is written again: a table of Iceberg is a list of files, and this program writes the
//! list. docs/manual/iceberg.md is for users.

mod arguments;
mod columns;
mod data_file;
mod outcome;
mod register;
mod snapshot;
mod warehouse;

use std::process::ExitCode;

use clap::Parser;
use failure::{Completeness, Failure};

use crate::arguments::Arguments;
use crate::outcome::Report;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return outcome::usage(&error),
    };
    let report = Report::new(arguments.json);
    match register::run(&arguments, &report) {
        Ok(Completeness::Complete) => ExitCode::SUCCESS,
        Ok(Completeness::Partial) => ExitCode::from(3),
        Ok(Completeness::Damaged) => ExitCode::from(4),
        Err(error) => {
            let code = code(&error);
            report.error(&failure::text(&error), code);
            ExitCode::from(code)
        }
    }
}

/// The exit code for an error: docs/manual/exit-codes.md.
fn code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        match cause.downcast_ref::<Failure>() {
            Some(Failure::Usage(_)) => return 2,
            Some(Failure::Damage(_)) => return 4,
            Some(Failure::Busy(_)) => return 11,
            _ => {}
        }
        if let Some(dump::Error::Corrupt { .. }) = cause.downcast_ref::<dump::Error>() {
            return 4;
        }
    }
    1
}
