import assert from 'node:assert/strict';
import { specHashAnnotation } from '@hearth/common/resources';
import { contains, isCurrent } from './drift.ts';

describe('drift', () => {
  const cases: [what: string, whole: unknown, part: unknown, contained: boolean][] = [
    ['defaults of the server', { a: 1, added: true }, { a: 1 }, true],
    ['a changed value', { a: 2 }, { a: 1 }, false],
    ['a removed value', {}, { a: 1 }, false],
    ['an empty map that the server leaves out', {}, { a: {} }, true],
    ['an emptyDir', { emptyDir: {} }, { emptyDir: {} }, true],
    ['items of others beside ours', { c: [{ name: 'x' }, { name: 'y', v: 1 }] }, { c: [{ name: 'y', v: 1 }] }, true],
    ['a changed item', { c: [{ name: 'y', v: 2 }] }, { c: [{ name: 'y', v: 1 }] }, false],
    [
      'mounts of one volume',
      [
        { name: 'a', mountPath: '/1' },
        { name: 'a', mountPath: '/2' },
      ],
      [{ name: 'a', mountPath: '/2' }],
      true,
    ],
    ['arguments in another order', ['b', 'a'], ['a', 'b'], false],
    ['one argument more', ['a', 'b'], ['a'], false],
    ['quantities in the words of the server', { cpu: '500m', m: '1Gi' }, { cpu: '0.5', m: '1024Mi' }, true],
    ['other quantities', { cpu: '500m' }, { cpu: '0.6' }, false],
    ['false', { a: true }, { a: false }, false],
  ];
  for (const [what, whole, part, contained] of cases) {
    it(`${contained ? 'does not see' : 'sees'} ${what}`, () => assert.equal(contains(whole, part), contained));
  }

  it('sees fields that are no longer wanted by the hash, and objects that are going', () => {
    const object = (hash: string, more = {}) => ({
      metadata: { name: 'x', annotations: { [specHashAnnotation]: hash }, ...more },
    });
    assert.ok(isCurrent(object('1'), object('1')));
    assert.ok(!isCurrent(object('2'), object('1')));
    assert.ok(!isCurrent(object('1'), undefined));
    assert.ok(!isCurrent(object('1'), object('1', { deletionTimestamp: '2026-01-01T00:00:00Z' })));
  });
});
