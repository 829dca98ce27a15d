// What can go wrong, and what a handler may throw.

import { inspect } from 'node:util';

/**
 * Refusals that come again at every try: the table, a privilege or an argument is wrong. The server's manual
 * lists them under "Errors and warnings".
 */
const LASTING = new Set([1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305]);
for (let number = 51001; number <= 51007; number += 1) LASTING.add(number);

/** KILL QUERY of a connection that is gone. */
export const UNKNOWN_THREAD = 1094;

/** RELEASE SAVEPOINT of one that is not there. */
export const NO_SAVEPOINT = 1305;

export class QueueError extends Error {}
export class NotAQueue extends QueueError {}
export class InTransaction extends QueueError {}
export class LeaseLost extends QueueError {}

/** A mistake of the program. Other errors of this type may pass, such as that of fetch() within connect(). */
export class WrongValue extends TypeError {}

export class Retry extends Error {
  constructor(reason = '', { delay } = {}) {
    super(reason);
    this.delay = delayed(delay);
  }
}

for (const one of [QueueError, NotAQueue, InTransaction, LeaseLost, Retry]) {
  one.prototype.name = one.name;
}

/** A delay that is none would only be refused later, by the server. */
export function delayed(delay) {
  if (delay === undefined || (Number.isFinite(delay) && delay >= 0)) return delay;
  throw new WrongValue(`${delay} is no number of seconds`);
}

/** Whether an error will come again at every try. */
export function isLasting(error) {
  return LASTING.has(error?.errno) || error instanceof WrongValue;
}

/** Whether KILL QUERY or max_statement_time has ended a wait: the connection can be used on. */
export function isInterrupted(error) {
  return error?.errno === 1317 || error?.errno === 1969;
}

/** A failed try, as the queue is told: its reason and when it comes again. */
export function failureOf(error) {
  if (error instanceof Retry) return { reason: error.message, delay: error.delay };
  return { reason: error instanceof Error ? `${error.name}: ${error.message}` : inspect(error) };
}
