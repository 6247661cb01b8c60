import assert from 'node:assert/strict';
import { controlApi } from '@hearth/common';
import {
  Dataset,
  GetStatusResponse,
  NodeReport,
  type StatusChanges,
  WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from './agents.ts';
import { StatusAssembly } from './status_assembly.ts';
import { nodeStatus } from './testing/fake_agent.ts';

const api = { apiVersion: controlApi.apiVersion, apiFeatures: [...controlApi.apiFeatures] };

/** A node whose agent reports by itself. */
const member = (node: string) => nodeStatus(node, { ...api, wire: [{ host: '10.0.0.1', port: 7527 }] });

function records(fields: Partial<GetStatusResponse>, changes?: Partial<StatusChanges>): GetStatusResponse {
  const told = { whole: false, more: false, nodesGone: [], datasetsGone: [], jobsGone: [], ...changes };
  const message = { ...GetStatusResponse.fromPartial({ node: 'a', ...api }), ...fields };
  return changes === undefined ? message : { ...message, changes: told };
}

const report = (sequence: number, fields: object) =>
  NodeReport.fromPartial({ mark: { incarnation: 'i', sequence: BigInt(sequence) }, ...fields });

describe('status of a cluster, put together', () => {
  let assembly: StatusAssembly;
  beforeEach(() => {
    assembly = new StatusAssembly();
    const datasets = ['x', 'y'].map((name) => Dataset.fromPartial({ name, bytes: 10n }));
    assembly.applyRecords(records({ nodes: [member('a'), member('b')], datasets }, { whole: true }), 1);
  });

  const built = () => assembly.build() as ClusterStatus;
  const rowsOf = (status: ClusterStatus, name: string) =>
    status.datasets.get(name)?.residency.map(({ node, residentBytes }) => [node, residentBytes]);

  it('has the figures and residency that each agent has reported', () => {
    assert.deepEqual(assembly.reporting(), ['a', 'b']);
    assembly.applyReport('b', [
      report(1, { whole: true, figures: { budgetBytes: 7n }, datasets: [{ dataset: 'x', residentBytes: 4n }] }),
      report(1, { datasets: [{ dataset: 'y', residentBytes: 5n }] }),
    ]);
    const status = built();
    assert.deepEqual([status.nodes.get('b')?.budgetBytes, status.nodes.get('b')?.ready], [7n, true]);
    assert.deepEqual(status.nodes.get('b')?.residentBytes, { x: 4n, y: 5n });
    assert.deepEqual([rowsOf(status, 'x'), rowsOf(status, 'y')], [[['b', 4n]], [['b', 5n]]]);
    assert.deepEqual(assembly.markOf('b'), { incarnation: 'i', sequence: 1n });

    assembly.applyReport('b', [report(2, { datasetsGone: ['x'] })]);
    assert.deepEqual(built().nodes.get('b')?.residentBytes, { y: 5n });
    assembly.applyReport('b', [report(1, { whole: true, figures: {} })]);
    assert.deepEqual(rowsOf(built(), 'y'), []);
  });

  it('shares everything that has not changed with the status before', () => {
    const rows = ['x', 'y'].map((dataset) => ({ dataset, residentBytes: 1n }));
    assembly.applyReport('a', [report(1, { whole: true, figures: {}, datasets: rows })]);
    const first = built();
    assembly.applyReport('a', [report(2, { datasets: [{ dataset: 'x', residentBytes: 2n }] })]);
    const second = built();
    assert.equal(second.datasets.get('y'), first.datasets.get('y'));
    assert.equal(second.nodes.get('b'), first.nodes.get('b'));
    assert.equal(second.jobs, first.jobs);
    assert.deepEqual([rowsOf(first, 'x'), rowsOf(second, 'x')], [[['a', 1n]], [['a', 2n]]]);
  });

  it('keeps no row of a dataset of which a node has nothing', () => {
    const rows = [
      { dataset: 'x', dataPath: 'daemon', reason: '1 of 1 files are incomplete on this node' },
      { dataset: 'y', pinned: true },
    ];
    assembly.applyReport('a', [report(1, { whole: true, figures: {}, datasets: rows })]);
    const status = built();
    assert.deepEqual([rowsOf(status, 'x'), rowsOf(status, 'y')], [[], [['a', 0n]]]);
    assert.deepEqual(status.nodes.get('a')?.residentBytes, { y: 0n });
    assembly.applyReport('a', [report(2, { datasets: [{ dataset: 'x', residentBytes: 2n }] })]);
    assert.deepEqual(built().nodes.get('a')?.residentBytes, { y: 0n, x: 2n });
    assembly.applyReport('a', [report(3, { datasets: [rows[0]] })]);
    const last = built();
    assert.deepEqual([rowsOf(last, 'x'), last.nodes.get('a')?.residentBytes], [[], { y: 0n }]);
  });

  it('shares the bytes of a node of which only figures have changed', () => {
    const rows = [{ dataset: 'x', residentBytes: 1n }];
    assembly.applyReport('a', [report(1, { whole: true, figures: {}, datasets: rows })]);
    const first = built();
    assembly.applyReport('a', [report(2, { figures: { originBytes: 5n } })]);
    const second = built();
    assert.equal(second.nodes.get('a')?.originBytes, 5n);
    assert.equal(second.nodes.get('a')?.residentBytes, first.nodes.get('a')?.residentBytes);
  });

  it('follows records that change and go', () => {
    assembly.applyReport('b', [
      report(1, { whole: true, figures: {}, datasets: [{ dataset: 'x', residentBytes: 1n }] }),
    ]);
    assembly.applyRecords(records({ jobs: [WarmJob.fromPartial({ name: 'j' })] }, {}), 2);
    assert.deepEqual([built().receivedAt, [...built().jobs.keys()], built().nodes.size], [2, ['j'], 2]);
    assembly.applyRecords(records({}, { nodesGone: ['b'], datasetsGone: ['y'], jobsGone: ['j'] }), 3);
    const status = built();
    assert.deepEqual([[...status.nodes.keys()], [...status.datasets.keys()], status.jobs.size], [['a'], ['x'], 0]);
    assert.deepEqual([rowsOf(status, 'x'), assembly.markOf('b')], [[], undefined]);
  });

  it('keeps figures of an agent that does not answer, with the reason', () => {
    assembly.applyReport('b', [report(1, { whole: true, figures: { budgetBytes: 7n } })]);
    assembly.failed('b', 'no route');
    assembly.failed('a', 'no route');
    const { nodes } = built();
    assert.deepEqual(
      ['a', 'b'].map((node) => [nodes.get(node)?.budgetBytes, nodes.get(node)?.figuresMissing]),
      [
        [0n, 'no route'],
        [7n, 'no route'],
      ],
    );
    assembly.applyReport('b', [report(2, {})]);
    assert.equal(built().nodes.get('b')?.figuresMissing, '');
  });

  it('is what an agent of an earlier release says of all', () => {
    assembly.applyReport('b', [report(1, { whole: true, figures: { budgetBytes: 7n } })]);
    const residency = [{ node: 'b', residentBytes: 3n }];
    const nodes = [{ ...member('b'), budgetBytes: 9n }];
    assembly.applyRecords(records({ nodes, datasets: [Dataset.fromPartial({ name: 'x', residency })] }), 2);
    const status = built();
    assert.deepEqual([[...status.nodes.keys()], status.nodes.get('b')?.budgetBytes], [['b'], 9n]);
    assert.deepEqual([rowsOf(status, 'x'), status.datasets.size], [[['b', 3n]], 1]);
  });
});
