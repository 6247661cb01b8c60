import type { Objects } from './fake_api_server.ts';

const gib = 1024 ** 3;
const ready = [{ type: 'Ready', status: 'True', reason: 'Ready', message: '' }];
const group = '/apis/hearth.storage/v1alpha1';
const team = 'namespaces/team';
const system = 'namespaces/hearth-system';
const agentLabels = {
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'hearth.storage/cluster': 'main',
};
const release = { 'app.kubernetes.io/name': 'hearth' };

const agent = (name: string, node: string, isReady: boolean) => ({
  metadata: { namespace: 'hearth-system', name, labels: agentLabels },
  spec: { nodeName: node, containers: [{ name: 'agent', env: [{ name: 'KEY', value: 'a-secret-value' }] }] },
  status: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
    containerStatuses: [{ name: 'agent', restartCount: 0 }],
  },
});

const nodeCache = (name: string, percent: number) => ({
  metadata: { name },
  spec: { clusterRef: { name: 'main' }, nodeName: name },
  status: {
    ready: true,
    budgetBytes: 400 * gib,
    usedBytes: 4 * percent * gib,
    percent,
    datasets: [{ namespace: 'team', name: 'llama' }],
    updatedAt: '2026-01-01T00:00:55Z',
  },
});

const heldPod = (name: string) => ({
  metadata: {
    namespace: 'team',
    name,
    uid: name,
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { app: 'web' },
    annotations: { 'hearth.storage/preload': 'web-1' },
  },
  spec: {
    schedulingGates: [{ name: 'hearth.storage/preload' }],
    volumes: [{ name: 'model', persistentVolumeClaim: { claimName: 'models' } }],
  },
  status: { phase: 'Pending' },
});

/** A cluster of two nodes, where a pod of `team` waits for a model that one node holds half. */
export function sampleCluster(): Objects {
  return {
    [`${group}/storageclusters/main`]: {
      metadata: { name: 'main' },
      status: { conditions: ready, nodesDesired: 2, nodesReady: 2, capacityBytes: 800 * gib, usedBytes: 480 * gib },
    },
    [`${group}/nodecaches/node1`]: nodeCache('node1', 81),
    [`${group}/nodecaches/node2`]: nodeCache('node2', 39),
    [`${group}/${team}/datasets/llama`]: {
      metadata: { namespace: 'team', name: 'llama' },
      spec: { gate: { mode: 'Wait', minPercent: 100, timeout: '10m', affinity: 'Preferred', readyWhen: 'Stored' } },
      status: {
        conditions: ready,
        bytes: 8 * gib,
        files: 12,
        percent: 50,
        nodes: 0,
        residency: [{ node: 'node1', residentBytes: 4 * gib, percent: 50 }],
      },
    },
    [`${group}/${team}/cachepreloads/web-1`]: {
      metadata: { namespace: 'team', name: 'web-1' },
      spec: { placement: { gatedPods: { gate: { timeout: '10m', readyWhen: 'Stored' } } } },
      status: {
        phase: 'Warming',
        percent: 50,
        bytesReady: 4 * gib,
        bytesTotal: 8 * gib,
        bytesPerSecond: 100 * 2 ** 20,
        secondsLeft: 41,
        nodesReady: 0,
        nodesTotal: 1,
        waitingFor: '4.0 GiB on node1',
        nodes: [{ name: 'node1', message: 'fetching from node2' }],
        pods: { waiting: 1, released: 0, reason: 'node1 holds most of what fits' },
      },
    },
    [`/apis/apps/v1/${team}/deployments/web`]: {
      metadata: { namespace: 'team', name: 'web' },
      spec: { selector: { matchLabels: { app: 'web' } } },
    },
    [`/api/v1/${team}/pods/web-0`]: heldPod('web-0'),
    [`/api/v1/${team}/persistentvolumeclaims/models`]: {
      metadata: { namespace: 'team', name: 'models' },
      spec: { dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' } },
    },
    [`/api/v1/${system}/pods/agent-a`]: agent('agent-a', 'node1', false),
    [`/api/v1/${system}/pods/agent-b`]: agent('agent-b', 'node2', true),
    [`/apis/apps/v1/${system}/deployments/hearth-operator`]: {
      metadata: { namespace: 'hearth-system', name: 'hearth-operator', labels: release },
      spec: { replicas: 1 },
      status: { availableReplicas: 1 },
    },
    [`/apis/apps/v1/${system}/daemonsets/hearth-csi-node`]: {
      metadata: { namespace: 'hearth-system', name: 'hearth-csi-node', labels: release },
      status: { numberReady: 1, desiredNumberScheduled: 2 },
    },
  } as Objects;
}
