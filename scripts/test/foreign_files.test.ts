import assert from 'node:assert/strict';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DemoRuns } from '../demo/testing/demo_run.ts';
import { root, run } from './command.ts';
import { generatedFiles, styleCheck, testFiles } from './sources.ts';

/** As models, their caches and other programs bring them: none keeps to the style, and no test of ours is among them. */
const foreign = {
  'config.json': '{"hidden_size":384,\n      "layers":   6 }',
  'tool.ts': 'var wrong: number = "text"\n',
  'tool.test.ts': 'throw new Error("a test of somebody else");\n',
  'generated/table.json': '[1,\n\n2]',
};

function writeForeign(folder: string): void {
  for (const [name, content] of Object.entries(foreign)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

const projects = (): string[] =>
  (JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as { references: { path: string }[] }).references.map(
    ({ path }) => path,
  );

/** What each tool of `make lint`, `make verify` and the suites of mocha takes for a source, by lines. */
async function seen(): Promise<string[]> {
  const quiet = { quiet: true };
  const [style, ...listed] = await Promise.all([
    run('node_modules/.bin/biome', [...styleCheck, '--max-diagnostics=none'], quiet),
    run('git', ['ls-files', '--others', '--exclude-standard', '--', ...generatedFiles], quiet),
    ...projects().map((path) => run('node_modules/.bin/tsc', ['-p', path, '--listFilesOnly'], quiet)),
  ]);
  const tests = globSync(Object.values(testFiles).flat(), { cwd: root });
  assert.ok(tests.some((path) => path.endsWith('foreign_files.test.ts')));
  return [style, ...listed].flatMap((outcome) => outcome?.output.split('\n') ?? []).concat(tests);
}

const namesIn = (lines: string[], folder: string) => lines.filter((line) => line.includes(basename(folder)));

describe('files of others in the checkout', () => {
  const folders: string[] = [];
  const make = (parent: string): string => {
    mkdirSync(join(root, parent), { recursive: true });
    const folder = mkdtempSync(join(root, parent, 'others-'));
    folders.push(folder);
    return folder;
  };
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });

  it('are nothing to checks and tests, where make run and builds leave them', async () => {
    const places = ['.hearth', 'build'].map(make);
    for (const place of places) writeForeign(place);
    const lines = await seen();
    for (const place of places) assert.deepEqual(namesIn(lines, place), []);
  });

  it('are left by make run in a directory of the checkout, twice, and checked by nothing', async () => {
    const origin = mkdtempSync(join(tmpdir(), 'hearth-origin-'));
    folders.push(origin);
    writeForeign(origin);
    const folder = make('.');
    const runs = new DemoRuns(folder);
    try {
      for (const round of ['first', 'second']) {
        const demo = runs.start({ SOURCE: origin, ONESHOT: '1' });
        assert.equal(await demo.ended, 0, demo.output());
        // Where make run unpacks the model that it downloads.
        writeForeign(join(runs.runDirectory().path, 'model'));
        assert.deepEqual(namesIn(await seen(), folder), [], round);
      }
    } finally {
      await runs.close();
    }
  });
});
