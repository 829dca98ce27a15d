// A worker: leases messages, runs a handler for each, and ends them.

import { Change, Pauses, sleep } from './change.js';
import { Ender, UNTRIED } from './ender.js';
import { failureOf, isInterrupted, isLasting, QueueError, Retry, UNKNOWN_THREAD } from './errors.js';
import { jobsOf } from './job.js';
import { Keeper } from './keeper.js';
import { ANSWER_PATIENCE, Line } from './link.js';
import { endWith, warn } from './queue.js';
import * as statements from './statements.js';

/** Seconds between two KILL QUERY: one that comes before the wait does nothing. */
const KILL_EVERY = 0.2;

/** After so many seconds without success the connection is closed instead. */
const KILL_PATIENCE = 5;

const SIGNALS = ['SIGTERM', 'SIGINT'];

export class Worker {
  #options;
  #change = new Change();
  #stop = new Change();
  #runs = false;
  #stopping = false;
  /** Why run() is to fail. */
  #failure;
  /** Groups of jobs that nobody has begun. */
  #ready = [];
  /** How many handlers run. */
  #busy = 0;
  /** By id, until their messages have ended. */
  #running = new Map();
  /** Lines for transactions that nobody uses. */
  #idle = [];
  #waits;
  #keeper;
  #ender;

  constructor(queue, handler, options = {}) {
    const defaults = { connect: queue.connect, lease: 30, wait: 20, concurrency: 1, batch: 1, log: warn };
    this.#options = { ...defaults, ...options };
    const { connect, batch, concurrency, transaction } = this.#options;
    if (typeof connect !== 'function') {
      throw new QueueError('a worker needs the option connect: a function that opens a connection');
    }
    if (!(batch >= 1 && concurrency >= 1)) throw new QueueError('batch and concurrency are at least 1');
    if (transaction && batch > 1) throw new QueueError('a transaction ends one message: leave out batch');
    this.queue = queue;
    this.handler = handler;
  }

  stop() {
    this.#stopping = true;
    this.#stop.tell();
    this.#change.tell();
  }

