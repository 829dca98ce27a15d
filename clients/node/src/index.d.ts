// Jobs in a queue that is a table of MariaDB (ENGINE=QUEUE).

/** A connection of mysql2 (with promises or callbacks) or of mariadb (with promises). No pool. */
export interface Connection {
  query(...values: any[]): any;
}

/** Opens a connection that is used by one worker. It is closed with end(). */
export type Connect = () => Connection | PromiseLike<Connection>;

/** What JSON can hold. */
export type Payload = unknown;

export interface QueueOptions {
  /** Opens a connection for those who need one of their own: workers, and take() to extend its lease. */
  connect?: Connect;
  /** Messages are a part of the transaction that puts them. True by default. */
  transactional?: boolean;
  /** How often a message is tried before it is moved to NAME_dead: 5 by default, 0 for no limit. */
  tries?: number;
  /** Seconds after the first failed try, their factor, and the most of them. [10, 2, 3600] by default. */
  backoff?: readonly [number, number, number];
  /** Messages may have a key. */
  fifo?: boolean;
  /** Messages may have `dedupe`: for how many seconds a second one is left out. */
  dedupeFor?: number;
  /** Messages may have a priority. */
  priority?: boolean;
  /** For how many seconds messages are kept that have ended. 0 by default. */
  keep?: number;
}

export interface MessageOptions {
  /** Seconds from now on, by the server's clock. */
  delay?: number;
  /** When the message is given. Not with `delay`. */
  at?: Date;
  /** Messages with the same key come one at a time and in order. Needs `fifo`. */
  key?: string | number | bigint | null;
  /** The message is left out if one with the same value came before. Needs `dedupeFor`. */
  dedupe?: string | number | bigint | null;
  /** The lowest comes first. Needs `priority`. */
  priority?: number;
}

export interface Message extends MessageOptions {
  payload: Payload;
}

export interface PutOptions {
  /** Says of a queue that is not TRANSACTIONAL that ROLLBACK need not undo this. */
  outsideTransaction?: boolean;
}

export interface TakeOptions {
  /** Seconds. It is extended while the work goes on, if the queue has `connect`. 30 by default. */
  lease?: number;
  /** How many seconds the server waits for a message. 0 by default. */
  wait?: number;
  /** A condition, for example "priority < 3". literal() quotes values. */
  where?: string;
}

/**
 * A table with ENGINE=QUEUE. The options are those of create(); an existing table keeps its own. fifo,
 * dedupeFor and priority say which columns it has: give them as when it was made.
 */
export class Queue {
  /** The name is 'table' or 'db.table', with backticks around a part that has a dot, as in SQL. */
  constructor(name: string, options?: QueueOptions);
  readonly database: string | undefined;
  readonly name: string;
  /** The name of the table of messages that have failed too often. */
  readonly dead: string;
  /** The full name in backticks. */
  readonly table: string;
  readonly connect: Connect | undefined;
  /** The statements that create() runs, for those who keep their DDL elsewhere. */
  ddl(): string[];
  /** Makes the tables if they are not there. As all DDL, it commits the connection's transaction. */
  create(connection: Connection): Promise<void>;
  /** Puts a message into the queue. Resolves to its id. Workers see it when the transaction commits. */
  put(connection: Connection, payload: Payload, options?: MessageOptions & PutOptions): Promise<string>;
  /** Puts messages with one statement, all or none of them. Resolves to their ids. */
  putMany(connection: Connection, messages: Iterable<Message>, options?: PutOptions): Promise<string[]>;
  /**
   * Takes a message and the caller's changes in one transaction: both are there, or neither. Resolves to
   * false if no message came within `wait` seconds. When `work` has ended, the message is ended and the
   * transaction committed. An error rolls it back, counts as a failed try, and comes out.
   */
  take<P = any>(
    connection: Connection,
    work: (job: Job<P>) => unknown,
    options?: TakeOptions
  ): Promise<boolean>;
}

/** A message that is leased. */
export class Job<P = any> {
  private constructor();
  /** What put() resolved to. The column `id` as text; undefined without one. */
  readonly id: string | undefined;
  readonly payload: P;
  /** All columns. Numbers are text. */
  readonly row: Record<string, string | null>;
  /** Which try this is, counted from 1. */
  readonly tries: number;
  /** Why the last try has failed. */
  readonly why: string | null;
  readonly token: string;
  /** Grows from lease to lease. What a job writes to can refuse a smaller one than it has seen. */
  readonly fence: bigint;
  /** Is aborted with LeaseLost when the lease has ended while the job runs: somebody else may have it. */
  readonly signal: AbortSignal;
  /** Says that this job of a batch has failed. The others are done unless they fail too. */
  fail(reason: string, options?: { delay?: number }): void;
}

export interface WorkerOptions {
  /** Opens a connection. By default that of the queue. */
  connect?: Connect;
  /** Seconds. It is extended, so for so long a message is away when its worker is killed. 30 by default. */
  lease?: number;
  /** Seconds that the server waits for a message; below any time-out of the driver. 20 by default. */
  wait?: number;
  /** How many handlers run at the same time. 1 by default. */
  concurrency?: number;
  /** With more than 1 the handler is given an array of up to so many jobs. */
  batch?: number;
  /** The handler is given a connection too. What it does there and the end of the message are one COMMIT. */
  transaction?: boolean;
  /** A condition, for example "priority < 3". literal() quotes values. */
  where?: string;
  /** Is told what went wrong. By default console.warn() is. */
  log?: (text: string, error?: unknown) => void;
}

export interface RunOptions {
  /** Ends when nothing waits. */
  once?: boolean;
  /** SIGTERM and SIGINT stop the worker. A second one does what it did before. */
  signals?: boolean;
}

/** Runs a handler for the messages of a queue. Its end ends the message; an error is a failed try. */
export class Worker {
  constructor(
    queue: Queue,
    handler: (job: Job) => unknown,
    options?: WorkerOptions & { batch?: 1; transaction?: false }
  );
  constructor(queue: Queue, handler: (jobs: Job[]) => unknown, options: WorkerOptions & { batch: number });
  constructor(
    queue: Queue,
    handler: (job: Job, connection: any) => unknown,
    options: WorkerOptions & { transaction: true }
  );
  readonly queue: Queue;
  readonly handler: (...values: any[]) => unknown;
  /** Works until stop(). Fails with the driver's error if it would come again at every try. */
  run(options?: RunOptions): Promise<void>;
  /** Takes nothing more. run() ends when the jobs that run have ended. */
  stop(): void;
}

/** The base of this package's own errors. Those of the driver come out as they are. */
export class QueueError extends Error {}

/** There is no such table, or it has another engine. */
export class NotAQueue extends QueueError {}

/** The connection is within a transaction, and what was asked for would not be a part of it. */
export class InTransaction extends QueueError {}

/** The lease has expired, and somebody else may have the message. */
export class LeaseLost extends QueueError {}

/** Thrown by a handler: try again, after `delay` seconds or as the queue's backoff says. */
export class Retry extends Error {
  constructor(reason?: string, options?: { delay?: number });
  readonly delay: number | undefined;
}

/** A value as a condition of a queue has it: literal("it's") is 'it''s' with its quotes. */
export function literal(value: string | number | bigint): string;
