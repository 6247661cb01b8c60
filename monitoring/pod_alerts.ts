import { type Alert, growthOfEvents } from './alert.ts';

/** About pods that start, and the operator that plans for them. */
export const podAlerts: readonly Alert[] = [
  {
    name: 'HearthOperatorAbsent',
    severity: 'critical',
    expression: 'absent(hearth_operator_leader == 1)',
    holds: '5m',
    summary: 'No replica of the operator works.',
    meaning:
      'No replica holds the lease, or Prometheus reaches none of them. Volumes and reads go on. New pods are not gated and start cold, gated pods wait until a replica works again, and new nodes get no agent.',
    action:
      'See `kubectl -n hearth-system get pods -l app.kubernetes.io/component=operator` and the logs of its pods; `kubectl -n hearth-system get lease` shows the last holder.',
    fires: [{ series: 'hearth_operator_leader{pod="a"}', values: '0x20' }],
    stays: [{ series: 'hearth_operator_leader{pod="a"}', values: '1x70' }],
  },
  {
    name: 'HearthWebhookFails',
    severity: 'warning',
    expression: growthOfEvents(
      'hearth_webhook_reviews_total{result=~"late|failed"}',
      '10m',
      'result',
      'hearth_operator_leader',
    ),
    holds: '0m',
    summary: 'Pods were let through ungated, because the webhook was {{ $labels.result }}.',
    meaning:
      'The operator looked at pods too late or failed to. These pods started without waiting for their bytes and read them over the network.',
    action:
      "Read the operator's log. `late` means that the operator has too little processor time, or that the API server reaches it slowly: give `operator.resources` more, or set `operator.hostNetwork`.",
    fires: [
      { series: 'hearth_operator_leader{instance="a"}', values: '1x60' },
      { series: 'hearth_webhook_reviews_total{instance="a",result="late"}', values: '_x20 1x20' },
    ],
    stays: [{ series: 'hearth_webhook_reviews_total{result="gated"}', values: '0+1x20' }],
  },
  {
    name: 'HearthWebhookCertificateExpires',
    severity: 'critical',
    expression: 'min(hearth_webhook_certificate_expiry_seconds) - time() < 14 * 86400',
    holds: '15m',
    summary: 'The certificate of the webhook ends in less than two weeks.',
    meaning:
      'The operator renews the certificate a month before its end, and has not. After its end the API server lets every pod through ungated.',
    action:
      "Read the operator's log for `hearth-webhook`. The operator needs to write that Secret; deleting the Secret has the operator make authority and certificate again.",
    fires: [{ series: 'hearth_webhook_certificate_expiry_seconds', values: '864000x30' }],
    stays: [{ series: 'hearth_webhook_certificate_expiry_seconds', values: '2592000x30' }],
  },
  {
    name: 'HearthGatesTimeOut',
    severity: 'warning',
    expression: growthOfEvents(
      'hearth_gate_released_total{reason="TimedOut"}',
      '30m',
      'reason',
      'hearth_operator_leader',
    ),
    holds: '0m',
    summary: '{{ $value | humanize }} pods started cold, as the time of their gates was over.',
    meaning:
      'Bytes did not come to the nodes of waiting pods within `gate.timeout`. The pods started and read over the network.',
    action:
      '`kubectl get events -A --field-selector reason=GateTimedOut` names the pods and what was missing; `kubectl get cachepreloads -A -o wide` shows the rates. Give the gates more time, or the nodes a faster origin.',
    fires: [
      { series: 'hearth_operator_leader{instance="a"}', values: '1x60' },
      { series: 'hearth_gate_released_total{instance="a",reason="TimedOut"}', values: '_x35 1x20' },
    ],
    stays: [{ series: 'hearth_gate_released_total{reason="Warm"}', values: '0+1x20' }],
  },
  {
    name: 'HearthPodsWaitLong',
    severity: 'warning',
    expression: 'sum(hearth_gate_waiting_pods) > 0',
    holds: '30m',
    summary: 'Pods have been held back for half an hour without a break.',
    meaning: 'At every moment of the last half hour at least one pod waited for its bytes.',
    action:
      '`kubectl hearth explain pod/NAME -n NAMESPACE` of a pod that is `SchedulingGated` says what the pod waits for and which nodes lack bytes.',
    fires: [{ series: 'hearth_gate_waiting_pods', values: '2x60' }],
    stays: [{ series: 'hearth_gate_waiting_pods', values: '2x20 0 2x20' }],
  },
  {
    name: 'HearthPreloadFailed',
    severity: 'warning',
    expression: 'sum(hearth_preload_objects{phase="Failed"}) > 0',
    holds: '5m',
    summary: '{{ $value }} CachePreloads have failed.',
    meaning: 'A deadline passed, the globs match no file, or the Datasets are of several StorageClusters.',
    action: '`kubectl get cachepreloads -A -o wide` shows the reason. A change of the spec is a new chance.',
    fires: [{ series: 'hearth_preload_objects{phase="Failed"}', values: '1x20' }],
    stays: [{ series: 'hearth_preload_objects{phase="Ready"}', values: '1x20' }],
  },
];
