import assert from 'node:assert/strict';
import type { LimitStatistics } from '@hearth/engine';
import { limitRows } from './limit_rows.ts';
import type { Seen } from './metric_row.ts';

const used = (bytes: bigint, waitedSeconds: number, waiting: number) => ({ bytes, waitedSeconds, waiting });
const limits: LimitStatistics[] = [
  { what: 'origin', total: 0n, warm: 9n, classes: { demand: used(0n, 0, 0), warm: used(7n, 1.5, 2) } },
  { what: 'disk', total: 0n, warm: 0n, classes: { demand: used(0n, 0, 0), warm: used(0n, 0, 0) } },
];

describe('metrics of limits', () => {
  it('cover the configured limits, by class', () => {
    const values = limitRows.map(({ name, read }) => [name, read({ statistics: { limits } } as unknown as Seen)]);
    const rows = (demand: number, warm: number) => [
      [['origin', 'demand'], demand],
      [['origin', 'warm'], warm],
    ];
    assert.deepEqual(values, [
      ['hearth_limit_bytes_total', rows(0, 7)],
      ['hearth_limit_waited_seconds_total', rows(0, 1.5)],
      ['hearth_limit_waiting', rows(0, 2)],
    ]);
  });
});
