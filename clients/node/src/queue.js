// A queue: its table, putting messages into it, and taking one in a transaction.

import { randomUUID } from 'node:crypto';

import {
  delayed,
  failureOf,
  InTransaction,
  LeaseLost,
  NO_SAVEPOINT,
  NotAQueue,
  QueueError,
  Retry,
} from './errors.js';
import { jobsOf } from './job.js';
import { Keeper } from './keeper.js';
import { destroy, run } from './link.js';
import { ascii, quoted, text } from './statements.js';
import * as statements from './statements.js';

/** A part of a name, and a name with its database or without: as in SQL. */
const PART = '(`(?:[^`]|``)+`|[^`.]+)';
const NAME = new RegExp(`^(?:${PART}\\.)?${PART}$`);

/** For whoever gives no log of its own. */
export function warn(text, error) {
  console.warn(`remora-queue: ${text}`, ...(error === undefined ? [] : [error]));
}

export class Queue {
  /** What the table itself says, once somebody has looked. */
  #isTransactional;

  constructor(name, options = {}) {
    const found = NAME.exec(name);
    if (!found || name.includes('\\')) {
      throw new TypeError(`${name} is no name of a table; write db.table, with backticks around odd parts`);
    }
    [this.database, this.name] = found.slice(1).map(unquoted);
    this.connect = options.connect;
    this.transactional = options.transactional ?? true;
    this.tries = options.tries ?? 5;
    this.backoff = options.backoff ?? [10, 2, 3600];
    this.fifo = options.fifo ?? false;
    this.dedupeFor = options.dedupeFor;
    this.priority = options.priority ?? false;
    this.keep = options.keep ?? 0;
  }

  get dead() {
    return `${this.name}_dead`;
  }

  get table() {
    return this.#named(this.name);
  }

  #named(name) {
    return (this.database === undefined ? '' : `${quoted(this.database)}.`) + quoted(name);
  }

  ddl() {
    const columns = [
      'id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL',
      'payload LONGTEXT NOT NULL',
      'at TIMESTAMP(6) NULL',
    ];
    const options = ['DUE=at', `KEEP=${Number(this.keep)}`];
    if (this.fifo) {
      columns.push('message_key VARCHAR(190) COLLATE utf8mb4_bin NULL');
      options.push('FIFO=message_key');
    }
    if (this.dedupeFor !== undefined) {
      columns.push('dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL');
      options.push(`DEDUPE=dedupe_key DEDUPE_FOR=${Number(this.dedupeFor)}`);
    }
    if (this.priority) {
      columns.push('priority INT NOT NULL DEFAULT 0');
      options.push('PRIORITY=priority');
    }
    if (this.transactional) options.push('TRANSACTIONAL=1');
    if (!this.tries) return [creation(this.table, columns, options)];
    const dead = this.#named(this.dead);
    const backoff = this.backoff.map(Number).join();
    options.push(`TRIES=${Number(this.tries)} BACKOFF='${backoff}' DEAD=${text(dead)}`);
    const more = [...columns, 'failed INT NULL', 'why TEXT NULL'];
    return [creation(dead, more, ['FAILED=failed', 'WHY=why']), creation(this.table, columns, options)];
  }

  async create(connection) {
    for (const sql of this.ddl()) await run(connection, sql);
  }

  async put(connection, payload, { outsideTransaction = false, ...message } = {}) {
    const [id] = await this.putMany(connection, [{ ...message, payload }], { outsideTransaction });
    return id;
  }

  /** With one INSERT of its own: what drivers make of many rows may be one for each row. */
  async putMany(connection, messages, { outsideTransaction = false } = {}) {
    const columns = this.#columns();
    const ids = [];
    const rows = [];
    for (const message of messages) {
      this.#refuseOthers(message);
      ids.push(randomUUID().replaceAll('-', ''));
      const values = [text(ids.at(-1)), ...columns.slice(1).map(({ sql }) => sql(message))];
      rows.push(`(${values.join()})`);
    }
    if (!ids.length) return ids;
    if (!this.#isTransactional) {
      const [inTransaction, autocommit, options] = await this.#state(connection);
      this.#look(options);
      if (!this.#isTransactional && !outsideTransaction && (inTransaction || !autocommit)) {
        throw new InTransaction(
          `${this.table} is not TRANSACTIONAL, so ROLLBACK would not undo this put; ` +
            'outsideTransaction: true says that this is meant'
        );
      }
    }
    const names = columns.map(({ name }) => name).join();
    // In UTC no time occurs twice, and none is missing.
    const zone = "SET STATEMENT time_zone = '+00:00' FOR";
    await run(connection, `${zone} INSERT INTO ${this.table} (${names}) VALUES ${rows.join()}`);
    return ids;
  }

  /** The columns of the table, and how a message fills them. */
  #columns() {
    const columns = [{ name: 'id' }, { name: 'payload', sql: payloadSql }, { name: 'at', sql: dueSql }];
    if (this.fifo) columns.push({ name: 'message_key', sql: ({ key }) => text(key) });
    if (this.dedupeFor !== undefined) columns.push({ name: 'dedupe_key', sql: ({ dedupe }) => text(dedupe) });
    if (this.priority) columns.push({ name: 'priority', sql: ({ priority }) => text(priority ?? 0) });
    return columns;
  }

  /** What the table has no column for would be lost. */
  #refuseOthers(message) {
    const known = { payload: true, delay: true, at: true, key: this.fifo, priority: this.priority };
    known.dedupe = this.dedupeFor !== undefined;
    for (const [name, value] of Object.entries(message)) {
      if (!known[name] && value !== undefined) {
        throw new TypeError(`${this.table} has no column for ${name}; make the Queue with the option for it`);
      }
    }
  }

  /** Whether there is a transaction, whether statements commit themselves, and what the table is. */
  async #state(connection) {
    const row = await run(connection, statements.state(this.database, this.name));
    return [Number(row[0]) === 1, Number(row[1]) === 1, row[2]];
  }

  #look(options) {
    if (!options?.startsWith('QUEUE')) {
      throw new NotAQueue(`${this.table} is no table with ENGINE=QUEUE; create() makes one`);
    }
    this.#isTransactional = /\btransactional`?\s*=\s*'?1/i.test(options);
  }

  async take(connection, work, { lease = 30, wait = 0, where } = {}) {
    const [inTransaction, autocommit, options] = await this.#state(connection);
    this.#look(options);
    if (!this.#isTransactional) {
      throw new QueueError(`${this.table} is not TRANSACTIONAL: COMMIT can't end its messages; use a Worker`);
    }
    if (inTransaction) {
      throw new InTransaction(
        'take() begins a transaction of its own: commit the one before, ' +
          'which may not see what was committed together with the message'
      );
    }
    const [answer] = await run(connection, statements.lease(this.table, where, lease, 1, wait));
    const [job] = jobsOf(answer);
    if (!job) return false;
    const keeper = this.connect && new Keeper(this.connect, lease, warn);
    keeper?.add(job);
    let isOver = false;
    try {
      if (autocommit) await run(connection, statements.NO_AUTOCOMMIT);
      // It begins the transaction.
      await run(connection, statements.MARK);
      await endWith(connection, job, async () => {
        await work(job);
        keeper?.close();
      });
      isOver = true;
      return true;
    } catch (error) {
      keeper?.close();
      isOver = await afterFailure(connection, job, error);
      throw error;
    } finally {
      if (autocommit) await autocommitAgain(connection, isOver);
    }
  }
}

