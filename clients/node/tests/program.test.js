// Workers in processes of their own.

import assert from 'node:assert/strict';

import { Queue } from 'remora-queue';

import { Case, until } from './support.js';

const here = await Case.start('node_program');

await here.run('CREATE TABLE done (n INT) ENGINE=InnoDB');

async function prepare(name, driver) {
  const queue = new Queue(name, { tries: 50, backoff: [0, 1, 0] });
  const connection = await here.connect(driver);
  await queue.create(connection);
  await here.run('DELETE FROM done');
  return { queue, connection };
}

here.each('SIGTERM and SIGINT stop a worker that waits', async (driver) => {
  await prepare('idle', driver);
  for (const signal of ['SIGTERM', 'SIGINT']) {
    await here.untilWaiting(0);
    const program = here.program('work.js', 'idle', 'plain', driver);
    await here.untilWaiting();
    program.process.kill(signal);
    // It would wait for ten minutes.
    assert.deepEqual(await program.ended, [0, null], signal);
  }
});

here.each('a second signal ends a worker at once', async (driver) => {
  const { queue, connection } = await prepare(`busy_${driver}`, driver);
  await here.untilWaiting(0);
  const program = here.program('work.js', queue.name, 'transaction', driver);
  await here.untilWaiting();
  // Its job waits for this table.
  await here.run('LOCK TABLES done WRITE');
  await queue.put(connection, 1);
  const busy = 'SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "INSERT INTO done%"';
  const ended = () => program.process.signalCode;
  await until('the job waits', () => here.value(busy));
  program.process.kill('SIGTERM');
  await here.untilWaiting(0);
  assert.equal(program.process.exitCode, null, 'the job runs');
  // The first signal was handled when the wait had ended.
  program.process.kill('SIGTERM');
  await program.ended;
  assert.equal(ended(), 'SIGTERM');
  await here.run('UNLOCK TABLES');
});

async function killAtRandom(kind, driver) {
  const { queue, connection } = await prepare(`killed_${kind}_${driver}`, driver);
  const count = 200;
  await queue.putMany(
    connection,
    [...Array(count).keys()].map((payload) => ({ payload }))
  );
  let state = 7;
  const chance = (least, most) => {
    state = (state * 48271) % 0x7fffffff;
    return least + (state % (most - least));
  };
  while (await here.count(queue.table)) {
    const program = here.program('work.js', queue.name, kind, driver, '0.5');
    const enough = (await here.count('done')) + chance(10, 60);
    const ready = async () => (await here.count('done')) >= enough || !(await here.count(queue.table));
    await until('the worker does something', ready);
    program.process.kill('SIGKILL');
    await program.ended;
  }
  assert.equal(await here.count(queue.dead), 0);
  assert.equal(await here.value('SELECT COUNT(DISTINCT n) FROM done'), count, 'no job is lost');
  return here.count('done');
}

here.each('no job is lost when workers are killed', (driver) => killAtRandom('plain', driver));

here.each('jobs in transactions are done once when workers are killed', async (driver) => {
  assert.equal(await killAtRandom('transaction', driver), 200);
});
