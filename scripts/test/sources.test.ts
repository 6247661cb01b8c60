import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { matchesGlob } from 'node:path';
import { root } from './command.ts';
import { testFiles } from './sources.ts';

const { measured, programs, parts, onApiServer, kubernetes, onNodes } = testFiles;

/** As the suites give them to mocha: some globs, less others. */
const processes: [taken: readonly string[], left: readonly string[]][] = [
  [measured, []],
  [programs, measured],
  [parts, onApiServer],
  [onNodes, []],
  [[...kubernetes, ...onApiServer], onNodes],
];

const matches = (path: string, globs: readonly string[]) => globs.some((glob) => matchesGlob(path, glob));

describe('files of tests', () => {
  it('are each run by one process of one suite', () => {
    const listed = execFileSync('git', ['ls-files', '*.test.ts'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
    assert.ok(listed.length > 200);
    const wrong = listed.filter(
      (path) => processes.filter(([taken, left]) => matches(path, taken) && !matches(path, left)).length !== 1,
    );
    assert.deepEqual(wrong, []);
  });
});
