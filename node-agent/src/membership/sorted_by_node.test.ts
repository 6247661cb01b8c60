import assert from 'node:assert/strict';
import { nodeRecord } from './record.ts';
import { SortedByNode } from './sorted_by_node.ts';

const record = (node: string, incarnation = '1') =>
  nodeRecord.parse({ node, incarnation, wire: [], ready: true, version: '1' });

describe('records sorted by node', () => {
  it('stay sorted as they come, change and go', () => {
    const sorted = new SortedByNode();
    for (const node of ['n2', 'n10', 'n1', 'n3']) sorted.put(record(node));
    sorted.put(record('n2', '2'));
    sorted.delete('n3');
    sorted.delete('n3');
    assert.deepEqual(
      sorted.records.map(({ node, incarnation }) => [node, incarnation]),
      [
        ['n1', '1'],
        ['n10', '1'],
        ['n2', '2'],
      ],
    );
  });

  it('come with one more, or with one in place of another', () => {
    const sorted = new SortedByNode();
    for (const node of ['a', 'c']) sorted.put(record(node));
    assert.deepEqual(
      sorted.with(record('b')).map(({ node }) => node),
      ['a', 'b', 'c'],
    );
    assert.deepEqual(
      sorted.with(record('c', '2')).map(({ incarnation }) => incarnation),
      ['1', '2'],
    );
    assert.equal(sorted.records.length, 2);
  });
});
