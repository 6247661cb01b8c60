import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, skip, TemporaryFolder } from '@hearth/common/testing';
import { stringify } from 'yaml';
import { alertGroups, dashboards, ruleGroups, ruleTests } from './index.ts';

const alerts = alertGroups.flatMap((group) => group.alerts);

describe('alerts', () => {
  let folder: TemporaryFolder;
  before(async function () {
    if ((await run('promtool', ['--version'])).code !== 0)
      skip(this, 'promtool is not installed (Debian package prometheus)');
    folder = new TemporaryFolder('alerts');
    writeFileSync(folder.file('rules.yaml'), stringify(ruleGroups()));
    writeFileSync(folder.file('tests.yaml'), stringify(ruleTests('rules.yaml')));
  });
  after(() => folder?.remove());

  it('are rules that Prometheus takes', async () => {
    const { code, stdout, stderr } = await run('promtool', ['check', 'rules', folder.file('rules.yaml')]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`SUCCESS: ${alerts.length} rules found`));
  });

  it('each fire on what they are for, and not on what is right', async () => {
    const { code, stdout, stderr } = await run('promtool', ['test', 'rules', folder.file('tests.yaml')]);
    assert.equal(code, 0, stdout + stderr);
  });
});

describe('monitoring', () => {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  /** docs/metrics.md lists the agent's metrics; the operator's are declared all over its sources. */
  const sources = globSync('operator/src/**/*.ts', { cwd: root }).filter((path) => !path.endsWith('.test.ts'));
  const known = [read('docs/metrics.md'), ...sources.map(read)].join('\n');
  const metricsIn = (text: string) =>
    [...new Set(text.match(/\bhearth_\w+/g))].map((name) => name.replace(/_bucket$/, ''));
  const unknown = (text: string) => metricsIn(text).filter((name) => !new RegExp(`[\`']${name}[\`']`).test(known));

  it('asks for metrics that there are', () => {
    for (const { name, expression } of alerts) assert.deepEqual(unknown(expression), [], name);
    for (const dashboard of dashboards)
      assert.deepEqual(unknown(JSON.stringify(dashboard.json())), [], dashboard.title);
  });

  it('lays panels out beside and below one another', () => {
    for (const dashboard of dashboards) {
      const { panels } = dashboard.json() as {
        panels: { id: number; gridPos: { x: number; y: number; w: number; h: number } }[];
      };
      const taken = new Set<string>();
      for (const { id, gridPos } of panels) {
        assert.ok(gridPos.x + gridPos.w <= 24, `${dashboard.title} ${id}`);
        for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
          for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
            assert.ok(!taken.has(`${x} ${y}`), `${dashboard.title} ${id}`);
            taken.add(`${x} ${y}`);
          }
        }
      }
    }
  });

  it('gives every alert a runbook', () => {
    const runbooks = read('docs/reference/alerts.md');
    for (const { name } of alerts) assert.ok(runbooks.includes(`\n### ${name}\n`), name);
  });
});
