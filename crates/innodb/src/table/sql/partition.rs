//! PARTITION BY: the names of partitions, which are part of the names of their files.

use super::cursor::Cursor;
use crate::Error;
use crate::table::Partition;

/// The most partitions of a table.
const PARTITIONS_MAX: usize = 8192;

/// Reads everything from `PARTITION BY` to the end.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Vec<Partition>, Error> {
    cursor.expect("PARTITION")?;
    cursor.expect("BY")?;
    let history = cursor.is(0, "SYSTEM_TIME");
    let (mut count, mut subcount) = (None, None);
    let mut sub = false;
    let mut partitions = Vec::new();
    while cursor.peek().is_some() && !cursor.is(0, ";") {
        if cursor.takes("PARTITIONS") {
            count = Some(number(cursor)?);
        } else if cursor.takes("SUBPARTITIONS") {
            subcount = Some(number(cursor)?);
        } else if cursor.takes("SUBPARTITION") {
            sub = true;
        } else if cursor.is(0, "(") && cursor.is(1, "PARTITION") {
            cursor.skip();
            partitions = list(cursor)?;
        } else if cursor.is(0, "(") {
            cursor.skip_parenthesis()?;
        } else if cursor.is(0, ")") {
            return Err(cursor.unexpected("more of PARTITION BY"));
        } else {
            cursor.skip();
        }
    }
    if partitions.is_empty() {
        let count = count.unwrap_or(if history { 2 } else { 1 });
        // The last one has the current rows.
        let name = |at| if history && at + 1 == count { "pn".to_owned() } else { format!("p{at}") };
        partitions = (0..count).map(|at| Partition { name: name(at), subpartitions: Vec::new() }).collect();
    }
    for partition in partitions.iter_mut().filter(|partition| sub && partition.subpartitions.is_empty()) {
        let names = (0..subcount.unwrap_or(1)).map(|at| format!("{}sp{at}", partition.name));
        partition.subpartitions = names.collect();
    }
    Ok(partitions)
}

fn number(cursor: &mut Cursor<'_>) -> Result<usize, Error> {
    let number = cursor.number()?;
    if number > PARTITIONS_MAX {
        return Err(cursor.unexpected("a number of partitions that a table can have"));
    }
    Ok(number)
}

/// Partitions up to the parenthesis that closes their list.
fn list(cursor: &mut Cursor<'_>) -> Result<Vec<Partition>, Error> {
    let mut partitions = Vec::new();
    loop {
        cursor.expect("PARTITION")?;
        let mut partition = Partition { name: cursor.name()?, subpartitions: Vec::new() };
        while !cursor.is(0, ",") && !cursor.is(0, ")") {
            if cursor.is(0, "(") && cursor.is(1, "SUBPARTITION") {
                cursor.skip();
                partition.subpartitions = sublist(cursor)?;
            } else {
                skip(cursor)?;
            }
        }
        partitions.push(partition);
        if cursor.takes(")") {
            return Ok(partitions);
        }
        cursor.expect(",")?;
    }
}

fn sublist(cursor: &mut Cursor<'_>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    loop {
        cursor.expect("SUBPARTITION")?;
        names.push(cursor.name()?);
        while !cursor.is(0, ",") && !cursor.is(0, ")") {
            skip(cursor)?;
        }
        if cursor.takes(")") {
            return Ok(names);
        }
        cursor.expect(",")?;
    }
}

fn skip(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    if cursor.is(0, "(") {
        return cursor.skip_parenthesis();
    }
    if cursor.peek().is_none() {
        return Err(cursor.unexpected("')'"));
    }
    cursor.skip();
    Ok(())
}
