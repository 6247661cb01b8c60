import assert from 'node:assert/strict';
import { csvOf } from './csv.ts';
import { reportOf } from './report.ts';
import type { Row } from './result.ts';

const machine = { cores: 1, memoryGiB: 1, kernel: '', fileSystem: '', disk: '', node: '' };
const rowOf = (about: Partial<Row>): Row => ({
  ...{ id: 'cold', what: 'a "read" <cold>, and more', value: 2, baseline: 4, ratio: 0.5, minimum: 0.4, maximum: 0.6 },
  ...{ target: 0.8, unit: 'GiB/s', runs: [], machine },
  ...about,
});

describe('bench report', () => {
  const rows = [
    rowOf({
      beside: [
        { name: 's3fs', value: 1, ratio: 2 },
        { name: 'geesefs', value: Number.NaN, ratio: Number.NaN, missing: 'not installed' },
      ],
    }),
    rowOf({ id: 'fast', ratio: 9, minimum: 7, maximum: 12 }),
    rowOf({ id: 'asks-none', target: 0, ratio: 3 }),
  ];

  it('is one page that loads nothing, with a bar for each row that has a target', () => {
    const page = reportOf(rows, ['2 cores & a disk'], ['gates: no etcd']);
    assert.doesNotMatch(page, /https?:|src=|href=|<script|@import|url\(/);
    assert.equal(page.match(/<rect class="/g)?.length, 2);
    assert.match(page, /<rect class="NO" x="150"/);
    assert.match(page, /class="beyond"/, 'a bar that does not end within the scale');
    assert.equal(page.match(/<g class="beside">/g)?.length, 1, 'a program that is here');
    for (const text of ['1 of 2 rows reach', 'not installed', 'gates: no etcd', 'cores &amp; a disk', '&lt;cold&gt;'])
      assert.ok(page.includes(text), text);
    assert.doesNotMatch(page, /NaN/);
  });

  it('is a table for other programs too', () => {
    assert.deepEqual(csvOf(rows).split('\r\n'), [
      'id,value,baseline,unit,ratio,minimum,maximum,target,reached,what',
      'cold,2,4,GiB/s,0.5,0.4,0.6,0.8,NO,"a ""read"" <cold>, and more"',
      'cold/s3fs,1,,GiB/s,2,,,,,',
      'cold/geesefs,,,GiB/s,,,,,,not installed',
      'fast,2,4,GiB/s,9,7,12,0.8,yes,"a ""read"" <cold>, and more"',
      'asks-none,2,4,GiB/s,3,0.4,0.6,0,-,"a ""read"" <cold>, and more"',
      '',
    ]);
  });
});
