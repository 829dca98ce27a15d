// Workers: retries, leases that are extended, connections that end, stops.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { LeaseLost, Queue, QueueError, Retry, Worker } from 'remora-queue';

import { Case, Deadlock, event, until } from './support.js';

const here = await Case.start('node_worker');

async function made(name, driver, ...payloads) {
  const connect = () => here.open(driver);
  const queue = new Queue(`${name}_${driver}`, { tries: 3, backoff: [0, 1, 0], connect });
  const connection = await here.connect(driver);
  await queue.create(connection);
  const ids = await queue.putMany(
    connection,
    payloads.map((payload) => ({ payload }))
  );
  return { queue, connection, ids, name: queue.name };
}

/** A log, and what it was told. */
function logged() {
  const told = [];
  return { told, log: (text) => told.push(text) };
}

here.each('jobs are done, or tried again, or dead', async (driver) => {
  const { queue, ids, name } = await made('some', driver, 'good', 'twice', 'never', 'later');
  const { told, log } = logged();
  const tried = [];
  const handler = async (job) => {
    tried.push(`${job.payload} ${job.tries}`);
    if (job.payload === 'never' || (job.payload === 'twice' && job.tries === 1)) {
      throw new RangeError('no such h\u00f6st');
    }
    if (job.payload === 'later') throw new Retry('not yet', { delay: 3600 });
    assert.equal(job.why, job.tries > 1 ? 'RangeError: no such h\\u00f6st' : null);
    assert(ids.includes(job.id));
  };
  await new Worker(queue, handler, { log }).run({ once: true });
  const wanted = ['good 1', 'later 1', 'never 1', 'never 2', 'never 3', 'twice 1', 'twice 2'];
  assert.deepEqual(tried.sort(), wanted);
  assert.equal(told.length, 4, String(told));
  const dead = await here.run(`SELECT id, payload, failed, why FROM ${queue.dead}`);
  assert.deepEqual(dead, [[ids[2], '"never"', 3, 'RangeError: no such h\\u00f6st']]);
  assert.deepEqual(await here.failures(name), [1], 'one is to come in an hour');
});

here.each('whatever a handler throws is a failed try', async (driver) => {
  const odd = [undefined, 'text', Object.create(null), Symbol('s'), new Error('x'.repeat(5000))];
  const { queue } = await made('odd', driver, ...odd.keys());
  const handler = (job) => {
    throw odd[job.payload];
  };
  await new Worker(queue, handler, { log: () => {} }).run({ once: true });
  const why = (await here.run(`SELECT payload, why FROM ${queue.dead} ORDER BY id`)).sort();
  assert.deepEqual(why.map(([, reason]) => reason.slice(0, 30)).slice(0, 2), ['undefined', "'text'"]);
  assert.equal(why[4][1].length, 1000);
});

here.each('a job that takes longer than its lease runs once', async (driver) => {
  const { queue, name } = await made('long', driver, 1);
  const seen = [];
  const worker = new Worker(
    queue,
    async (job) => {
      // Until it was extended twice. The other handler would get it if it were not.
      const first = await here.leasedUntil(name);
      await until('it is extended', async () => (await here.leasedUntil(name)) > first + 1.5);
      seen.push(job.tries);
      worker.stop();
    },
    { lease: 3, concurrency: 2 }
  );
  await worker.run();
  assert.deepEqual(seen, [1]);
  assert.equal(await here.count(queue.table), 0);
});

here.each('a message that comes again is not run again but kept', async (driver) => {
  const { queue } = await made('again', driver, 1);
  const ran = [];
  const options = { lease: 0.5, concurrency: 2, log: () => {} };
  // It does not extend, so that the lease ends.
  options.connect = here.through(driver, 'queue_extend', () => Promise.reject(new Error('not now')));
  const worker = new Worker(
    queue,
    async (job) => {
      ran.push(job.tries);
      const { token } = job;
      await until('it comes again', () => job.tries > 1 && job.token !== token);
      worker.stop();
    },
    options
  );
  await worker.run();
  assert.deepEqual(ran, [1]);
  assert.equal(await here.count(queue.table), 0, 'the new lease has ended it');
  assert.equal(await here.count(queue.dead), 0);
});

