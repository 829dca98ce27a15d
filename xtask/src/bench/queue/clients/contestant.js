// What the contestants in JavaScript share; contestant.py says what they do.

import { openSync, writeSync } from 'node:fs';

const LANES = 8;
const RATED = 1_000_000_000;
const PAD = 'x'.repeat(80);

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

const payload = (id, put = now()) => ({ id, put, pad: PAD });

let done;

export function record(job) {
  done ??= openSync(process.env.BENCH_DONE, 'a');
  writeSync(done, `${job.id} ${job.put} ${now()}\n`);
}

const inLanes = (lane) => Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));

async function atRate(rate, count, putter) {
  const puts = await inLanes(async (number) => {
    const put = await putter();
    await put(payload(number));
    return put;
  });
  const begin = now();
  await inLanes(async (number) => {
    const put = puts[number];
    for (let job = number; job < count; job += LANES) {
      const at = begin + Math.floor((job * 1_000_000) / rate);
      await new Promise((resolve) => setTimeout(resolve, (at - now()) / 1000));
      await put(payload(RATED + job, at));
    }
  });
}

/** `filler` and `putter` make functions that put some jobs, or one. */
export async function main({ make, filler, putter, work }) {
  const [what, ...numbers] = process.argv.slice(2);
  const [first, second] = numbers.map(Number);
  if (what === 'work') return work(first);
  if (what === 'make') await make();
  if (what === 'put') await atRate(first, second, putter);
  if (what === 'fill') {
    const fill = await filler();
    for (let at = 0; at < first; at += 1000) {
      await fill(Array.from({ length: Math.min(1000, first - at) }, (_, job) => payload(at + job)));
    }
  }
  process.exit();
}
