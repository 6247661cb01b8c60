import { type Alert, growth } from './alert.ts';

/** About agents, the store that they share, and the network between them. */
export const clusterAlerts: readonly Alert[] = [
  {
    name: 'HearthAgentDown',
    severity: 'warning',
    expression: 'up{job="hearth-agent"} == 0',
    holds: '5m',
    summary: 'The agent on {{ $labels.node }} does not answer.',
    meaning:
      'Complete files are read on. Reads of other files on that node wait for the agent, at most 15 minutes, and then fail; pods with new volumes do not start there.',
    action:
      '`kubectl -n hearth-system get pods -o wide -l app.kubernetes.io/component=agent`, then the logs of that pod and of the one before (`--previous`).',
    fires: [{ series: 'up{job="hearth-agent",node="n1"}', values: '0x20' }],
    stays: [{ series: 'up{job="hearth-agent",node="n1"}', values: '1x20' }],
  },
  {
    name: 'HearthAgentNotReady',
    severity: 'warning',
    expression: 'max by (storage_cluster) (hearth_members - hearth_members_ready) > 0',
    holds: '10m',
    summary: '{{ $value }} agents of StorageCluster {{ $labels.storage_cluster }} run and are not ready.',
    meaning: 'An agent cannot use its cache directory or the store. Pods with volumes do not start on its node.',
    action:
      '`kubectl get nodecaches` shows the reason; the table of unusable caches in docs/operate.md says what each reason asks of you.',
    fires: [
      { series: 'hearth_members{storage_cluster="main",node="n1"}', values: '3x20' },
      { series: 'hearth_members_ready{storage_cluster="main",node="n1"}', values: '2x20' },
    ],
    stays: [
      { series: 'hearth_members{storage_cluster="main",node="n1"}', values: '3x20' },
      { series: 'hearth_members_ready{storage_cluster="main",node="n1"}', values: '3x20' },
    ],
  },
  {
    name: 'HearthStoreDown',
    severity: 'critical',
    expression: 'max by (storage_cluster) (up{job="hearth-etcd"}) == 0',
    holds: '5m',
    summary: 'No member of the store of StorageCluster {{ $labels.storage_cluster }} answers.',
    meaning:
      'Reads go on. New Datasets, warm jobs and mounts of datasets that a node does not know yet wait for the store.',
    action:
      '`kubectl -n hearth-system get pods -l app.kubernetes.io/component=etcd`. A store that has lost its data is rebuilt by the operator and the agents.',
    fires: [{ series: 'up{job="hearth-etcd",storage_cluster="main"}', values: '0x20' }],
    stays: [{ series: 'up{job="hearth-etcd",storage_cluster="main"}', values: '1x20' }],
  },
  {
    name: 'HearthStoreWithoutLeader',
    severity: 'critical',
    expression: 'max by (storage_cluster) (etcd_server_has_leader{job="hearth-etcd"}) == 0',
    holds: '5m',
    summary: 'The store of StorageCluster {{ $labels.storage_cluster }} has no leader.',
    meaning: 'Most members of etcd are away or do not reach one another, so nothing can be written.',
    action: 'See the logs of the members; nodes of most members must be up and reach one another on port 2380.',
    fires: [{ series: 'etcd_server_has_leader{job="hearth-etcd",storage_cluster="main"}', values: '0x20' }],
    stays: [{ series: 'etcd_server_has_leader{job="hearth-etcd",storage_cluster="main"}', values: '1x20' }],
  },
  {
    name: 'HearthStoreFills',
    severity: 'warning',
    expression:
      'max by (storage_cluster) (etcd_mvcc_db_total_size_in_bytes{job="hearth-etcd"} / etcd_server_quota_backend_bytes{job="hearth-etcd"}) > 0.5',
    holds: '10m',
    summary: 'The store of StorageCluster {{ $labels.storage_cluster }} uses more than half of its quota.',
    meaning:
      'At its quota etcd refuses all writes: new Datasets, warm jobs and mounts wait, and agents that restart cannot join. One agent deletes history from a quarter of the quota on, and frees a store that is full, as far as it reaches the members.',
    action:
      'The condition `StoreSpace` of the StorageCluster and the log of the agent that coordinates (`hearth_warm_coordinator`) say what it did. If the store is full: `kubectl exec` into each member and run `etcdctl defrag`, then `etcdctl alarm disarm` once. Records are a few megabytes: a store that fills again is a bug, and `etcdctl get --prefix --keys-only` shows which keys.',
    fires: [
      { series: 'etcd_mvcc_db_total_size_in_bytes{job="hearth-etcd",storage_cluster="main"}', values: '1200x20' },
      { series: 'etcd_server_quota_backend_bytes{job="hearth-etcd",storage_cluster="main"}', values: '2000x20' },
    ],
    stays: [
      { series: 'etcd_mvcc_db_total_size_in_bytes{job="hearth-etcd",storage_cluster="main"}', values: '800x20' },
      { series: 'etcd_server_quota_backend_bytes{job="hearth-etcd",storage_cluster="main"}', values: '2000x20' },
    ],
  },
  {
    name: 'HearthDirectoryBypassed',
    severity: 'warning',
    expression: growth('hearth_directory_bypassed_total', '15m', 'node'),
    holds: '0m',
    summary: 'The agent on {{ $labels.node }} reads the origin without asking the others.',
    meaning: 'Agents do not reach one another, so the same bytes may be read from the origin more than once.',
    action:
      'Nodes must reach one another on TCP 7527: look for network policies and firewalls; `hearth status` names the peers that are away.',
    fires: [{ series: 'hearth_directory_bypassed_total{node="n1"}', values: '0 0 5x20' }],
    stays: [{ series: 'hearth_directory_bypassed_total{node="n1"}', values: '5x20' }],
  },
  {
    name: 'HearthOriginFails',
    severity: 'warning',
    expression:
      'sum by (node) (rate(hearth_origin_retries_total[10m])) > 0.2 * sum by (node) (rate(hearth_origin_requests_total[10m])) and sum by (node) (rate(hearth_origin_requests_total[10m])) > 0.05',
    holds: '10m',
    summary: 'More than a fifth of the requests of {{ $labels.node }} to origins are repeated.',
    meaning:
      'An origin throttles, fails or is reached badly. What is cached is read on; the rest comes slowly or not at all.',
    action:
      "`kubectl get datasets -A` shows Datasets that are not Ready with the reason; the agent's log names the host. Behind a hub that answers 429, give a token, a mirror, or lower `limits`.",
    fires: [
      { series: 'hearth_origin_requests_total{node="n1"}', values: '0+60x40' },
      { series: 'hearth_origin_retries_total{node="n1"}', values: '0+30x40' },
    ],
    stays: [
      { series: 'hearth_origin_requests_total{node="n1"}', values: '0+60x40' },
      { series: 'hearth_origin_retries_total{node="n1"}', values: '0+3x40' },
    ],
  },
  {
    name: 'HearthCredentialsMissing',
    severity: 'warning',
    expression: 'hearth_credentials_missing > 0',
    holds: '10m',
    summary: 'The agent on {{ $labels.node }} lacks the credentials of {{ $value }} Datasets.',
    meaning:
      'The agent was restarted and no peer and no operator has given it the credentials again. It cannot read these origins; other nodes can.',
    action:
      'The operator writes credentials when it works and may read the Secret: `kubectl get datasets -A` shows `SecretForbidden` or `SecretNotFound` where it may not.',
    fires: [{ series: 'hearth_credentials_missing{node="n1"}', values: '1x20' }],
    stays: [{ series: 'hearth_credentials_missing{node="n1"}', values: '0x20' }],
  },
  {
    name: 'HearthReadersThrottled',
    severity: 'info',
    expression: 'sum by (node, what) (rate(hearth_limit_waited_seconds_total{class="demand"}[15m])) > 0.5',
    holds: '15m',
    summary: 'Readers on {{ $labels.node }} wait for the limit of {{ $labels.what }}.',
    meaning: 'The limits that the node group gives are lower than readers need.',
    action: 'Raise `limits.WHAT.total` of the node group, or move work to other nodes.',
    fires: [{ series: 'hearth_limit_waited_seconds_total{node="n1",what="origin",class="demand"}', values: '0+60x60' }],
    stays: [{ series: 'hearth_limit_waited_seconds_total{node="n1",what="origin",class="warm"}', values: '0+60x60' }],
  },
  {
    name: 'HearthRdmaNotUsed',
    severity: 'warning',
    expression: 'hearth_rdma_ready == 0',
    holds: '10m',
    summary: 'The agent on {{ $labels.node }} is to read from others by RDMA, and reads over TCP.',
    meaning: 'The node group asks for RDMA and this node cannot use it. Reads go on over TCP, slower.',
    action:
      'The condition `Rdma` of the StorageCluster and `hearth status` name the reason; `hearth doctor rdma` on the node says what to do.',
    fires: [{ series: 'hearth_rdma_ready{use="required",node="n1"}', values: '0x20' }],
    stays: [{ series: 'hearth_rdma_ready{use="required",node="n1"}', values: '1x20' }],
  },
  {
    name: 'HearthRdmaPortDown',
    severity: 'warning',
    expression: 'hearth_rdma_port_active == 0',
    holds: '10m',
    summary: 'The RDMA port {{ $labels.port }} of {{ $labels.node }} is down.',
    meaning: 'Reads use the ports that are left, or TCP.',
    action: 'Look after the cable, the switch and, on InfiniBand, the subnet manager.',
    fires: [{ series: 'hearth_rdma_port_active{port="mlx5_0/1",node="n1"}', values: '0x20' }],
    stays: [{ series: 'hearth_rdma_port_active{port="mlx5_0/1",node="n1"}', values: '1x20' }],
  },
  {
    name: 'HearthRdmaConnectionsFail',
    severity: 'warning',
    expression: 'sum by (node, peer) (increase(hearth_rdma_failures_total[15m])) > 3',
    holds: '15m',
    summary: 'RDMA connections from {{ $labels.node }} to {{ $labels.peer }} fail again and again.',
    meaning: 'The connection was lost more than three times in a quarter of an hour. Reads go on over TCP meanwhile.',
    action: '`hearth bench rdma` between both nodes proves the path step by step.',
    fires: [{ series: 'hearth_rdma_failures_total{node="n1",peer="n2"}', values: '0+1x60' }],
    stays: [{ series: 'hearth_rdma_failures_total{node="n1",peer="n2"}', values: '0 0 2x60' }],
  },
];
