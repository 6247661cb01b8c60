import assert from 'node:assert/strict';
import type { ChangeListener } from '@hearth/common/kubernetes';
import { partOfSource } from './reflectors.ts';

interface Whole {
  part?: { name: string };
  rest: number;
}

describe('part of a source', () => {
  const objects = new Map<string, Whole>([
    ['a', { part: { name: 'x' }, rest: 1 }],
    ['b', { rest: 2 }],
  ]);
  let tell: ChangeListener<Whole> = () => undefined;
  const source = partOfSource(
    {
      get: (key) => objects.get(key),
      all: () => [...objects.values()],
      keys: () => [...objects.keys()],
      synced: async () => undefined,
      onChange: (listener) => {
        tell = listener;
        return () => undefined;
      },
    },
    ({ part }: Whole) => part,
  );

  it('has the objects that have the part', () => {
    assert.deepEqual(source.keys(), ['a']);
    assert.deepEqual(source.all(), [{ name: 'x' }]);
    assert.equal(source.get('b'), undefined);
  });

  it('reports changes that show in it', () => {
    const heard: unknown[] = [];
    source.onChange((key, before, after) => heard.push([key, before?.name, after?.name]));
    tell('a', { part: { name: 'x' }, rest: 1 }, { part: { name: 'x' }, rest: 2 });
    tell('b', undefined, { rest: 1 });
    tell('b', { rest: 1 }, { part: { name: 'y' }, rest: 1 });
    tell('b', { part: { name: 'y' }, rest: 1 }, { part: { name: 'z' }, rest: 1 });
    tell('b', { part: { name: 'z' }, rest: 1 }, undefined);
    assert.deepEqual(heard, [
      ['b', undefined, 'y'],
      ['b', 'y', 'z'],
      ['b', 'z', undefined],
    ]);
  });
});
