import assert from 'node:assert/strict';
import { placeOf } from './node_place.ts';

describe('place of a node', () => {
  it('is what its labels say', () => {
    assert.deepEqual(placeOf({ 'topology.kubernetes.io/zone': 'east', 'hearth.storage/rack': '7' }), {
      zone: 'east',
      rack: '7',
    });
    assert.deepEqual(placeOf({ 'topology.kubernetes.io/rack': '8' }), { zone: '', rack: '8' });
    assert.deepEqual(placeOf({}), { zone: '', rack: '' });
  });

  it('has the rack that the label of Hearth names, when both are there', () => {
    const labels = { 'topology.kubernetes.io/rack': 'for something else', 'hearth.storage/rack': '7' };
    assert.equal(placeOf(labels).rack, '7');
  });
});
