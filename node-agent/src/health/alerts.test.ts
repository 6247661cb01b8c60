import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { metricRows } from './metrics.ts';

interface Rule {
  alert: string;
  expr: string;
  for: string;
  labels: { severity: string };
  annotations: { summary: string; description: string };
}

const path = join(import.meta.dirname, '../../../charts/hearth/files/alerts.yaml');
const { groups } = parse(readFileSync(path, 'utf8')) as { groups: { name: string; rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const metrics = new Map(metricRows.map((row) => [row.name, row]));
/** Added by Prometheus where it scrapes pods. */
const labelsOfTargets = ['pod', 'namespace'];

describe('alerts of the chart', () => {
  it('are about metrics that agents have, and counters as they grow', () => {
    for (const { alert, expr } of rules) {
      const [name = ''] = /hearth_\w+/.exec(expr) ?? [];
      const metric = metrics.get(name);
      assert.ok(metric, `${alert} is about ${name}, which no agent has`);
      assert.equal(/(increase|rate)\(/.test(expr), metric.kind === 'counter', alert);
    }
  });

  it('name labels that their metrics keep', () => {
    for (const { alert, expr, annotations } of rules) {
      const own = metrics.get(/hearth_\w+/.exec(expr)?.[0] ?? '')?.labels ?? [];
      const kept = /sum by \(([^)]*)\)/.exec(expr)?.[1]?.split(', ') ?? [...own, ...labelsOfTargets];
      const named = [...annotations.description.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
      for (const label of [...named, ...kept]) {
        assert.ok([...own, ...labelsOfTargets].includes(label), `${alert}: ${label}`);
      }
      for (const label of named) assert.ok(kept.includes(label), `${alert}: ${label} is summed away`);
    }
  });

  it('wait, have a severity, and say what to do', () => {
    assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
    for (const { alert, for: wait, labels, annotations } of rules) {
      assert.match(alert, /^Hearth[A-Z]/);
      assert.match(wait, /^\d+m$/);
      assert.match(labels.severity, /^(warning|critical)$/);
      assert.match(annotations.summary, /\.$/);
      assert.match(annotations.description, /\.$/);
    }
  });
});
