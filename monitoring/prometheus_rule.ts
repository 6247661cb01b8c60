import { alertGroups } from './alerts.ts';

/** In place of the address of docs/reference/alerts.md; the chart writes the one of its values. */
export const runbooksPlaceholder = 'RUNBOOKS';

/** The groups of a PrometheusRule, or of a file of rules of Prometheus. */
export function ruleGroups(): object {
  return {
    groups: alertGroups.map(({ name, alerts }) => ({
      name,
      rules: alerts.map((alert) => ({
        alert: alert.name,
        expr: alert.expression,
        ...(alert.holds === '0m' ? {} : { for: alert.holds }),
        labels: { severity: alert.severity },
        annotations: {
          summary: alert.summary,
          description: alert.meaning,
          runbook_url: `${runbooksPlaceholder}#${alert.name.toLowerCase()}`,
        },
      })),
    })),
  };
}

/** Tests of these rules for `promtool test rules`: each alert fires on its series, and does not on those of `stays`. */
export function ruleTests(rulesFile: string): object {
  const alerts = alertGroups.flatMap((group) => group.alerts);
  return {
    rule_files: [rulesFile],
    evaluation_interval: '1m',
    tests: alerts.flatMap(({ name, fires, stays }) => [
      { name: `${name} fires`, ...onSeries(name, fires, [{ labels: '{}', value: 1 }]) },
      { name: `${name} does not fire`, ...onSeries(name, stays, []) },
    ]),
  };
}

function onSeries(alert: string, series: { series: string; values: string }[], samples: object[]) {
  const everFired = `count(max_over_time(ALERTS{alertname="${alert}",alertstate="firing"}[1h]))`;
  return {
    interval: '1m',
    input_series: series,
    promql_expr_test: [{ expr: everFired, eval_time: '60m', exp_samples: samples }],
  };
}
