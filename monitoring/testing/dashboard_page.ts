import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import type { Dashboard } from '../dashboard.ts';
import { type PrometheusServer, type Series, scrapeSeconds } from './prometheus_server.ts';
import { expand, type PlacedPanel, panelsOf } from './questions.ts';

export interface Span {
  /** Seconds since the epoch. */
  start: number;
  end: number;
  /** From bar to bar. */
  barSeconds: number;
}

/** The data of one panel as uPlot takes them. */
interface Drawn {
  title: string;
  unit: string;
  min?: number;
  max?: number;
  bars: boolean;
  x: number;
  y: number;
  width: number;
  height: number;
  legends: string[];
  seconds: number[];
  values: (number | null)[][];
}

const uplot = (file: string) => readFileSync(join(root, 'node_modules/uplot/dist', file), 'utf8');
const cell = { width: 60, height: 30 };

/** The dashboard with the data of a Prometheus, as a page without references: for a look where there is no Grafana. */
export async function dashboardPage(dashboard: Dashboard, prometheus: PrometheusServer, span: Span): Promise<string> {
  const json = dashboard.json();
  const panels = await Promise.all(panelsOf(json).map((panel) => draw(panel, prometheus, span)));
  const rows = (json.panels ?? []).filter(({ type }) => type === 'row');
  const height = Math.max(...panels.map(({ y, height }) => y + height));
  const headings = rows.map(
    ({ title, gridPos }) => `<h2 style="top:${(gridPos?.y ?? 0) * cell.height}px">${title ?? ''}</h2>`,
  );
  const boxes = panels.map(
    ({ title, x, y, width, height }, index) =>
      `<section id="p${index}" style="left:${x}px;top:${y}px;width:${width}px;height:${height}px"><h3>${title}</h3></section>`,
  );
  return `<!doctype html><meta charset="utf-8"><title>${dashboard.title}</title>
<style>${uplot('uPlot.min.css')}${style}</style><h1>${dashboard.title}</h1>
<main style="width:${24 * cell.width}px;height:${height}px">${headings.join('')}${boxes.join('')}</main>
<script>${uplot('uPlot.iife.min.js')}</script><script>const panels = ${JSON.stringify(panels)};${script}</script>`;
}

async function draw(panel: PlacedPanel, prometheus: PrometheusServer, span: Span): Promise<Drawn> {
  const { drawStyle } = (panel.fieldConfig?.defaults.custom ?? {}) as { drawStyle?: string };
  const bars = drawStyle === 'bars';
  const step = bars ? span.barSeconds : scrapeSeconds;
  const intervals = { interval: step, rateInterval: Math.max(4 * scrapeSeconds, step) };
  const seconds = Array.from(
    { length: Math.floor((span.end - span.start) / step) + 1 },
    (_, n) => span.start + n * step,
  );
  const drawn = { legends: [] as string[], values: [] as (number | null)[][] };
  for (const { expr, legendFormat } of panel.targets) {
    for (const series of await prometheus.between(expand(expr, intervals), span.start, span.end, step)) {
      drawn.legends.push(legendOf(legendFormat, series));
      const at = new Map(series.samples);
      drawn.values.push(
        seconds.map((second) => {
          const value = at.get(second);
          return value === undefined || Number.isNaN(value) ? null : value;
        }),
      );
    }
  }
  const { unit = 'short', min, max } = panel.fieldConfig?.defaults ?? {};
  const { x = 0, y = 0, w = 0, h = 0 } = panel.gridPos ?? {};
  return {
    title: panel.title ?? '',
    unit,
    ...(min == null ? {} : { min }),
    ...(max == null ? {} : { max }),
    bars,
    x: x * cell.width,
    y: y * cell.height,
    width: w * cell.width,
    height: h * cell.height,
    ...drawn,
    seconds,
  };
}

function legendOf(format: string, { labels }: Series): string {
  return format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => labels[label] ?? '');
}

const style = `
body { margin: 12px; background: #f4f5f5; color: #24292e; font: 12px sans-serif }
h1 { font-size: 18px; margin: 0 0 8px } h2 { position: absolute; font-size: 14px; margin: 6px 0 0 }
h3 { font-size: 13px; margin: 6px 8px } main { position: relative }
section { position: absolute; box-sizing: border-box; background: #fff; border: 1px solid #d8d9da }
.u-legend { text-align: left; font-size: 11px; max-height: 88px; overflow: hidden }
.u-legend .u-value, .u-legend .u-series:first-child { display: none }`;

/** Runs in the page. Formats follow Grafana's units of the same names; bars of several series stand on one another. */
const script = `
const colors = ['#7eb26d','#eab839','#6ed0e0','#ef843c','#e24d42','#1f78c1','#ba43a9','#705da0','#508642','#cca300','#447ebc'];
const scaled = (value, base, names) => {
  let at = 0;
  for (; Math.abs(value) >= base && at < names.length - 1; at++) value /= base;
  return Number(value.toPrecision(3)) + names[at];
};
const formats = {
  bytes: (v) => scaled(v, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']),
  Bps: (v) => scaled(v, 1000, [' B/s', ' kB/s', ' MB/s', ' GB/s']),
  percentunit: (v) => Number((100 * v).toPrecision(3)) + '%',
  s: (v) => (v !== 0 && Math.abs(v) < 1 ? Number((1000 * v).toPrecision(3)) + ' ms' : Number(v.toPrecision(3)) + ' s'),
  reqps: (v) => Number(v.toPrecision(3)) + ' req/s',
  short: (v) => scaled(v, 1000, ['', ' K', ' Mil']),
};
const incrs = Array.from({ length: 60 }, (_, power) => 2 ** power);
for (const [index, panel] of panels.entries()) {
  let shown = panel.values;
  const known = shown.flat().filter((value) => value !== null);
  const box = document.getElementById('p' + index);
  box.dataset.series = shown.length;
  box.dataset.samples = known.length;
  if (panel.bars) {
    const below = panel.seconds.map(() => 0);
    shown = shown.map((values) => values.map((value, at) => (below[at] += value ?? 0)));
  }
  const order = shown.map((_, at) => at);
  // The highest bar is drawn first, and those that stand below in front of it.
  if (panel.bars) order.reverse();
  const series = order.map((at) => ({
    label: panel.legends[at], stroke: colors[at % colors.length], width: 1.5, points: { show: false }, spanGaps: false,
    ...(panel.bars ? { fill: colors[at % colors.length], paths: uPlot.paths.bars({ size: [0.7] }) } : {}),
  }));
  const range = (_, low, high) => {
    const bottom = panel.min ?? Math.min(low ?? 0, 0);
    return [bottom, panel.max ?? ((high ?? 0) > bottom ? high * 1.1 : bottom + 1)];
  };
  new uPlot({
    width: panel.width - 10, height: panel.height - 122, series: [{}, ...series], cursor: { show: false },
    scales: { y: { range } }, axes: [{}, { size: 74, values: (_, ticks) => ticks.map(formats[panel.unit]), ...(panel.unit === 'bytes' ? { incrs } : {}) }],
  }, [panel.seconds, ...order.map((at) => shown[at])], box);
}
document.body.dataset.drawn = panels.length;`;