here.each('a message that is back before its end is known runs again, when there is room', async (driver) => {
  const { queue } = await made('back', driver, 1, 2);
  const ran = [];
  let running = 0;
  let most = 0;
  let leases = 0;
  const [wasReturned, isReturned] = event();
  const [otherBegan, otherBegins] = event();
  const [isKnown, know] = event();
  const connect = here.through(driver, 'SELECT queue_', async (go, sql) => {
    if (sql.includes('queue_lease') && ran.length) await wasReturned;
    const answer = await go();
    if (sql.includes('queue_lease') && inspect(answer).includes('token')) leases += 1;
    if (sql.includes('queue_nack')) {
      isReturned();
      // The answer is held back until the other message runs: this one came again before it.
      await otherBegan.then(() => setImmediate(know));
    }
    return answer;
  });
  const worker = new Worker(
    queue,
    async (job) => {
      ran.push(`${job.payload} ${job.tries}`);
      running += 1;
      most = Math.max(most, running);
      if (job.payload === 2) {
        assert.equal(leases, 3);
        otherBegins();
        await isKnown;
        await new Promise(setImmediate);
      }
      running -= 1;
      if (job.payload === 1 && job.tries === 1) throw new Retry('once more', { delay: 0 });
      if (job.payload === 1) worker.stop();
    },
    { wait: 60, connect }
  );
  await worker.run();
  assert.deepEqual(ran, ['1 1', '2 1', '1 2']);
  assert.equal(most, 1);
  assert.equal(await here.count(queue.table), 0);
});

here.each('a message whose lease ends before its end is told ends', async (driver) => {
  const { queue } = await made('late', driver, 1);
  const { told, log } = logged();
  const ran = [];
  let leases = 0;
  const connect = async () => {
    const connection = await here.open(driver);
    const query = connection.query.bind(connection);
    connection.query = async (options) => {
      // The server does not hear of the end until the message was leased again.
      if (options.sql.includes('queue_ack') && leases < 2) throw new Error('not now');
      const answer = await query(options);
      if (options.sql.includes('queue_lease') && JSON.stringify(answer).includes('token')) {
        leases += 1;
        if (leases === 2) worker.stop();
      }
      return answer;
    };
    return connection;
  };
  const worker = new Worker(queue, (job) => ran.push(job.tries), {
    connect,
    lease: 0.5,
    concurrency: 2,
    log,
  });
  await worker.run();
  assert.deepEqual(ran, [1]);
  assert.equal(await here.count(queue.table), 0);
  assert(
    told.some((text) => text.includes('came too late')),
    String(told)
  );
});

here.each('a job is told that somebody else has its message', async (driver) => {
  const { queue, connection, name } = await made('lost', driver, 1);
  const { told, log } = logged();
  const [wasStolen, isStolen] = event();
  const extend = async (go) => {
    await wasStolen;
    return go();
  };
  const worker = new Worker(
    queue,
    async (job) => {
      const lost = new Promise((resolve) => job.signal.addEventListener('abort', resolve));
      assert.equal(job.signal.aborted, false);
      worker.stop();
      await connection.query(`SELECT queue_lease_json(600, 1, '${name}', 60)`);
      isStolen();
      await lost;
      assert(job.signal.reason instanceof LeaseLost);
      job.signal.throwIfAborted();
    },
    { lease: 0.5, log, connect: here.through(driver, 'queue_extend', extend) }
  );
  await worker.run();
  assert(
    told.some((text) => text.includes('has ended while its job runs')),
    String(told)
  );
  // It was given once more: the lease that ended is a failed try, and the late failure is none.
  assert.deepEqual(await here.failures(name), [1]);
});

