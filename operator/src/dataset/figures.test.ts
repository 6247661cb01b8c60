import assert from 'node:assert/strict';
import { figuresOf, isSameReport, residencyOf } from './figures.ts';
import { agentDataset, residency } from './testing/fixtures.ts';

describe('figures of a Dataset', () => {
  it('say 100 percent of what is complete only', () => {
    const of = (bytes: bigint, ...resident: bigint[]) => {
      const nodes = resident.map((one, index) => residency(`n${index}`, one));
      const { percent, nodes: complete } = residencyOf(agentDataset({ bytes, residency: nodes }));
      return [percent, complete];
    };
    assert.deepEqual(of(1000n, 999n), [99, 0]);
    assert.deepEqual(of(1000n, 1000n, 10n), [100, 1]);
    assert.deepEqual(of(2n ** 60n, 2n ** 60n - 1n), [99, 0]);
    assert.deepEqual(of(1000n), [0, 0]);
    assert.deepEqual(of(0n), [0, 0]);
  });

  it('leave out what the origin has not', () => {
    assert.ok(!('revision' in figuresOf(agentDataset({ revision: '' }))));
    assert.ok(!('warnings' in figuresOf(agentDataset())));
  });

  it('are written when anything in them differs', () => {
    const given = agentDataset({ warnings: ['a'], residency: [residency('n1', 1n), residency('n2', 2n)] });
    assert.ok(isSameReport(given, structuredClone(given)));
    assert.ok(isSameReport(undefined, undefined));
    const others = [
      undefined,
      { ...given, manifest: 'b' },
      { ...given, state: 'Failed' },
      { ...given, message: 'm' },
      { ...given, revision: 'r' },
      { ...given, bytes: 1n },
      { ...given, files: 1n },
      { ...given, warnings: ['b'] },
      { ...given, warnings: [] },
      { ...given, residency: [residency('n1', 1n)] },
      { ...given, residency: [residency('n1', 1n), residency('n2', 3n)] },
      { ...given, residency: [residency('n1', 1n), residency('n3', 2n)] },
    ];
    for (const other of others) assert.ok(!isSameReport(given, other), JSON.stringify(other?.state));
  });
});
