// Putting messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import mariadbCallback from 'mariadb/callback';
import mysql2Callback from 'mysql2';
import { InTransaction, literal, NotAQueue, Queue, QueueError } from 'remora-queue';

import { staleAmong } from '../src/job.js';
import { Case, DRIVERS, SERVER } from './support.js';

const here = await Case.start('node_queue');

/** Takes a message, and what it was. */
async function taken(queue, connection, options) {
  let found;
  await queue.take(connection, (job) => (found = job), options);
  return found;
}

here.each('a message is there if its transaction is', async (driver) => {
  const queue = new Queue(`jobs_${driver}`);
  const connection = await here.connect(driver);
  await queue.create(connection);
  await connection.beginTransaction();
  await queue.put(connection, 1);
  await connection.rollback();
  assert.equal(await here.count(queue.table), 0);
  const payload = { n: '\u00e9\u{1f600}\'"\\\n?:n\0' };
  await connection.beginTransaction();
  const id = await queue.put(connection, payload);
  assert.match(id, /^[0-9a-f]{32}$/);
  await connection.commit();
  const job = await taken(queue, connection);
  assert.deepEqual([job.id, job.payload, job.tries, job.why], [id, payload, 1, null]);
  assert.equal(typeof job.fence, 'bigint');
  assert.equal(await taken(queue, connection), undefined);
  for (const wrong of [undefined, () => {}, 1n]) {
    await assert.rejects(queue.put(connection, wrong), TypeError);
  }
});

here.each('no sql_mode, option or character set of a connection changes a message', async (driver) => {
  const queue = new Queue(`modes_${driver}`, { fifo: true });
  await queue.create(await here.connect(driver));
  const odd = "\u00e9\u{1f600}'\"\\';?:n";
  const options = {
    mysql2: [{ nestTables: true }, { namedPlaceholders: true, typeCast: false }, { charset: 'latin1' }],
    mariadb: [
      { nestTables: true, metaAsArray: true },
      { namedPlaceholders: true, bigIntAsNumber: true },
    ],
  };
  for (const some of options[driver]) {
    const connection = await here.connect(driver, some);
    await connection.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'");
    const key = some.charset ? "\u00e9\\'" : odd;
    await queue.put(connection, odd, { key });
    const job = await taken(queue, connection, { where: `payload != ${literal('\\')}` });
    assert.deepEqual([job.payload, job.row.message_key], [odd, key], JSON.stringify(some));
    await queue.put(connection, '\u{1f600}');
    assert.equal((await taken(queue, connection)).payload, '\u{1f600}');
  }
});

here.each('a put that ROLLBACK would not undo is refused', async (driver) => {
  const queue = new Queue(`plain_${driver}`, { transactional: false });
  const connection = await here.connect(driver);
  await queue.create(connection);
  await connection.query('SET autocommit = 0');
  await assert.rejects(queue.put(connection, 1), InTransaction);
  await connection.query('SET autocommit = 1');
  await connection.beginTransaction();
  await assert.rejects(queue.put(connection, 1), InTransaction);
  assert.equal(await here.count(queue.table), 0);
  await queue.put(connection, 1, { outsideTransaction: true });
  await connection.rollback();
  await queue.put(connection, 2);
  assert.equal(await here.count(queue.table), 2);
  await assert.rejects(taken(queue, connection), QueueError);
});

here.each('the table decides whether it is a part of transactions', async (driver) => {
  const connection = await here.connect(driver);
  const name = `really_plain_${driver}`;
  await new Queue(name, { transactional: false }).create(connection);
  await connection.beginTransaction();
  await assert.rejects(new Queue(name, { transactional: true }).put(connection, 1), InTransaction);
  await here.run(`CREATE TABLE innodb_${driver} (id INT) ENGINE=InnoDB`);
  for (const other of [`innodb_${driver}`, 'nothing']) {
    await assert.rejects(new Queue(other).put(connection, 1), NotAQueue);
  }
});

here.each('a delay needs no care for time zones', async (driver) => {
  const queue = new Queue(`later_${driver}`);
  const connection = await here.connect(driver);
  await queue.create(connection);
  const at = new Date(Date.now() + 3600_000);
  for (const zone of ['-05:00', '+00:00', '+05:00']) {
    await connection.query(`SET time_zone = '${zone}'`);
    await queue.put(connection, 'delay', { delay: 3599.5 });
    await queue.put(connection, 'at', { at });
  }
  await here.run('SET queue_show_owned = ON');
  const sql = `SELECT CAST(UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) AS DOUBLE) FROM ${queue.table}`;
  const left = (await here.run(sql)).flat();
  await here.run('SET queue_show_owned = OFF');
  assert.equal(left.length, 6);
  assert(
    left.every((seconds) => seconds > 3000 && seconds <= 3600),
    String(left)
  );
  for (const wrong of [{ at, delay: 1 }, { at: '2030-01-01' }, { at: new Date('x') }, { delay: '1); --' }]) {
    await assert.rejects(queue.put(connection, 1, wrong), /Error/);
  }
});

