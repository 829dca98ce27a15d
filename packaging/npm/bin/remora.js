#!/usr/bin/env node
'use strict';

const { spawn } = require('node:child_process');
const { program } = require('..');

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGUSR1'];

const child = spawn(program(), process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends its signals to both; those of others come here alone, and the program decides when to end.
for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`remora: ${error.message}`);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  if (signal === null) {
    process.exitCode = code;
    return;
  }
  SIGNALS.forEach((name) => process.removeAllListeners(name));
  process.kill(process.pid, signal);
});
