import assert from 'node:assert/strict';
import { apiDifference, apiDifferences, controlApi, understandsApi } from './control_api.ts';
import { GetStatusResponse } from './generated/hearth/v1/control.ts';

/** Answers in the encoding of other releases, written out byte by byte. */
const decode = (...hex: string[]) => GetStatusResponse.decode(Buffer.from(hex.join(''), 'hex'));
const ofCluster = `0a0163${'12026e31'}`; // cluster "c", node "n1"
/** Release 0.0.9, before versions existed: node n1 and no fields of this release. */
const beforeVersions = decode(ofCluster, '1a0e', '0a026e31', '1001', '8201', '05302e302e39');
/** Version 1 without features; no API of n2. */
const firstVersion = decode(ofCluster, '1a04', '0a026e31', '1a04', '0a026e32', '3801');
/** A future release: version 2, unknown features and unknown fields. */
const future = decode(
  ofCluster,
  ...['1a11', '0a026e31', 'a80102', 'b20104', '6e657773', 'c03e01'],
  ...['3802', '42046e657773', 'c23e03616263'],
);
const differences = (status: GetStatusResponse) => apiDifferences(status, 'the operator');

describe('control API of another release', () => {
  it('older than versions differs', () => {
    assert.deepEqual([beforeVersions.apiVersion, beforeVersions.nodes[0]?.version], [0, '0.0.9']);
    assert.deepEqual(differences(beforeVersions), [
      'the agent on n1 (release 0.0.9) speaks version 0 of the control API, the operator version 1: everything newer than version 0 is off; upgrade the agent',
    ]);
    assert.ok(understandsApi(beforeVersions));
  });

  it('of the same version without features names the loss', () => {
    assert.deepEqual(differences(firstVersion), [
      'the agent on n1 lacks features of the control API (rebound-times: the agent reports a pod only once even if its mounts die again; node-api: differences of the API of other agents stay unknown; memory-ready: the agent does not report bytes in memory, and bytes are ready only when stored; advice: hearth advise skips the agent; mirrors: Datasets with mirrors wait until the agent is upgraded; client-tokens: pods with a volume of clientAccess wait until the agent is upgraded; node-reports: all agents write their figures to the store until the agent is upgraded; hub-layout: Datasets with the layout of a hub cache wait until the agent is upgraded; writable-volumes: the agent has no writable volumes; volume-resize: writable volumes keep the limits that they were created with until the agent is upgraded; token-revocation: revoked tokens are valid at the agent until they expire; volume-datasets: Datasets of volumes wait until the agent is upgraded); upgrade the agent',
    ]);
  });

  it('of the next version ignores unknown features and fields', () => {
    assert.deepEqual([future.apiVersion, future.apiFeatures, future.nodes[0]?.apiVersion], [2, ['news'], 2]);
    assert.deepEqual(differences(future), [
      'the agent on n1 speaks version 2 of the control API, the operator version 1: everything newer than version 1 is off; upgrade the operator',
    ]);
    assert.ok(understandsApi(future));
  });

  it('too far apart is incompatible', () => {
    const far = { apiVersion: 3, apiFeatures: [] };
    assert.equal(understandsApi(far), false);
    assert.equal(
      apiDifference(far, 'the agent', 'the operator'),
      'the agent speaks version 3 of the control API, the operator version 1, and only neighbouring versions understand each other; upgrade the operator',
    );
  });

  it('of other agents is reported beside that of the answering agent', () => {
    const node = (name: string, apiFeatures: string[]) => ({ node: name, version: '', apiVersion: 1, apiFeatures });
    const all = [...controlApi.apiFeatures, 'news'];
    const status = {
      node: 'a',
      apiVersion: 1,
      apiFeatures: all,
      nodes: [node('a', all), node('b', ['rebound-times'])],
    };
    assert.deepEqual(apiDifferences(status, 'this command'), [
      'the agent on b lacks features of the control API (node-api: differences of the API of other agents stay unknown; memory-ready: the agent does not report bytes in memory, and bytes are ready only when stored; advice: hearth advise skips the agent; mirrors: Datasets with mirrors wait until the agent is upgraded; client-tokens: pods with a volume of clientAccess wait until the agent is upgraded; node-reports: all agents write their figures to the store until the agent is upgraded; hub-layout: Datasets with the layout of a hub cache wait until the agent is upgraded; writable-volumes: the agent has no writable volumes; volume-resize: writable volumes keep the limits that they were created with until the agent is upgraded; token-revocation: revoked tokens are valid at the agent until they expire; volume-datasets: Datasets of volumes wait until the agent is upgraded); upgrade the agent',
    ]);
    assert.deepEqual(apiDifferences({ ...status, nodes: [] }, 'this command'), []);
  });

  it('is reported in the same words by every agent', () => {
    const nodes = ['a', 'b', 'c'].map((node) => ({ node, version: '', apiVersion: 1, apiFeatures: ['node-api'] }));
    const texts = nodes.map((answered) => apiDifferences({ ...answered, nodes }, 'this command'));
    assert.equal(texts[0]?.length, 3);
    assert.deepEqual(texts, [texts[0], texts[0], texts[0]]);
  });
});
