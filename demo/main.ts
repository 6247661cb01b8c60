// A cluster on one machine: three agents cache a model, mount it, and every byte of it is compared with its origin.
// Environment: SOURCE (another origin), ONESHOT=1 (end after the verification), HEARTH_RUN_DIR (default .hearth).
import { HearthError } from '@hearth/common';
import { systemTerminal } from '../cli/src/terminal.ts';
import { Cluster } from './cluster.ts';
import { hearth, StepFailed } from './hearth.ts';
import { chooseModel } from './model.ts';
import { RunDirectory } from './run_directory.ts';
import { tour } from './tour.ts';

const terminal = systemTerminal();

async function main(): Promise<number> {
  const { interrupt } = terminal;
  const directory = new RunDirectory(process.env);
  await directory.claim((line) => console.log(line));
  const cluster = new Cluster(directory, interrupt);
  try {
    const model = await chooseModel(directory.path, process.env.SOURCE);
    console.log(`Starting agents a, b and c with their caches and logs in ${directory.path}.`);
    await cluster.start();
    const matches = await tour({ directory, cluster, model, terminal });
    if (!matches) return 11;
    if (process.env.ONESHOT === '1') return 0;
    const [first] = directory.agents;
    console.log('\nThe cluster stays up until Ctrl-C. In another terminal, try any command of cli/bin/hearth --help.');
    if (first !== undefined) await hearth(first.socket, ['status', '--watch'], interrupt);
    return 0;
  } finally {
    console.log('\nUnmounting and ending the agents; caches stay.');
    await cluster.stop();
    directory.release();
  }
}

try {
  process.exitCode = await main();
} catch (thrown) {
  const error = HearthError.from(thrown);
  if (terminal.interrupt.aborted) {
    process.exitCode = 130;
  } else {
    process.exitCode = thrown instanceof StepFailed ? thrown.exit : error.exitCode;
    console.error(`make run: ${error.message}`);
  }
}
