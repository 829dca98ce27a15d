//! Which queues move their rows to which dead-letter queue.

use std::collections::BTreeMap;

use anyhow::Result;
use server::catalogue::engine_option;
use server::{Session, TableName, unquoted};

const STATEMENT: &str = "SELECT table_schema, table_name, create_options FROM information_schema.tables \
     WHERE engine = 'QUEUE' ORDER BY 1, 2";

/// The dead-letter queues of a server, each with the queues whose option DEAD names it. Those that this
/// account has no privilege on are missing.
pub fn sources(session: &mut Session) -> Result<BTreeMap<TableName, Vec<TableName>>> {
    let mut all: BTreeMap<TableName, Vec<TableName>> = BTreeMap::new();
    for row in session.strings(STATEMENT)? {
        let Ok([Some(schema), Some(table), Some(options)]) = <[Option<String>; 3]>::try_from(row) else {
            continue;
        };
        if let Some(dead) = dead_letters(&schema, &options) {
            all.entry(dead).or_default().push(TableName { schema, table });
        }
    }
    Ok(all)
}

/// Where the rows without tries left go of a queue in this database.
fn dead_letters(schema: &str, options: &str) -> Option<TableName> {
    let name = engine_option(options, "dead").filter(|name| !name.is_empty())?;
    let own = || TableName { schema: schema.to_owned(), table: unquoted(&name) };
    Some(name.parse().unwrap_or_else(|_| own()))
}

#[cfg(test)]
mod tests {
    use super::dead_letters;

    #[test]
    fn a_dead_letter_queue_is_of_the_same_database_unless_it_names_one() {
        let cases = [
            ("`TRIES`='2' `DEAD`='Dead'", Some("`shop`.`Dead`")),
            ("`dead`='crm.dead' `KEEP`='9'", Some("`crm`.`dead`")),
            ("`DEAD`='`a.b`'", Some("`shop`.`a.b`")),
            ("`DEAD`='it''s'", Some("`shop`.`it's`")),
            ("`DEAD`=''", None),
            ("`WHY`='why'", None),
        ];
        for (options, expected) in cases {
            let found = dead_letters("shop", options).map(|name| name.to_string());
            assert_eq!(found.as_deref(), expected, "{options}");
        }
    }
}
