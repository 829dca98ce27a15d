// Statements on connections of either driver.

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

/** A connection of a worker's own: opened at its first statement, and again after an error. */
export class Line {
  #connect;
  #autocommit;
  #closed = false;
  #busy = false;

  constructor(connect, autocommit = 1) {
    this.#connect = connect;
    this.#autocommit = autocommit;
    this.connection = undefined;
    this.id = undefined;
  }

  async run(sql) {
    this.#busy = true;
    try {
      if (!this.connection) await this.#open();
      return await run(this.connection, sql);
    } catch (error) {
      if (!isInterrupted(error)) this.#drop();
      throw error;
    } finally {
      this.#busy = false;
    }
  }

  async #open() {
    const connection = await this.#connect();
    recognised(connection);
    this.connection = connection;
    // A driver tells of a lost connection also in this way, which would end the program.
    connection.on('error', () => {});
    if (this.#closed) throw new Error('closed meanwhile');
    await run(connection, `SET autocommit = ${this.#autocommit}`);
    this.id = String((await run(connection, 'SELECT CONNECTION_ID()'))[0]);
  }

  #drop() {
    this.connection?.destroy();
    this.connection = this.id = undefined;
  }

  /** For good. */
  close() {
    this.#closed = true;
    // A pool would give it to others, with what was set here.
    if (this.#busy || !this.connection || 'release' in this.connection) {
      this.#drop();
    } else {
      Promise.resolve(this.connection.end()).catch(() => {});
    }
  }
}
