import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf, type SourceFile } from './source_rooms.ts';

const file = (path: string, ...imports: string[]): SourceFile => ({
  path,
  text: imports.map((each) => `import { x } from '${each}';\n`).join(''),
});

describe('rooms of TypeScript packages', () => {
  it('take what is behind the door of their own room, and what lies beside the rooms', () => {
    const inside = [file('a/one.ts', './two.ts', './deeper/three.ts', '../context.ts', '../generated/proto.ts')];
    assert.deepEqual(faultsOf([...inside, file('main.ts', './a/index.ts'), file('a/four.ts', '@hearth/common')]), []);
  });

  it('may not take what is behind the door of another one, unless they are tests', () => {
    const past = 'is behind b/index.ts';
    assert.deepEqual(faultsOf([file('a/one.ts', '../b/two.ts')]), [`a/one.ts imports b/two.ts, which ${past}`]);
    assert.deepEqual(faultsOf([file('a/deeper/one.ts', '../../b/two.ts', '../../b/index.ts')]).length, 1);
    assert.deepEqual(faultsOf([file('main.ts', './b/two.ts')]).length, 1);
    assert.deepEqual(faultsOf([file('a/one.test.ts', '../b/two.ts'), file('a/testing/x.ts', '../../b/two.ts')]), []);
  });

  it('may not need each other', () => {
    const files = [
      file('a/one.ts', '../b/index.ts'),
      file('b/two.ts', '../c/index.ts'),
      file('d/x.ts', '../a/index.ts'),
    ];
    assert.deepEqual(faultsOf(files), []);
    assert.deepEqual(faultsOf([...files, file('c/three.ts', '../a/index.ts')]), [
      'rooms in a circle: a uses b (a/one.ts), b uses c (b/two.ts), c uses a (c/three.ts)',
    ]);
  });

  for (const name of ['common', 'node-agent', 'operator', 'csi-driver']) {
    it(`are so in ${name}`, () => {
      const source = join(import.meta.dirname, '../..', name, 'src');
      const paths = globSync('**/*.ts', { cwd: source });
      assert.ok(paths.length > 40);
      assert.deepEqual(faultsOf(paths.map((path) => ({ path, text: readFileSync(join(source, path), 'utf8') }))), []);
    });
  }
});
