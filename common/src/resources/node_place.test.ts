import assert from 'node:assert/strict';
import { placeOf } from './node_place.ts';

describe('place of a node', () => {
  it('follows the labels', () => {
    assert.deepEqual(placeOf({ 'topology.kubernetes.io/zone': 'east', 'hearth.storage/rack': '7' }), {
      zone: 'east',
      rack: '7',
    });
    assert.deepEqual(placeOf({ 'topology.kubernetes.io/rack': '8' }), { zone: '', rack: '8' });
    assert.deepEqual(placeOf({}), { zone: '', rack: '' });
  });

  it("prefers Hearth's label for the rack", () => {
    const labels = { 'topology.kubernetes.io/rack': 'for something else', 'hearth.storage/rack': '7' };
    assert.equal(placeOf(labels).rack, '7');
  });
});
