import assert from 'node:assert/strict';
import { MiB, ok, until } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName } from './journey.ts';
import { usePreloadJourney, waiting } from './preload_journey.ts';

/** Disks that take so little a second leave the bytes in memory alone for half a minute. */
const slowDisk = { disk: { warm: '1Mi' } };
const agents = `daemonset/hearth-${clusterName}-all-agent`;

describe('bytes in memory before the disk has them', () => {
  const preloads = usePreloadJourney('memory');
  const journey = () => preloads().journey;
  let groups: Manifest['spec']['nodeGroups'];

  const onNodes = (...args: string[]): Promise<string> => ok(journey().cluster.kubectl(args));
  const inSystem = (...args: string[]): Promise<string> => onNodes('-n', releaseNamespace, ...args);
  const generation = async (): Promise<number> =>
    Number(await inSystem('get', agents, '-o', 'jsonpath={.metadata.generation}'));
  const limit = async (limits: object | undefined): Promise<void> => {
    const before = await generation();
    const nodeGroups = groups.map((group: object) => ({ ...group, limits }));
    const patch = JSON.stringify({ spec: { nodeGroups } });
    await onNodes('patch', 'storagecluster', clusterName, '--type=merge', '-p', patch);
    await until('the operator has changed the agents', async () => (await generation()) > before);
    await inSystem('rollout', 'status', agents, '--timeout=300s');
    await journey().ready(`storagecluster/${clusterName}`);
  };

  before(async () => {
    groups = (await journey().get('storagecluster', clusterName))?.spec.nodeGroups;
    await limit(slowDisk);
  });
  after(() => limit(undefined));

  it('start a pod whose gate asks for memory, and give it the right bytes while they are being stored', async () => {
    const size = 32 * MiB;
    const { manifest, digest } = preloads().model('early', waiting({ readyWhen: 'Memory' }), size);
    await journey().apply(manifest);
    await journey().ready('dataset/early');
    await journey().apply(preloads().reader('early', 'early', digest));
    const plan = await until('it has a plan', () => preloads().planOf('early'));
    await preloads().released('early');
    const rows = ((await preloads().statusOf(plan))?.nodes ?? []) as { storedAt?: string }[];
    assert.ok(!rows.some(({ storedAt }) => storedAt !== undefined), `it was stored already: ${JSON.stringify(rows)}`);
    assert.match(await journey().finished('early'), /OK/);
    // The plan goes with its pod; the agent goes on storing what it holds.
    await until('the disk has the bytes as well', async () =>
      /early .* complete on 1 of 2 /.test(await inSystem('exec', agents, '--', 'hearth', 'dataset', 'ls')),
    );
  });
});
