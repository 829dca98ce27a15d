//! Following in the other direction, once a target has taken over.

use server::Target;

use crate::{Error, Noted, State, begin, followed, forget, let_us_write};

/// Whether A has taken over from B before, so that only what A has committed since then is missing on B. It
/// is noted then from where to follow.
///
/// # Errors
/// [`Error::Usage`] if that was not asked for, or nobody knows from where; [`Error::Busy`].
pub fn is_way_back(
    context: &dump::Context,
    state: &State,
    (from, to): (&Target, &Target),
    request: &dump::CopyRequest,
) -> Result<bool, Error> {
    let taken = State::of(&dump::copy_id(to, &request.turned())?);
    let noted = taken.read(&mut from.connect()?)?;
    let Some(how) = noted.and_then(|noted| noted.cut_over).filter(|how| how.is_over) else {
        return Ok(false);
    };
    let mut target = to.connect()?;
    let is_begun =
        state.read(&mut target)?.is_some_and(|noted| !noted.cut_over.is_some_and(|how| how.is_over));
    if is_begun {
        // What said that A has taken over has served.
        forget(&taken, from, request.write.no_binlog)?;
        return Ok(false);
    }
    if !request.write.resume {
        return Err(Error::Usage(
            "A has taken over from B; --resume applies to B what A has committed since then".to_owned(),
        ));
    }
    let Some(reached) = how.target else {
        return Err(Error::Usage(
            "A had no binary log when it took over from B, so nobody knows what it has committed since then"
                .to_owned(),
        ));
    };
    if !state.lock(&mut target)? {
        return Err(Error::Busy);
    }
    let_us_write(to)?;
    let tables = followed(from, &dump::standby(context, (from, to), request)?)?;
    let place = format!("{}:{}", reached.position.file, reached.position.offset);
    let noted = Noted { source: from.to_string(), reached, stopped: None, tables, cut_over: None };
    begin(state, to, &noted, request.write.no_binlog)?;
    // It has served: a later run must not begin there once more.
    forget(&taken, from, request.write.no_binlog)?;
    context.progress.note(&format!(
        "A took over from B at {place} of its log: what it has committed since then goes to B"
    ));
    Ok(true)
}
