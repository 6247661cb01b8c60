import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf } from './field_words.ts';

describe('words of texts and names', () => {
  const words = (source: string) => faultsOf('a.ts', source).map((fault) => /"(.*?)"/.exec(fault)?.[1]);

  it('are looked at in texts, not in comments', () => {
    assert.deepEqual(words("log('the agent told of it'); // nobody is told\n/* anew */"), ['told']);
    assert.deepEqual(words('log(`made anew`, "nobody")'), ['anew', 'nobody']);
    assert.deepEqual(words("'foretold tellers'"), []);
    assert.deepEqual(words("const n = 65'536; log('told')"), ['told'], 'apostrophes of numbers begin no text');
  });

  it('are looked at in names, whichever way they are written', () => {
    assert.deepEqual(words('this.#tell(mostTold); takeAwayRest(); take_away; kToldTimes'), [
      ...['tell', 'told', 'takeaway', 'takeaway', 'told'],
    ]);
    assert.deepEqual(words('installTold; retell; satellite'), ['told']);
  });

  it('are those of the field in all product code', () => {
    const root = join(import.meta.dirname, '../..');
    const of = ['cli', 'common', 'csi-driver', 'node-agent', 'operator'].map((name) => `${name}/src/**/*.ts`);
    const paths = of.flatMap((pattern) => globSync(pattern, { cwd: root }));
    const product = paths.filter((path) => !/\.test\.ts$|\/testing\/|\/generated\//.test(path));
    assert.ok(product.length > 300);
    assert.deepEqual(
      product.flatMap((path) => faultsOf(path, readFileSync(join(root, path), 'utf8'))),
      [],
    );
  });
});
