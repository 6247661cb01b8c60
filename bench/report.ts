import { chartOf, escaped } from './chart.ts';
import { number, type Row, reached } from './result.ts';

const style = `
:root { color-scheme: light; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1f2328; }
body { max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .quiet { color: #59636e; }
svg { width: 100%; height: auto; font-size: 12px; fill: #1f2328; }
rect.yes { fill: #5fb47c; } rect.NO { fill: #e5894d; }
path.tick { stroke: #e3e6ea; } path.target { stroke: #1f2328; stroke-dasharray: 3 3; }
path.spread { stroke: #3b434b; fill: none; } path.beyond { fill: #5fb47c; }
g.beside rect { fill: #9db7da; } g.beside text { fill: #3e6fb5; font-size: 10px; }
text.axis { fill: #59636e; text-anchor: middle; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #e3e6ea; text-align: right; white-space: nowrap; vertical-align: top; }
th { color: #59636e; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
th:last-child, td:last-child { text-align: left; white-space: normal; min-width: 16rem; }
td.NO { color: #b3480c; font-weight: 600; } td.yes { color: #1f7a41; }
tr.beside td { color: #59636e; border-bottom-style: dotted; } tr.beside td:first-child { padding-left: 1.6rem; }
`;

const columns = ['row', 'value', 'baseline', 'unit', 'ratio', 'least to greatest', 'at least', 'reached', 'what'];

const line = (cells: string[], kind: string, of = ''): string =>
  `<tr${of === '' ? '' : ` class="${of}"`}>${cells
    .map((cell) => `<td${cell === kind && kind !== '' ? ` class="${kind}"` : ''}>${escaped(cell)}</td>`)
    .join('')}</tr>`;

/** Other programs; those without figures share lines. */
function besideLines({ unit, beside = [] }: Row): string[] {
  const measured = beside
    .filter(({ missing }) => missing === undefined)
    .map(({ name, value, ratio }) => [
      name,
      number(value),
      '',
      unit,
      number(ratio),
      '',
      '',
      '',
      'ours to its, same runs',
    ]);
  const reasons = new Set(beside.flatMap(({ missing }) => missing ?? []));
  const missing = [...reasons].map((reason) => {
    const names = beside.filter((each) => each.missing === reason).map(({ name }) => name);
    return [names.join(', '), '', '', '', '', '', '', '', reason];
  });
  return [...measured, ...missing].map((cells) => line(cells, '', 'beside'));
}

function lines(row: Row): string {
  const { id, value, baseline, unit, ratio, minimum, maximum, target, what } = row;
  const spread = Number.isNaN(ratio) ? '-' : `${number(minimum)} to ${number(maximum)}`;
  const least = target === 0 ? '-' : number(target);
  const cells = [id, number(value), number(baseline), unit, number(ratio), spread, least, reached(row), what];
  return [line(cells, reached(row)), ...besideLines(row)].join('\n');
}

/** A page that needs nothing else. `about`: lines on the machine and the run. */
export function reportOf(rows: readonly Row[], about: readonly string[], notMeasured: readonly string[]): string {
  const asked = rows.filter((row) => reached(row) !== '-');
  const good = asked.filter((row) => reached(row) === 'yes');
  const failures = notMeasured.map((each) => `<p>Not measured: ${escaped(each)}</p>`).join('\n');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Hearth: make bench</title>
<style>${style}</style>
<h1>Hearth, measured</h1>
${about.map((text) => `<p class="quiet">${escaped(text)}</p>`).join('\n')}
<p>${good.length} of ${asked.length} rows reach their targets.</p>
${failures}
<h2>Ratio to the baseline of the same run, in multiples of the target</h2>
<p class="quiet">The bar is the median of all runs, the line goes from the least to the greatest, a thin bar is
another program on the same data. More is better, also for times.</p>
${chartOf(rows)}
<h2>Figures</h2>
<table>
<thead><tr>${columns.map((name) => `<th>${name}</th>`).join('')}</tr></thead>
<tbody>
${rows.map(lines).join('\n')}
</tbody>
</table>
</html>
`;
}