/**
 * Works within a transaction that has a MARK, and ends the message with it. While that is under way the token
 * is stale.
 */
export async function endWith(connection, job, work) {
  await work();
  if (job.failure) throw new Retry(job.failure.reason, job.failure);
  await checkTransaction(connection);
  // Last, so that the row is locked for a short time only.
  const [count] = await run(connection, statements.ack([job.token]));
  if (Number(count) !== 1) {
    throw new LeaseLost(`the lease of ${job.token} has ended: somebody else has this message`);
  }
  await run(connection, 'COMMIT');
}

/** An error that the work has ignored may have rolled it back. Then the message must not end without it. */
async function checkTransaction(connection) {
  try {
    await run(connection, statements.CHECK_MARK);
  } catch (error) {
    if (error?.errno !== NO_SAVEPOINT) throw error;
    throw new QueueError('the transaction of the job had ended before its message, as a deadlock does');
  }
}

/**
 * When the connection is gone, the server does both: it rolls back, and the lease ends. Whether ROLLBACK has
 * ended the transaction.
 */
async function afterFailure(connection, job, error) {
  let isOver = false;
  try {
    await run(connection, 'ROLLBACK');
    isOver = true;
    if (!(error instanceof LeaseLost)) await run(connection, statements.nack([job.token], failureOf(error)));
  } catch (another) {
    warn(`the failure of ${job.token} could not be told; it comes again when its lease has ended`, another);
  }
  return isOver;
}

/** This would commit a transaction that is not over. A connection that stays without is good for nobody. */
async function autocommitAgain(connection, isOver) {
  const isOn = isOver && (await run(connection, 'SET autocommit = 1').then(() => true, () => false));
  if (!isOn) destroy(connection);
}

function unquoted(part) {
  return part?.startsWith('`') ? part.slice(1, -1).replaceAll('``', '`') : part;
}

function creation(table, columns, options) {
  const made = `CREATE TABLE IF NOT EXISTS ${table} (${columns.join(', ')})`;
  return `${made} ENGINE=QUEUE CHARSET=utf8mb4 ${options.join(' ')}`;
}

function payloadSql({ payload }) {
  const json = JSON.stringify(payload);
  if (json === undefined) throw new TypeError('a payload is what JSON can hold; null is, undefined is not');
  return text(ascii(json));
}

/** From when on a message is given. The server's clock decides. */
function dueSql({ delay, at }) {
  if (at !== undefined && delay !== undefined) throw new TypeError('either delay or at');
  if (at !== undefined) {
    if (!(at instanceof Date)) throw new TypeError('at is a Date; a delay in seconds is delay');
    return text(at.toISOString().replace('T', ' ').replace('Z', ''));
  }
  if (!delayed(delay)) return 'NULL';
  return `NOW(6) + INTERVAL ${Math.round(delay * 1e6)} MICROSECOND`;
}
