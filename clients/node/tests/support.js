// A database of its own for each file of tests, on the server that REMORA_QUEUE_SOCKET names.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';

import mariadb from 'mariadb';
import mysql2 from 'mysql2/promise';

assert(process.env.REMORA_QUEUE_SOCKET, 'REMORA_QUEUE_SOCKET must name the socket of a server');

export const SERVER = { socketPath: process.env.REMORA_QUEUE_SOCKET, user: 'root' };
export const DRIVERS = { mysql2, mariadb };

/** Longer than anything takes that works. What does not work would take for ever. */
export const PATIENCE_MS = 1000 * Number(process.env.REMORA_QUEUE_PATIENCE ?? 60);

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until something is so. */
export async function until(what, ready) {
  const end = performance.now() + PATIENCE_MS;
  while (!(await ready())) {
    assert(performance.now() < end, `not in time: ${what}`);
    await sleep(20);
  }
}

/** A transaction that another one ends by a deadlock, when it has changed something and goes on. */
export class Deadlock {
  #here;
  #other;
  #waiting;

  /** `connection` does nothing else. It has changed more, so the server ends the other transaction. */
  constructor(here, connection) {
    this.#here = here;
    this.#other = connection;
  }

  async prepare() {
    const other = this.#other;
    await other.query('DROP TABLE IF EXISTS ballast, locked');
    await other.query('CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100');
    await other.query('CREATE TABLE locked (n INT PRIMARY KEY, of INT) ENGINE=InnoDB');
    await other.query('INSERT INTO locked VALUES (1, 0), (2, 0)');
    await other.query('START TRANSACTION');
    await other.query('UPDATE ballast SET seq = seq + 1');
    await other.query('UPDATE locked SET of = 9 WHERE n = 2');
  }

  async meet(connection) {
    await connection.query('UPDATE locked SET of = 1 WHERE n = 1');
    this.#waiting = this.#other.query('UPDATE locked SET of = 9 WHERE n = 1');
    // Whoever reads innodb_trx more often than each 0.1 s sees the same copy again and again.
    const waits =
      "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'";
    await until('the other one waits', async () => (await this.#here.value(waits)) > 0);
    await assert.rejects(connection.query('UPDATE locked SET of = 1 WHERE n = 2'), { errno: 1213 });
  }

  async end() {
    await this.#waiting;
    await this.#other.query('ROLLBACK');
  }
}

/** A promise, and the function that resolves it. */
export function event() {
  let happen;
  const happened = new Promise((resolve) => (happen = resolve));
  return [happened, happen];
}

/** A database for the tests of a file, and what they need of it. */
export class Case {
  #opened = [];
  #programs = [];
  #connection;

  constructor(database, connection) {
    this.database = database;
    this.#connection = connection;
    after(() => {
      this.#programs.forEach((program) => program.kill('SIGKILL'));
      [connection, ...this.#opened].forEach((one) => one.destroy());
    });
  }

  static async start(database) {
    const connection = await mysql2.createConnection(SERVER);
    await connection.query(`DROP DATABASE IF EXISTS ${database}`);
    await connection.query(`CREATE DATABASE ${database}`);
    await connection.query(`USE ${database}`);
    return new Case(database, connection);
  }

  /** The same test with each driver. */
  each(name, work) {
    for (const driver of Object.keys(DRIVERS)) {
      test(`${name} (${driver})`, { timeout: 2 * PATIENCE_MS }, () => work(driver));
    }
  }

  /** Opens a connection that ends with the tests. */
  async connect(driver, options = {}) {
    const connection = await this.open(driver, options);
    // One that a test kills does not end the tests.
    connection.on('error', () => {});
    this.#opened.push(connection);
    return connection;
  }

  /** For those who close what they open. */
  open(driver, options = {}) {
    return DRIVERS[driver].createConnection({ ...SERVER, database: this.database, ...options });
  }

  /** A pool of one connection, which ends with the tests. */
  pool(driver) {
    const pool = DRIVERS[driver].createPool({ ...SERVER, database: this.database, connectionLimit: 1 });
    this.#opened.push({ destroy: () => pool.end() });
    return pool;
  }

  /** Opens connections on which statements with a word in them go through a function. */
  through(driver, word, way) {
    return async () => {
      const connection = await this.open(driver);
      const query = connection.query.bind(connection);
      connection.query = (options) => {
        const go = () => query(options);
        const sql = options.sql ?? options;
        return sql.includes(word) ? way(go, sql) : go();
      };
      return connection;
    };
  }

  /** The rows of a statement, each as an array. */
  async run(sql) {
    return (await this.#connection.query({ sql, rowsAsArray: true }))[0];
  }

  /** Ends a connection, if it is still there. */
  async kill(id) {
    await this.run(`KILL CONNECTION ${id}`).catch((error) => {
      if (error.errno !== 1094) throw error;
    });
  }

  async value(sql) {
    return (await this.run(sql))[0][0];
  }

  count(table) {
    return this.value(`SELECT COUNT(*) FROM ${table}`);
  }

  /** When the last lease of a table ends, in seconds; null when there is none. */
  leasedUntil(table) {
    return this.value(
      'SELECT CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE) FROM information_schema.queue_owned' +
        ` WHERE table_schema = '${this.database}' AND table_name = '${table}' AND connection_id = 0`
    );
  }

  /** How many tries each owned row of a table has failed. */
  async failures(table) {
    const rows = await this.run(
      'SELECT failed FROM information_schema.queue_owned' +
        ` WHERE table_schema = '${this.database}' AND table_name = '${table}'`
    );
    return rows.flat();
  }

  /** The connections that wait for a message. */
  async waiting() {
    const rows = await this.run(
      `SELECT id FROM information_schema.processlist WHERE db = '${this.database}'` +
        " AND state = 'Waiting in queue_lease'"
    );
    return rows.map(([id]) => id);
  }

  untilWaiting(count = 1) {
    return until(`${count} connections wait`, async () => (await this.waiting()).length === count);
  }

  /** Starts a program of this folder on this database. */
  program(name, ...values) {
    const path = fileURLToPath(new URL(name, import.meta.url));
    const started = spawn(process.execPath, [path, this.database, ...values], { stdio: 'inherit' });
    this.#programs.push(started);
    return { process: started, ended: once(started, 'exit') };
  }
}