  async run({ once = false, signals = false } = {}) {
    if (this.#runs) throw new QueueError('this worker runs already; make another one');
    const { connect, lease, log } = this.#options;
    [this.#runs, this.#stopping, this.#failure] = [true, false, undefined];
    this.#waits = new Line(connect);
    this.#keeper = new Keeper(connect, lease, log);
    this.#ender = new Ender(connect, lease, log, (...told) => this.#ended(...told));
    const unhandle = signals ? this.#handleSignals() : () => {};
    const fetching = this.#fetch(once);
    while (!this.#stopping) await this.#stop.wait();
    await this.#endWait(fetching);
    for (const job of this.#ready.splice(0).flat()) this.#end(job, UNTRIED);
    while (this.#busy) await this.#change.wait();
    await this.#ender.close();
    this.#keeper.close();
    for (const line of [this.#waits, ...this.#idle.splice(0)]) line.close();
    unhandle();
    this.#runs = false;
    if (this.#failure) throw this.#failure;
  }

  /** A second signal does what it did before. */
  #handleSignals() {
    const unhandle = () => SIGNALS.forEach((name) => process.removeListener(name, handle));
    const handle = () => {
      unhandle();
      this.stop();
    };
    SIGNALS.forEach((name) => process.on(name, handle));
    return unhandle;
  }

  /** Ends the wait by KILL QUERY, which takes nothing, until the task that fetches has ended. */
  async #endWait(fetching) {
    const line = new Line(this.#options.connect);
    let fetches = true;
    const ended = fetching.then(() => (fetches = false));
    // It ends at once if it does not wait.
    await Promise.race([ended, sleep(0)]);
    const patience = setTimeout(() => {
      line.abort();
      this.#waits.abort();
    }, KILL_PATIENCE * 1000);
    while (fetches) {
      try {
        if (this.#waits.id) await line.run(statements.kill(this.#waits.id));
      } catch (error) {
        if (error.errno !== UNKNOWN_THREAD) {
          this.#options.log('the wait could not be ended, which is tried again', error);
        }
      }
      await Promise.race([ended, sleep(KILL_EVERY)]);
    }
    clearTimeout(patience);
    line.close();
  }

  async #fetch(once) {
    const pauses = new Pauses();
    while (!this.#stopping) {
      const free = this.#options.concurrency - this.#busy - this.#ready.length;
      if (free <= 0) {
        await this.#change.wait();
        continue;
      }
      // A job that ends while the server answers may have put or returned something after the answer.
      const wasIdle = this.#isIdle();
      try {
        const found = await this.#leaseSome(free, once ? 0 : this.#options.wait);
        pauses.reset();
        if (once && !found) {
          if (wasIdle) this.stop();
          else await this.#untilIdle();
        }
      } catch (error) {
        if (isInterrupted(error)) continue;
        if (isLasting(error)) {
          this.#failure = error;
          this.stop();
        } else if (!this.#stopping) {
          this.#options.log("the queue can't be asked, which is tried again", error);
          await this.#stop.wait(pauses.next());
        }
      }
    }
  }

  /** Leases what can begin at once. Whether there was something. */
  async #leaseSome(free, wait) {
    const { batch, lease, where } = this.#options;
    const sql = statements.lease(this.queue.table, where, lease, free * batch, wait);
    const found = jobsOf((await this.#waits.run(sql, wait + Math.max(lease, ANSWER_PATIENCE)))[0]);
    this.#begin(found.filter((job) => !this.#runsAlready(job)));
    return found.length > 0;
  }

  #isIdle() {
    return !this.#busy && !this.#running.size;
  }

  async #untilIdle() {
    while (!this.#stopping && !this.#isIdle()) await this.#change.wait();
  }

  /** Whether this message is here: its lease has ended, or it was returned, and it came again. */
  #runsAlready(job) {
    const runs = this.#running.get(job.key);
    if (!runs) {
      this.#running.set(job.key, job);
      return false;
    }
    runs.comesAgain(job);
    if (!runs.over) this.#keeper.add(runs);
    return true;
  }

  #begin(jobs) {
    const { batch, concurrency } = this.#options;
    for (const job of jobs) this.#keeper.add(job);
    for (let at = 0; at < jobs.length; at += batch) this.#ready.push(jobs.slice(at, at + batch));
    while (this.#ready.length && this.#busy < concurrency && !this.#stopping) {
      this.#work(this.#ready.shift());
    }
  }

  async #work(jobs) {
    const { batch, transaction } = this.#options;
    this.#busy += 1;
    let committed = false;
    try {
      if (transaction) {
        await this.#inTransaction(jobs[0]);
        committed = true;
      } else {
        await this.handler(batch === 1 ? jobs[0] : jobs);
      }
    } catch (error) {
      this.#note(error, jobs);
    }
    this.#busy -= 1;
    for (const job of jobs) {
      if (committed) {
        this.#over(job);
        this.#ended(job, undefined, false);
      } else {
        this.#end(job, job.failure);
      }
    }
    this.#begin([]);
    this.#change.tell();
  }

  /** The handler's changes and the end of the message are one COMMIT. */
  async #inTransaction(job) {
    const line = this.#idle.pop() ?? new Line(this.#options.connect, 0);
    try {
      // It begins the transaction. Again on a new connection: the server may have ended one that had nothing
      // to do.
      await line.run(statements.MARK).catch(() => line.run(statements.MARK));
      await endWith(line.connection, job, async () => {
        await this.handler(job, line.connection);
        this.#over(job);
      });
      this.#idle.push(line);
    } catch (error) {
      // Before the queue is told of the failure: until then the token may be in use.
      if (line.connection) await line.run('ROLLBACK').catch(() => {});
      line.close();
      throw error;
    }
  }

  #note(error, jobs) {
    const failed = jobs.filter((job) => !job.failure);
    for (const job of failed) job.failure = failureOf(error);
    if (!(error instanceof Retry)) {
      const count = failed.length;
      const told = count === 1 ? 'a job has failed:' : `${count} jobs have failed, the first is`;
      this.#options.log(`${told} ${jobs[0].token}`, error);
    }
  }

  /** From now on its token does not change. */
  #over(job) {
    job.over = true;
    this.#keeper.remove(job);
  }

  #end(job, failure) {
    this.#over(job);
    this.#ender.end(job, failure);
  }

  /** A token was used, and its job is gone. If it was stale, what came again ends in the same way. */
  #ended(job, failure, isStale) {
    const { again } = job;
    this.#running.delete(job.key);
    if (again) {
      this.#running.set(again.key, again);
      if (isStale) this.#end(again, failure);
      else if (this.#stopping) this.#end(again, UNTRIED);
      else this.#begin([again]);
    }
    this.#change.tell();
  }
}
