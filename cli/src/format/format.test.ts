import assert from 'node:assert/strict';
import { toJson } from './json.ts';
import { paint, printable } from './paint.ts';
import { formatBytes, formatCount, formatPercent, formatSeconds, fractionOf } from './quantity.ts';
import { cut, displayWidth, renderTable } from './table.ts';
import { wrap } from './wrap.ts';

describe('format', () => {
  const bytes: [bigint | number, string][] = [
    [0n, '0 B'],
    [1023n, '1023 B'],
    [1024n, '1.0 KiB'],
    [1536n << 20n, '1.5 GiB'],
    [(1n << 30n) - 1n, '1.0 GiB'],
    [1n << 63n, '8.0 EiB'],
  ];
  for (const [value, text] of bytes)
    it(`writes ${value} bytes as ${text}`, () => assert.equal(formatBytes(value), text));

  const times: [number, string][] = [
    [0, '0 s'],
    [59.4, '59 s'],
    [200, '3 min 20 s'],
    [3725, '1 h 02 min'],
    [273_600, '3 d 4 h'],
  ];
  for (const [value, text] of times)
    it(`writes ${value} seconds as ${text}`, () => assert.equal(formatSeconds(value), text));

  it('shows 100% only when complete', () => {
    assert.equal(formatPercent(fractionOf(999_999n, 1_000_000n)), ' 99%');
    assert.equal(formatPercent(fractionOf(5n, 5n)), '100%');
    assert.equal(formatPercent(fractionOf(0n, 0n)), '100%');
    assert.equal(fractionOf(9n, 5n), 1);
    assert.equal(fractionOf((1n << 62n) / 2n, 1n << 62n), 0.5);
  });

  it('formats counts', () => {
    assert.equal(formatCount(1n, 'file'), '1 file');
    assert.equal(formatCount(0, 'file'), '0 files');
  });

  it('writes 64-bit integers exactly', () => {
    assert.equal(
      toJson({ size: (1n << 63n) + 1n, none: undefined, list: [1n] }),
      '{"size":9223372036854775809,"list":[1]}',
    );
  });

  it('removes control characters from foreign text', () => {
    assert.equal(printable('a\u001b[2J\nb\u0085'), 'a\uFFFD[2J\uFFFDb\uFFFD');
    assert.equal(paint('x', 'bad', true), '\u001b[31mx\u001b[0m');
    assert.equal(paint('x', 'bad', false), 'x');
  });

  it('measures wide and combining characters', () => {
    assert.equal(displayWidth('模型'), 4);
    assert.equal(displayWidth('e\u0301'), 1);
    assert.equal(displayWidth('🔥a'), 3);
    assert.equal(cut('模型模型', 5), '模型…');
    assert.equal(cut('model', 5), 'model');
  });

  it('wraps at blanks', () => {
    assert.deepEqual(wrap('one two three', 7), ['one two', 'three']);
    assert.deepEqual(wrap('unbreakable x', 4), ['unbreakable', 'x']);
    assert.deepEqual(wrap('', 4), ['']);
  });
});

describe('renderTable', () => {
  const rows = [
    { name: 'a', size: '1', note: 'a rather long note' },
    { name: 'bbb', size: '200', note: '' },
  ];
  const columns = (changes: object = {}) => [
    { title: 'NAME', value: (row: (typeof rows)[0]) => row.name },
    { title: 'SIZE', value: (row: (typeof rows)[0]) => row.size, align: 'right' as const, ...changes },
    { title: 'NOTE', value: (row: (typeof rows)[0]) => row.note, flexible: true, omitEmpty: true },
  ];

  it('aligns columns', () => {
    assert.deepEqual(renderTable(columns(), rows, { columns: 80, colour: false }), [
      'NAME  SIZE  NOTE',
      'a        1  a rather long note',
      'bbb    200',
    ]);
  });

  it('cuts flexible columns to the width', () => {
    const lines = renderTable(columns(), rows, { columns: 22, colour: false });
    assert.deepEqual(lines[1], 'a        1  a rather …');
    assert.ok(lines.every((line) => displayWidth(line) <= 22));
  });

  it('drops empty and then dispensable columns', () => {
    assert.deepEqual(renderTable(columns({ dispensable: 1 }), rows.slice(1), { columns: 5, colour: false }), [
      'NAME',
      'bbb',
    ]);
    assert.deepEqual(renderTable(columns(), rows.slice(1), { columns: 5, colour: false }), [
      'NAME  SIZE',
      'bbb    200',
    ]);
  });

  it('ignores colours when measuring', () => {
    const toned = [
      { title: 'N', value: (row: (typeof rows)[0]) => row.name, tone: () => 'good' as const },
      ...columns(),
    ];
    assert.equal(
      renderTable(toned, rows, { columns: 80, colour: true })[1],
      '\u001b[32ma\u001b[0m    a        1  a rather long note',
    );
  });
});
