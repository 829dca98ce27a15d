// Extends leases while the work goes on, on a connection of its own.

import { Change } from './change.js';
import { staleAmong } from './job.js';
import { Line } from './link.js';
import * as statements from './statements.js';

/** Of the lease. Two tries may fail before it ends. */
const PART = 1 / 3;

/** Jobs that end before their first extension cost no connection. */
export class Keeper {
  #line;
  #lease;
  #log;
  #jobs = new Set();
  #closing = new Change();
  #closed = false;

  constructor(connect, lease, log) {
    this.#line = new Line(connect);
    this.#lease = lease;
    this.#log = log;
    this.#keep();
  }

  add(job) {
    this.#jobs.add(job);
  }

  remove(job) {
    this.#jobs.delete(job);
  }

  /** An extension that is under way is not waited for: a broken connection may never answer. */
  close() {
    this.#closed = true;
    this.#jobs.clear();
    this.#closing.tell();
    this.#line.close();
  }

  async #keep() {
    for (;;) {
      await this.#closing.wait(this.#lease * PART);
      if (this.#closed) return;
      try {
        await this.#extend(new Map([...this.#jobs].map((job) => [job.token, job])));
      } catch (error) {
        if (!this.#closed) this.#log('leases could not be extended, which is tried again', error);
      }
    }
  }

  async #extend(jobs) {
    const tokens = [...jobs.keys()];
    for (let at = 0; at < tokens.length; at += statements.TOKENS_AT_ONCE) {
      const some = tokens.slice(at, at + statements.TOKENS_AT_ONCE);
      // A connection that does not answer must not use up the lease.
      const [, stale] = await this.#line.run(statements.extend(some, this.#lease), this.#lease);
      for (const token of staleAmong(stale)) {
        const job = jobs.get(token);
        // One that is leased again meanwhile has another token, and one that has ended is gone.
        if (!this.#jobs.has(job) || job.token !== token) continue;
        this.#jobs.delete(job);
        this.#log(`the lease of ${token} has ended while its job runs`);
        job.lose();
      }
    }
  }
}
