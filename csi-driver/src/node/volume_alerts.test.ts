import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { run, skip, TemporaryFolder } from '@hearth/common/testing';
import type { ClientAccess } from '../access/index.ts';
import { VolumeUsage_Unit as Unit, type VolumeUsage } from '../generated/csi/csi.ts';
import { NodeService } from './node_service.ts';
import type { Publications } from './publications.ts';

const kubelet = 'namespace=~".*",job="kubelet",metrics_path="/metrics"';

/**
 * The rules of claims that kube-prometheus installs (kubernetes-mixin, alerts/storage_alerts.libsonnet, Apache-2.0), with
 * its selectors: `KubePersistentVolumeFillingUp` and `KubePersistentVolumeInodesFillingUp`, critical and warning.
 */
function rules() {
  const excluded = [
    'unless on(cluster, namespace, persistentvolumeclaim) kube_persistentvolumeclaim_access_mode{access_mode="ReadOnlyMany"} == 1',
    'unless on(cluster, namespace, persistentvolumeclaim) kube_persistentvolumeclaim_labels{label_excluded_from_alerts="true"} == 1',
  ];
  const resources = [
    { alert: 'KubePersistentVolumeFillingUp', free: 'available_bytes', total: 'capacity_bytes', used: 'used_bytes' },
    { alert: 'KubePersistentVolumeInodesFillingUp', free: 'inodes_free', total: 'inodes', used: 'inodes_used' },
  ];
  return resources.flatMap(({ alert, free, total, used }) => {
    const series = (name: string) => `kubelet_volume_stats_${name}{${kubelet}}`;
    const share = `${series(free)} / ${series(total)}`;
    const inUse = `and ${series(used)} > 0`;
    const soon = `and predict_linear(${series(free)}[6h], 4 * 24 * 3600) < 0`;
    return [
      {
        alert,
        expr: [`(${share}) < 0.03`, inUse, ...excluded].join('\n'),
        for: '1m',
        labels: { severity: 'critical' },
      },
      {
        alert,
        expr: [`(${share}) < 0.15`, inUse, soon, ...excluded].join('\n'),
        for: '1h',
        labels: { severity: 'warning' },
      },
    ];
  });
}

/** The kubelet's series of a claim (`pkg/volume/csi/csi_client.go`, `nodeGetVolumeStats`: absent numbers are 0). */
function seriesOf(persistentvolumeclaim: string, usage: VolumeUsage[]) {
  const labels = `namespace="team",persistentvolumeclaim="${persistentvolumeclaim}",job="kubelet",metrics_path="/metrics"`;
  return usage.flatMap(({ unit, total, used, available }) => {
    const names =
      unit === Unit.BYTES
        ? ['capacity_bytes', 'used_bytes', 'available_bytes']
        : ['inodes', 'inodes_used', 'inodes_free'];
    return [total, used, available].map((value, index) => {
      return { series: `kubelet_volume_stats_${names[index]}{${labels}}`, values: `${value}x600` };
    });
  });
}

describe('alerts of kube-prometheus about claims', () => {
  let folder: TemporaryFolder;
  before(async function () {
    if ((await run('promtool', ['--version'])).code !== 0)
      skip(this, 'promtool is not installed (Debian package prometheus)');
    folder = new TemporaryFolder('volume_alerts');
    writeFileSync(
      folder.file('rules.yaml'),
      JSON.stringify({ groups: [{ name: 'kubernetes-storage', rules: rules() }] }),
    );
  });
  after(() => folder?.remove());

  /** Names of the alerts about a claim of this usage, whose mode is none that the rules exempt. */
  async function alertsAbout(usage: VolumeUsage[]): Promise<string[]> {
    const tests = rules().map(({ alert }) => ({ eval_time: '8h', alertname: alert, exp_alerts: [] }));
    const test = { interval: '1m', input_series: seriesOf('model', usage), alert_rule_test: tests };
    writeFileSync(folder.file('tests.yaml'), JSON.stringify({ rule_files: ['rules.yaml'], tests: [test] }));
    const { code, stdout, stderr } = await run('promtool', ['test', 'rules', folder.file('tests.yaml')]);
    const names = [...(stdout + stderr).matchAll(/Labels:\{alertname="(\w+)"/g)].map(([, name = '']) => name);
    assert.equal(code, names.length === 0 ? 0 : 1, stdout + stderr);
    return [...new Set(names)];
  }

  it('are silent about files of a Dataset, whatever the access mode', async () => {
    const published = async () => ({ bytes: 10n ** 12n, files: 400n });
    const service = new NodeService({
      node: 'n1',
      publications: { published, space: async () => undefined } as unknown as Publications,
      access: { space: async () => undefined } as unknown as ClientAccess,
      clusters: async () => [],
    });
    const { usage } = await service.nodeGetVolumeStats({ volumeId: 'v', volumePath: '/target', stagingTargetPath: '' });
    assert.equal(usage[0]?.used, 10n ** 12n);
    assert.deepEqual(await alertsAbout(usage), []);
  });

  it('fire for a volume that is full', async () => {
    const full = { total: 100n, used: 100n, available: 0n };
    assert.deepEqual(await alertsAbout([{ unit: Unit.BYTES, ...full }]), ['KubePersistentVolumeFillingUp']);
    assert.deepEqual(await alertsAbout([{ unit: Unit.INODES, ...full }]), ['KubePersistentVolumeInodesFillingUp']);
  });
});
