import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf } from './raw_clocks.ts';

/** The seam itself. */
const seam = ['common/src/clock.ts', 'native/base/clock.h'];

describe('clocks and timers of the system', () => {
  const count = (source: string) => faultsOf('a.ts', source).length;

  it('are found in code, and not in comments and texts', () => {
    const uses = ['Date.now()', 'now = Date.now', 'performance.now()', 'new Date()', 'process.hrtime.bigint()'];
    const timers = ['setTimeout(run, 1)', 'setInterval(run, 1)', 'AbortSignal.timeout(1)'];
    for (const use of [...uses, ...timers]) assert.equal(count(`const x = ${use};`), 1, use);
    assert.equal(count("import { setTimeout as sleep } from 'node:timers/promises';"), 1);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template in the code that is looked at
    assert.equal(count('`${Date.now()} ms`'), 1);
    assert.equal(count('// Date.now()\n/* setTimeout */ log(\'setInterval\', "Date.now")'), 0);
  });

  it('are not what is computed from a time, a socket, or of another name', () => {
    for (const other of ['new Date(at)', 'socket.setTimeout(5)', 'resetTimeout()', 'clearTimeout(x)', 'clock.now()'])
      assert.equal(count(other), 0, other);
  });

  it('are used by the seam alone in product code', () => {
    const root = join(import.meta.dirname, '../..');
    const of = ['cli', 'common', 'csi-driver', 'node-agent', 'operator'].map((name) => `${name}/src/**/*.ts`);
    const paths = of.flatMap((pattern) => globSync(pattern, { cwd: root }));
    const product = paths.filter((path) => !/\.test\.ts$|\/testing\/|\/generated\//.test(path));
    assert.ok(product.length > 300);
    const looked = product.filter((path) => !seam.includes(path));
    assert.deepEqual(
      looked.flatMap((path) => faultsOf(path, readFileSync(join(root, path), 'utf8'))),
      [],
    );
  });

  it('are slept by in no test of TypeScript without what is waited for', () => {
    const root = join(import.meta.dirname, '../..');
    const tests = globSync('{cli,common,csi-driver,e2e,native/binding,node-agent,operator}/**/*.test.ts', {
      cwd: root,
    });
    assert.ok(tests.length > 200);
    const slept = /new Promise\(.*setTimeout\(|'node:timers\/promises'/;
    assert.deepEqual(
      tests.filter((path) => slept.test(readFileSync(join(root, path), 'utf8'))),
      [],
      'wait by until() or steady(), or let time pass by elapse(), which says why',
    );
  });

  it('are used by the seam alone in the engine', () => {
    assert.equal(faultsOf('a.cc', 'auto t = std::chrono::steady_clock::now(); // system_clock::now()').length, 1);
    const root = join(import.meta.dirname, '../..');
    const product = globSync('native/**/*.{h,cc}', { cwd: root }).filter(
      (path) => !/_test\.cc$|\/testing\/|^native\/bench\/|\/generated\//.test(path),
    );
    assert.ok(product.length > 300);
    const looked = product.filter((path) => !seam.includes(path));
    assert.deepEqual(
      looked.flatMap((path) => faultsOf(path, readFileSync(join(root, path), 'utf8'))),
      [],
    );
  });
});
