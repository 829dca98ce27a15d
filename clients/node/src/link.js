// Statements on connections of either driver.

import { TIMER_MAX_MS } from './change.js';
import { isInterrupted, WrongValue } from './errors.js';

/** Whatever the connection's own options are. */
const OPTIONS = {
  rowsAsArray: true,
  nestTables: false,
  metaAsArray: false,
  typeCast: (_column, next) => next(),
};

/** The connection with promises, and whether its driver is mysql2. */
function recognised(connection) {
  if (typeof connection?.getConnection === 'function') {
    throw new WrongValue(
      'this is a pool; give one of its connections, with the transaction: getConnection()'
    );
  }
  if (typeof connection?.promise === 'function') return [connection.promise(), true];
  if (typeof connection?.query === 'function') {
    if (typeof connection.connection?.promise === 'function') return [connection, true];
    if (typeof connection.batch === 'function') return [connection, false];
  }
  throw new WrongValue('this is no connection of mysql2 or of mariadb');
}

/** Runs a statement; its first row as an array, or undefined. */
export async function run(connection, sql) {
  const [promising, isMysql2] = recognised(connection);
  const answer = promising.query({ ...OPTIONS, sql });
  if (typeof answer?.then !== 'function') {
    throw new WrongValue('this connection has callbacks; take one of "mariadb", not of "mariadb/callback"');
  }
  const rows = isMysql2 ? (await answer)[0] : await answer;
  return Array.isArray(rows) ? rows[0] : undefined;
}

/** Seconds. No answer takes longer, unless the connection is broken. */
export const ANSWER_PATIENCE = 30;

/** A connection of a worker's own: opened at its first statement, and again after an error. */
export class Line {
  #connect;
  #autocommit;
  #closed = false;
  /** What is being opened, if it is still wanted. */
  #opening;
  /** Ends the statement that is under way with an error. */
  #giveUp;

  constructor(connect, autocommit = 1) {
    this.#connect = connect;
    this.#autocommit = autocommit;
    this.connection = undefined;
    this.id = undefined;
  }

  /** After so many seconds without an answer the connection is closed: a broken one may never answer. */
  async run(sql, limit) {
    let timer;
    const late = new Promise((_resolve, reject) => {
      this.#giveUp = reject;
      if (limit === undefined) return;
      const text = `no answer within ${limit} s`;
      timer = setTimeout(() => reject(new Error(text)), Math.min(limit * 1000, TIMER_MAX_MS));
    });
    try {
      return await Promise.race([this.#answer(sql), late]);
    } catch (error) {
      if (!isInterrupted(error)) this.#drop();
      throw error;
    } finally {
      clearTimeout(timer);
      this.#giveUp = undefined;
    }
  }

  async #answer(sql) {
    if (!this.connection) await this.#open();
    return run(this.connection, sql);
  }

  async #open() {
    const opening = (this.#opening = {});
    const connection = await this.#connect();
    recognised(connection);
    // A driver tells of a lost connection also in this way, which would end the program.
    connection.on('error', () => {});
    const check = () => {
      if (!this.#closed && this.#opening === opening) return;
      destroy(connection);
      throw new Error('closed meanwhile');
    };
    check();
    this.connection = connection;
    await run(connection, `SET autocommit = ${this.#autocommit}`);
    const [id] = await run(connection, 'SELECT CONNECTION_ID()');
    check();
    this.id = String(id);
  }

  #drop() {
    if (this.connection) destroy(this.connection);
    this.connection = this.id = this.#opening = undefined;
  }

  /** Ends the statement that is under way, and closes the connection. */
  abort() {
    this.#giveUp?.(new Error('closed meanwhile'));
    this.#drop();
  }

  /** For good. */
  close() {
    this.#closed = true;
    // A pool would give it to others, with what was set here.
    if (this.#giveUp || !this.connection || 'release' in this.connection) {
      this.abort();
    } else {
      Promise.resolve(this.connection.end()).catch(() => {});
    }
  }
}

/** Closes a connection. A pool gives it to nobody. */
export function destroy(connection) {
  connection.destroy();
  // mysql2 only says that it is done, and while the server does not hear that, the program would not end.
  (connection.connection ?? connection).stream?.destroy?.();
}
