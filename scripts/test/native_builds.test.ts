import assert from 'node:assert/strict';
import type { Outcome, Run } from './command.ts';
import { NativeBuilds } from './native_builds.ts';

/** A run whose commands end when the test says so. */
class Commands {
  readonly begun: string[] = [];
  readonly #ends: ((outcome: Outcome) => void)[] = [];

  readonly run: Run = (command, args) => {
    this.begun.push([command, ...args].join(' '));
    return new Promise((resolve) => this.#ends.push(resolve));
  };

  /** Ends the first that has not ended, and lets all go on that waited for it. */
  async endFirst(code = 0): Promise<void> {
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    await turn();
    this.#ends.shift()?.({ code, output: '' });
    await turn();
  }
}

describe('native builds', () => {
  it('that were begun ahead come one after the other, below everything else', async () => {
    const commands = new Commands();
    new NativeBuilds().begin(commands.run, [{ preset: 'fuzz', targets: ['frame'] }, { preset: 'asan' }]);
    await commands.endFirst();
    await commands.endFirst();
    assert.deepEqual(commands.begun, [
      'nice -n 19 chrt --idle 0 scripts/build-native.sh fuzz frame',
      'nice -n 19 chrt --idle 0 scripts/build-native.sh asan',
    ]);
  });

  it('of one folder are never two at a time', async () => {
    const commands = new Commands();
    const builds = new NativeBuilds();
    builds.begin(commands.run, [{ preset: 'asan' }]);
    const built = builds.build(commands.run, { preset: 'asan' });
    await commands.endFirst(1);
    assert.equal(commands.begun.at(-1), 'scripts/build-native.sh asan');
    await commands.endFirst();
    assert.equal((await built).code, 0, 'what failed ahead is built once more');
  });
});
