import assert from 'node:assert/strict';
import { chooseGate } from './gate_choice.ts';
import { datasetOf } from './testing/objects.ts';

const chosen = (datasets: Parameters<typeof chooseGate>[0], annotations: Record<string, string> = {}) =>
  chooseGate(datasets, annotations);

describe('gate of a pod', () => {
  const wait = datasetOf('wait', { mode: 'Wait', minPercent: 60, timeout: '90s', affinity: 'Required' });
  const long = datasetOf('long', { mode: 'Wait', minPercent: 80, timeout: '2m', affinity: 'Preferred' });
  const prefer = datasetOf('prefer', { mode: 'Prefer', timeout: '24h' });
  const off = datasetOf('off', { mode: 'Off' });

  it('is Off without any', () => {
    assert.equal(chosen([]).gate.mode, 'Off');
    assert.equal(chosen([datasetOf('plain', undefined), off]).gate.mode, 'Off');
  });

  it('is the strictest of its Datasets', () => {
    assert.equal(chosen([off, prefer]).gate.mode, 'Prefer');
    assert.deepEqual(chosen([prefer, wait, off, long]).gate, {
      mode: 'Wait',
      minPercent: 80,
      timeout: '2m',
      affinity: 'Required',
      readyWhen: 'Stored',
    });
  });

  it('is what the pod says, field by field', () => {
    const annotations = { 'hearth.storage/gate-timeout': '3h', 'hearth.storage/gate-min-percent': '5' };
    assert.deepEqual(chosen([wait], annotations).gate, {
      mode: 'Wait',
      minPercent: 5,
      timeout: '3h',
      affinity: 'Required',
      readyWhen: 'Stored',
    });
    assert.equal(chosen([wait], { 'hearth.storage/gate': 'Off' }).gate.mode, 'Off');
    assert.deepEqual(chosen([off], { 'hearth.storage/gate': 'Wait' }).gate, {
      mode: 'Wait',
      minPercent: 100,
      timeout: '10m',
      affinity: 'Preferred',
      readyWhen: 'Stored',
    });
  });

  it('waits until the bytes are stored unless all that wait ask for memory, or the pod does', () => {
    const memory = datasetOf('memory', { mode: 'Wait', readyWhen: 'Memory' });
    const preferred = datasetOf('preferred', { mode: 'Prefer' });
    assert.equal(chosen([memory]).gate.readyWhen, 'Memory');
    assert.equal(chosen([memory, preferred]).gate.readyWhen, 'Memory');
    assert.equal(chosen([memory, long]).gate.readyWhen, 'Stored');
    assert.equal(chosen([long, memory]).gate.readyWhen, 'Stored');
    assert.equal(chosen([long, memory], { 'hearth.storage/gate-ready-when': 'Memory' }).gate.readyWhen, 'Memory');
    assert.equal(chosen([memory], { 'hearth.storage/gate-ready-when': 'Stored' }).gate.readyWhen, 'Stored');
  });

  it('does not heed annotations that mean nothing, and says so', () => {
    const nonsense: [string, string, RegExp][] = [
      ['gate', 'wait', /gate is not Off, Prefer or Wait/],
      ['gate', '', /gate is not/],
      ['gate-min-percent', '0', /a number from 1 to 100/],
      ['gate-min-percent', '101', /a number from 1 to 100/],
      ['gate-min-percent', '50%', /a number from 1 to 100/],
      ['gate-timeout', '10', /a duration from 1s to 24h/],
      ['gate-timeout', '0s', /a duration/],
      ['gate-timeout', '25h', /a duration/],
      ['gate-affinity', 'required', /Preferred or Required/],
      ['gate-ready-when', 'memory', /Stored or Memory/],
    ];
    for (const [name, value, message] of nonsense) {
      const { gate, warnings } = chosen([long], { [`hearth.storage/${name}`]: value });
      assert.deepEqual(gate, chosen([long]).gate, `${name}=${value}`);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0] ?? '', message);
    }
  });
});
