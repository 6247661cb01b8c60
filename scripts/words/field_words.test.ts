import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf, faultsOfName, faultsOfProse } from './field_words.ts';

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
    assert.deepEqual(words('this.#tell(lastTold); takeAwayRest(); take_away; kToldTimes'), [
      ...['tell', 'told', 'takeaway', 'takeaway', 'told'],
    ]);
    assert.deepEqual(words('installTold; retell; satellite'), ['told']);
  });

  it('are looked at in names of both languages, and of files', () => {
    const source = 'class ReadBook { Patience patience_; }; kGrantPatience; onQuestion';
    for (const path of ['a.h', 'a.ts'])
      assert.deepEqual(wordsAt(path, source), ['book', 'patience', 'patience', 'patience', 'question']);
    assert.equal(faultsOfName('native/directory/read_book.cc').length, 1);
    assert.equal(faultsOfName('native/transport/doorkeeper_test.cc').length, 1);
    assert.deepEqual(faultsOfName('native/directory/active_reads.cc'), []);
    assert.deepEqual(faultsOfName('node-agent/src/pins/notebook.ts'), []);
    assert.deepEqual(words('const mostPods = leastMs; mostUsed; almostAll; most; utmost'), ['most', 'least']);
    assert.deepEqual(wordsAt('a.h', 'kMostPods, mostBytes_'), ['most'], 'constants only');
  });

  it('are looked at in titles of tests', () => {
    const source = "it('tells it', () => log('told'));\n  describe.skip(`anew`, f); const told = 'told';";
    assert.deepEqual(
      faultsOf('a.test.ts', source, 'comments').map((fault) => /"(.*?)"/.exec(fault)?.[1]),
      ['tells', 'anew'],
    );
  });

  it('are looked at in documents', () => {
    assert.deepEqual(faultsOfProse('a.md', 'One.\n\nIt is taken\naway, and\n  # somebody tells.\n').length, 3);
  });

  it('are those of the field in documents, charts and protocols', () => {
    const patterns = ['*.md', '{docs,operator,node-agent,csi-driver,cli,common,native}/**/*.md', 'examples/**/*.yaml'];
    const documents = filesOf([...patterns, 'charts/**/*.{yaml,txt,tpl}', 'proto/hearth/**/*.{proto,yaml}']);
    assert.ok(documents.length > 40);
    assert.deepEqual(
      documents.filter((path) => path !== 'docs/glossary.md').flatMap((path) => faultsOfProse(path, read(path))),
      [],
    );
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

  it('are those of the field in the comments and titles of tests and tools', () => {
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
