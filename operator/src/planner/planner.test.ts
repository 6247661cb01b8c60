import assert from 'node:assert/strict';
import { plan } from './planner.ts';
import { gib, group, input, node, pods, running, spreadOver } from './testing/inputs.ts';
import { names, only, places, warm } from './testing/plans.ts';

describe('planner', () => {
  describe('bytes', () => {
    it('goes where the most bytes are', () => {
      const nodes = [node('a'), node('b', { resident: { model: 60 } }), node('c', { resident: { model: 100 } })];
      const found = warm(only(input(nodes, [group('g')])));
      assert.deepEqual(names(found), ['c']);
      assert.deepEqual(found.nodes[0], { node: 'c', missingBytes: { model: 0 } });
      assert.deepEqual([...found.assignment], [['g-0', 'c']]);
      assert.equal(found.message, '1 pod on 1 node: c has all 100.0 GiB.');
    });

    it('counts all datasets of a group together', () => {
      const nodes = [node('a', { resident: { model: 100 } }), node('b', { resident: { model: 20, adapter: 300 } })];
      const given = input(nodes, [group('g', { datasets: ['model', 'adapter'] })], {
        datasets: { model: 100, adapter: 300 },
      });
      const [chosen] = warm(only(given)).nodes;
      assert.deepEqual(chosen, { node: 'b', missingBytes: { model: 80 * gib, adapter: 0 } });
    });

    it('brings bytes only where they fit, and there to as much room as possible', () => {
      const nodes = [node('a', { available: 99 }), node('b', { available: 100 }), node('c', { available: 101 })];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')])))), ['c']);
      assert.deepEqual(names(warm(only(input(nodes.slice(0, 2), [group('g')])))), ['b']);
    });

    it('needs room for what is missing only', () => {
      const nodes = [node('a', { available: 39, resident: { model: 60 } }), node('b', { available: 200 })];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')])))), ['b']);
      const fits = [node('a', { available: 40, resident: { model: 60 } }), node('b', { available: 200 })];
      assert.deepEqual(names(warm(only(input(fits, [group('g')])))), ['a']);
    });

    it('needs room for what is there but not kept', () => {
      const unpinned = { availableBytes: 50 * gib, residentBytes: { model: 60 * gib }, pinnedBytes: {} };
      const nodes = [{ ...node('a'), agent: unpinned }, node('b')];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')])))), ['b']);
      const coming = { availableBytes: 0, residentBytes: { model: 60 * gib }, pinnedBytes: { model: 100 * gib } };
      assert.deepEqual(names(warm(only(input([{ ...node('a'), agent: coming }, node('b')], [group('g')])))), ['a']);
    });

    it('says how many bytes are missing where when the budgets are too small', () => {
      const nodes = [
        node('a', { available: 40 }),
        node('b', { available: 10, resident: { model: 75 } }),
        ...['c', 'd', 'e'].map((name) => node(name, { available: 1 })),
      ];
      assert.deepEqual(only(input(nodes, [group('g')])), {
        kind: 'release',
        reason: 'NoRoom',
        message:
          'The cache budgets are too small for 100.0 GiB: ' +
          'b needs 25.0 GiB more and has room for 10.0 GiB, so 15.0 GiB are missing; ' +
          'a needs 100.0 GiB more and has room for 40.0 GiB, so 60.0 GiB are missing; ' +
          'c needs 100.0 GiB more and has room for 1.0 GiB, so 99.0 GiB are missing and 2 more.',
      });
    });

    it('goes where another group brings the same bytes', () => {
      const nodes = [node('a', { available: 150 }), node('b', { available: 140 })];
      const plans = plan(input(nodes, [group('first'), group('second')]));
      assert.deepEqual(
        [...plans.values()].map((one) => names(warm(one))),
        [['a'], ['a']],
      );
      assert.equal(warm(plans.get('second')).nodes[0]?.missingBytes.model, 100 * gib);
    });

    it('gives the same room to no two groups', () => {
      const nodes = [node('a', { available: 150 }), node('b', { available: 140 })];
      const groups = ['x', 'y', 'z'].map((key) => group(key, { datasets: [key] }));
      const plans = plan(input(nodes, groups, { datasets: { x: 100, y: 100, z: 100 } }));
      assert.deepEqual(names(warm(plans.get('x'))), ['a']);
      assert.deepEqual(names(warm(plans.get('y'))), ['b']);
      const last = plans.get('z');
      assert.equal(last?.kind === 'release' && last.reason, 'NoRoom');
    });
  });

  describe('room for pods', () => {
    it('makes no more copies than the pods need', () => {
      const nodes = ['a', 'b', 'c'].map((name) => node(name));
      const found = warm(only(input(nodes, [group('g', { pods: pods('g', 12) })])));
      assert.deepEqual(names(found), ['a', 'b']);
      assert.equal(places(found).filter((one) => one === 'a').length, 8);
    });

    it('takes one node that has room for all before several', () => {
      const nodes = [node('a', { allocatable: { pods: 9, 'nvidia.com/gpu': 2 } }), node('b')];
      assert.deepEqual(names(warm(only(input(nodes, [group('g', { pods: pods('g', 4) })])))), ['b']);
    });

    it('fills nodes that hold the bytes evenly before it makes a copy', () => {
      const resident = { model: 100 };
      const few = { pods: 9, 'nvidia.com/gpu': 2 };
      const nodes = [node('a'), node('b', { resident, allocatable: few }), node('c', { resident, allocatable: few })];
      const found = warm(only(input(nodes, [group('g', { pods: pods('g', 5) })])));
      assert.deepEqual(places(found), ['b', 'c', 'b', 'c', 'a']);
    });

    it('counts what runs, and every pod as one of the pods', () => {
      const resident = { model: 100 };
      const nodes = [
        node('a', { resident, allocatable: { pods: 1, 'nvidia.com/gpu': 8 } }),
        node('b', { resident }),
        node('c', { resident: { model: 50 } }),
      ];
      const runs = [running('a'), running('b', { requests: { 'nvidia.com/gpu': 8 } })];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')], { running: runs })))), ['c']);
    });

    it('lets a pod that asks for none of it run where more was given than there is', () => {
      const nodes = [node('a', { resident: { model: 100 } }), node('b')];
      const runs = [running('a', { requests: { cpu: 9000 } })];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')], { running: runs })))), ['a']);
    });

    it('gives the same room to no two groups', () => {
      const nodes = [node('a', { resident: { model: 100 }, allocatable: { pods: 9, 'nvidia.com/gpu': 1 } }), node('b')];
      const plans = plan(input(nodes, [group('first'), group('second')]));
      assert.deepEqual(places(warm(plans.get('first'))), ['a']);
      assert.deepEqual(places(warm(plans.get('second'))), ['b']);
    });

    it('keeps pods with the same port of the host apart', () => {
      const resident = { model: 100 };
      const nodes = [node('a', { resident }), node('b', { resident }), node('c')];
      const port = (ip: string) => [{ ip, protocol: 'TCP', port: 8080 }];
      const runs = [running('a', { hostPorts: port('10.0.0.1') })];
      const found = warm(
        only(input(nodes, [group('g', { pods: pods('g', 2), hostPorts: port('0.0.0.0') })], { running: runs })),
      );
      assert.deepEqual(places(found), ['b', 'c']);
    });

    it('gives the same port of the host to no two groups', () => {
      const hostPorts = [{ ip: '0.0.0.0', protocol: 'TCP', port: 8080 }];
      const nodes = [node('a', { resident: { model: 100 } }), node('b')];
      const plans = plan(input(nodes, [group('first', { hostPorts }), group('second', { hostPorts })]));
      assert.deepEqual(places(warm(plans.get('first'))), ['a']);
      assert.deepEqual(places(warm(plans.get('second'))), ['b']);
    });

    it('waits at the warmest node that could take a pod when others end', () => {
      const nodes = [node('a'), node('b', { resident: { model: 70 } })];
      const runs = ['a', 'b'].map((name) => running(name, { requests: { 'nvidia.com/gpu': 8 } }));
      const found = warm(only(input(nodes, [group('g', { affinity: 'Required' })], { running: runs })));
      assert.deepEqual([names(found), places(found)], [['b'], []]);
      assert.deepEqual(found.affinity, { kind: 'Required', hostnames: ['b'], preferredHostnames: ['b'] });
      assert.equal(
        found.message,
        'No node takes a pod now. When others end it could go where the bytes are to be: b lacks 30.0 GiB of 100.0 GiB.',
      );
    });

    it('does not wait for the room of pods that stay', () => {
      const runs = [running('a', { requests: { 'nvidia.com/gpu': 1 }, lasting: true })];
      const found = only(input([node('a')], [group('g', { requests: { 'nvidia.com/gpu': 8 } })], { running: runs }));
      assert.deepEqual(found, {
        kind: 'release',
        reason: 'NoFeasibleNode',
        message: 'No node could take a pod, however long it waits: of 1 node 1 with too little nvidia.com/gpu.',
      });
    });

    it('releases at once when pods could run now, but only without the bytes', () => {
      const nodes = [node('a', { resident: { model: 100 } }), node('b', { available: 5 })];
      const runs = [running('a', { requests: { 'nvidia.com/gpu': 8 } })];
      const found = only(input(nodes, [group('g')], { running: runs }));
      assert.equal(found.kind === 'release' && found.reason, 'NoRoom');
      const agentless = only(input([nodes[0] as never, node('b', { agent: false })], [group('g')], { running: runs }));
      assert.equal(agentless.kind === 'release' && agentless.reason, 'NoAgent');
    });
  });

  describe('who may go where', () => {
    it('says at how many nodes it failed and why', () => {
      const nodes = [
        node('a', { unschedulable: true }),
        node('b', { taints: [{ key: 'x', effect: 'NoExecute' }] }),
        node('c', { labels: { disk: 'hdd' } }),
        node('d', { labels: { disk: 'ssd' }, allocatable: { pods: 9 } }),
        node('e', { labels: { disk: 'ssd' } }),
      ].map((one) => ({ ...one, labels: { disk: 'ssd', ...one.labels } }));
      const spread = [spreadOver('zone')];
      assert.deepEqual(only(input(nodes.slice(0, 4), [group('g', { nodeSelector: { disk: 'ssd' } })])), {
        kind: 'release',
        reason: 'NoFeasibleNode',
        message:
          'No node could take a pod, however long it waits: of 4 nodes 2 cordoned or with taints that are not ' +
          'tolerated, 1 not selected by node selector or affinity, 1 with too little nvidia.com/gpu.',
      });
      const labelless = only(input(nodes.slice(4), [group('g', { spread })]));
      assert.match(labelless.kind === 'release' ? labelless.message : '', /of 1 node 1 without the label zone\.$/);
    });

    it('says when there is no node at all', () => {
      const found = only(input([], [group('g')]));
      assert.match(found.kind === 'release' ? found.message : '', /: the cluster has none\.$/);
    });

    it('says when no agent serves where the pods could go', () => {
      assert.deepEqual(only(input([node('a', { agent: false }), node('b', { unschedulable: true })], [group('g')])), {
        kind: 'release',
        reason: 'NoAgent',
        message: 'Nodes that could take a pod have no agent that serves, or no hostname of their own: a.',
      });
    });

    it('plans no node that affinity cannot name alone', () => {
      const resident = { model: 100 };
      const same = { 'kubernetes.io/hostname': 'same' };
      const nodes = [node('a', { resident, labels: same }), node('b', { resident, labels: same }), node('c')];
      assert.deepEqual(names(warm(only(input(nodes, [group('g')])))), ['c']);
    });

    it('waits for a node whose agent is not ready yet only when there is no other', () => {
      const taints = [{ key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' }];
      const joining = node('a', { resident: { model: 100 }, taints });
      assert.deepEqual(places(warm(only(input([joining, node('b')], [group('g')])))), ['b']);
      const found = warm(only(input([joining], [group('g')])));
      assert.deepEqual([names(found), places(found)], [['a'], []]);
      const agentless = only(input([{ ...joining, agent: undefined } as never], [group('g')]));
      assert.equal(agentless.kind === 'release' && agentless.reason, 'NoFeasibleNode');
    });

    it('keeps away from pods that repel its own', () => {
      const repels = [
        { topologyKey: 'zone', selector: { matchLabels: { app: 'g' }, matchExpressions: [] } },
        { topologyKey: 'rack', namespaces: ['others'], selector: { matchLabels: {}, matchExpressions: [] } },
      ];
      const resident = { model: 100 };
      const nodes = [
        node('a', { resident, labels: { zone: '1', rack: '1' } }),
        node('b', { resident, labels: { zone: '1', rack: '2' } }),
        node('c', { labels: { zone: '2', rack: '1' } }),
      ];
      const given = input(nodes, [group('g'), group('h', { datasets: ['model'] })], {
        running: [running('a', { repels })],
      });
      const plans = plan(given);
      assert.deepEqual(places(warm(plans.get('g'))), ['c']);
      assert.deepEqual(places(warm(plans.get('h'))), ['a']);
    });
  });

  describe('preferences', () => {
    const resident = { model: 100 };

    it('follows preferred affinity among nodes with equal bytes, not against bytes', () => {
      const nodes = [node('a'), node('b', { labels: { disk: 'ssd' } }), node('c', { labels: { disk: 'ssd' } })];
      const term = { matchExpressions: [{ key: 'disk', operator: 'In', values: ['ssd'] }], matchFields: [] };
      const wishing = group('g', { preferredTerms: [{ weight: 5, term }] });
      assert.deepEqual(names(warm(only(input(nodes, [wishing])))), ['b']);
      assert.deepEqual(names(warm(only(input([node('a', { resident }), ...nodes.slice(1)], [wishing])))), ['a']);
      // A few bytes more are no reason.
      const barely = node('a', { resident: { model: 0.5 } });
      assert.deepEqual(names(warm(only(input([barely, ...nodes.slice(1)], [wishing])))), ['b']);
    });

    it('avoids PreferNoSchedule taints and spreads softly among nodes with equal bytes', () => {
      const taints = [{ key: 'x', effect: 'PreferNoSchedule' }];
      assert.deepEqual(names(warm(only(input([node('a', { taints }), node('b')], [group('g')])))), ['b']);
      const zoned = ['a', 'b', 'c'].map((name, zone) =>
        node(name, { resident, labels: { zone: String(Math.min(zone, 1)) } }),
      );
      const selector = { matchLabels: { app: 'g' }, matchExpressions: [] };
      const soft = group('g', { pods: pods('g', 4), spread: [spreadOver('zone', { hard: false, selector })] });
      assert.deepEqual(places(warm(only(input(zoned, [soft])))), ['a', 'b', 'c', 'a']);
    });
  });
});
