// Taking one message in a transaction.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { InTransaction, LeaseLost, Queue, Retry } from 'remora-queue';

import { Case, Deadlock, until } from './support.js';

const here = await Case.start('node_take');

await here.run('CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB');

async function made(name, driver, options = {}) {
  const queue = new Queue(`${name}_${driver}`, { tries: 2, backoff: [0, 1, 0], ...options });
  const connection = await here.connect(driver);
  await queue.create(connection);
  return [queue, connection];
}

async function done() {
  return (await here.run('SELECT n FROM done ORDER BY n')).flat();
}

async function autocommitOf(connection) {
  const found = await connection.query('SELECT @@autocommit AS autocommit');
  return Number((found[0][0] ?? found[0]).autocommit);
}

function never() {
  assert.fail('no message was to come');
}

here.each('a message and its work are one COMMIT', async (driver) => {
  await here.run('DELETE FROM done');
  const [queue, connection] = await made('t', driver);
  for (const autocommit of [0, 1]) {
    await connection.query(`SET autocommit = ${autocommit}`);
    await queue.put(connection, 1);
    await connection.commit();
    const failing = queue.take(connection, async () => {
      await connection.query(`INSERT INTO done VALUES (${10 + autocommit})`);
      throw new RangeError('no such host');
    });
    await assert.rejects(failing, RangeError);
    assert(!(await done()).includes(10 + autocommit));
    const came = await queue.take(connection, async (job) => {
      assert.deepEqual([job.tries, job.why], [2, 'RangeError: no such host']);
      await connection.query(`INSERT INTO done VALUES (${autocommit})`);
    });
    assert.equal(came, true);
    assert((await done()).includes(autocommit));
    assert.equal(await here.count(queue.table), 0);
    assert.equal(await queue.take(connection, never), false);
  }
});

here.each('a job that fails each time uses its tries up', async (driver) => {
  const [queue, connection] = await made('poison', driver);
  await here.run('REPLACE INTO done VALUES (77)');
  await queue.put(connection, 'poison');
  for (let round = 0; round < 2; round += 1) {
    const failing = queue.take(connection, () => connection.query('INSERT INTO done VALUES (77)'));
    await assert.rejects(failing, { errno: 1062 });
  }
  assert.equal(await queue.take(connection, never), false);
  const dead = await here.run(`SELECT payload, failed FROM ${queue.dead}`);
  assert.deepEqual(dead, [['"poison"', 2]]);
});

here.each('a retry says when, and so does fail()', async (driver) => {
  const [queue, connection] = await made('again', driver);
  const failures = [
    () => {
      throw new Retry('later', { delay: 3600 });
    },
    (job) => job.fail('later', { delay: 3600 }),
  ];
  for (const failure of failures) {
    await queue.put(connection, 1);
    await assert.rejects(queue.take(connection, failure), { name: 'Retry', message: 'later' });
    assert.equal(await queue.take(connection, never), false);
  }
  const sql = `SELECT due_later FROM information_schema.queues WHERE table_schema = '${here.database}'`;
  assert.equal(await here.value(`${sql} AND table_name = '${queue.name}'`), 2);
  assert.throws(() => new Retry('x', { delay: '60' }), TypeError);
});

here.each('nothing is committed when the lease is lost', async (driver) => {
  await here.run('DELETE FROM done WHERE n = 5');
  const [queue, connection] = await made('lost', driver);
  await queue.put(connection, 1);
  const losing = queue.take(
    connection,
    async () => {
      await connection.query('INSERT INTO done VALUES (5)');
      assert.match(await here.value(`SELECT queue_lease_json(600, 1, '${queue.name}', 60)`), /"try":2/);
    },
    { lease: 0.05 }
  );
  await assert.rejects(losing, LeaseLost);
  assert(!(await done()).includes(5));
  assert.equal(await here.count(`${queue.dead}`), 0);
});

