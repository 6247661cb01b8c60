import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { errorTable } from '@hearth/common';
import { programName, wantsColour } from './terminal.ts';
import { runCommand } from './testing/fake_terminal.ts';

describe('run', () => {
  it('shows help, with examples for every command', async () => {
    const { code, out } = await runCommand([]);
    assert.equal(code, 0);
    assert.match(out, /^Usage: hearth /);
    const commands = [...out.matchAll(/^ {2}([a-z]+)[ |]/gm)]
      .map((match) => match[1] ?? '')
      .filter((name) => name !== 'help');
    assert.ok(commands.length > 15, out);
    for (const name of commands) {
      const help = await runCommand([name, '--help']);
      assert.equal(help.code, 0, name);
      const leaves = /^Commands:$/m.test(help.out);
      assert.equal(/\nExamples:\n {2}hearth /.test(help.out), !leaves, help.out);
      if (!leaves) assert.match(help.out, /--socket <path>/);
    }
  });

  it('is described, command by command', async () => {
    const document = await readFile(new URL('../../docs/cli.md', import.meta.url), 'utf8');
    const { out } = await runCommand([]);
    for (const [, name] of out.matchAll(/^ {2}([a-z]+)[ |]/gm)) {
      assert.ok(name === 'help' || document.includes(`hearth ${name}`), `docs/cli.md says nothing of ${name}`);
    }
  });

  it('wraps help to the terminal', async () => {
    const { out } = await runCommand(['warm', '--help'], { columns: 80 });
    const usage = out.split('Examples:')[0] ?? '';
    assert.ok(
      usage.split('\n').every((line) => line.length <= 80),
      usage,
    );
  });

  it('uses the name it was called by', async () => {
    const { out } = await runCommand(['mounts', '--help'], { program: 'kubectl hearth' });
    assert.match(out, /^Usage: kubectl hearth mounts /);
    assert.match(out, /\n {2}kubectl hearth mounts\n/);
    assert.equal(programName('/usr/bin/kubectl-hearth'), 'kubectl hearth');
    assert.equal(programName('/repo/cli/src/main.ts'), 'hearth');
    assert.equal(programName('/usr/bin/hearth'), 'hearth');
  });

  it('decides when to use colour', () => {
    assert.equal(wantsColour({}, true), true);
    assert.equal(wantsColour({ NO_COLOR: '1' }, true), false);
    assert.equal(wantsColour({ NO_COLOR: '' }, true), true);
    assert.equal(wantsColour({}, false), false);
  });

  const wrong: [string[], RegExp][] = [
    [['nope'], /^hearth: unknown command 'nope'.*; see `hearth --help`\n$/],
    [['dataset'], /^hearth: a command is missing; see `hearth dataset --help`\n$/],
    [['dataset', 'ad'], /Did you mean add\?.*see `hearth dataset --help`/],
    [['warm', '--nope', 'x'], /unknown option '--nope'.*see `hearth warm --help`/],
    [['mounts', 'extra'], /too many arguments/],
    [['mounts', '--timeout', '0'], /whole number from 1 to 86400/],
    [['cat', 'd', 'p', '--offset', 'x'], /must be a size/],
    [['status', '--watch', 'x'], /0\.2 to 3600 seconds/],
  ];
  for (const [words, message] of wrong) {
    it(`refuses ${words.join(' ')}`, async () => {
      const { code, out, err } = await runCommand(words);
      assert.equal(code, errorTable.InvalidArgument.exit);
      assert.equal(out, '');
      assert.match(err, message);
    });
  }
});
