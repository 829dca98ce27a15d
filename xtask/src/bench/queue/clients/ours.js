// Our package for Node: one process.

import mysql from 'mysql2/promise';
import { Queue, Worker } from 'remora-queue';

import { main, record } from './contestant.js';

const connect = () =>
  mysql.createConnection({ socketPath: process.env.BENCH_ADDRESS, user: 'root', database: 'bench' });

const jobs = new Queue('jobs', { connect });

await main({
  make: async () => jobs.create(await connect()),
  filler: async () => {
    const connection = await connect();
    return (payloads) => jobs.putMany(connection, payloads.map((payload) => ({ payload })));
  },
  putter: async () => {
    const connection = await connect();
    return (payload) => jobs.put(connection, payload);
  },
  work: (concurrency) => new Worker(jobs, async (job) => record(job.payload), { concurrency }).run(),
});
