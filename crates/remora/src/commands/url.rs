//! `remora url`

mod compare;
mod list;
mod measure;
mod model;
mod pack;
mod train;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use urlpack::{Family, Model};

use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora url measure urls.txt                     how well the built-in model packs your URLs
  remora url train urls.txt.zst -o site.urlmodel  your own model, and an estimate of its ratio
  remora url train mine.txt --base small -o site.urlmodel
                                                  for few URLs: on top of the built-in model
  remora url model add site.urlmodel --folder /usr/lib/mysql/plugin/urlpack
                                                  gives it to a server, under a number of its own
  remora url model list --folder /usr/lib/mysql/plugin/urlpack
  remora url model remove site --folder /usr/lib/mysql/plugin/urlpack
  remora url compare urls.txt                     compared with zstd with a dictionary, and others
  remora url pack --text < names.txt              other short strings: words, names, titles, paths
  remora url pack < urls.txt > packed.hex         one value a line, for UNHEX() in SQL
  remora url unpack < packed.hex                  the URLs again
  remora url pack --column url < hits.csv |
    remora import - --into web.hits --columns 'time,@u' --set 'u=UNHEX(@u)'
      pack one column of a CSV file on its way into a table";

/// Pack URLs into a quarter of their size, keeping their order; train and measure models
///
/// Packed values sort as the URLs do, equal values are equal URLs, and the URLs with a common prefix are
/// one range: see the SQL functions url_pack, url_unpack, url_prefix_min and url_prefix_max. These commands
/// do the same outside of the server, and make the models. With --text they are for other short strings,
/// like text_pack and its companions.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Train a model on URLs like yours
    Train(train::Arguments),
    /// Add a model to a server's folder, list its models, remove one
    #[command(subcommand)]
    Model(model::Action),
    /// Pack lines, or a column of a CSV file, from standard input to standard output
    Pack(pack::Arguments),
    /// Undo pack
    Unpack(pack::Arguments),
    /// Pack, unpack and search a list with a model: size, speed, and whether order and ranges are right
    Measure(measure::Arguments),
    /// Compare with zstd and others, which are trained on the same part of the list
    Compare(compare::Arguments),
}

/// Which model packs.
#[derive(Debug, Args)]
struct ModelArgs {
    /// Model file [default: the built-in model 'small', or 'text' with --text; both have number 0]
    #[arg(long, short, value_name = "FILE")]
    model: Option<PathBuf>,

    #[command(flatten)]
    text: TextArgs,
}

/// What kind of strings it is about.
#[derive(Debug, Args)]
struct TextArgs {
    /// The strings are not URLs but other short strings: use the built-in model of text_pack
    #[arg(long)]
    text: bool,
}

impl TextArgs {
    fn family(&self) -> Family {
        if self.text { Family::Text } else { Family::Url }
    }
}

impl ModelArgs {
    fn load(&self) -> anyhow::Result<Model> {
        match &self.model {
            None => Ok(Model::from_bytes(self.text.family().built_in())?),
            Some(path) => load(path),
        }
    }

    fn name(&self) -> String {
        let built_in = || format!("{} (built in)", self.text.family().built_in_name());
        self.model.as_ref().map_or_else(built_in, |path| path.display().to_string())
    }
}

/// Loads a model from a file, or a built-in one by name.
fn load_any(path: &Path) -> anyhow::Result<Model> {
    match Family::ALL.into_iter().find(|family| path == Path::new(family.built_in_name())) {
        Some(family) => Ok(Model::from_bytes(family.built_in())?),
        None => load(path),
    }
}

fn load(path: &Path) -> anyhow::Result<Model> {
    let file = std::fs::read(path).with_context(|| path.display().to_string())?;
    Model::from_bytes(file).with_context(|| path.display().to_string())
}

pub(crate) fn run(action: Action, report: &Report) -> anyhow::Result<Exit> {
    match action {
        Action::Train(arguments) => train::run(&arguments, report),
        Action::Model(action) => model::run(&action, report),
        Action::Pack(arguments) => pack::run(&arguments, pack::Direction::Pack, report),
        Action::Unpack(arguments) => pack::run(&arguments, pack::Direction::Unpack, report),
        Action::Measure(arguments) => measure::run(&arguments, report),
        Action::Compare(arguments) => compare::run(&arguments, report),
    }
}
