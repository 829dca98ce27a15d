// Runs clients/conformance/steps.tsv through a driver: conformance.js mysql2|mariadb
//
// The server is at the socket that REMORA_QUEUE_SOCKET names. With REMORA_QUEUE_RESTARTS=1 whoever started
// this restarts the server: it is asked with a line on standard output, "stop" or "kill", and answers with
// a line.

import { readFileSync } from 'node:fs';
import { createConnection as createSocket } from 'node:net';
import { createInterface } from 'node:readline';

import { DRIVERS, SERVER, until } from './support.js';

const DATABASE = 'conformance';
const STEPS = new URL('../../conformance/steps.tsv', import.meta.url);

class Failed extends Error {}

/** A connection of a driver. */
class Connection {
  static async open(name) {
    const one = new Connection();
    one.isMysql2 = name === 'mysql2';
    // The first one is its own; mariadb opens another one to kill it.
    const stream = () => {
      const socket = createSocket(SERVER.socketPath);
      one.socket ??= socket;
      return socket;
    };
    const options = { user: SERVER.user, database: DATABASE, stream };
    one.driver = await DRIVERS[name].createConnection(options);
    one.driver.on('error', () => {});
    one.id = one.driver.threadId;
    return one;
  }

  /** The rows of a statement, or how many it changed. */
  async run(sql, values, way = values ? 'execute' : 'query') {
    const answer = await this.driver[way]({ sql, rowsAsArray: true }, values);
    const result = this.isMysql2 ? answer[0] : answer;
    return Array.isArray(result) ? result : result.affectedRows;
  }

  /** Many rows in one call, in the driver's way. */
  many(sql, rows) {
    if (this.isMysql2) return this.run(sql.replace(/\(%s.*\)/, '?'), [rows], 'query');
    return this.run(sql.replaceAll('%s', '?'), rows, 'batch');
  }

  call(name) {
    const ways = { begin: 'beginTransaction', close: 'end' };
    return this.driver[ways[name] ?? name]();
  }

  /** Sends a statement, and closes the connection when something has come of its answer. */
  async closeUnread(sql) {
    const came = new Promise((resolve) => this.socket.prependOnceListener('data', resolve));
    this.driver.query(sql).catch(() => {});
    await came;
    this.socket.destroy();
  }
}

/** What the steps before have left. */
class Run {
  connections = new Map();
  tokens = new Map();
  last = undefined;

  constructor(driver) {
    this.driver = driver;
    this.answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  }

  async connection(name) {
    if (!this.connections.has(name)) {
      this.connections.set(name, await Connection.open(name === 'k' ? 'mysql2' : this.driver));
    }
    return this.connections.get(name);
  }

  /** A field with its tokens, its many letters and its letters by number. */
  text(field) {
    return field
      .replace(/\$([a-z])/g, (all, token) => this.tokens.get(token) ?? all)
      .replace(/\{(.)\*(\d+)\}/g, (_, letter, times) => letter.repeat(times))
      .replace(/\{u\+([0-9a-f]+)\}/g, (_, number) => String.fromCodePoint(parseInt(number, 16)));
  }

  /** Runs a step. False if nobody can restart the server for it. */
  async step([name, step, expected, ...more]) {
    const [, verb, rest] = /^(@\w+)? ?(.*)$/s.exec(step);
    if (verb === '@stop' || verb === '@kill') {
      if (process.env.REMORA_QUEUE_RESTARTS !== '1') return false;
      console.log(verb.slice(1));
      await this.answers.next();
      this.connections.clear();
      return true;
    }
    const values = more.filter((one) => one.startsWith('A')).map((one) => this.text(one.slice(1)).split('|'));
    const sql = this.text(rest);
    // What a regular expression says of a token is no token.
    const wanted = expected.startsWith('~') ? expected : this.text(expected);
    let got;
    const tried = async () => {
      got = await this.result(name, verb, sql, values);
      return fits(got, wanted);
    };
    try {
      if (verb === '@until') await until(step, tried);
      else if (!(await tried())) throw new Failed('something else');
    } catch (error) {
      if (got === undefined) throw error;
      const cut = (text) => text.slice(0, 150);
      throw new Failed(`${name} ${cut(step)}\n  wanted ${cut(wanted)}\n  got    ${cut(got)}`);
    }
    for (const one of more) await this.checkMore(name, one, got);
    return true;
  }

