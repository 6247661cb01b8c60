import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { elapse, needsMounts, start, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

const names = ['a', 'b', 'c'];
const processes = 4;
const seconds = 60;
const killMs = 5_000;

/** Random operations of processes on all mounts of a volume, while agents are killed, against a model of each process. */
describe('a scratch volume under random operations', () => {
  let cluster: Cluster;
  let mounts: string[];

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(names, { holder: true });
    await cluster.allReady();
    // An agent that is started on a busy machine may take longer than the usual deadline.
    await cluster.json('a', 'volume', 'create', 'kv', '--deadline', '5m');
    const state = async () => (await cluster.json<{ state: string }>('a', 'volume', 'show', 'kv')).state;
    await until('an agent leads it', async () => (await state()) === 'Ready');
    mounts = names.map((name) => cluster.mountPoint(name));
    for (const [index, name] of names.entries()) await cluster.json(name, 'mount', 'volume:kv', mounts[index] ?? '');
  });
  after(async () => cluster?.close());

  /** `beside`: runs until the processes have ended. */
  const compare = async (runSeconds: number, beside: (ended: () => boolean) => Promise<void>) => {
    const seed = randomInt(2 ** 31);
    const program = join(import.meta.dirname, 'scratch/random_process.ts');
    const running = Array.from({ length: processes }, (_, index) =>
      start(process.execPath, [program, String(seed + index), String(runSeconds), `p${seed}-${index}`, ...mounts], {
        timeoutMs: runSeconds * 1000 + 240_000,
      }),
    );
    let ended = false;
    const outcomes = Promise.all(running.map((one) => one.outcome)).finally(() => {
      ended = true;
    });
    await beside(() => ended);
    const won = (await outcomes).flatMap(({ code, stdout, stderr }) => {
      assert.equal(code, 0, stderr);
      const result = JSON.parse(stdout) as { operations: number; won: string[] };
      assert.ok(result.operations > 0);
      return result.won;
    });
    assert.equal(new Set(won).size, won.length, 'two processes created one name exclusively');
  };

  it('shows what its processes did', () => compare(10, async () => {}));

  it(`shows the same while an agent is killed every ${killMs / 1000} s for ${seconds} s`, () =>
    compare(seconds, async (ended) => {
      for (let kill = 0; !ended(); kill++) {
        await elapse(killMs, 'processes are somewhere in their operations');
        const agent = cluster.agent(names[kill % names.length] ?? '');
        await agent.kill();
        await agent.start();
      }
    }));
});
