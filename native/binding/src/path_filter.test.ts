import assert from 'node:assert/strict';
import { PathFilter } from './index.ts';

describe('path patterns', () => {
  const cases: [pattern: string, matching: string[], other: string[]][] = [
    ['*.safetensors', ['a.safetensors', 'x/y/a.safetensors'], ['a.safetensors.json', 'asafetensors']],
    ['/*.json', ['a.json'], ['x/a.json']],
    ['x/*.json', ['x/a.json'], ['x/y/a.json', 'z/x/a.json']],
    ['x/**/a', ['x/a', 'x/y/a', 'x/y/z/a', 'x/a/below'], ['y/a', 'xa']],
    ['x/**', ['x/a', 'x/a/b'], ['x', 'y/x/a']],
    ['onnx', ['onnx', 'onnx/model', 'a/onnx/model'], ['onnx2', 'aonnx']],
    ['onnx/', ['onnx/model'], ['onnx2/model']],
    ['model-?????.bin', ['model-00001.bin'], ['model-1.bin', 'model-00/01.bin']],
    ['*.{json,txt}', ['a.json', 'b.txt'], ['a.jsontxt', 'a.md']],
    ['[!a-c]x', ['dx'], ['ax', '/x']],
    ['a\\*b', ['a*b'], ['axb']],
    ['a+b(c).d', ['a+b(c).d'], ['aab(c).d', 'a+b(c)xd']],
    ['ä*', ['äöü'], ['a']],
  ];
  for (const [pattern, matching, other] of cases) {
    it(pattern, () => {
      const filter = new PathFilter([pattern]);
      for (const path of matching) assert.ok(filter.matches(path), path);
      for (const path of other) assert.ok(!filter.matches(path), path);
    });
  }

  it('lets exclusion win and chooses everything without patterns', () => {
    const filter = new PathFilter(['*.bin'], ['x/']);
    assert.ok(filter.matches('y/a.bin'));
    assert.ok(!filter.matches('x/a.bin'));
    assert.ok(new PathFilter([]).matches('anything'));
    assert.ok(new PathFilter([]).choosesAll);
  });

  it('ends at once for patterns that make backtracking matchers hang', () => {
    const filter = new PathFilter([`${'*n'.repeat(64)}z`]);
    const path = 'n'.repeat(4096);
    assert.ok(!filter.matches(path));
    assert.ok(filter.matches(`${path}z`));
  });

  it('refuses patterns that are malformed', () => {
    for (const pattern of ['', '/', 'a[b', 'a{b']) {
      assert.throws(() => new PathFilter([pattern]), { code: 'InvalidArgument' }, pattern);
    }
  });
});
