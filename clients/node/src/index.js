// Jobs in a queue that is a table of MariaDB (ENGINE=QUEUE). index.d.ts says what each thing does.

export { InTransaction, LeaseLost, NotAQueue, QueueError, Retry } from './errors.js';
export { Job } from './job.js';
export { Queue } from './queue.js';
export { literal } from './statements.js';
export { Worker } from './worker.js';
