import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf, faultsOfName } from './field_words.ts';

describe('words of texts, names and comments', () => {
  const wordsAt = (path: string, source: string) =>
    faultsOf(path, source).map((fault) => /"(.*?)"/.exec(fault)?.[1] ?? fault);
  const words = (source: string) => wordsAt('a.ts', source);
  const root = join(import.meta.dirname, '../..');
  const filesOf = (patterns: readonly string[]) =>
    patterns
      .flatMap((pattern) => globSync(pattern, { cwd: root }))
      .filter((path) => !/\/generated\/|node_modules\//.test(path));
  const read = (path: string) => readFileSync(join(root, path), 'utf8');

  it('are looked at in texts', () => {
    assert.deepEqual(words("log('the agent told of it')"), ['told']);
    assert.deepEqual(words('log(`made anew`, "nobody")'), ['anew', 'nobody']);
    assert.deepEqual(words("'foretold tellers'"), []);
    assert.deepEqual(words("const n = 65'536; log('told')"), ['told'], 'apostrophes of numbers begin no text');
    assert.deepEqual(wordsAt('a.cc', 'f(R"(it is "told")", 1\'000); g("anew");'), ['told', 'anew']);
  });

  it('are looked at in comments', () => {
    assert.deepEqual(words('a(); // Nobody is told\n/* made\n * anew */'), ['told', 'nobody', 'anew']);
    assert.deepEqual(words('// what the holder takes\n  // away, and is not to\n// be had'), [
      'to be had',
      'takes away',
    ]);
    assert.deepEqual(words('// what it takes\na();\n// away'), [], 'two comments are no sentence');
    assert.deepEqual(words('// bystander, kTold, untellable'), []);
  });

  it('are looked at in names, whichever way they are written', () => {
    assert.deepEqual(words('this.#tell(mostTold); takeAwayRest(); take_away; kToldTimes'), [
      ...['tell', 'told', 'takeaway', 'takeaway', 'told'],
    ]);
    assert.deepEqual(words('installTold; retell; satellite'), ['told']);
  });

  it('are more of them in names of the engine, and of its files', () => {
    const source = 'class ReadBook { Patience patience_; }; kGrantPatience; onQuestion';
    assert.deepEqual(wordsAt('a.h', source), ['book', 'patience', 'patience', 'patience', 'question']);
    assert.deepEqual(words(source), []);
    assert.equal(faultsOfName('native/directory/read_book.cc').length, 1);
    assert.equal(faultsOfName('native/transport/doorkeeper_test.cc').length, 1);
    assert.deepEqual(faultsOfName('native/directory/active_reads.cc'), []);
    assert.deepEqual(faultsOfName('node-agent/src/pins/notebook.ts'), []);
  });

  it('are those of the field in all product code', () => {
    const rooms = ['cli', 'common', 'csi-driver', 'node-agent', 'operator'].map((name) => `${name}/src/**/*.ts`);
    const isProduct = (path: string) => !/\.test\.ts$|\/testing\//.test(path);
    const product = filesOf([...rooms, 'native/binding/src/*.ts']).filter(isProduct);
    assert.ok(product.length > 300);
    assert.deepEqual(
      product.flatMap((path) => [...faultsOfName(path), ...faultsOf(path, read(path))]),
      [],
    );
  });

  it('are those of the field in the comments of tests and tools', () => {
    const rooms = ['bench', 'cli', 'common', 'csi-driver', 'e2e', 'node-agent', 'operator', 'scripts'];
    const sources = filesOf(rooms.map((name) => `${name}/**/*.ts`));
    assert.ok(sources.length > 800);
    assert.deepEqual(
      sources.flatMap((path) => faultsOf(path, read(path), 'comments')),
      [],
    );
    assert.deepEqual(faultsOf('a.ts', "tell('told'); // anew", 'comments').length, 1);
  });

  it('are those of the field in the engine, its tests included', () => {
    const sources = filesOf(['native/**/*.h', 'native/**/*.cc']);
    assert.ok(sources.length > 400);
    assert.deepEqual(
      sources.flatMap((path) => [...faultsOfName(path), ...faultsOf(path, read(path))]),
      [],
    );
  });
});