here.each('a message that was lost and comes again is extended again', async (driver) => {
  const { queue, connection, name } = await made('found', driver, 1);
  const [wasStolen, isStolen] = event();
  let leases = 0;
  const connect = here.through(driver, 'SELECT queue_', async (go, sql) => {
    // The thief is the first to get it when its lease has ended.
    if (sql.includes('queue_extend') || (sql.includes('queue_lease') && (leases += 1) > 1)) await wasStolen;
    return go();
  });
  const worker = new Worker(
    queue,
    async (job) => {
      await connection.query(`SELECT queue_lease_json(0.3, 1, '${name}', 60)`);
      const lost = new Promise((resolve) => job.signal.addEventListener('abort', resolve));
      const { token } = job;
      isStolen();
      await lost;
      await until('it comes again', () => job.token !== token);
      const first = await here.leasedUntil(name);
      await until('it is extended', async () => (await here.leasedUntil(name)) > first + 0.5);
      assert.equal(job.tries, 3);
      worker.stop();
    },
    { lease: 2, concurrency: 2, connect, log: () => {} }
  );
  await worker.run();
  assert.equal(await here.count(queue.table), 0);
});

here.each('no more run than are allowed, and as many as can', async (driver) => {
  const { queue } = await made('many', driver, ...Array(30).keys());
  let running = 0;
  let most = 0;
  let arrived = 0;
  const [together, all] = event();
  // What is leased can begin at once.
  const connect = here.through(driver, 'queue_lease', (go, sql) => {
    most = Math.max(most, running + Number(/, '(\d+)'/.exec(sql)[1]));
    return go();
  });
  const worker = new Worker(
    queue,
    async () => {
      running += 1;
      arrived += 1;
      most = Math.max(most, running);
      if (arrived === 3) all();
      await together;
      // The others of this round begin meanwhile.
      await new Promise(setImmediate);
      running -= 1;
    },
    { concurrency: 3, connect }
  );
  await worker.run({ once: true });
  assert.equal(most, 3);
  assert.equal(arrived, 30);
  assert.equal(await here.count(queue.table), 0);
});

here.each('many jobs end with one statement', async (driver) => {
  const { queue } = await made('few', driver, ...Array(60).keys());
  const statements = [];
  const [free, isFree] = event();
  const ack = async (go) => {
    statements.push(0);
    await free;
    return go();
  };
  let done = 0;
  const handler = async () => {
    done += 1;
    // The first end is under way until all jobs are done.
    if (done === 60) isFree();
  };
  await new Worker(queue, handler, {
    concurrency: 30,
    connect: here.through(driver, 'queue_ack', ack),
  }).run({ once: true });
  assert.equal(await here.count(queue.table), 0);
  assert(statements.length <= 3, `${statements.length} statements`);
});

here.each('a batch ends without those that failed', async (driver) => {
  const { queue } = await made('batch', driver, ...Array(25).keys());
  const sizes = [];
  const handler = async (jobs) => {
    sizes.push(jobs.length);
    for (const job of jobs) {
      if (job.payload === 7 || job.payload === 23) job.fail('not this one', { delay: 3600 });
    }
    if (jobs.some((job) => job.payload >= 20)) throw new Error('one of the last');
  };
  await new Worker(queue, handler, { batch: 10, log: () => {} }).run({ once: true });
  // The last batch is tried three times, then its rows are dead. They may come again one by one. 23 has said when it
  // comes again.
  assert.deepEqual(sizes.slice(0, 3), [10, 10, 5]);
  assert.equal(sizes.slice(3).reduce((sum, size) => sum + size), 8);
  assert.equal(await here.count(queue.table), 2);
  assert.equal(await here.count(queue.dead), 4);
});

