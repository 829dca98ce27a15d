'use strict';

/** The path of the program for this machine. Throws if it was not installed. */
function program() {
  const name = `remora-db-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/remora`);
  } catch (error) {
    throw new Error(`remora: the package ${name} is not there; it is an optional dependency of remora-db`, {
      cause: error,
    });
  }
}

module.exports = { program };
