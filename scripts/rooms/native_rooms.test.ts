import assert from 'node:assert/strict';
import { faultsOf, parseRooms, type Room, render, type SourceFile, sizeOf } from './native_rooms.ts';

const cmake = `
hearth_room(base
  HEADERS result.h generated/codes.h
  TESTING clock_for_tests.h
  LIBRARIES OpenSSL::Crypto \${CMAKE_DL_LIBS})
hearth_room(cache HEADERS cache.h LIBRARIES hearth_base)
hearth_room(engine LIBRARIES hearth_cache)
hearth_fuzzer(cache_fuzz)
hearth_room(alone)
`;

const file = (path: string, ...includes: string[]): SourceFile => ({
  path,
  text: includes.map((include) => `#include "${include}"\n`).join(''),
});

/** Takes up all that is offered, so that nothing else is wrong. */
const users = [
  file('engine/user.cc', 'base/result.h', 'base/generated/codes.h', 'cache/cache.h'),
  file('engine/user_test.cc', 'base/clock_for_tests.h'),
];

describe('rooms of the native code', () => {
  const rooms: Room[] = parseRooms(cmake);
  const faults = (...sources: SourceFile[]) => faultsOf(rooms, [...users, ...sources]);

  it('reads what a room offers and links', () => {
    assert.deepEqual(rooms, [
      { name: 'base', headers: ['result.h', 'generated/codes.h'], testing: ['clock_for_tests.h'], uses: [] },
      { name: 'cache', headers: ['cache.h'], testing: [], uses: ['base'] },
      { name: 'engine', headers: [], testing: [], uses: ['cache'] },
      { name: 'alone', headers: [], testing: [], uses: [] },
    ]);
  });

  it("takes what is offered, a room's own headers, and what is no room's", () => {
    assert.deepEqual(faults(file('cache/evictor.cc', 'cache/evictor.h', 'base/result.h', 'napi.h')), []);
    assert.deepEqual(faults(file('engine/engine.cc', 'base/result.h')), [], 'linked through the cache');
  });

  it('refuses a private header', () => {
    assert.deepEqual(faults(file('engine/engine.cc', 'cache/evictor.h')), [
      'engine/engine.cc includes cache/evictor.h, which cache does not offer',
    ]);
  });

  it('refuses a room that is not linked, also against the direction', () => {
    assert.deepEqual(faults(file('alone/a.cc', 'base/result.h')), [
      'alone/a.cc includes base/result.h, and the room alone does not link base',
    ]);
    assert.deepEqual(faults(file('base/result.cc', 'cache/cache.h')), [
      'base/result.cc includes cache/cache.h, and the room base does not link cache',
    ]);
  });

  it('gives headers of tests to tests alone', () => {
    assert.deepEqual(faults(file('cache/cache_test.cc', 'base/clock_for_tests.h')), []);
    assert.deepEqual(faults(file('cache/testing/fixture.h', 'base/clock_for_tests.h')), []);
    const fixture = [file('cache/fixture.h', 'base/clock_for_tests.h'), file('cache/cache_test.cc', 'cache/fixture.h')];
    assert.deepEqual(faults(...fixture), [], 'only a test includes it');
    assert.deepEqual(faults(file('cache/cache.cc', 'base/clock_for_tests.h')), [
      'cache/cache.cc is no test and includes base/clock_for_tests.h, which is for tests',
    ]);
  });

  it('refuses offers that are not taken up', () => {
    assert.deepEqual(
      faultsOf(rooms, [file('engine/user.cc', 'base/result.h', 'cache/cache.h'), users[1] as SourceFile]),
      ['base/generated/codes.h is offered, and no other room includes it'],
    );
    const through = file('base/result.h', 'base/generated/codes.h');
    assert.deepEqual(
      faultsOf(rooms, [file('engine/user.cc', 'base/result.h', 'cache/cache.h'), users[1] as SourceFile, through]),
      [],
    );
  });

  it('counts lines, tests apart, and draws what is linked', () => {
    const sources = [file('cache/a.cc', 'x', 'y'), file('cache/a_test.cc', 'x'), file('cache/generated/b.h', 'x')];
    assert.deepEqual(sizeOf('cache', sources), { files: 1, lines: 2, testLines: 1 });
    const page = render(rooms);
    assert.match(page, /\| `native\/cache` \| `cache\.h` \| base \|/);
    assert.match(page, /^ {2}engine --> cache$/m);
  });
});
