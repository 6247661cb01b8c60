import assert from 'node:assert/strict';
import { podView } from './pod_view.ts';
import { inline, podOf } from './testing/objects.ts';

const gates = { spec: { schedulingGates: [{ name: 'hearth.storage/preload' }] } };
const planned = { annotations: { 'hearth.storage/preload': 'web-0' }, creationTimestamp: '2026-01-01T00:00:00Z' };

describe('what is kept of a pod', () => {
  it('is nothing when it has no node, no volume of a Dataset and no gate', () => {
    assert.equal(podView(podOf('web', [])), undefined);
    assert.equal(podView(podOf('web', [], { spec: { nodeName: 'n' }, status: { phase: 'Succeeded' } })), undefined);
    assert.equal(podView(podOf('web', [], { spec: { schedulingGates: [{ name: 'other/gate' }] } })), undefined);
  });

  it('is the room that it takes, shared with its like', () => {
    const labels = { app: 'web', tier: 'front' };
    const resources = { requests: { cpu: '500m', memory: '1Gi' } };
    const view = (name: string) =>
      podView(
        podOf(name, [], {
          metadata: { name, namespace: 'team', labels: { ...labels } },
          spec: { nodeName: 'n1', containers: [{ name: 'main', image: 'none', resources }] },
        }),
      );
    const [a, b] = [view('a'), view('b')];
    assert.deepEqual(a?.running?.requests, { cpu: 500, memory: 2 ** 30 });
    assert.equal(a?.running?.labels, b?.running?.labels);
    assert.equal(a?.running?.requests, b?.running?.requests);
    assert.equal(a?.member, undefined);
  });

  it('is the Datasets of inline volumes', () => {
    assert.deepEqual([...(podView(podOf('web', [inline('llama')]))?.uses.keys() ?? [])], ['team/llama']);
  });

  it('is the pod itself while it is gated, and where it is afterwards', () => {
    const pod = podOf('web', [], { metadata: { name: 'web', namespace: 'team', uid: 'u', ...planned }, ...gates });
    const member = podView({ ...pod, status: { phase: 'Pending' } })?.member;
    assert.deepEqual(member?.gated, pod, 'without its status');
    assert.deepEqual([member?.preload, member?.node, member?.createdAt], ['web-0', '', Date.UTC(2026, 0, 1)]);
    const { spec, ...rest } = pod;
    const running = podView({ ...rest, spec: { containers: [], nodeName: 'n1' } })?.member;
    assert.deepEqual([running?.gated, running?.preload, running?.node], [undefined, 'web-0', 'n1']);
    assert.equal(podView({ ...rest, spec: { containers: [] }, status: { phase: 'Failed' } }), undefined);
  });

  it('is a member without a plan when another program gave it our gate', () => {
    assert.equal(podView(podOf('web', [], gates))?.member?.preload, '');
  });
});
