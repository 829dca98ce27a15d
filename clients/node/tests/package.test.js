// What the package says of itself: its examples run, and its types are those of what it exports.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import * as remora from 'remora-queue';

import { Case, SERVER } from './support.js';

const here = await Case.start('node_package');

const readme = readFileSync(new URL('../README.md', import.meta.url), 'ascii');
const [first, put, work, take, ...others] = readme
  .split('```javascript\n')
  .slice(1)
  .map((part) => part.split('```')[0]);

const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;

/** Runs an example with what it uses. The server and the database are those of the tests. */
async function example(text, used) {
  const body = text
    .replace(/^import .*\n/gm, '')
    .replace("{ host: 'localhost', user: 'shop', database: 'shop' }", 'server')
    .replaceAll("'shop.", `'${here.database}.`);
  const names = { ...remora, ...used, server: { ...SERVER, database: here.database } };
  await new AsyncFunction(...Object.keys(names), body)(...Object.values(names));
}

const { DRIVERS } = await import('./support.js');
const connect = () => here.open('mysql2');
const mails = new remora.Queue('mails', { connect, tries: 3, backoff: [10, 2, 600] });

test('the first lines of the README do what they say', async () => {
  assert.equal(others.length, 0, 'each example has a test');
  class Once extends remora.Worker {
    run() {
      return super.run({ once: true });
    }
  }
  const { warn } = console;
  console.warn = () => {};
  after(() => (console.warn = warn));
  await example(first, { mysql: DRIVERS.mysql2, Worker: Once });
  assert.deepEqual(await here.failures('mails'), [1]);
  const until = await here.leasedUntil('mails');
  assert(until > Date.now() / 1000 + 5, 'it is tried again in ten seconds');
  await here.run('TRUNCATE mails');
});

test('a message and an order', async () => {
  await here.run('CREATE TABLE bought (n INT) ENGINE=InnoDB');
  await example(put, { connection: await here.connect('mysql2') });
  const counts = await here.run('SELECT (SELECT COUNT(*) FROM bought), (SELECT COUNT(*) FROM orders)');
  assert.deepEqual(counts, [[1, 1]]);
});

test('a worker that asks a server', async () => {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.writeHead(request.url === '/busy' ? 429 : 200).end();
  }).listen(0);
  await once(server, 'listening');
  const connection = await here.connect('mysql2');
  await mails.create(connection);
  for (const path of ['ok', 'busy']) {
    await mails.put(connection, { url: `http://localhost:${server.address().port}/${path}` });
  }
  await example(work, { mails });
  server.close();
  server.closeAllConnections();
  assert.deepEqual(asked.sort(), ['/busy', '/ok']);
  assert.deepEqual(await here.failures('mails'), [1]);
  await here.run('TRUNCATE mails');
});

test('one job in a transaction', async () => {
  const connection = await here.connect('mysql2');
  await mails.create(connection);
  await here.run('CREATE TABLE sent (mail TEXT) ENGINE=InnoDB');
  await mails.put(connection, { to: 'ann@example.org' });
  await example(take, { mails, connection });
  assert.deepEqual(await here.run('SELECT mail FROM sent'), [['ann@example.org']]);
  assert.equal(await here.count('mails'), 0);
});

test('from nothing to a job that is tried again', async () => {
  const section = readme.split('## From nothing')[1].split('\n## ')[0];
  const [commands] = section.match(/(?<=```sh\n).*?(?=```)/s);
  const [installs, program] = commands.split(/(?=cat >)/);
  for (const line of installs.trim().split('\n')) assert.match(line, /^(remora sandbox|npm install) /);
  const server = JSON.stringify({ ...SERVER, database: here.database });
  const meant = program.replace("{ host: '127.0.0.1', port: 3307, user: 'root', database: 'shop' }", server);
  assert.doesNotMatch(meant, /3307/);
  // Here the packages are found.
  const cwd = mkdtempSync(fileURLToPath(new URL('nothing-', import.meta.url)));
  after(() => rmSync(cwd, { recursive: true }));
  await here.run('DROP TABLE IF EXISTS mails, mails_dead');
  const { stdout } = await promisify(execFile)('bash', ['-e', '-c', meant], { cwd, timeout: 60_000 });
  assert.match(stdout, /^try 1 after null\ntry 2 after Error: no such host\n$/);
});

test('types say what there is, and tsc reads them', async () => {
  const types = readFileSync(new URL('../src/index.d.ts', import.meta.url), 'ascii');
  const named = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map((found) => found[1]);
  assert.deepEqual(named.sort(), Object.keys(remora).sort());
  const compiler = join(
    dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
    'bin/tsc'
  );
  const file = fileURLToPath(new URL('types.ts', import.meta.url));
  const options = '--noEmit --strict --skipLibCheck --target es2022 --module nodenext --types node'.split(
    ' '
  );
  // What it complains of is on its standard output.
  const compiled = promisify(execFile)(process.execPath, [compiler, ...options, file]);
  await compiled.catch((error) => assert.fail(error.stdout + error.stderr));
});
