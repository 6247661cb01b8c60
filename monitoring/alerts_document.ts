import { alertGroups } from './alerts.ts';

/** docs/reference/alerts.md: the runbooks. */
export function alertsDocument(): string {
  const count = alertGroups.reduce((sum, { alerts }) => sum + alerts.length, 0);
  const lines = [
    '# Alerts',
    '',
    '<!-- Written by monitoring/generate.ts. -->',
    '',
    `The chart's PrometheusRule (\`metrics.prometheusRule.enabled\`) has these ${count} alerts. \`critical\`: readers or starting pods`,
    'suffer now. `warning`: somebody should look today. `info`: good to know. The labels `node` and `storage_cluster` come from the',
    "chart's PodMonitors; how to set Prometheus up stands in [monitoring](../monitoring.md).",
  ];
  for (const { title, alerts } of alertGroups) {
    lines.push('', `## ${title}`);
    for (const { name, severity, expression, holds, meaning, action } of alerts) {
      const when = holds === '0m' ? 'at once' : `after ${holds}`;
      lines.push(
        '',
        `### ${name}`,
        '',
        `\`${severity}\`, ${when}:`,
        '',
        '```promql',
        expression,
        '```',
        '',
        meaning,
        '',
        `**Next:** ${action}`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}
