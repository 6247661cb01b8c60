import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { FakeAgent } from '../testing/fake_agent.ts';
import { runCommand } from '../testing/fake_terminal.ts';
import { sampleDataset, sampleJob, sampleMount, sampleNode } from '../testing/samples.ts';

const run = promisify(execFile);
const limits = { timeout: 300_000 };

describe('hearth completion', () => {
  let directory: string;
  const script = async (shell: string, program?: string) =>
    (await runCommand(['completion', shell], program === undefined ? {} : { program })).out;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-completion-'));
    await writeFile(join(directory, 'bash'), await script('bash'));
    // The program that the script calls for dynamic names.
    await writeFile(join(directory, 'hearth'), '#!/bin/sh\n[ "$1" = __complete ] && echo "$2-one $2-two"\n', {
      mode: 0o755,
    });
    await writeFile(
      join(directory, 'driver'),
      `source ${directory}/bash\nCOMP_WORDS=("$@")\nCOMP_CWORD=$(($# - 1))\n_hearth\necho "\${COMPREPLY[*]}"\n`,
    );
  });
  after(() => rm(directory, { recursive: true }));

  /** Bash's candidates for the last of these words. */
  const offered = async (...words: string[]) => {
    const environment = { ...process.env, PATH: `${directory}:${process.env.PATH}` };
    const { stdout } = await run('bash', [join(directory, 'driver'), 'hearth', ...words], {
      ...limits,
      env: environment,
    });
    return stdout.trim();
  };

  const expected: [string[], string][] = [
    [['d'], 'dataset doctor'],
    [['dataset', ''], 'add ls show rm'],
    [['--socket', '/x', 'dataset', 's'], 'show'],
    [['warm', ''], 'datasets-one datasets-two'],
    [['warm', '--node', 'a', 'datasets-o'], 'datasets-one'],
    [['warm', 'llama', '--node', ''], 'nodes-one nodes-two'],
    [['warm', 'llama', '--ver'], '--verify'],
    [['warm', 'llama', '--verify', 'd'], 'digest'],
    [['warm', 'llama', '--verify', '=', 'd'], 'digest'],
    [['job', 'cancel', ''], 'jobs-one jobs-two'],
    [['umount', ''], 'mounts-one mounts-two'],
    [['mount', 'llama', '/et'], '/etc'],
    [['completion', 'b'], 'bash'],
    [['agent', '--cache-d'], '--cache-directories'],
    [['nope', ''], ''],
  ];
  for (const [words, offers] of expected) {
    it(`offers "${offers}" after: hearth ${words.join(' ')}`, async () =>
      assert.equal(await offered(...words), offers));
  }

  it('writes scripts that the shells can parse', async () => {
    await run('bash', ['-n', join(directory, 'bash')], limits);
    for (const [shell, flag] of [
      ['zsh', '-n'],
      ['fish', '--no-execute'],
    ] as const) {
      const path = join(directory, shell);
      const text = await script(shell);
      assert.match(text, /__complete/);
      await writeFile(path, text);
      const found = await run(shell, ['-c', 'exit'], limits).then(
        () => true,
        () => false,
      );
      if (found) await run(shell, [flag, path], limits);
      else console.log(`      ${shell} is not installed: its script was written but not parsed`);
    }
  });

  it('covers every command and option of the help', async () => {
    const text = await script('bash');
    for (const command of ['warm', 'dataset', 'job', 'agent']) {
      const { out } = await runCommand([command, '--help']);
      for (const [option] of out.matchAll(/(?<=^ {2,6}(?:-\w, )?)--[a-z0-9-]+/gm))
        assert.ok(text.includes(option), option);
    }
  });

  it('uses one word for the program', async () => {
    assert.match(await script('bash', 'kubectl hearth'), /complete -F _kubectl_hearth kubectl-hearth\n/);
  });

  it('refuses other shells', async () => {
    const { code, err } = await runCommand(['completion', 'tcsh']);
    assert.equal(code, 2);
    assert.match(err, /Allowed choices are bash, zsh, fish/);
  });
});

describe('hearth __complete', () => {
  it('asks the agent for names', async () => {
    const agent = await FakeAgent.start({
      listDatasets: () => ({ datasets: [sampleDataset(), sampleDataset({ name: 'with blank' })] }),
      listWarmJobs: () => ({ jobs: [sampleJob()] }),
      listMounts: () => ({ mounts: [sampleMount()] }),
      getStatus: () => GetStatusResponse.fromPartial({ nodes: [sampleNode()] }),
    });
    try {
      const names = async (subject: string) =>
        (await runCommand(['--socket', agent.socket, '__complete', subject])).out;
      assert.equal(await names('datasets'), 'llama\n');
      assert.equal(await names('jobs'), 'warm-llama-1\n');
      assert.equal(await names('mounts'), '/mnt/llama\n');
      assert.equal(await names('nodes'), 'a\n');
    } finally {
      await agent.stop();
    }
  });

  it('is silent without an agent', async () => {
    assert.deepEqual(await runCommand(['__complete', 'datasets', '--socket', '/nonexistent/socket']), {
      code: 0,
      out: '',
      err: '',
    });
  });
});
