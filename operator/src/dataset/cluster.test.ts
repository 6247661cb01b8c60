import assert from 'node:assert/strict';
import { chooseCluster } from './cluster.ts';

const view = (name: string) => ({ name, directoryPrefixes: [] });
const a = view('a');
const b = view('b');

describe('cluster of a Dataset', () => {
  it('is the one that it names', () => {
    assert.deepEqual(chooseCluster('b', undefined, [a, b]), { kind: 'found', cluster: b });
    assert.deepEqual(chooseCluster('c', undefined, [a, b]), { kind: 'missing', name: 'c' });
  });

  it('is the only one when it names none', () => {
    assert.deepEqual(chooseCluster(undefined, undefined, [a]), { kind: 'found', cluster: a });
    assert.deepEqual(chooseCluster(undefined, undefined, []), { kind: 'missing', name: undefined });
    assert.deepEqual(chooseCluster(undefined, undefined, [b, a]), { kind: 'ambiguous', names: ['a', 'b'] });
  });

  it('stays when a second one appears, and goes on when its own has gone', () => {
    assert.deepEqual(chooseCluster(undefined, 'b', [a, b]), { kind: 'found', cluster: b });
    assert.deepEqual(chooseCluster(undefined, 'b', [a]), { kind: 'found', cluster: a });
  });

  it('does not move it to another one while its own is there', () => {
    assert.deepEqual(chooseCluster('b', 'a', [a, b]), { kind: 'moved', from: 'a', to: 'b' });
    assert.deepEqual(chooseCluster('b', 'a', [b]), { kind: 'found', cluster: b });
  });
});