here.each('a transaction ends the message or changes nothing', async (driver) => {
  const { queue } = await made('exact', driver, 1, 2, 3, 4, 5);
  await here.run(`CREATE TABLE exactly_${driver} (n INT PRIMARY KEY) ENGINE=InnoDB`);
  await here.run(`INSERT INTO exactly_${driver} VALUES (3)`);
  const handler = async (job, connection) => {
    await connection.query(`INSERT INTO exactly_${driver} VALUES (${job.payload})`);
    if (job.payload === 2 && job.tries === 1) throw new Error('after its work');
    if (job.payload === 4 && job.tries < 3) job.fail('not now');
    if (job.payload === 5 && job.tries === 1) failing = true;
    if (job.tries > 1) whys.push(`${job.payload} ${job.why}`);
  };
  let failing = false;
  const whys = [];
  const connect = here.through(driver, 'COMMIT', (go) => {
    if (!failing) return go();
    failing = false;
    return Promise.reject(new Error('no COMMIT'));
  });
  const options = { transaction: true, connect, log: () => {} };
  await new Worker(queue, handler, options).run({ once: true });
  const rows = await here.run(`SELECT n FROM exactly_${driver} ORDER BY n`);
  assert.deepEqual(rows.flat(), [1, 2, 3, 4, 5]);
  assert.deepEqual(whys.sort(), ['2 Error: after its work', '4 not now', '4 not now', '5 Error: no COMMIT']);
  const dead = await here.run(`SELECT payload, failed FROM ${queue.dead}`);
  assert.deepEqual(dead, [['3', 3]], 'a transaction that fails each time does not come for ever');
  assert.equal(await here.count(queue.table), 0);
});

here.each('work that a deadlock has rolled back is done again', async (driver) => {
  const { queue } = await made('deadlock', driver, 1);
  await here.run(`CREATE TABLE deadlocked_${driver} (n INT PRIMARY KEY) ENGINE=InnoDB`);
  const deadlock = new Deadlock(here, await here.connect(driver));
  await deadlock.prepare();
  const whys = [];
  const handler = async (job, connection) => {
    whys.push(job.why);
    // Whoever ignores this has changed nothing.
    if (job.tries === 1) await deadlock.meet(connection);
    // In another transaction, if it is another one. Then it must not be kept.
    if (job.tries < 3) await connection.query(`INSERT INTO deadlocked_${driver} VALUES (${job.tries})`);
  };
  await new Worker(queue, handler, { transaction: true, log: () => {} }).run({ once: true });
  await deadlock.end();
  const why = 'QueueError: the transaction of the job had ended before its message, as a deadlock does';
  assert.deepEqual(whys, [null, why]);
  assert.deepEqual(await here.run(`SELECT n FROM deadlocked_${driver}`), [[2]]);
  assert.equal(await here.count(queue.table), 0);
});

here.each('an answer from before the end of a job does not end the worker', async (driver) => {
  const { queue } = await made('before', driver, 1);
  const tries = [];
  const [answered, isAnswered] = event();
  const [isKnown, know] = event();
  const connect = here.through(driver, 'SELECT queue_', async (go, sql) => {
    const answer = await go();
    if (sql.includes('queue_nack')) setImmediate(know);
    if (sql.includes('queue_lease') && tries.length === 1) {
      // Nothing waits, because the job runs. This is heard of when it has failed, and waits again.
      isAnswered();
      await isKnown;
    }
    return answer;
  });
  const handler = async (job) => {
    tries.push(job.tries);
    if (job.tries > 1) return;
    await answered;
    throw new Retry('once more', { delay: 0 });
  };
  await new Worker(queue, handler, { concurrency: 2, connect }).run({ once: true });
  assert.deepEqual(tries, [1, 2]);
});

here.each('what will never work ends the worker', async (driver) => {
  const { queue } = await made('wrong', driver);
  const none = () => {};
  await assert.rejects(new Worker(queue, none, { where: 'nothing = 1' }).run(), { errno: 51001 });
  const other = new Queue('nothing', { connect: queue.connect });
  await assert.rejects(new Worker(other, none).run(), { errno: 1146 });
  for (const wrong of [{ connect: () => 7 }, { lease: '30' }]) {
    await assert.rejects(new Worker(queue, none, wrong).run(), TypeError);
  }
  for (const options of [{ transaction: true, batch: 2 }, { connect: undefined }, { concurrency: 0 }]) {
    assert.throws(() => new Worker(queue, none, options), QueueError);
  }
});

