// BullMQ: one process. Jobs that are done are removed: by default it keeps them all.

import { Queue, Worker } from 'bullmq';

import { main, record } from './contestant.js';

const connection = { host: '127.0.0.1', port: Number(process.env.BENCH_ADDRESS), maxRetriesPerRequest: null };
const queue = () => new Queue('jobs', { connection, defaultJobOptions: { removeOnComplete: true } });

await main({
  make: async () => {},
  filler: async () => {
    const to = queue();
    return (payloads) => to.addBulk(payloads.map((data) => ({ name: 'job', data })));
  },
  putter: async () => {
    const to = queue();
    return (data) => to.add('job', data);
  },
  work: (concurrency) => new Worker('jobs', async (job) => record(job.data), { connection, concurrency }),
});
