//! What is written: the server's files in a folder, or segments of them.

use std::cell::RefCell;
use std::io;

use anyhow::{Context, Result};
use binlog::archive::segments::{HashComparer, NewestTimeline, SegmentWriter};
use binlog::archive::{Archive, Tail, Timeline, TimelineInfo, Writer};
use binlog::event::Event;

use crate::compare::Compare;

/// An archive that is written.
pub(crate) enum ArchiveOutput {
    Files(Archive<'static>),
    Segments(Box<RefCell<SegmentWriter>>),
}

/// A timeline that is written.
pub(crate) enum Written<'a> {
    Files(Timeline<'static>),
    Segments(Box<NewestTimeline>, &'a RefCell<SegmentWriter>),
}

impl ArchiveOutput {
    /// The newest timeline.
    pub(crate) fn newest(&self) -> Result<Option<Written<'_>>> {
        Ok(match self {
            ArchiveOutput::Files(archive) => archive.newest()?.map(Written::Files),
            ArchiveOutput::Segments(keeper) => {
                keeper.borrow().newest().map(|newest| Written::Segments(Box::new(newest), keeper))
            }
        })
    }

    /// Begins the next timeline.
    pub(crate) fn begin(&self, info: TimelineInfo) -> Result<Written<'_>> {
        Ok(match self {
            ArchiveOutput::Files(archive) => Written::Files(archive.begin(info)?),
            ArchiveOutput::Segments(keeper) => {
                let timeline = keeper.borrow_mut().begin_timeline(info.clone())?;
                Written::Segments(
                    Box::new(NewestTimeline { timeline, info, tail: None, resume_point: None }),
                    keeper,
                )
            }
        })
    }

    /// Notes that the archive had everything at this time.
    pub(crate) fn note_caught_up(&self, now_s: i64) -> io::Result<()> {
        match self {
            ArchiveOutput::Files(archive) => archive.note_caught_up(now_s),
            ArchiveOutput::Segments(keeper) => keeper.borrow().note_caught_up(now_s),
        }
    }

    /// Keeps from being removed what is needed by what is written.
    pub(crate) fn retain(&self) -> Result<()> {
        match self {
            ArchiveOutput::Files(_) => Ok(()),
            ArchiveOutput::Segments(keeper) => Ok(keeper.borrow().retain()?),
        }
    }

    /// Finds out again how far it is, after an error.
    pub(crate) fn look(&self) -> Result<()> {
        match self {
            ArchiveOutput::Files(_) => Ok(()),
            ArchiveOutput::Segments(keeper) => Ok(keeper.borrow_mut().reload()?),
        }
    }

    /// What was found to be wrong with it.
    pub(crate) fn damages(&self) -> Vec<String> {
        match self {
            ArchiveOutput::Files(_) => Vec::new(),
            ArchiveOutput::Segments(keeper) => {
                keeper.borrow_mut().damages().iter().map(ToString::to_string).collect()
            }
        }
    }
}

impl<'a> Written<'a> {
    pub(crate) fn number(&self) -> u32 {
        match self {
            Written::Files(timeline) => timeline.number,
            Written::Segments(newest, _) => newest.timeline,
        }
    }

    /// The file that it was to begin with.
    pub(crate) fn first(&self) -> &str {
        match self {
            Written::Files(timeline) => &timeline.info.first,
            Written::Segments(newest, _) => &newest.info.first,
        }
    }

    /// How far it is. `None` if it has no file yet.
    pub(crate) fn tail(&self) -> Result<Option<Tail>> {
        match self {
            Written::Files(timeline) => Ok(timeline.tail()?),
            Written::Segments(newest, _) => Ok(newest.tail.clone()),
        }
    }

    /// What the server must have too.
    pub(crate) fn compare(&self, tail: &Tail) -> Result<Compare> {
        match self {
            Written::Files(timeline) => Compare::open(&timeline.folder().join(&tail.file), tail.end),
            Written::Segments(newest, _) => {
                let resume_point =
                    newest.resume_point.clone().context("the newest segment has no resume point")?;
                Ok(Compare::Sums(Box::new(HashComparer::new(resume_point, tail.end))))
            }
        }
    }

    pub(crate) fn writer(&self) -> Result<Output<'a>> {
        Ok(match self {
            Written::Files(timeline) => {
                Output::to(To::Files(timeline.writer()?, timeline.folder().display().to_string()))
            }
            Written::Segments(_, keeper) => {
                keeper.borrow_mut().resume();
                Output::to(To::Segments(keeper))
            }
        })
    }

    /// Continues behind a tail, once all that is archived was compared.
    pub(crate) fn resume(&self, writer: &mut Output<'a>, tail: &Tail) -> Result<()> {
        if let (Written::Files(timeline), To::Files(files, _)) = (self, &mut writer.to) {
            *files = timeline.resume(tail)?;
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
    Segments(&'a RefCell<SegmentWriter>),
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
            To::Segments(keeper) => keeper.borrow().file().map(ToOwned::to_owned),
        }
    }

    /// Ends the file before it, and begins the next one.
    pub(crate) fn begin(&mut self, file: &str) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.begin(file).with_context(|| format!("{folder}/{file}")),
            To::Segments(keeper) => keeper.borrow_mut().begin(file).map_err(Into::into),
        };
        self.noted(done)
    }

    /// Takes an event that is archived already.
    pub(crate) fn again(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<()> {
        match &self.to {
            To::Files(..) => Ok(()),
            To::Segments(keeper) => Ok(keeper.borrow_mut().skip_archived(event, bytes)?),
        }
    }

    pub(crate) fn append(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.append(bytes).with_context(|| folder.clone()),
            To::Segments(keeper) => keeper.borrow_mut().append(event, bytes).map_err(Into::into),
        };
        self.noted(done)
    }

    /// Notes that everything was there at this time that was appended so far. `all`: and the server had
    /// nothing more.
    pub(crate) fn came(&mut self, time_s: i64, all: bool) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.note_arrival(time_s, all).with_context(|| folder.clone()),
            To::Segments(keeper) => {
                keeper.borrow_mut().note_arrival(time_s, all);
                Ok(())
            }
        };
        self.noted(done)
    }

    /// Makes everything that was appended survive a crash.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let done = match &mut self.to {
            To::Files(writer, folder) => writer.sync().with_context(|| folder.clone()),
            To::Segments(keeper) => keeper.borrow_mut().sync().map_err(Into::into),
        };
        self.noted(done)
    }
}
