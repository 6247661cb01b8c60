import { createHash } from 'node:crypto';
import type { Explanation } from '../../explain/explanation.ts';
import { formatBytes, formatCount, formatRate, formatSeconds } from '../../format/quantity.ts';
import type { NodeRow, Overview } from '../overview/overview.ts';
import { html, Markup } from './html.ts';

const style = `
:root { color-scheme: light dark; --line: #8884; --good: #2e7d32; --bad: #c62828; --bar: #ef6c00; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; }
th { font-weight: 600; text-align: left; } th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; vertical-align: top; }
.number { text-align: right; white-space: nowrap; } .good { color: var(--good); } .bad { color: var(--bad); }
meter { width: 9rem; height: .9rem; } .note { opacity: .75; } .wait { font-size: 1.1rem; }
`;

/** Hash of the style for the Content-Security-Policy. */
export const styleHash = `sha256-${createHash('sha256').update(style).digest('base64')}`;

export function overviewPage(overview: Overview, refreshSeconds: number): string {
  const clusters = overview.clusters.map(
    ({ name, nodesReady, nodesDesired, usedBytes, capacityBytes, message }) =>
      html`<p>StorageCluster <b>${name}</b>: ${nodesReady} of ${formatCount(nodesDesired, 'node')} ready,
      ${formatBytes(usedBytes)} of ${formatBytes(capacityBytes)} used. <span class="bad">${message}</span></p>`,
  );
  const body = html`<h1>Hearth</h1>${clusters}
    ${table('Pods that wait', ['Pod', 'Age', 'Stored', 'Starts in', 'Waits for'], overview.waiting, (one) => [
      html`<a href="pods/${encodeURIComponent(one.namespace)}/${encodeURIComponent(one.name)}">${one.namespace}/${one.name}</a>`,
      html`${formatSeconds(one.ageSeconds)}`,
      meter(one.percent),
      html`${leftText(one.secondsLeft)}`,
      html`${one.waitsFor}`,
    ])}
    ${table(
      'Running preloads',
      ['Preload', 'Phase', 'Stored', 'Size', 'Rate', 'Left', 'Nodes', 'Pods', 'Waits for'],
      overview.preloads,
      (one) => [
        html`${one.namespace}/${one.name}`,
        html`${one.phase}`,
        meter(one.percent),
        html`${formatBytes(one.bytesTotal)}`,
        html`${one.bytesPerSecond > 0 ? formatRate(one.bytesPerSecond) : ''}`,
        html`${leftText(one.secondsLeft)}`,
        html`${one.nodesReady} of ${one.nodesTotal}`,
        html`${one.podsWaiting > 0 ? `${one.podsWaiting} wait` : ''}`,
        html`${one.waitingFor}`,
      ],
    )}
    ${table('Nodes', ['Node', 'State', 'Full', 'Used', 'Budget', 'Datasets', 'Reported'], overview.nodes, (one) => [
      html`${one.node}`,
      nodeState(one),
      meter(one.percent),
      html`${formatBytes(one.usedBytes)}`,
      html`${formatBytes(one.budgetBytes)}`,
      html`${one.datasets}`,
      html`${one.ageSeconds === undefined ? 'never' : `${formatSeconds(one.ageSeconds)} ago`}`,
    ])}
    ${table(
      'Datasets',
      ['Dataset', 'State', 'Size', 'Files', 'Complete on', 'Fullest node'],
      overview.datasets,
      (one) => [
        html`${one.namespace}/${one.name}`,
        one.ready ? html`<span class="good">ready</span>` : html`<span class="bad">not ready</span> ${one.message}`,
        html`${formatBytes(one.bytes)}`,
        html`${one.files}`,
        html`${formatCount(one.nodesComplete, 'node')}`,
        meter(one.percent),
      ],
    )}
    ${notes([...(overview.preloadsReady > 0 ? [`${formatCount(overview.preloadsReady, 'preload')} complete.`] : []), ...overview.unseen])}`;
  return document('Hearth', body, refreshSeconds);
}

export function podPage(one: Explanation, refreshSeconds: number): string {
  const where = one.node === undefined ? '' : ` on ${one.node}`;
  const body = html`<p><a href="../../">All</a></p>
    <h1>Pod ${one.namespace}/${one.pod}</h1>
    <p>${one.state}${where}, ${formatSeconds(one.ageSeconds)} old.</p>
    <p class="wait">${one.waitsFor === '' ? 'Hearth knows of no reason to wait.' : `Waits for ${one.waitsFor}.`}
    ${one.startsInSeconds === undefined ? '' : `Should start in about ${formatSeconds(one.startsInSeconds)}.`}
    ${one.opensInSeconds === undefined ? '' : `Its gate opens in ${formatSeconds(one.opensInSeconds)} at the latest.`}</p>
    ${table('Datasets', ['Dataset', 'Volumes', 'State', 'Size', 'Gate'], one.datasets, (dataset) => [
      html`${dataset.dataset}`,
      html`${dataset.volumes.join(', ')}`,
      dataset.ready
        ? html`<span class="good">ready</span>`
        : html`<span class="bad">not ready</span> ${dataset.message}`,
      html`${formatBytes(dataset.bytes)}`,
      html`${dataset.gate}`,
    ])}
    ${table('Nodes', ['Node', 'For', 'There', 'Missing', 'Data path', ''], one.nodes, (node) => [
      html`${node.node}`,
      html`${node.role}`,
      meter(node.percent),
      html`${formatBytes(node.missingBytes)}`,
      html`${node.dataPath}`,
      html`${node.message}`,
    ])}
    ${table('Events', ['When', 'Reason', ''], one.events, (event) => [
      html`${formatSeconds(event.ageSeconds)} ago`,
      html`${event.reason}`,
      html`${event.message}`,
    ])}
    ${notes([...one.advice, ...one.unseen])}`;
  return document(`${one.pod} - Hearth`, body, refreshSeconds);
}

export function errorPage(message: string): string {
  return document('Hearth', html`<h1>Hearth</h1><p class="bad">${message}</p>`);
}

function table<Row>(title: string, heads: string[], rows: Row[], cells: (row: Row) => Markup[]): Markup {
  if (rows.length === 0) return html`<h2>${title}</h2><p class="note">None.</p>`;
  const lines = rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${cell}</td>`)}</tr>`);
  return html`<h2>${title}</h2><table><thead><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead><tbody>${lines}</tbody></table>`;
}

function nodeState({ ready, reason }: NodeRow): Markup {
  return ready ? html`<span class="good">ready</span>` : html`<span class="bad">not ready</span> ${reason}`;
}

function meter(percent: number): Markup {
  return html`<meter min="0" max="100" value="${percent}"></meter> ${percent}%`;
}

function notes(lines: string[]): Markup {
  return html`${lines.map((line) => html`<p class="note">${line}</p>`)}`;
}

function leftText(seconds: number | undefined): string {
  return seconds === undefined ? '' : `about ${formatSeconds(seconds)}`;
}

function document(title: string, body: Markup, refreshSeconds?: number): string {
  const refresh = refreshSeconds === undefined ? '' : html`<meta http-equiv="refresh" content="${refreshSeconds}">`;
  return `<!doctype html>${
    html`<html lang="en"><head><meta charset="utf-8"><title>${title}</title>${refresh}<style>${new Markup(style)}</style></head><body>${body}</body></html>`
      .text
  }\n`;
}
