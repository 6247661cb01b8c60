import { type Row, reached } from './result.ts';

const columns = ['id', 'value', 'baseline', 'unit', 'ratio', 'minimum', 'maximum', 'target', 'reached', 'what'];

const cell = (value: string | number): string => {
  const text = typeof value === 'number' ? (Number.isNaN(value) ? '' : String(value)) : value;
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** A line a row, and one for each program beside it (`ROW/PROGRAM`), whose ratio is of ours to its. RFC 4180. */
export function csvOf(rows: readonly Row[]): string {
  const lines = rows.flatMap((row) => {
    const { id, value, baseline, unit, ratio, minimum, maximum, target, what } = row;
    const besides = (row.beside ?? []).map((beside) => [
      ...[`${id}/${beside.name}`, beside.value, '', unit, beside.ratio, '', '', '', '', beside.missing ?? ''],
    ]);
    return [[id, value, baseline, unit, ratio, minimum, maximum, target, reached(row), what], ...besides];
  });
  return [columns, ...lines].map((cells) => `${cells.map(cell).join(',')}\r\n`).join('');
}
