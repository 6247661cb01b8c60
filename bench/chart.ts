import { type Beside, number, type Row, reached } from './result.ts';

const width = 900;
const rowHeight = 26;
const besideHeight = 13;
const labelWidth = 150;
const figureWidth = 110;
/** Where the scale ends, in multiples of the target; what is beyond is cut off, and has an arrow. */
const most = 2;
const axisHeight = 30;

const plotWidth = width - labelWidth - figureWidth;
const at = (multiple: number): number => labelWidth + (Math.min(Math.max(multiple, 0), most) / most) * plotWidth;
const px = (value: number): string => value.toFixed(1);

export const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (each) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[each] ?? each);

const measuredBeside = (row: Row): Beside[] => (row.beside ?? []).filter(({ ratio }) => ratio > 0);
const heightOf = (row: Row): number => rowHeight + besideHeight * measuredBeside(row).length;

/** A thin bar for another program, as far as its own ratio to the baseline. */
const besideBar =
  (row: Row, top: number) =>
  ({ name, ratio, value }: Beside, index: number): string => {
    const y = top + rowHeight + index * besideHeight;
    const end = at(row.ratio / ratio / row.target);
    const text = `${name}: ${number(value)} ${row.unit}; ours is ${number(ratio)} times as good`;
    return `<g class="beside"><title>${escaped(text)}</title>
<text x="${labelWidth - 8}" y="${y + 5}" text-anchor="end">${escaped(name)}</text>
<rect x="${labelWidth}" y="${y - 2}" width="${px(end - labelWidth)}" height="7"/>
<text x="${width - figureWidth + 14}" y="${y + 5}">${number(row.ratio / ratio)}</text></g>`;
  };

/** The bar of the median, and a line from the least to the greatest ratio of single runs. */
function bar(row: Row, top: number): string {
  const middle = top + rowHeight / 2;
  const end = at(row.ratio / row.target);
  const [least, greatest] = [at(row.minimum / row.target), at(row.maximum / row.target)];
  const beyond = row.ratio / row.target > most;
  const title = `${row.what}: ${number(row.value)} against ${number(row.baseline)} ${row.unit}`;
  return `<g><title>${escaped(title)}</title>
<text x="${labelWidth - 8}" y="${middle + 4}" text-anchor="end">${escaped(row.id)}</text>
<rect class="${reached(row)}" x="${labelWidth}" y="${top + 5}" width="${px(end - labelWidth)}" height="${rowHeight - 12}"/>
<path class="spread" d="M${px(least)} ${middle - 1}H${px(greatest)}M${px(least)} ${middle - 4}v6M${px(greatest)} ${middle - 4}v6"/>
${beyond ? `<path class="beyond" d="M${px(end + 2)} ${top + 6}l6 6-6 6z"/>` : ''}
<text x="${width - figureWidth + 14}" y="${middle + 4}">${number(row.ratio)} of ${number(row.target)}</text>
${measuredBeside(row).map(besideBar(row, top)).join('\n')}</g>`;
}

/** Bars of ratios in multiples of what is asked for, as inline SVG; rows that ask for none are left out. */
export function chartOf(rows: readonly Row[]): string {
  const shown = rows.filter((row) => reached(row) !== '-');
  let height = axisHeight;
  const bars = shown.map((row) => {
    height += heightOf(row);
    return bar(row, height - heightOf(row));
  });
  height += 8;
  const ticks = [0, 0.5, 1, 1.5, 2].map((tick) => {
    const x = px(at(tick));
    const label = tick === 1 ? 'target' : `${tick} ×`;
    const line = `<path class="${tick === 1 ? 'target' : 'tick'}" d="M${x} ${axisHeight - 6}V${height - 4}"/>`;
    return `${line}<text class="axis" x="${x}" y="${axisHeight - 12}">${label}</text>`;
  });
  const name = 'Ratio of each row in multiples of its target';
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${name}">
${ticks.join('\n')}
${bars.join('\n')}
</svg>`;
}
