import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DaemonProcess, root, run } from '@hearth/common/testing';
import { ThreeMounts } from '../src/scratch/three_mounts.ts';

/** The volume `kv` of the agents a, b and c for programs that reach it by libgd2fs: each takes the address of one agent. */
export class KvVolume {
  /** `environment` is added to that of the programs. */
  static async start(environment: Record<string, string>): Promise<KvVolume> {
    const mounts = await ThreeMounts.start();
    try {
      const { folder } = mounts.cluster;
      const tokenFile = join(folder, 'token');
      writeFileSync(tokenFile, await token(readFileSync(join(folder, 'secret'), 'utf8')), { mode: 0o600 });
      const own = { HEARTH_TOKEN_FILE: tokenFile, PYTHONDONTWRITEBYTECODE: '1' };
      return new KvVolume(mounts, { ...own, ...environment });
    } catch (error) {
      await mounts.close();
      throw error;
    }
  }

  readonly #mounts: ThreeMounts;
  readonly #environment: Record<string, string>;

  private constructor(mounts: ThreeMounts, environment: Record<string, string>) {
    this.#mounts = mounts;
    this.#environment = environment;
  }

  /** One step of a program, by an agent; fails unless its last line is `done`. */
  async step(python: string, program: string, name: string, agent: string): Promise<void> {
    const { code, stdout, stderr } = await run(python, this.#words(program, name, agent), {
      environment: this.#environment,
      timeoutMs: 5 * 60_000,
    });
    assert.equal(code, 0, `${stdout.slice(-2000)}${stderr.slice(-4000)}`);
    assert.match(stdout, /^done$/m);
  }

  /** As `step`, and kills the agent for good when the program has said `ready`. */
  async stepThatLosesItsAgent(python: string, program: string, name: string, agent: string): Promise<void> {
    const words = this.#words(program, name, agent);
    const running = new DaemonProcess(python, words, { environment: this.#environment });
    try {
      await running.until(`${program} is ready`, () => /^ready$/m.test(running.said.stdout));
      await this.#mounts.cluster.agent(agent).kill();
      running.expectEnd();
      const { code, stdout, stderr } = await running.outcome;
      assert.equal(code, 0, `${stdout.slice(-2000)}${stderr.slice(-4000)}`);
      assert.match(stdout, /^done$/m);
    } finally {
      await running.end();
    }
  }

  /** Kills all agents, or those that still run, and starts them again. */
  async restart(): Promise<void> {
    const { cluster } = this.#mounts;
    await Promise.all(
      ['a', 'b', 'c'].map(async (name) => {
        const agent = cluster.agent(name);
        if (agent.running) await agent.kill();
        await agent.start();
      }),
    );
    await cluster.allReady();
  }

  async close(): Promise<void> {
    await this.#mounts.close();
  }

  #words(program: string, name: string, agent: string): string[] {
    const address = `gd2fs://127.0.0.1:${this.#mounts.cluster.agent(agent).wirePort}`;
    return [join(import.meta.dirname, program), name, address];
  }
}

async function token(secret: string): Promise<string> {
  const words = ['token', 'volume:kv', '--right', 'read', 'write'];
  const given = { HEARTH_SECRET: secret.trim(), HEARTH_CLUSTER: 'e2e' };
  const { code, stdout, stderr } = await run(join(root, 'cli/bin/hearth'), words, { environment: given });
  assert.equal(code, 0, stderr);
  return stdout.trim();
}
