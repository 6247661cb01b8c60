import assert from 'node:assert/strict';
import { ListingPlaces } from './listing_places.ts';

describe('places for listings', () => {
  it('are given in order, and to one namespace three of four at most', async () => {
    const places = new ListingPlaces(4);
    const had: string[] = [];
    const take = (name: string) => void places.take(name.slice(0, 1)).then(() => had.push(name));
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'a5']) take(name);
    await settle();
    assert.deepEqual(had.splice(0), ['a1', 'a2', 'a3', 'b1']);
    places.give('b');
    await settle();
    assert.deepEqual(had.splice(0), ['b2'], 'a4 came first, but its namespace has its share');
    places.give('a');
    await settle();
    assert.deepEqual(had.splice(0), ['a4']);
    places.give('b');
    await settle();
    assert.deepEqual(had.splice(0), []);
    places.give('a');
    await settle();
    assert.deepEqual(had.splice(0), ['a5']);
  });
});
