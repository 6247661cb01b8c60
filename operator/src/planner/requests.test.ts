import assert from 'node:assert/strict';
import { amountOf } from './requests.ts';

describe('amount', () => {
  const cases: [resource: string, text: string, amount: number | undefined][] = [
    ['cpu', '1', 1000],
    ['cpu', '1.1', 1100],
    ['cpu', '250m', 250],
    ['cpu', '0.1m', 1],
    ['cpu', '1500000n', 2],
    ['cpu', '2k', 2_000_000],
    ['memory', '1Gi', 2 ** 30],
    ['memory', '1.5Gi', 1.5 * 2 ** 30],
    ['memory', '128974848', 128_974_848],
    ['memory', '129e6', 129_000_000],
    ['memory', '1E3', 1000],
    ['memory', '129M', 129_000_000],
    ['memory', '128974848000m', 128_974_848],
    ['memory', '1500m', 2],
    ['memory', '1E', 1e18],
    ['memory', '+5', 5],
    ['memory', '-1500m', -1],
    ['memory', '.5Ki', 512],
    ['memory', '5.', 5],
    ['memory', '0e9999999', 0],
    ['memory', '1e9999999', Number.MAX_SAFE_INTEGER],
    ['memory', '1e-9999999', 1],
    ['nvidia.com/gpu', '8', 8],
    ['memory', '', undefined],
    ['memory', '.', undefined],
    ['memory', '1 Gi', undefined],
    ['memory', '1ki', undefined],
    ['memory', '1Gie3', undefined],
    ['memory', 'many', undefined],
  ];
  for (const [resource, text, amount] of cases) {
    it(`${text || 'nothing'} of ${resource} is ${amount}`, () => assert.equal(amountOf(resource, text), amount));
  }
});