  async checkMore(name, one, got) {
    if (one.startsWith('W')) {
      const rows = await (await this.connection(name)).run('SHOW WARNINGS');
      const numbers = rows.map((row) => String(row[1]));
      if (!numbers.includes(one.slice(1))) throw new Failed(`wanted warning ${one}, got ${numbers}`);
    } else if (one.startsWith('$')) {
      const tokens = [...got.matchAll(/"token":"([^"]+)"/g)].map((found) => found[1]);
      const names = one.replaceAll('$', '').split(',');
      if (names.length !== tokens.length) throw new Failed(`wanted ${one}, got ${tokens}`);
      names.forEach((token, at) => this.tokens.set(token, tokens[at]));
    }
  }

  /** What a step gives, as text. */
  async result(name, verb, sql, values) {
    try {
      return await this.do(name, verb, sql, values);
    } catch (error) {
      if (error instanceof Failed) throw error;
      const { driver } = await this.connection(name);
      // After an error of the connection itself there is none.
      await driver.ping().catch(() => this.connections.delete(name));
      return `!${error.errno}`;
    }
  }

  async do(name, verb, sql, values) {
    const connection = await this.connection(name);
    switch (verb) {
      case '@type':
        return typeof this.last[0][0] === 'string' ? 'text' : 'bytes';
      case '@killwait': {
        const waiting = connection.run(sql);
        // Its error is read when the wait was killed.
        waiting.catch(() => {});
        await until('it waits', () => this.isThere(connection, "state LIKE 'Waiting in queue%'"));
        await (await this.connection('k')).run(`KILL QUERY ${connection.id}`);
        return shown(await waiting);
      }
      case '@closewait':
        connection.driver.query(sql).catch(() => {});
        await until('it waits', () => this.isThere(connection, "state LIKE 'Waiting in queue%'"));
        connection.driver.destroy();
        break;
      case '@closeunread':
        await connection.closeUnread(sql);
        break;
      case '@begin':
      case '@commit':
      case '@rollback':
      case '@reset':
      case '@close':
        await connection.call(verb.slice(1));
        break;
      case '@many':
        return shown(await connection.many(sql, values));
      default:
        if (verb && verb !== '@until' && verb !== '@prepared') throw new Failed(`${verb} is no verb`);
        this.last = await connection.run(sql, values[0]);
        return shown(this.last);
    }
    if (verb.startsWith('@close')) {
      this.connections.delete(name);
      if (name !== 'k')
        await until('its connection ends', async () => !(await this.isThere(connection, 'TRUE')));
    }
    return '';
  }

  async isThere({ id }, condition) {
    const sql = 'SELECT COUNT(*) FROM information_schema.processlist WHERE';
    const [[count]] = await (await this.connection('k')).run(`${sql} id = ${id} AND ${condition}`);
    return count > 0;
  }
}

function fits(got, wanted) {
  if (wanted === 'ok') return !got.startsWith('!');
  if (wanted === '!') return got.startsWith('!');
  // To JavaScript [^] is any letter; elsewhere the bracket after ^ is one that is meant.
  if (wanted.startsWith('~')) return new RegExp(wanted.slice(1).replaceAll('[^]', '[^\\]'), 's').test(got);
  return got === wanted;
}

function shown(result) {
  if (!Array.isArray(result)) return String(result);
  return result.map((row) => row.map((value) => String(value ?? 'NULL')).join('|')).join('\n');
}

async function main(driver) {
  const connection = await DRIVERS.mysql2.createConnection(SERVER);
  await connection.query(`DROP DATABASE IF EXISTS ${DATABASE}`);
  await connection.query(`CREATE DATABASE ${DATABASE} CHARACTER SET utf8mb4`);
  await connection.end();
  const run = new Run(driver);
  let done = 0;
  for (const [at, line] of readFileSync(STEPS, 'ascii').split('\n').entries()) {
    if (!line || line.startsWith('#')) continue;
    try {
      if (!(await run.step(line.split('\t')))) {
        console.error(`left out from line ${at + 1} on: nobody restarts the server`);
        break;
      }
    } catch (error) {
      console.error(`steps.tsv:${at + 1}: ${error instanceof Failed ? error.message : error.stack}`);
      return 1;
    }
    done += 1;
  }
  console.error(`${driver}: ${done} steps`);
  return 0;
}

process.exit(await main(process.argv[2]));
