// A worker that tests stop and kill: work.js DATABASE QUEUE plain|transaction DRIVER [SECONDS OF THE LEASE]
//
// Each job inserts its payload into the table `done` of InnoDB. It fails at its first try if the payload is a
// multiple of seven.

import { Queue, Worker } from 'remora-queue';

import { DRIVERS, SERVER } from './support.js';

const [database, name, kind, driver, lease = '30'] = process.argv.slice(2);

const connect = () => DRIVERS[driver].createConnection({ ...SERVER, database });
const queue = new Queue(name, { connect });

function note(connection, { payload, tries }) {
  if (payload % 7 === 0 && tries === 1) throw new Error('a first try');
  return connection.query(`INSERT INTO done VALUES (${Number(payload)})`);
}

async function plain(job) {
  const connection = await connect();
  try {
    await note(connection, job);
  } finally {
    await connection.end();
  }
}

const transaction = kind === 'transaction';
const handler = transaction ? (job, connection) => note(connection, job) : plain;
const options = { lease: Number(lease), wait: 600, concurrency: 3, transaction, log: () => {} };
await new Worker(queue, handler, options).run({ signals: true });
