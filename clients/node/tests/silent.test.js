// Connections that never answer, as when a network drops everything. Most are made without a server.

import assert from 'node:assert/strict';
import net from 'node:net';
import { mock, test } from 'node:test';

import { Queue, Worker } from 'remora-queue';

import { Ender } from '../src/ender.js';
import { Job } from '../src/job.js';
import { Keeper } from '../src/keeper.js';
import { Line } from '../src/link.js';
import { Case, DRIVERS, event, PATIENCE_MS, until } from './support.js';

const here = await Case.start('node_silent');

const job = (token) => new Job({ row: {}, token, try: 1 });

/** Opens connections, as those of mariadb, on which statements are not answered if a function says so. */
function connecting(isSilent) {
  const opened = [];
  const connect = () => {
    const connection = { isDestroyed: false, batch() {}, on() {}, end() {} };
    connection.query = ({ sql }) => (isSilent(sql) ? new Promise(() => {}) : Promise.resolve([[1]]));
    connection.destroy = () => (connection.isDestroyed = true);
    opened.push(connection);
    return connection;
  };
  return [opened, connect];
}

/** Lets time pass, which is not real, until a promise is settled. */
async function pass(promise) {
  let settled = false;
  const settle = () => (settled = true);
  promise.then(settle, settle);
  const end = performance.now() + PATIENCE_MS;
  while (!settled) {
    assert(performance.now() < end, 'not in time');
    mock.timers.tick(1000);
    await new Promise(setImmediate);
  }
  return promise;
}

function inNoTime(name, work) {
  test(name, { timeout: PATIENCE_MS }, async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      await work();
    } finally {
      mock.timers.reset();
    }
  });
}

inNoTime('an extension that is not answered does not hold up the next', async () => {
  const [asked, ask] = event();
  const told = [];
  let extensions = 0;
  const [opened, connect] = connecting((sql) => {
    if (!sql.includes('queue_extend')) return false;
    extensions += 1;
    if (extensions === 2) ask();
    return true;
  });
  const keeper = new Keeper(connect, 3, (text, error) => told.push(error.message));
  keeper.add(job('q:1-a'));
  await pass(asked);
  keeper.close();
  assert.deepEqual(told, ['no answer within 3 s']);
  assert.deepEqual(
    opened.map((one) => one.isDestroyed),
    [true, true]
  );
});

inNoTime('an end that is not answered does not hold up a stop', async () => {
  const told = [];
  const [opened, connect] = connecting((sql) => sql.includes('queue_ack'));
  const ender = new Ender(
    connect,
    0.01,
    (text, error) => error && told.push(error.message),
    (...of) => told.push(of)
  );
  const one = job('q:1-a');
  ender.end(one);
  await pass(ender.close());
  assert.equal(told[0], 'no answer within 30 s');
  assert.deepEqual(told.at(-1), [one, undefined, false]);
  assert(opened.every((connection) => connection.isDestroyed));
});

inNoTime('a stop ends also a wait that the server says nothing about', async () => {
  for (const silent of ['queue_lease', 'SET autocommit']) {
    const [asked, ask] = event();
    const [opened, connect] = connecting((sql) => {
      if (sql.includes(silent)) ask();
      return sql.includes(silent);
    });
    const worker = new Worker(new Queue('q', { connect }), assert.fail, { log: () => {} });
    const run = worker.run();
    await asked;
    worker.stop();
    await pass(run);
    assert.equal(opened[0].isDestroyed, true);
  }
});

inNoTime('a connection that is opened too late is closed', async () => {
  const [arrived, arrive] = event();
  const [, connect] = connecting(() => false);
  const [made, make] = event();
  const line = new Line(() => {
    make();
    return arrived;
  });
  const asking = line.run('SELECT 1', 1);
  await made;
  await assert.rejects(pass(asking), { message: 'no answer within 1 s' });
  const late = connect();
  arrive(late);
  await new Promise(setImmediate);
  assert.deepEqual([late.isDestroyed, line.connection], [true, undefined]);
});

here.each('with a real connection too', async (driver) => {
  let isSilent = false;
  const gate = net.createServer((from) => {
    const to = net.connect(process.env.REMORA_QUEUE_SOCKET);
    // What arrives while it is silent is lost.
    from.on('data', (bytes) => isSilent || to.write(bytes));
    to.on('data', (bytes) => isSilent || from.write(bytes));
    for (const [one, other] of [
      [from, to],
      [to, from],
    ]) {
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
  });
  await new Promise((resolve) => gate.listen(0, '127.0.0.1', resolve));
  const { port } = gate.address();
  const options = { host: '127.0.0.1', port, user: 'root', database: here.database };
  const opened = [];
  const connect = async () => {
    const connection = await DRIVERS[driver].createConnection(options);
    opened.push(connection);
    return connection;
  };
  const queue = new Queue(`silent_${driver}`, { connect });
  const connection = await here.connect(driver);
  await queue.create(connection);
  await queue.put(connection, 1);
  const extended = async () => {
    const first = await here.leasedUntil(queue.name);
    await until('it is extended', async () => (await here.leasedUntil(queue.name)) > first + 0.5);
  };
  const told = [];
  const handler = async () => {
    await extended();
    isSilent = true;
    await until('it is seen', () => told.some((text) => text.includes('could not be extended')));
    isSilent = false;
    await extended();
    worker.stop();
  };
  const worker = new Worker(queue, handler, { lease: 3, log: (text) => told.push(text) });
  await worker.run();
  assert.equal(await here.count(queue.table), 0);
  // A program would not end while there is a socket.
  if (driver === 'mysql2') assert(opened.some((one) => one.connection.stream.destroyed));
  gate.close();
});
