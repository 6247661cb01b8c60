import type { Dashboard as GrafanaDashboard, Panel, RowPanel } from '@grafana/schema';
import { alertGroups } from '../index.ts';

/** Seconds of `$__interval` and `$__rate_interval`, which Grafana derives from the width of a panel and the scrapes. */
export interface Intervals {
  interval: number;
  rateInterval: number;
}

/** A query of a dashboard as Grafana sends it while no variable is narrowed. */
export function expand(expression: string, { interval, rateInterval }: Intervals): string {
  return expression
    .replaceAll('$__rate_interval', `${rateInterval}s`)
    .replaceAll('$__interval', `${interval}s`)
    .replaceAll(/\$(storage_cluster|node)\b/g, '.*');
}

export interface PlacedPanel extends Panel {
  targets: { expr: string; legendFormat: string }[];
}

export function panelsOf(dashboard: GrafanaDashboard): PlacedPanel[] {
  const isPanel = (one: Panel | RowPanel): one is PlacedPanel => one.type !== 'row';
  return (dashboard.panels ?? []).filter(isPanel);
}

/** For each series by which an alert's test fires the alert: a query for real series with the same labels. */
export function seriesOfAlerts(): { alert: string; metric: string; labels: string[]; query: string }[] {
  return alertGroups.flatMap(({ alerts }) =>
    alerts.flatMap(({ name, fires }) =>
      fires.map(({ series }) => {
        const [metric = '', given = ''] = series.replace('}', '').split('{');
        const labels = given.split(',').flatMap((one) => (one === '' ? [] : [one.split('=')[0] ?? '']));
        const selector = labels.map((label) => `${label}!=""`).join(',');
        return { alert: name, metric, labels, query: `${metric}{${selector}}` };
      }),
    ),
  );
}
