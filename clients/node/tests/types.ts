// What a program in TypeScript may write, and what it may not. tsc reads it, and nobody runs it.

import mariadb from 'mariadb';
import mysqlCallback from 'mysql2';
import mysql from 'mysql2/promise';
import { Job, LeaseLost, literal, Queue, QueueError, Retry, Worker } from 'remora-queue';

interface Mail {
  to: string;
}

const connect = () => mysql.createConnection({ user: 'shop' });
const mails = new Queue('shop.mails', {
  connect,
  tries: 3,
  backoff: [10, 2, 600],
  fifo: true,
  dedupeFor: 60,
});

export async function put(): Promise<string[]> {
  const connection = await connect();
  const id: string = await mails.put(connection, { to: 'ann' }, { delay: 0.5, key: 'ann' });
  await mails.put(await mariadb.createConnection({}), 1, { at: new Date(), outsideTransaction: true });
  await mails.put(mysqlCallback.createConnection({}), 1);
  // @ts-expect-error: a time needs a time zone.
  await mails.put(connection, 1, { at: '2030-01-01' });
  // @ts-expect-error: there is no such option.
  await mails.put(connection, 1, { dealy: 1 });
  // @ts-expect-error: a backoff has three numbers.
  new Queue('x', { backoff: [1, 2] });
  return [id, ...(await mails.putMany(connection, [{ payload: 1, priority: 2 }]))];
}

export async function take(): Promise<boolean> {
  const connection = await connect();
  return mails.take<Mail>(connection, async (job) => job.payload.to.length, { wait: 5 });
}

export function workers(): Worker[] {
  const plain = new Worker(mails, async (job) => {
    const { signal, fence, row }: { signal: AbortSignal; fence: bigint; row: Record<string, unknown> } = job;
    if (signal.reason instanceof LeaseLost && fence > 1n && row) throw new Retry('later', { delay: 60 });
    // @ts-expect-error: ids are text.
    const id: number = job.id;
  });
  const lasts = { lease: 60, where: `message_key = ${literal("it's")}`, log: console.error };
  const batches = new Worker(mails, (jobs: Job<Mail>[]) => jobs[0].fail('why', { delay: 1 }), {
    ...lasts,
    batch: 10,
  });
  const exact = new Worker(
    mails,
    async (job: Job<Mail>, connection: mysql.Connection) => {
      await connection.query('INSERT INTO sent VALUES (?)', [job.payload.to]);
    },
    { transaction: true, connect: () => mariadb.createConnection({}) }
  );
  void plain.run({ once: true, signals: true }).catch((error: unknown) => error instanceof QueueError);
  plain.stop();
  return [plain, batches, exact];
}
