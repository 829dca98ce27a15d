// A message that was leased, as a handler sees it.

import { failureOf, LeaseLost, Retry } from './errors.js';

export class Job {
  #lost = new AbortController();

  constructor({ row, token, try: tries, why }) {
    this.payload = payloadOf(row);
    this.row = row;
    this.token = token;
    this.tries = tries;
    this.why = why ?? null;
    /** Why this try has failed, as failureOf() gives it. */
    this.failure = undefined;
    /** Whether its handler has ended, so that its token is about to be used. */
    this.over = false;
    /** The same message, leased again before it was known how the use of the token went. */
    this.again = undefined;
    for (const hidden of ['failure', 'over', 'again']) {
      Object.defineProperty(this, hidden, { enumerable: false });
    }
  }

  get id() {
    return this.row.id ?? undefined;
  }

  /** By what a worker knows the message again. */
  get key() {
    return this.id ?? this.token;
  }

  get fence() {
    return BigInt(this.token.slice(this.token.lastIndexOf(':') + 1).split('-')[0]);
  }

  get signal() {
    return this.#lost.signal;
  }

  fail(reason, options) {
    this.failure = failureOf(new Retry(reason, options));
  }

  /** Somebody else may have the message. */
  lose() {
    const text = `the lease of ${this.token} has ended: somebody else may have its message`;
    this.#lost.abort(new LeaseLost(text));
  }

  /** The message was leased again while this job is here. One that runs continues with the new lease. */
  comesAgain(job) {
    if (this.over) {
      this.again = job;
    } else {
      this.token = job.token;
      this.tries = job.tries;
    }
  }
}

/** The jobs in what queue_lease_json() returned. */
export function jobsOf(answer) {
  return JSON.parse(answer).map((one) => new Job(one));
}

/** A payload that is no JSON, as another program may have put it, stays text. */
function payloadOf({ payload }) {
  try {
    return typeof payload === 'string' ? JSON.parse(payload) : payload;
  } catch {
    return payload;
  }
}

/** The tokens in what queue_stale() returned. A name in backticks may have commas of its own. */
export function staleAmong(answer) {
  return new Set(answer === null ? [] : answer.match(/(?:`[^`]*`|[^`,])+/g));
}
