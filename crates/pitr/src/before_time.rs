//! Whether a generation is not later than a time, by the archived log before its place there. A hot copy is
//! of the moment at which it ended, and the log has the server's clock, so the time of a backup is no proof.

use anyhow::Result;
use failure::Completeness;
use humanize::date_time;
use progress::Shared;
use transactions::{Asked, Known, LogFile, TOLERANCE_S, Take, Transaction, Walk, names};

use crate::describe::{describe, everything};
use crate::recovery_target::Unreachable;

/// What the transactions of the generation say, so far.
#[derive(Debug)]
enum Says {
    /// None was seen.
    Nothing,
    /// They ended by the time.
    InTime,
    /// This one did not.
    Late(String),
    /// Whether this one did is not known.
    Doubt(String),
    /// A late one came before one that was well in time, so their times prove nothing.
    Contradiction,
}

#[derive(Debug)]
pub(crate) struct Before {
    until: i64,
    /// When the copy began, by the clock of who made it.
    taken_s: i64,
    says: Says,
}

impl Before {
    pub(crate) fn new(until: i64, taken_s: i64) -> Before {
        Before { until, taken_s, says: Says::Nothing }
    }

    pub(crate) fn is_seen(&self) -> bool {
        !matches!(self.says, Says::Nothing)
    }

    /// One more transaction of the generation. They come in the order of their commits.
    pub(crate) fn take(&mut self, whole: &Transaction, file: &str) {
        let is_by = whole.ended.is_by(self.until);
        let is_well_by = whole.ended.latest().saturating_add(TOLERANCE_S) < self.until;
        self.says = match (std::mem::replace(&mut self.says, Says::Nothing), is_by) {
            (Says::Late(_) | Says::Contradiction, Some(true)) if is_well_by => Says::Contradiction,
            (late @ Says::Late(_), _) => late,
            (_, Some(false)) => Says::Late(describe(whole, file)),
            (doubt @ Says::Doubt(_), None) => doubt,
            (_, None) => Says::Doubt(describe(whole, file)),
            (Says::Contradiction, Some(true)) => Says::Contradiction,
            (_, Some(true)) => Says::InTime,
        };
    }

    /// Looks into the files before that of the generation if there was no transaction in this one.
    pub(crate) fn look_back(&mut self, earlier: &[LogFile], report: &Shared) -> Result<()> {
        for file in earlier.iter().rev() {
            if self.is_seen() {
                break;
            }
            let only = std::slice::from_ref(file);
            let mut back = Back { before: self, file: names::file(file) };
            let exit = Walk::new(only, &everything(None), &Known::default(), &mut back, report).all()?;
            if exit != Completeness::Complete {
                // The last ones may be what can't be read.
                self.says = Says::Nothing;
                break;
            }
        }
        Ok(())
    }

    /// Refuses a generation that is not surely of the time or before.
    pub(crate) fn prove(self) -> Result<(), Unreachable> {
        let why = match self.says {
            Says::InTime => return Ok(()),
            Says::Nothing | Says::Contradiction if self.taken_s <= self.until => return Ok(()),
            Says::Nothing | Says::Contradiction => format!(
                "it was made at {}, and no transaction before it in the archived log proves more",
                date_time::shown(self.taken_s)
            ),
            Says::Late(what) => {
                format!("a backup has what was there when it ended, and this is in it: {what}")
            }
            Says::Doubt(what) => format!("this is in it, and may have ended later: {what}"),
        };
        Err(Unreachable(format!(
            "the generation is not surely of that time or before: {why}. An older one is needed: 'remora list' shows them, and \
             without @N remora looks for one"
        )))
    }
}

/// A file before that of the generation.
struct Back<'a> {
    before: &'a mut Before,
    file: String,
}

impl Take for Back<'_> {
    fn transaction(&mut self, whole: &Transaction, _: Asked) -> Result<()> {
        self.before.take(whole, &self.file);
        Ok(())
    }
}
