import assert from 'node:assert/strict';
import { divideRate, type FetchingAgent } from './rate.ts';

const sum = (shares: Map<string, bigint>) => [...shares.values()].reduce((a, b) => a + b, 0n);
const agent = (node: string, share: bigint | undefined, used: bigint): FetchingAgent => ({ node, share, used });

describe('divideRate', () => {
  it('divides evenly at the start and while all use their shares', () => {
    assert.deepEqual(
      [
        ...divideRate(
          900n,
          ['a', 'b', 'c'].map((node) => agent(node, undefined, 0n)),
        ).values(),
      ],
      [300n, 300n, 300n],
    );
    assert.deepEqual(
      [
        ...divideRate(
          900n,
          ['a', 'b', 'c'].map((node) => agent(node, 300n, 295n)),
        ).values(),
      ],
      [300n, 300n, 300n],
    );
  });

  it('gives unused shares to agents that can use them', () => {
    const shares = divideRate(900n, [agent('a', 300n, 50n), agent('b', 300n, 300n), agent('c', 300n, 290n)]);
    assert.deepEqual(
      shares,
      new Map([
        ['a', 100n],
        ['b', 400n],
        ['c', 400n],
      ]),
    );
  });

  it('gives everything to the last fetching agent', () => {
    assert.deepEqual(divideRate(900n, [agent('c', 300n, 300n)]), new Map([['c', 900n]]));
  });

  it('keeps a tenth of an even share for an idle agent', () => {
    const shares = divideRate(1000n, [agent('a', 500n, 0n), agent('b', 500n, 500n)]);
    assert.equal(shares.get('a'), 50n);
    assert.equal(shares.get('b'), 950n);
  });

  it('spreads the unused rest', () => {
    const shares = divideRate(1000n, [agent('a', 500n, 100n), agent('b', 500n, 100n)]);
    assert.deepEqual([...shares.values()], [500n, 500n]);
  });

  it('never exceeds the limit nor gives less than one byte', () => {
    let seed = 1;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % below;
    };
    for (let round = 0; round < 500; round++) {
      const agents = Array.from({ length: 1 + random(12) }, (_, index) =>
        agent(`n${index}`, random(3) === 0 ? undefined : BigInt(random(1000)), BigInt(random(1000))),
      );
      const limit = BigInt(agents.length + random(5000));
      const shares = divideRate(limit, agents);
      assert.equal(shares.size, agents.length);
      assert.ok(sum(shares) <= limit, `${sum(shares)} of ${limit}`);
      for (const share of shares.values()) assert.ok(share >= 1n);
    }
  });

  it('returns nothing without agents', () => assert.equal(divideRate(5n, []).size, 0));
});
