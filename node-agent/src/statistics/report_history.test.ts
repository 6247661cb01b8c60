import assert from 'node:assert/strict';
import { NodeReport } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeResidency, NodeStatistics } from './record.ts';
import { statisticsOf } from './report.ts';
import { ReportHistory } from './report_history.ts';

const row = (residentBytes: bigint, fields: Partial<NodeResidency> = {}): NodeResidency => ({
  residentBytes,
  memoryBytes: 0n,
  completeFiles: 1,
  pinned: false,
  dataPath: 'view',
  reason: '',
  ...fields,
});

const figures = (residency: Record<string, NodeResidency>, usedBytes = 0n): NodeStatistics => ({
  node: 'a',
  budgetBytes: 10n,
  usedBytes,
  freeBytes: 5n,
  pinnedBytes: 0n,
  originBytes: 0n,
  peerBytesReceived: 0n,
  peerBytesSent: 0n,
  corruptBlocks: 0n,
  startedAt: 7,
  capabilities: [{ name: 'fuse', ready: true, reason: '' }],
  volumes: [],
  residency,
});

const names = (parts: readonly NodeReport[]) => parts.flatMap(({ datasets }) => datasets.map(({ dataset }) => dataset));

describe('history of reports', () => {
  it('begins with everything, then gives what has changed', () => {
    const history = new ReportHistory();
    history.note(figures({ x: row(1n), y: row(2n) }));
    const [whole] = history.since(undefined);
    assert.deepEqual([whole?.whole, whole?.more, whole?.figures?.budgetBytes], [true, false, 10n]);
    assert.deepEqual(names([whole as NodeReport]), ['x', 'y']);

    history.note(figures({ x: row(1n), y: row(3n) }));
    const [changed] = history.since(whole?.mark);
    assert.deepEqual([changed?.whole, changed?.figures, changed?.datasetsGone], [false, undefined, []]);
    assert.deepEqual(names([changed as NodeReport]), ['y']);

    history.note(figures({ x: row(1n) }, 4n));
    const [less] = history.since(changed?.mark);
    assert.deepEqual([less?.figures?.usedBytes, less?.datasets, less?.datasetsGone], [4n, [], ['y']]);
    // A caller that missed a report gets both.
    assert.deepEqual(history.since(whole?.mark)[0]?.datasetsGone, ['y']);
  });

  it('makes no report when nothing has changed', () => {
    const history = new ReportHistory();
    let told = 0;
    history.onChange(() => told++);
    history.note(figures({ x: row(1n) }));
    history.note(figures({ x: row(1n) }));
    assert.deepEqual([told, history.sequence], [1, 1]);
    const [mark] = history.since(undefined).map((part) => part.mark);
    const [empty] = history.since(mark);
    assert.deepEqual([empty?.whole, empty?.figures, empty?.datasets], [false, undefined, []]);
  });

  it('begins anew for a caller of another start, and for one that has missed too much', () => {
    const history = new ReportHistory();
    history.note(figures({ x: row(1n) }));
    const [first] = history.since(undefined);
    assert.equal(history.since({ incarnation: 'other', sequence: 1n })[0]?.whole, true);
    assert.equal(history.since({ incarnation: first?.mark?.incarnation ?? '', sequence: 9n })[0]?.whole, true);
    const many = Array.from({ length: 1_500 }, (_, index) => [`d${index}`, row(1n)] as const);
    history.note(figures(Object.fromEntries(many)));
    history.note(figures({ x: row(1n) }));
    const [again] = history.since(first?.mark);
    assert.deepEqual([again?.whole, names([again as NodeReport])], [true, ['x']]);
  });

  it('divides a report into messages of less than 1 MiB', () => {
    const history = new ReportHistory();
    const reason = 'r'.repeat(300);
    const sourcesAside = Array.from({ length: 15 }, (_, index) => `the mirror ${index}: ${reason}`);
    const many = Array.from(
      { length: 2_000 },
      (_, index) => [`ns.dataset-${index}`, row(1n, { sourcesAside })] as const,
    );
    const all = figures(Object.fromEntries(many));
    history.note(all);
    const parts = history.since(undefined);
    const sizes = parts.map((part) => NodeReport.encode(part).finish().length);
    assert.ok(Math.max(...sizes) < 1 << 20, `${sizes}`);
    assert.deepEqual(
      parts.map(({ whole, more }) => [whole, more]),
      parts.map((_, index) => [index === 0, index < parts.length - 1]),
    );
    assert.deepEqual(
      statisticsOf(
        'a',
        parts.map((part) => NodeReport.decode(NodeReport.encode(part).finish())),
      )?.residency,
      all.residency,
    );
    assert.deepEqual(names(history.since(undefined, new Set(['ns.dataset-7']))), ['ns.dataset-7']);
  });
});
