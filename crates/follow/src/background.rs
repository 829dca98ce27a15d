//! What runs beside the follower: all rows are compared from time to time, and in the end the target takes
//! over.

use std::time::{Duration, Instant};

use progress::count;

use crate::cut_over::Handover;
use crate::shared::Shared;
use crate::touched::Place;
use crate::verify::Verifier;
use crate::{Error, Followed, Request};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is told how many rows have changed.
const SAY: Duration = Duration::from_secs(1);
/// The shortest time after which it is compared again when that failed.
const AGAIN: Duration = Duration::from_secs(60);

/// Compares rows and hands over, while another thread follows.
pub(crate) struct Background<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) shared: &'a Shared<'a>,
}

impl Background<'_> {
    /// Works until it is stopped, or all is done that was asked for.
    pub(crate) fn run(&self, followed: &[Followed]) -> Result<(), Error> {
        while !self.shared.has_caught_up() {
            if !self.shared.pause(LOOK) {
                return Ok(());
            }
        }
        let begin = || Ok((Verifier::new(self.request, self.shared, followed)?, self.first()?));
        let (verifier, mut due) = loop {
            match begin() {
                Ok(begun) => break begun,
                // A server is away at this moment.
                Err(error) if Error::is_passing(&error) && !self.request.is_finite() => {
                    if !self.shared.pause(SAY) {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        };
        let mut since = None;
        loop {
            if due.is_some_and(|due| due <= Instant::now()) {
                match self.verify(&verifier) {
                    Ok(began) => {
                        since = Some(began);
                        due = self.request.verify_every.map(|every| Instant::now() + every);
                    }
                    Err(_) if self.shared.is_stopped() => return Ok(()),
                    Err(error @ Error::Different { .. }) => return Err(error),
                    Err(error) if self.request.is_finite() => return Err(error),
                    // What stops it may also stop following, which says so.
                    Err(error) => {
                        self.shared.report.warn(&format!("not verified: {error}"));
                        let every = self.request.verify_every.unwrap_or_default();
                        due = Some(Instant::now() + every.max(AGAIN));
                    }
                }
            }
            if let (Some(cut_over), Some(since)) = (&self.request.cut_over, since) {
                let Background { request, shared } = *self;
                return Handover { request, shared, verifier: &verifier, cut_over, followed }.run(since);
            }
            if self.request.is_finite() {
                return Ok(());
            }
            self.shared.say(self.words(since));
            let left = due.map_or(SAY, |due| due.saturating_duration_since(Instant::now()));
            if !self.shared.pause(left.min(SAY)) {
                return Ok(());
            }
        }
    }

    /// When to compare first.
    fn first(&self) -> Result<Option<Instant>, Error> {
        let Some(every) = self.request.verify_every else { return Ok(None) };
        // Before the cut-over, and if it is asked for once, now.
        if self.request.is_finite() {
            return Ok(Some(Instant::now()));
        }
        let ago = self.request.state.verified_s_ago(&mut self.request.to.connect()?)?;
        let left = ago.map_or(Duration::ZERO, |ago| every.saturating_sub(Duration::from_secs(ago)));
        Ok(Some(Instant::now() + left))
    }

    /// Compares all rows, and notes that. Returns from where on changes are not compared.
    fn verify(&self, verifier: &Verifier<'_>) -> Result<Place, Error> {
        let began = Instant::now();
        let (mut verified, since) = verifier.round()?;
        self.shared.touched.forget(since);
        let mut session = self.request.target()?;
        self.request.state.verified(&mut session, &mut verified)?;
        self.shared.report.note(&format!(
            "verified in {:.1} s: {} with {} are equal on both servers{}",
            began.elapsed().as_secs_f64(),
            count(verified.tables, "table"),
            count(verified.rows, "row"),
            self.words(Some(since)),
        ));
        Ok(since)
    }

    /// How many rows were changed since they were compared.
    fn words(&self, since: Option<Place>) -> String {
        match since.map(|since| self.shared.touched.count_since(since)) {
            None => String::new(),
            Some(None) => ", many rows changed since verified".to_owned(),
            Some(Some(keys)) => format!(", {} changed since verified", count(keys, "row")),
        }
    }
}

impl Request<'_> {
    /// Whether it ends by itself.
    pub(crate) fn is_finite(&self) -> bool {
        self.once || self.cut_over.is_some()
    }
}
