import type { WarmJob, WarmJobNode } from '@hearth/common/generated/hearth/v1/control.ts';
import { arrivalText } from './arrival.ts';
import { paint, printable, toneOf } from './paint.ts';
import { formatBytes, formatPercent, formatRate, formatSeconds, fractionOf } from './quantity.ts';
import { cut, displayWidth } from './table.ts';

export interface ProgressStyle {
  columns: number;
  /** Maximum number of lines; one line sums up the remaining nodes. */
  rows: number;
  colour: boolean;
  unicode: boolean;
}

const widestBar = 40;
const minBar = 10;
const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/** `[####------]` or eighths of a block; `width` includes the brackets. */
export function renderBar(fraction: number, width: number, unicode: boolean): string {
  const inner = Math.max(1, width - 2);
  const bounded = Math.min(1, Math.max(0, fraction));
  if (!unicode) {
    const full = Math.floor(bounded * inner);
    return `[${'#'.repeat(full)}${'-'.repeat(inner - full)}]`;
  }
  const parts = Math.floor(bounded * inner * 8);
  const full = Math.floor(parts / 8);
  const text = '█'.repeat(full) + (eighths[parts % 8] ?? '');
  return `[${text}${' '.repeat(inner - displayWidth(text))}]`;
}

/** Lines of a job: totals with bar, rate and time left, bytes in memory, then one line a node. Pure. */
export function renderJob(job: WarmJob, style: ProgressStyle): string[] {
  const fraction = fractionOf(job.bytesReady, job.bytesTotal);
  const amounts = `${formatBytes(job.bytesReady)} of ${formatBytes(job.bytesTotal)}`;
  const left = job.secondsLeft > 0n ? `, ${formatSeconds(job.secondsLeft)} left` : '';
  const rate = job.bytesPerSecond > 0n ? `  ${formatRate(job.bytesPerSecond)}${left}` : '';
  const head = `${job.state} ${printable(job.name)}`;
  const tail = `${formatPercent(fraction)}  ${amounts}${rate}`;
  const room = style.columns - displayWidth(head) - displayWidth(tail) - 4;
  const bar = room >= minBar ? `${renderBar(fraction, Math.min(room, widestBar), style.unicode)} ` : '';
  const first = cut(`${head}  ${bar}${tail}`, style.columns);
  const painted = first.startsWith(job.state)
    ? paint(job.state, toneOf(job.state), style.colour) + first.slice(job.state.length)
    : first;
  const arrival = arrivalText(job);
  const above = [painted, ...(arrival === '' || style.rows < 2 ? [] : [cut(`  ${arrival}`, style.columns)])];
  const rows = style.rows - above.length;
  const shown = job.nodes.length <= rows ? job.nodes : job.nodes.slice(0, Math.max(0, rows - 1));
  const lines = [...above, ...renderNodes(shown, style)];
  const hidden = job.nodes.slice(shown.length);
  if (hidden.length > 0) lines.push(cut(`  ${summary(hidden)}`, style.columns));
  return lines;
}

function renderNodes(nodes: WarmJobNode[], style: ProgressStyle): string[] {
  const nameWidth = Math.max(0, ...nodes.map((node) => displayWidth(printable(node.node))));
  const stateWidth = Math.max(0, ...nodes.map((node) => displayWidth(node.state)));
  return nodes.map((node) => {
    const fraction = fractionOf(node.bytesReady, node.bytesTotal);
    const sources = `origin ${formatBytes(node.originBytes)}, peers ${formatBytes(node.peerBytes)}`;
    const verified = node.filesVerified > 0n ? `, ${node.filesVerified} verified` : '';
    const files = `${node.filesReady}/${node.filesTotal} files${verified}`;
    const text = [
      `  ${pad(printable(node.node), nameWidth)}`,
      pad(node.state, stateWidth),
      formatPercent(fraction),
      formatBytes(node.bytesReady),
      `(${sources})`,
      files,
      arrivalText(node),
      printable(node.message),
    ];
    return cut(
      text
        .filter((part) => part !== '')
        .join('  ')
        .trimEnd(),
      style.columns,
    );
  });
}

function summary(nodes: WarmJobNode[]): string {
  const states = new Map<string, number>();
  for (const node of nodes) states.set(node.state, (states.get(node.state) ?? 0) + 1);
  return `and ${nodes.length} more: ${[...states].map(([state, count]) => `${count} ${state}`).join(', ')}`;
}

function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)));
}

/** One line for logs and pipes, which cannot be redrawn. */
export function jobLine(job: WarmJob): string {
  const fraction = formatPercent(fractionOf(job.bytesReady, job.bytesTotal)).trim();
  const rate = job.bytesPerSecond > 0n ? `, ${formatRate(job.bytesPerSecond)}` : '';
  const left = job.secondsLeft > 0n ? `, ${formatSeconds(job.secondsLeft)} left` : '';
  const arrival = arrivalText(job);
  const amounts = `${formatBytes(job.bytesReady)} of ${formatBytes(job.bytesTotal)}${rate}${left}`;
  return `${printable(job.name)} ${job.state} ${fraction}: ${amounts}${arrival === '' ? '' : `; ${arrival}`}`;
}
