// Ends messages that workers are done with: many with one statement, on a connection of its own.

import { Change, Pauses, sleep } from './change.js';
import { isLasting } from './errors.js';
import { staleAmong } from './job.js';
import { ANSWER_PATIENCE, Line } from './link.js';
import * as statements from './statements.js';

/** In place of a failure: nobody has tried it. */
export const UNTRIED = Symbol('untried');

/**
 * Ends jobs by what they are given with: a failure, UNTRIED, or nothing for one that is done. While the
 * server is away, ends are kept.
 */
export class Ender {
  #line;
  #lease;
  #log;
  #after;
  /** Pairs of a job and its failure. */
  #left = [];
  #change = new Change();
  #closed = false;
  #until = Infinity;
  #ending;

  /** `after` is told for each job, when its token was used, whether it was stale. */
  constructor(connect, lease, log, after) {
    this.#line = new Line(connect);
    this.#lease = lease;
    this.#log = log;
    this.#after = after;
    this.#ending = this.#end();
  }

  end(job, failure) {
    this.#left.push([job, failure]);
    this.#change.tell();
  }

  /** Ends what is left. A lease that the server does not hear of in its time ends by itself. */
  async close() {
    this.#closed = true;
    this.#until = performance.now() + this.#lease * 1000;
    this.#change.tell();
    await this.#ending;
    this.#line.close();
  }

  async #end() {
    const pauses = new Pauses();
    for (;;) {
      while (!this.#left.length && !this.#closed) await this.#change.wait();
      if (!this.#left.length) return;
      const some = this.#next();
      try {
        const [, stale] = await this.#line.run(sqlFor(some), Math.max(this.#lease, ANSWER_PATIENCE));
        this.#told(some, staleAmong(stale));
        pauses.reset();
      } catch (error) {
        this.#log('ends of jobs could not be told, which is tried again', error);
        if (isLasting(error) || performance.now() > this.#until) this.#giveUp(some);
        await sleep(pauses.next());
      }
    }
  }

  /** The first ones that one statement can end. */
  #next() {
    const some = this.#left.slice(0, statements.TOKENS_AT_ONCE);
    const other = some.findIndex(([, failure]) => wayOf(failure) !== wayOf(some[0][1]));
    return other < 0 ? some : some.slice(0, other);
  }

  #told(some, stale) {
    this.#left.splice(0, some.length);
    for (const [job, failure] of some) {
      const isStale = stale.has(job.token);
      if (isStale && failure !== UNTRIED) {
        this.#log(`${job.token} came too late: its message may be worked on twice`);
      }
      this.#after(job, failure, isStale);
    }
  }

  #giveUp(some) {
    for (const [job] of some) {
      this.#log(`${job.token} could not be ended; it comes again when its lease has ended`);
    }
    this.#left.splice(0, some.length);
    for (const [job, failure] of some) this.#after(job, failure, false);
  }
}

function sqlFor(some) {
  const tokens = some.map(([job]) => job.token);
  const failure = some[0][1];
  if (failure === UNTRIED) return statements.release(tokens);
  return failure ? statements.nack(tokens, failure) : statements.ack(tokens);
}

/** Equal for those that one statement can end. */
function wayOf(failure) {
  return failure === UNTRIED ? UNTRIED : JSON.stringify(failure);
}
