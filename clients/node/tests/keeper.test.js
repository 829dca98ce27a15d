// What no server can be made to do at the right moment: answers that come too late. So there is none.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Job } from '../src/job.js';
import { Keeper } from '../src/keeper.js';
import { event, PATIENCE_MS } from './support.js';

const job = (token) => new Job({ row: {}, token, try: 1 });

/** A connection, as one of mariadb, whose extensions a function answers. */
function connecting(extend) {
  const [closed, close] = event();
  const query = ({ sql }) => (sql.includes('queue_extend') ? extend(sql, closed) : Promise.resolve([[1]]));
  return () => ({ query, batch() {}, on() {}, end: close, destroy: close });
}

test('an answer about a former token is none about the job', { timeout: PATIENCE_MS }, async () => {
  const [again, ended, lost] = [job('q:1-a'), job('q:2-a'), job('q:3-a')];
  const told = [];
  const [extended, end] = event();
  const extend = async (sql) => {
    if (told.length) end(sql);
    // While the answer is on its way one is leased again, and one has ended.
    again.token = 'q:4-a';
    keeper.remove(ended);
    return [[0, 'q:1-a,q:2-a,q:3-a']];
  };
  const keeper = new Keeper(connecting(extend), 0.03, (text) => told.push(text));
  [again, ended, lost].forEach((one) => keeper.add(one));
  assert.match(await extended, /queue_extend\('q:4-a'/);
  keeper.close();
  assert.deepEqual(
    [again, ended, lost].map((one) => one.signal.aborted),
    [false, false, true]
  );
  assert.equal(told.length, 1);
});

test('the end of a keeper ends what it does, and is no failure', { timeout: PATIENCE_MS }, async () => {
  const told = [];
  const [asked, ask] = event();
  let answered;
  const extend = (_sql, closed) => {
    ask();
    return (answered = closed.then(() => Promise.reject(new Error('destroyed'))));
  };
  const keeper = new Keeper(connecting(extend), 0.03, (text) => told.push(text));
  keeper.add(job('q:1-a'));
  await asked;
  keeper.close();
  await assert.rejects(answered);
  await new Promise(setImmediate);
  assert.deepEqual(told, []);
});
