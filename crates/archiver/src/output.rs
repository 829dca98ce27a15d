//! What is written: the server's files in a folder, or pieces of them.

use std::cell::RefCell;
use std::io;

use anyhow::{Context, Result};
use binlog::archive::pieces::{Compared, Keeper, Newest};
use binlog::archive::{About, Archive, Line, Tail, Writer};
use binlog::event::Event;

use crate::compare::Compare;

/// An archive that is written.
pub(crate) enum ArchiveOutput {
    Files(Archive<'static>),
    Pieces(Box<RefCell<Keeper>>),
}

/// A line that is written.
pub(crate) enum Written<'a> {
    Files(Line<'static>),
    Pieces(Box<Newest>, &'a RefCell<Keeper>),
}

impl ArchiveOutput {
    /// The newest line.
    pub(crate) fn newest(&self) -> Result<Option<Written<'_>>> {
        Ok(match self {
            ArchiveOutput::Files(archive) => archive.newest()?.map(Written::Files),
            ArchiveOutput::Pieces(keeper) => {
                keeper.borrow().newest().map(|newest| Written::Pieces(Box::new(newest), keeper))
            }
        })
    }

    /// Begins the next line.
    pub(crate) fn begin(&self, about: About) -> Result<Written<'_>> {
        Ok(match self {
            ArchiveOutput::Files(archive) => Written::Files(archive.begin(about)?),
            ArchiveOutput::Pieces(keeper) => {
                let line = keeper.borrow_mut().begin_line(about.clone())?;
                Written::Pieces(Box::new(Newest { line, about, tail: None, mark: None }), keeper)
            }
        })
    }

    /// Notes that the archive had everything at this time.
    pub(crate) fn note_caught_up(&self, now_s: i64) -> io::Result<()> {
        match self {
            ArchiveOutput::Files(archive) => archive.note_caught_up(now_s),
            ArchiveOutput::Pieces(keeper) => keeper.borrow().note_caught_up(now_s),
        }
    }

    /// Keeps from being removed what is needed by what is written.
    pub(crate) fn retain(&self) -> Result<()> {
        match self {
            ArchiveOutput::Files(_) => Ok(()),
            ArchiveOutput::Pieces(keeper) => Ok(keeper.borrow().retain()?),
        }
    }

    /// Finds out again how far it is, after an error.
    pub(crate) fn look(&self) -> Result<()> {
        match self {
            ArchiveOutput::Files(_) => Ok(()),
            ArchiveOutput::Pieces(keeper) => Ok(keeper.borrow_mut().look()?),
        }
    }

    /// What was found to be wrong with it.
    pub(crate) fn damages(&self) -> Vec<String> {
        match self {
            ArchiveOutput::Files(_) => Vec::new(),
            ArchiveOutput::Pieces(keeper) => {
                keeper.borrow_mut().damages().iter().map(ToString::to_string).collect()
            }
        }
    }
}

impl<'a> Written<'a> {
    pub(crate) fn number(&self) -> u32 {
        match self {
            Written::Files(line) => line.number,
            Written::Pieces(newest, _) => newest.line,
        }
    }

    /// The file that it was to begin with.
    pub(crate) fn first(&self) -> &str {
        match self {
            Written::Files(line) => &line.about.first,
            Written::Pieces(newest, _) => &newest.about.first,
        }
    }

    /// How far it is. `None` if it has no file yet.
    pub(crate) fn tail(&self) -> Result<Option<Tail>> {
        match self {
            Written::Files(line) => Ok(line.tail()?),
            Written::Pieces(newest, _) => Ok(newest.tail.clone()),
        }
    }

    /// What the server must have too.
    pub(crate) fn compare(&self, tail: &Tail) -> Result<Compare> {
        match self {
            Written::Files(line) => Compare::open(&line.folder().join(&tail.file), tail.end),
            Written::Pieces(newest, _) => {
                let mark = newest.mark.clone().context("the newest piece has no mark")?;
                Ok(Compare::Sums(Box::new(Compared::new(mark, tail.end))))
            }
        }
    }

    pub(crate) fn writer(&self) -> Result<Output<'a>> {
        Ok(match self {
            Written::Files(line) => {
                Output::to(To::Files(line.writer()?, line.folder().display().to_string()))
            }
            Written::Pieces(_, keeper) => {
                keeper.borrow_mut().resume();
                Output::to(To::Pieces(keeper))
            }
        })
    }

    /// Goes on behind a tail, once all that is archived was compared.
    pub(crate) fn resume(&self, writer: &mut Output<'a>, tail: &Tail) -> Result<()> {
        if let (Written::Files(line), To::Files(files, _)) = (self, &mut writer.to) {
            *files = line.resume(tail)?;
        }
        Ok(())
    }
}

/// Where events go.
pub(crate) struct Output<'a> {
    to: To<'a>,
    /// Something could not be written. What is durable is unknown then.
    is_broken: bool,
}

enum To<'a> {
    Files(Writer<'static>, String),
    Pieces(&'a RefCell<Keeper>),
}

impl<'a> Output<'a> {
    fn to(to: To<'a>) -> Output<'a> {
        Output { to, is_broken: false }
    }

    /// Whether something could not be written, so that nothing more may be.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn noted<T>(&mut self, done: Result<T>) -> Result<T> {
        self.is_broken |= done.is_err();
        done
    }

    /// The file that is written, if one was begun.
    pub(crate) fn file(&self) -> Option<String> {
        match &self.to {
            To::Files(writer, _) => writer.file().map(ToOwned::to_owned),
            To::Pieces(keeper) => keeper.borrow().file().map(ToOwned::to_owned),
        }
    }

    /// Ends the file before it, and begins the next one.
    pub(crate) fn begin(&mut self, file: &str) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.begin(file).with_context(|| format!("{folder}/{file}")),
            To::Pieces(keeper) => keeper.borrow_mut().begin(file).map_err(Into::into),
        };
        self.noted(done)
    }

    /// Takes an event that is archived already.
    pub(crate) fn again(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<()> {
        match &self.to {
            To::Files(..) => Ok(()),
            To::Pieces(keeper) => Ok(keeper.borrow_mut().again(event, bytes)?),
        }
    }

    pub(crate) fn append(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.append(bytes).with_context(|| folder.clone()),
            To::Pieces(keeper) => keeper.borrow_mut().append(event, bytes).map_err(Into::into),
        };
        self.noted(done)
    }

    /// Notes that everything was there at this time that was appended so far. `all`: and the server had
    /// nothing more.
    pub(crate) fn came(&mut self, time_s: i64, all: bool) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.came(time_s, all).with_context(|| folder.clone()),
            To::Pieces(keeper) => {
                keeper.borrow_mut().came(time_s, all);
                Ok(())
            }
        };
        self.noted(done)
    }

    /// Makes everything that was appended survive a crash.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.sync().with_context(|| folder.clone()),
            To::Pieces(keeper) => keeper.borrow_mut().sync().map_err(Into::into),
        };
        self.noted(done)
    }
}
