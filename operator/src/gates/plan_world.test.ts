import assert from 'node:assert/strict';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { clusterStatus } from '../agents/testing/cluster_status.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { agentDataset, residency } from '../dataset/testing/fixtures.ts';
import { plannedNodes } from './plan_world.ts';

const bare = (name: string) => ({ name, labels: {}, taints: [], unschedulable: false, allocatable: {} });

describe('nodes for the planner', () => {
  const message = GetStatusResponse.fromPartial({
    nodes: [
      nodeStatus('n1', {
        budgetBytes: 100n,
        pinnedBytes: 30n,
        residentBytes: { 'team.a': 20n, 'team.b': 10n, 'team.other': 5n },
      }),
      nodeStatus('n2', { budgetBytes: 50n }),
      nodeStatus('n3', { ready: false, budgetBytes: 50n }),
    ],
    datasets: [
      agentDataset({ name: 'team.a', bytes: 40n, residency: [{ ...residency('n1', 20n), pinned: true }] }),
      agentDataset({ name: 'team.b', bytes: 10n, residency: [{ ...residency('n1', 10n), pinned: true }] }),
      agentDataset({ name: 'team.other', bytes: 9n, residency: [residency('n1', 5n)] }),
    ],
  });
  const nodes = plannedNodes(['n1', 'n2', 'n3', 'n4'].map(bare), clusterStatus(message, 0), ['team/a', 'team/b']);

  it('have what is free beside pins, also beside what is pinned and on its way', () => {
    assert.deepEqual(nodes[0]?.agent, {
      availableBytes: 50,
      residentBytes: { 'team/a': 20, 'team/b': 10 },
      pinnedBytes: { 'team/a': 40, 'team/b': 10 },
    });
    assert.deepEqual(nodes[1]?.agent, {
      availableBytes: 50,
      residentBytes: {},
      pinnedBytes: {},
    });
  });

  it('have no agent where none serves', () => {
    assert.deepEqual([nodes[2]?.agent, nodes[3]?.agent], [undefined, undefined]);
    assert.equal(plannedNodes([bare('n1')], undefined, [])[0]?.agent, undefined);
  });
});
