// The statements of the queue, as text. No I/O.

import { WrongValue } from './errors.js';

/** More tokens than this would make a statement that nobody can read in a log. */
export const TOKENS_AT_ONCE = 200;

/** The queue keeps a reason of at most 1024 bytes. */
const REASON_MAX = 1000;

/** A name in backticks, as SQL and the functions of the queue want it. */
export function quoted(name) {
  return '`' + name.replaceAll('`', '``') + '`';
}

/**
 * A value as SQL text, or NULL. mysql2 does not know NO_BACKSLASH_ESCAPES, and with it a value that mysql2
 * puts in a statement may end early. What is written here is the same in every mode: a backslash is hex.
 */
export function text(value) {
  if (value === null || value === undefined) return 'NULL';
  const string = String(value);
  if (string.includes('\\')) return `_utf8mb4 x'${Buffer.from(string).toString('hex')}'`;
  return `'${string.replaceAll("'", "''")}'`;
}

/** Text in ASCII: a connection with another character set changes nothing. */
export function ascii(string) {
  const escaped = (unit) => '\\u' + unit.charCodeAt(0).toString(16).padStart(4, '0');
  return string.replace(/[\u007f-\uffff]/g, escaped);
}

/** A value as a condition of a queue has it. */
export function literal(value) {
  if (typeof value === 'string') return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  if (Number.isInteger(value) || typeof value === 'bigint') return String(value);
  throw new TypeError('a condition compares with text and integers');
}

/** Seconds as SQL text. */
function seconds(value) {
  if (!Number.isFinite(value)) throw new WrongValue(`${value} is no number of seconds`);
  return `'${value.toFixed(3)}'`;
}

/** Numbers of rows are text, because JavaScript changes large ones. */
export function lease(table, where, lasts, rows, wait) {
  const argument = text(where === undefined ? table : `${table}:${where}`);
  return (
    'SET STATEMENT queue_json_strings = ON FOR ' +
    `SELECT queue_lease_json(${seconds(lasts)}, '${rows}', ${argument}, ${seconds(wait)})`
  );
}

/** Each of these gives how many tokens were valid, and the others. */
const used = (call) => `SELECT ${call}, queue_stale()`;

export const ack = (tokens) => used(`queue_ack(${text(tokens.join())})`);

export const extend = (tokens, lasts) => used(`queue_extend(${text(tokens.join())}, ${seconds(lasts)})`);

export const release = (tokens) => used(`queue_release(${text(tokens.join())})`);

export function nack(tokens, { reason, delay }) {
  const after = delay === undefined ? 'NULL' : seconds(delay);
  return used(`queue_nack(${text(tokens.join())}, ${after}, ${text(ascii(reason).slice(0, REASON_MAX))})`);
}

/** Whether there is a transaction, autocommit, and what the table is. */
export function state(database, table) {
  return (
    "SELECT @@in_transaction, @@autocommit, (SELECT CONCAT(engine, ' ', create_options)" +
    ' FROM information_schema.tables' +
    ` WHERE table_schema = COALESCE(${text(database)}, DATABASE()) AND table_name = ${text(table)})`
  );
}

/** What a handler does after a deadlock, which ends its transaction, is not committed by itself then. */
export const NO_AUTOCOMMIT = 'SET autocommit = 0';

/**
 * A savepoint is gone when its transaction has ended, as a deadlock ends it. @@in_transaction would say less:
 * without autocommit the next statement begins another transaction.
 */
export const MARK = 'SAVEPOINT remora_queue_job';
export const CHECK_MARK = 'RELEASE SAVEPOINT remora_queue_job';

/** Ends what another connection waits for. */
export const kill = (connection) => `KILL QUERY ${connection}`;