here.each('a worker continues when its connections end', async (driver) => {
  for (const transaction of [false, true]) {
    const { queue, connection } = await made(`broken_${transaction}`, driver);
    const done = [];
    const worker = new Worker(queue, (job) => done.push(`${job.payload} ${job.tries}`), {
      wait: 600,
      transaction,
      log: () => {},
    });
    const run = worker.run();
    for (const payload of [0, 1, 2]) {
      await here.untilWaiting();
      const others = `SELECT id FROM information_schema.processlist WHERE db = '${here.database}'`;
      for (const [id] of await here.run(
        `${others} AND id NOT IN (CONNECTION_ID(), ${connection.threadId})`
      )) {
        await here.kill(id);
        await until('it ends', async () => !(await here.run(`${others} AND id = ${id}`)).length);
      }
      await here.untilWaiting();
      await queue.put(connection, payload);
      await until('it is done', () => done.length === payload + 1);
    }
    worker.stop();
    await run;
    assert.deepEqual(done, ['0 1', '1 1', '2 1']);
    assert.equal(await here.count(queue.table), 0);
  }
});

here.each('a wait that somebody has ended begins again', async (driver) => {
  const { queue, connection } = await made('ended', driver);
  const { told, log } = logged();
  const done = [];
  const worker = new Worker(queue, (job) => done.push(job.payload), { wait: 600, log });
  const run = worker.run();
  await here.untilWaiting();
  const before = await here.waiting();
  await here.run(`KILL QUERY ${before[0]}`);
  await queue.put(connection, 1);
  await until('it is done', () => done.length);
  await here.untilWaiting();
  assert.deepEqual(await here.waiting(), before, 'on the same connection');
  worker.stop();
  await run;
  assert.deepEqual(told, []);
});

here.each('a stop ends the wait and lets jobs end', async (driver) => {
  const { queue, connection, name } = await made('stopped', driver);
  const [began, begin] = event();
  const [mayEnd, end] = event();
  const done = [];
  const handler = async (job) => {
    begin();
    await mayEnd;
    done.push(job.payload);
  };
  const worker = new Worker(queue, handler, { wait: 600, concurrency: 2 });
  const run = worker.run();
  await assert.rejects(worker.run(), QueueError);
  await here.untilWaiting();
  await queue.put(connection, 1);
  await began;
  // One handler works, and the worker waits for the other one's message.
  await here.untilWaiting();
  worker.stop();
  await here.untilWaiting(0);
  await queue.put(connection, 2);
  assert.deepEqual(done, []);
  end();
  await run;
  assert.deepEqual(done, [1]);
  const left = await here.run(`SELECT payload FROM ${queue.table}`);
  assert.deepEqual(left, [['2']], 'nobody has taken it');
  assert.deepEqual(await here.failures(name), [], 'the other one has ended');
});

here.each('a stop returns what has not begun, and it was not tried', async (driver) => {
  const { queue, connection } = await made('returned', driver, 1);
  const lease = async (go) => {
    const answer = await go();
    // The message is here, and nobody has begun with it.
    worker.stop();
    return answer;
  };
  const connect = here.through(driver, 'queue_lease_json', lease);
  const worker = new Worker(queue, () => assert.fail('it is too late to begin'), { connect, wait: 600 });
  await worker.run();
  let tries;
  await queue.take(connection, (job) => (tries = job.tries));
  assert.equal(tries, 1);
});

test('a worker runs again after a stop', async () => {
  const { queue, connection } = await made('twice', 'mysql2', 1);
  const done = [];
  const worker = new Worker(queue, (job) => done.push(job.payload));
  await worker.run({ once: true });
  await queue.put(connection, 2);
  await worker.run({ once: true });
  assert.deepEqual(done, [1, 2]);
});
