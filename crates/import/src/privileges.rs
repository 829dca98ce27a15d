//! Checks all privileges that an import needs, at once and before the work.

use server::{Grants, Scope, Session};

use crate::Error;
use crate::job::{LoadStrategy, Names};
use crate::request::{OnDuplicate, Request};
use progress::Progress;

/// Privileges that let an account write to a read-only server, in the names of all servers.
const WRITES_ANYWAY: [&str; 5] =
    ["READ_ONLY ADMIN", "READ ONLY ADMIN", "CONNECTION_ADMIN", "CONNECTION ADMIN", "SUPER"];

/// Where rows are loaded, and how.
pub(crate) struct LoadTarget<'a> {
    pub(crate) names: &'a Names,
    pub(crate) strategy: LoadStrategy,
    /// Whether the table exists.
    pub(crate) exists: bool,
}

/// Fails with a list of all privileges that this way of loading lacks.
pub(crate) fn check(
    session: &mut Session,
    request: &Request,
    target: &LoadTarget<'_>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let LoadTarget { names, strategy, exists } = *target;
    let grants = Grants::of(session)?;
    if session.about.read_only && !grants.has_global(&WRITES_ANYWAY) {
        return Err(session.read_only().into());
    }
    let (table, beside) = wanted(request, strategy);
    let work = names.shadow.schema.as_str();
    let apart = work != names.table.schema;
    let swap = matches!(strategy, LoadStrategy::Shadow | LoadStrategy::ShadowUnsafe);
    let target = if exists { Scope::Table(&names.table) } else { Scope::Schema(&names.table.schema) };
    let mut all = [table.as_slice(), &beside].concat();
    all.sort_unstable();
    all.dedup();
    let wanted: &[(Scope<'_>, &[&str])] = match (swap, apart) {
        // The target's name goes to another table of the same database.
        (true, false) => &[(Scope::Schema(work), &all)],
        _ => &[(target, &table), (Scope::Schema(work), &beside)],
    };
    let Some(error) = grants.missing(wanted) else { return Ok(()) };
    if !apart && grants.missing(&[(target, &table)]).is_none() {
        progress.note("the work tables of an import can be in a database of your own: --work-database DB");
    }
    Err(error.into())
}

/// Privileges on the table, and on the work tables.
fn wanted(request: &Request, strategy: LoadStrategy) -> (Vec<&'static str>, Vec<&'static str>) {
    let mut table = vec!["SELECT", "INSERT"];
    let mut beside = vec!["SELECT", "INSERT", "UPDATE", "CREATE", "DROP"];
    if matches!(strategy, LoadStrategy::Shadow | LoadStrategy::ShadowUnsafe) {
        table.extend(["CREATE", "ALTER", "DROP"]);
        beside.push("ALTER");
        return (table, beside);
    }
    if request.mode == crate::Mode::Replace || request.on_duplicate == OnDuplicate::Replace {
        table.push("DELETE");
    }
    if request.on_duplicate == OnDuplicate::Update {
        table.push("UPDATE");
    }
    (table, beside)
}
