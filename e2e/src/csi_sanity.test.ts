import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needsMounts, run, tool, unlessUnavailable, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { CsiNode } from './csi_node.ts';

/** Services that the driver does not offer, in the suite's words. Any other skipped test is a failure. */
const notOffered = [
  /^Controller Publish, UnpublishVolume not supported$/,
  /^Controller(Publish|Unpublish|Expand|Modify)Volume not supported$/,
  /^Modify [Vv]olume not supported$/,
  /^Controller(Get|List)VolumeHealth not supported$/,
  /^(Create|Delete|Get|List)Snapshots? not supported$/,
  /^Snapshot not supported$/,
  /^GroupControllerService not supported$/,
  /^Volume Cloning not supported$/,
  /^GetCapacity not supported$/,
  /^NodeExpandVolume not supported$/,
  /^NodeGet(Storage|Volume)Health not supported$/,
];

/** Disabled in the suite itself. */
const disabled = 'pagination should detect volumes added between pages';

interface Case {
  name: string;
  status: string;
  skipped: string;
}

/** From the JUnit report that Ginkgo writes. */
function casesOf(report: string): Case[] {
  return report
    .split('<testcase ')
    .slice(1)
    .map((text) => ({
      name: /name="([^"]*)"/.exec(text)?.[1] ?? '',
      status: /status="([^"]*)"/.exec(text)?.[1] ?? '',
      skipped: /<skipped message="skipped - ([^"]*)"/.exec(text)?.[1] ?? '',
    }));
}

describe('csi-sanity', () => {
  let cluster: Cluster;
  let node: CsiNode;
  let program: string;

  before(async function () {
    needsMounts(this);
    program = await unlessUnavailable(this, () => tool('csi-sanity'));
    cluster = await Cluster.start([], { holder: true });
    await cluster.add('a', { flags: ['--volumes-directory', CsiNode.volumesDirectory(cluster)] });
    node = await CsiNode.start(cluster, 'a');
    const origin = join(cluster.folder, 'origin');
    writeSample(origin, { weights: 3_000_000, 'x/config.json': 1000 });
    await cluster.json('a', 'dataset', 'add', 'default.model', origin);
  });
  after(async () => {
    await node?.end('SIGKILL');
    await cluster?.close();
  });

  it('passes, and skips only what the driver does not offer', async function () {
    this.timeout(30 * 60_000);
    const report = join(cluster.folder, 'report.xml');
    const parameters = join(cluster.folder, 'parameters.yaml');
    writeFileSync(parameters, 'datasetNamespace: default\ndataset: model\n');
    const words = [
      ...['--csi.endpoint', `unix://${node.socket}`, '--csi.testvolumeparameters', parameters],
      ...['--csi.mountdir', join(node.podsFolder, 'mount'), '--csi.stagingdir', join(node.podsFolder, 'staging')],
      ...['--ginkgo.no-color', '--ginkgo.junit-report', report],
    ];
    const { code, stdout, stderr } = await run(program, words, { timeoutMs: 25 * 60_000 });
    assert.equal(code, 0, (stdout + stderr).slice(-20_000));
    const cases = casesOf(readFileSync(report, 'utf8')).filter(({ name }) => name.startsWith('[It]'));
    const count = (wanted: string) => cases.filter((one) => one.status === wanted).length;
    console.log(
      `      csi-sanity: ${count('passed')} passed, ${count('skipped')} skipped, ${count('pending')} disabled`,
    );
    assert.ok(count('passed') >= 41, `${count('passed')} passed`);
    for (const one of cases) {
      switch (one.status) {
        case 'passed':
          break;
        case 'skipped':
          assert.ok(
            notOffered.some((pattern) => pattern.test(one.skipped)),
            `${one.name}: ${one.skipped}`,
          );
          break;
        case 'pending':
          assert.ok(one.name.includes(disabled), one.name);
          break;
        default:
          assert.fail(`${one.name}: ${one.status}`);
      }
    }
    assert.deepEqual([...node.records(cluster)], []);
  });
});
