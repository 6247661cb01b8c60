import assert from 'node:assert/strict';
import fc from 'fast-check';
import { NodeSet } from './node_set.ts';

const size = 100;
const some = fc.uniqueArray(fc.nat({ max: size - 1 }));

function setOf(indexes: readonly number[]): NodeSet {
  return NodeSet.where(size, (node) => indexes.includes(node));
}

describe('set of nodes', () => {
  it('is what a Set of numbers is', () => {
    const property = fc.property(some, some, (left, right) => {
      const [a, b] = [new Set(left), new Set(right)];
      const where = (test: (node: number) => boolean) => Array.from({ length: size }, (_, node) => node).filter(test);
      assert.deepEqual(
        setOf(left).and(setOf(right)).indexes(),
        where((node) => a.has(node) && b.has(node)),
      );
      assert.deepEqual(
        setOf(left).or(setOf(right)).indexes(),
        where((node) => a.has(node) || b.has(node)),
      );
      assert.deepEqual(
        setOf(left).without(setOf(right)).indexes(),
        where((node) => a.has(node) && !b.has(node)),
      );
      for (let node = 0; node < size; node++) assert.equal(setOf(left).has(node), a.has(node));
    });
    fc.assert(property, { seed: 1 });
  });

  it('has no nodes beyond those that there are', () => {
    for (const nodes of [0, 1, 31, 32, 33]) assert.equal(NodeSet.all(nodes).indexes().length, nodes);
  });
});
