import type { Alert } from './alert.ts';
import { byteAlerts } from './byte_alerts.ts';
import { clusterAlerts } from './cluster_alerts.ts';
import { podAlerts } from './pod_alerts.ts';

/** All alerts, by group. The chart's PrometheusRule and docs/reference/alerts.md are written from here. */
export const alertGroups: readonly { name: string; title: string; alerts: readonly Alert[] }[] = [
  { name: 'hearth.pods', title: 'Pods and the operator', alerts: podAlerts },
  { name: 'hearth.cluster', title: 'Agents, store and network', alerts: clusterAlerts },
  { name: 'hearth.bytes', title: 'Bytes and disks', alerts: byteAlerts },
];
