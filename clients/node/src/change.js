// How tasks wait for each other.

/** The longest time of a timer. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** Seconds between two tries to reach the server: at first, and at most. */
const PAUSE_FIRST = 0.1;
const PAUSE_MAX = 5;

/** Something that changes, and tasks that wait for that. */
export class Change {
  #waiting = new Set();

  /** Until the next tell(), or for so many seconds. */
  wait(seconds) {
    return new Promise((resolve) => {
      let timer;
      const end = () => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      this.#waiting.add(end);
      if (seconds !== undefined) timer = setTimeout(end, Math.min(seconds * 1000, TIMER_MAX_MS));
    });
  }

  tell() {
    for (const end of [...this.#waiting]) end();
  }
}

export function sleep(seconds) {
  return new Change().wait(seconds);
}

/** The pauses between tries that fail: longer and longer. */
export class Pauses {
  #next = PAUSE_FIRST;

  next() {
    const pause = this.#next;
    this.#next = Math.min(pause * 2, PAUSE_MAX);
    return pause;
  }

  /** A try has succeeded. */
  reset() {
    this.#next = PAUSE_FIRST;
  }
}
