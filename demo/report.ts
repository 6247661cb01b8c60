import { formatBytes, formatCount, formatRate } from '../cli/src/format/quantity.ts';
import { renderTable } from '../cli/src/format/table.ts';
import type { Terminal } from '../cli/src/terminal.ts';
import type { Verified } from './verification.ts';

const maxRowsPerNode = 24;

/** Where bytes came from, without the sources that gave none. */
export function sourcesText(file: Pick<Verified, 'originBytes' | 'peerBytes' | 'localBytes'>): string {
  const sources: [string, bigint][] = [
    ['origin', file.originBytes],
    ['peers', file.peerBytes],
    ['already here', file.localBytes],
  ];
  const given = sources.filter(([, bytes]) => bytes > 0n);
  if (given.length <= 1) return given[0]?.[0] ?? '-';
  return given.map(([name, bytes]) => `${name} ${formatBytes(bytes)}`).join(', ');
}

/** One table of all files of all nodes: the largest of each, every one that does not match, the rest summed up. */
export function printReport(results: Verified[], terminal: Pick<Terminal, 'columns' | 'colour'>): void {
  const rows: Verified[] = [];
  for (const node of new Set(results.map((result) => result.node))) {
    const own = results.filter((result) => result.node === node).sort((one, other) => (one.size > other.size ? -1 : 1));
    const shown = own.filter((result, index) => index < maxRowsPerNode || result.problem !== '');
    rows.push(...shown);
    const hidden = own.filter((result) => !shown.includes(result));
    if (hidden.length > 0) rows.push(sumOf(hidden));
  }
  const table = renderTable<Verified>(
    [
      { title: 'NODE', value: (row) => row.node },
      { title: 'FILE', value: (row) => row.path, flexible: true },
      { title: 'SIZE', value: (row) => formatBytes(row.size), align: 'right' },
      { title: 'DATA PATH', value: (row) => row.dataPath },
      { title: 'BYTES CAME FROM', value: sourcesText },
      { title: 'RATE', value: rateText, align: 'right' },
      {
        title: 'AGAINST ORIGIN',
        value: (row) => row.problem || 'identical',
        tone: (row) => (row.problem === '' ? 'good' : 'bad'),
      },
    ],
    rows,
    { columns: terminal.columns(), colour: terminal.colour },
  );
  console.log(`\n${table.join('\n')}`);
}

/** One line a node: how much, how fast, from where. */
export function printTotals(results: Verified[]): void {
  console.log('');
  for (const node of new Set(results.map((result) => result.node))) {
    const all = sumOf(results.filter((result) => result.node === node));
    const text = `${formatBytes(all.size)} read at ${rateText(all)}; bytes came from: ${sourcesText(all)}`;
    console.log(
      `Agent ${node}: ${formatCount(results.filter((result) => result.node === node).length, 'file')}, ${text}`,
    );
  }
}

function sumOf(files: Verified[]): Verified {
  const sum = (value: (file: Verified) => bigint) => files.reduce((total, file) => total + value(file), 0n);
  const paths = new Set(files.map((file) => file.dataPath));
  return {
    node: files[0]?.node ?? '',
    path: `and ${formatCount(files.length, 'smaller file')}`,
    size: sum((file) => file.size),
    dataPath: [...paths].join(', '),
    originBytes: sum((file) => file.originBytes),
    peerBytes: sum((file) => file.peerBytes),
    localBytes: sum((file) => file.localBytes),
    seconds: files.reduce((total, file) => total + file.seconds, 0),
    problem: '',
  };
}

/** Short reads measure the clock, not the path. */
function rateText(file: Verified): string {
  return file.size >= 65_536n && file.seconds > 0 ? formatRate(Number(file.size) / file.seconds) : '-';
}
