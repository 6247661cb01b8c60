import assert from 'node:assert/strict';
import { needsPrograms, tools } from '@hearth/common/testing';
import { Chart, type Manifest } from '@hearth/common/testing/kubernetes';

/** Returns the chart of a suite, which renders it by `helm template`. Valid inside its tests. */
export function useChart(): () => Chart {
  let chart: Chart | undefined;
  before(async function () {
    const { helm = '' } = await needsPrograms(this, () => tools(['helm']));
    chart = new Chart(helm);
  });
  return () => {
    assert.ok(chart);
    return chart;
  };
}

export function objectOf(objects: Manifest[], kind: string, name: string): Manifest {
  const found = objects.find((one) => one.kind === kind && one.metadata.name === name);
  assert.ok(found, `${kind} ${name} is not in the chart`);
  return found;
}