here.each('a short delay is exact', async (driver) => {
  const queue = new Queue(`soon_${driver}`);
  const connection = await here.connect(driver);
  await queue.create(connection);
  await queue.put(connection, 'soon', { delay: 0.25 });
  assert.equal(await taken(queue, connection), undefined);
  const job = await taken(queue, connection, { wait: 60 });
  // The row knows when it was due, and it was not given before.
  assert.equal(await here.value(`SELECT UTC_TIMESTAMP(6) >= '${job.row.at}'`), 1);
});

here.each('keys, duplicates and priorities', async (driver) => {
  const queue = new Queue(`all_${driver}`, { fifo: true, dedupeFor: 60, priority: true });
  const connection = await here.connect(driver);
  await queue.create(connection);
  const messages = [
    { payload: 1, key: 'a', priority: 5 },
    { payload: 2, key: 'a', priority: 1 },
    { payload: 3, key: 'b', priority: 4 },
    { payload: 4, dedupe: 'x', priority: 6 },
    { payload: 5, dedupe: 'x', priority: 0 },
  ];
  assert.equal(new Set(await queue.putMany(connection, messages)).size, 5);
  assert.deepEqual(await queue.putMany(connection, []), []);
  const payloads = [];
  await queue.create(connection);
  for (const _ of messages) payloads.push((await taken(queue, connection))?.payload);
  assert.deepEqual(payloads, [3, 1, 2, 4, undefined]);
  const bare = new Queue(`bare_${driver}`);
  await bare.create(connection);
  for (const wrong of [{ key: 'a' }, { dedupe: 'a' }, { priority: 1 }, { dealy: 1 }]) {
    await assert.rejects(bare.put(connection, 1, wrong), TypeError);
  }
});

here.each('a bad message leaves none', async (driver) => {
  const queue = new Queue(`bad_${driver}`, { fifo: true });
  const connection = await here.connect(driver);
  await queue.create(connection);
  const messages = [{ payload: 1 }, { payload: 2, key: 'x'.repeat(200) }];
  await assert.rejects(queue.putMany(connection, messages), { errno: 1406 });
  assert.equal(await here.count(queue.table), 0);
});

here.each('names have almost any sign', async (driver) => {
  for (const wrong of ['', 'a.b.c', '`a', 'a\\b', '.a']) assert.throws(() => new Queue(wrong), TypeError);
  await here.run(`CREATE DATABASE IF NOT EXISTS \`node.too ${driver}\``);
  const connection = await here.connect(driver);
  const queue = new Queue(`\`node.too ${driver}\`.\`a.b,c\`\`d:e?'"%s :x\``, {
    connect: () => here.open(driver),
  });
  assert.equal(queue.database, `node.too ${driver}`);
  await queue.create(connection);
  await here.run(`DELETE FROM ${queue.table}`);
  await queue.put(connection, "it's");
  const where = `payload = ${literal('"it\'s"')}`;
  const once = new Error('once');
  await assert.rejects(
    queue.take(connection, () => Promise.reject(once), { where }),
    once
  );
  assert.equal(await taken(queue, connection), undefined, 'it waits for its second try');
  await here.run(`DROP DATABASE \`node.too ${driver}\``);
});

here.each('numbers that JavaScript would change are text', async (driver) => {
  await here.run(
    `CREATE TABLE big_${driver} (id BIGINT UNSIGNED, payload TEXT, data BLOB)` +
      ' ENGINE=QUEUE TRANSACTIONAL=1'
  );
  await here.run(`INSERT INTO big_${driver} VALUES (18446744073709551615, 'no JSON', 'bytes')`);
  const job = await taken(new Queue(`big_${driver}`), await here.connect(driver));
  assert.deepEqual([job.id, job.payload], ['18446744073709551615', 'no JSON']);
  assert.equal(Buffer.from(job.row.data, 'base64').toString(), 'bytes');
});

here.each('connections of a pool are taken, and pools are not', async (driver) => {
  const queue = new Queue(`pool_${driver}`);
  const pool = DRIVERS[driver].createPool({ ...SERVER, database: here.database, connectionLimit: 1 });
  await assert.rejects(queue.put(pool, 1), /this is a pool/);
  const connection = await pool.getConnection();
  await queue.create(connection);
  await queue.put(connection, 1);
  assert.equal(await here.count(queue.table), 1);
  await connection.release();
  await pool.end();
});

test('connections with callbacks', async () => {
  const queue = new Queue('callback');
  const one = mysql2Callback.createConnection({ ...SERVER, database: here.database });
  await queue.create(one);
  await queue.put(one, 1);
  assert.equal((await taken(queue, one)).payload, 1);
  one.destroy();
  const other = mariadbCallback.createConnection({ ...SERVER, database: here.database });
  // It is destroyed while it connects.
  other.on('error', () => {});
  for (const wrong of [other, {}, undefined, 'x']) {
    await assert.rejects(queue.put(wrong, 1), TypeError);
  }
  other.destroy();
});

test('tokens are separated by commas that are in no name', () => {
  assert.deepEqual([...staleAmong('`a,b`.`c``,d`:1-2,x.y:3-4')], ['`a,b`.`c``,d`:1-2', 'x.y:3-4']);
  assert.deepEqual([...staleAmong(null)], []);
});
