//! A server that was copied, and whose copy has taken over: it is the copy now.

use server::catalogue::{Kind, Table};
use server::definition::database_defaults;
use server::{TableName, quote_name};

use super::programs::Programs;
use super::{CopyRequest, Prepared, Servers, followed};
use crate::{Context, Error, load};

/// Makes the target what a copy of the source would have made of it, without copying a row. Its ledger says
/// that all tables are of the copy, and databases have the defaults of the source. Triggers and events that
/// the source has are removed there. Returns the tables as the source defines them, and their names on the
/// target.
///
/// # Errors
/// [`Error::Mismatch`] says why the source can't be followed, before anything is changed; those of the
/// servers.
pub fn standby(
    context: &Context,
    servers: Servers<'_>,
    request: &CopyRequest,
) -> Result<Vec<(Table, TableName)>, Error> {
    let programs = Programs::read(context, servers, request)?;
    let Prepared { mut session, mut target, tables, mut manifest, ledger, mut summary, .. } =
        Prepared::new(context, servers, request)?;
    load::fit(&mut target, &mut manifest, &request.write.definer, &mut summary)?;
    followed::check(&mut session, &tables, request.follow)?;
    ledger.create(&mut target)?;
    let databases = manifest.objects.iter().filter(|object| object.kind == Kind::Database);
    for (object, statement) in
        databases.flat_map(|object| object.statements.iter().map(move |sql| (object, sql)))
    {
        if let (Some(set), Some(collation)) = database_defaults(statement) {
            let name = quote_name(&object.name);
            target.execute(&format!("ALTER DATABASE {name} CHARACTER SET {set} COLLATE {collation}"))?;
        }
    }
    manifest.tables.iter().try_for_each(|entry| ledger.mark_table(&mut target, entry))?;
    for statement in programs.removal() {
        target.execute(&statement)?;
    }
    Ok(followed::names(&tables, &manifest))
}
