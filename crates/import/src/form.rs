//! What was guessed of the files' form, weighed again when a place further on speaks against it.

use rows::{DoubtKind, Findings, Hints};

use crate::Error;
use crate::survey::Doubted;

/// So many places are weighed before the user is asked to decide.
const ROUNDS_MAX: usize = 16;

/// What was found against earlier guesses, and what that led to.
#[derive(Default)]
pub(crate) struct Weighed {
    evidence: Vec<Vec<u8>>,
    settled: Vec<DoubtKind>,
}

impl Weighed {
    /// The hints with everything that is to be weighed.
    pub(crate) fn hints(&self, hints: &Hints) -> Hints {
        Hints { evidence: self.evidence.clone(), ..hints.clone() }
    }

    /// Takes a doubt to the evidence, for another look at the sample.
    ///
    /// # Errors
    /// When looking again is of no use: the user has to decide.
    pub(crate) fn take(&mut self, doubted: Doubted) -> Result<(), Error> {
        if !doubted.doubt.kind.may_be_settled() || self.evidence.len() >= ROUNDS_MAX {
            return Err(doubted.error());
        }
        self.evidence.push(doubted.doubt.evidence);
        Ok(())
    }

    /// Compares what the second look says with the first. What it does not change is settled.
    pub(crate) fn compare(&mut self, kind: DoubtKind, before: &Findings, now: &mut Findings) {
        let same = (&before.dialect, &before.nulls, before.columns, before.header)
            == (&now.dialect, &now.nulls, now.columns, now.header);
        if same {
            self.settled.push(kind);
        }
        for kind in &self.settled {
            now.guessed.settle(*kind);
        }
    }
}

/// Bytes that are no text, for a message.
pub(crate) fn bad_text(rest: &[u8]) -> String {
    let bytes: Vec<String> = rest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("the bytes {} are not UTF-8", bytes.join(" "))
}
