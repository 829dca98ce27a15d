//! What a copy that is followed lacks, because it would change rows a second time: triggers and events. It is
//! made when the copy takes over.

use server::catalogue::{Kind, Object};
use server::{Session, TableName};

use super::{CopyRequest, Prepared, Servers};
use crate::load::{self, drop_statement, enter, leave};
use crate::{Context, Error};

/// The triggers, events and sequences of a source, as the target has them or is to have them.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    objects: Vec<Object>,
    /// The sequences: their names on the source and on the target.
    pub sequences: Vec<(TableName, TableName)>,
    /// What the target can't have, a line for each.
    pub omitted: Vec<String>,
}

impl Programs {
    /// Reads them on the source.
    ///
    /// # Errors
    /// Those of the servers.
    pub fn read(context: &Context, servers: Servers<'_>, request: &CopyRequest) -> Result<Programs, Error> {
        let request = CopyRequest { follow: None, max_lags: Vec::new(), ..request.clone() };
        let Prepared { mut target, mut manifest, mut summary, before, .. } =
            Prepared::new(context, servers, &request)?;
        load::fit(&mut target, &mut manifest, &request.write.definer, &mut summary)?;
        let name = |object: &Object| TableName { schema: object.schema.clone(), table: object.name.clone() };
        let is_sequence = |object: &&Object| object.kind == Kind::Sequence;
        let targets: Vec<TableName> = manifest.objects.iter().filter(is_sequence).map(name).collect();
        let on_target = |own: TableName| {
            let wanted = request.renames.of(&own);
            targets.contains(&wanted).then_some((own, wanted))
        };
        let sequences = before.objects.iter().filter(is_sequence).map(name).filter_map(on_target).collect();
        // The others were named when they were copied.
        summary.omitted.retain(|line| line.starts_with("trigger ") || line.starts_with("event "));
        manifest.objects.retain(|object| matches!(object.kind, Kind::Trigger | Kind::Event));
        Ok(Programs { objects: manifest.objects, sequences, omitted: summary.omitted })
    }

    /// Makes the triggers and events on the target. One that needs another is tried again after it.
    ///
    /// # Errors
    /// Those of the target; [`Error::Object`] names what it refused.
    pub fn make(&self, target: &mut Session) -> Result<(), Error> {
        let mut open: Vec<&Object> = self.objects.iter().collect();
        while !open.is_empty() {
            let before = open.len();
            let mut refused = None;
            open.retain(|object| match make(target, object) {
                Ok(()) => false,
                Err(error) => {
                    refused.get_or_insert((object.title(), error));
                    true
                }
            });
            if let (true, Some((object, source))) = (open.len() == before, refused) {
                return Err(Error::Object { object, source: Box::new(source) });
            }
        }
        Ok(())
    }

    /// The statements that remove them on the target, if they are there.
    #[must_use]
    pub fn removal(&self) -> Vec<String> {
        self.objects.iter().map(drop_statement).collect()
    }

    /// Whether there are events.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.objects.iter().any(|object| object.kind == Kind::Event)
    }
}

fn make(target: &mut Session, object: &Object) -> Result<(), server::Error> {
    let collation = enter(target, object)?;
    let made = object.statements.iter().try_for_each(|statement| target.execute(statement).map(drop));
    let left = leave(target, object, collation.as_deref());
    made.and(left)
}