here.each('work that a deadlock has rolled back does not end the message', async (driver) => {
  const [queue, connection] = await made('deadlock', driver, { tries: 9 });
  await queue.put(connection, 1);
  await connection.commit();
  const why = 'the transaction of the job had ended before its message, as a deadlock does';
  let tries = 1;
  for (const autocommit of [0, 1]) {
    await connection.query(`SET autocommit = ${autocommit}`);
    // Without autocommit what follows is in another transaction, which must not be kept.
    for (const follows of ['', 'SELECT * FROM done', 'INSERT INTO done VALUES (6)']) {
      const deadlock = new Deadlock(here, await here.connect(driver));
      await deadlock.prepare();
      const working = queue.take(connection, async (job) => {
        assert.equal(job.tries, tries);
        // Whoever ignores this has changed nothing.
        await deadlock.meet(connection);
        if (follows) await connection.query(follows);
      });
      await assert.rejects(working, { name: 'QueueError', message: why });
      await deadlock.end();
      assert(!(await done()).includes(6));
      assert.equal(await autocommitOf(connection), autocommit);
      tries += 1;
    }
  }
  await queue.take(connection, (job) => assert.deepEqual([job.tries, job.why], [7, `QueueError: ${why}`]));
  assert.equal(await here.count(queue.table), 0);
});

here.each('a lease is extended while the work goes on', async (driver) => {
  const [queue, connection] = await made('kept', driver, { connect: () => here.open(driver) });
  await queue.put(connection, 1);
  const work = async () => {
    const first = await here.leasedUntil(queue.name);
    await until('it is extended', async () => (await here.leasedUntil(queue.name)) > first + 0.5);
  };
  assert.equal(await queue.take(connection, work, { lease: 3 }), true);
});

here.each('it begins with a transaction of its own', async (driver) => {
  const [queue, connection] = await made('own', driver);
  await connection.query('SET autocommit = 0');
  await connection.query('SELECT * FROM done');
  await assert.rejects(queue.take(connection, never), InTransaction);
  await connection.rollback();
  assert.equal(await queue.take(connection, never), false);
});

here.each('a put ends the wait', async (driver) => {
  const [queue, connection] = await made('woken', driver);
  let payload;
  const other = await here.connect(driver);
  const taking = queue.take(other, (job) => (payload = job.payload), { wait: 600 });
  await here.untilWaiting();
  await queue.put(connection, 'now');
  assert.equal(await taking, true);
  assert.equal(payload, 'now');
});

test('an error comes out also when the connection is gone', async () => {
  const [queue, connection] = await made('gone', 'mysql2', { connect: () => here.open('mysql2') });
  await queue.put(connection, 1);
  const failing = queue.take(connection, async () => {
    const working = connection.query('SELECT SLEEP(600)');
    await Promise.all([working, here.run(`KILL ${connection.threadId}`)]);
  });
  await assert.rejects(failing, { code: 'PROTOCOL_CONNECTION_LOST' });
});

here.each('a connection is closed that can not be as it was', async (driver) => {
  const [queue] = await made('closed', driver);
  const pool = here.pool(driver);
  const failing = async (word, work) => {
    await here.run('DELETE FROM done');
    await queue.put(await here.connect(driver), 1);
    const connection = await pool.getConnection();
    const id = connection.threadId;
    const query = connection.query.bind(connection);
    connection.query = async (options) => {
      if ((options.sql ?? options) === word) throw new Error('not now');
      return query(options);
    };
    const taking = queue.take(connection, async () => {
      await query('INSERT INTO done VALUES (1)');
      return work();
    });
    return { connection, id, taking };
  };
  const isClosed = async ({ connection, id }) => {
    // As the finally block of a program does.
    await connection.release();
    const others = `SELECT COUNT(*) FROM information_schema.processlist WHERE id = ${id}`;
    await until('it is closed', async () => (await here.value(others)) === 0);
    const next = await pool.getConnection();
    assert.notEqual(next.threadId, id);
    assert.equal(await autocommitOf(next), 1);
    await next.release();
  };

  const open = await failing('ROLLBACK', () => {
    throw new RangeError('on purpose');
  });
  await assert.rejects(open.taking, RangeError);
  assert.deepEqual(await done(), []);
  await isClosed(open);

  const off = await failing('SET autocommit = 1', () => {});
  assert.equal(await off.taking, true);
  assert.deepEqual(await done(), [1]);
  await isClosed(off);
});

here.each('autocommit is on again when a transaction can not begin', async (driver) => {
  const [queue] = await made('unbegun', driver);
  for (const word of ['SET autocommit = 0', 'SAVEPOINT']) {
    const way = async (go) => {
      await go();
      throw new RangeError('on purpose');
    };
    const connection = await here.through(driver, word, way)();
    await queue.put(connection, 1);
    await assert.rejects(queue.take(connection, never), RangeError);
    assert.equal(await autocommitOf(connection), 1);
    connection.destroy();
    const other = await here.connect(driver);
    const why = 'RangeError: on purpose';
    await queue.take(other, (job) => assert.deepEqual([job.tries, job.why], [2, why]));
  }
});
