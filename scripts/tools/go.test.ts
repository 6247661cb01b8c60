import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ToolUnavailable } from './cache.ts';
import { fetchToolchain, goFolder, toolchain } from './go.ts';

describe('the Go that builds tools', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-go-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** A program that answers `go mod download -json` so. */
  function goThatSays(answer: object, code = 0): string {
    const program = join(folder, 'old-go');
    writeFileSync(program, `#!/bin/sh\ncat <<'END'\n${JSON.stringify(answer)}\nEND\nexit ${code}\n`, { mode: 0o755 });
    return program;
  }

  it('is fetched by another Go, once, and compiles', async () => {
    const old = join(await goFolder('1.13'), 'go');
    const target = join(folder, 'go');
    await fetchToolchain(target, old);
    await fetchToolchain(target, join(folder, 'not needed any more'));
    writeFileSync(
      join(folder, 'main.go'),
      'package main\nimport "runtime"\nfunc main() { print(runtime.Version()) }\n',
    );
    const environment = { ...process.env, GOTOOLCHAIN: 'local', GOCACHE: join(folder, 'cache') };
    execFileSync(join(target, 'bin/go'), ['build', '-o', 'main', 'main.go'], { cwd: folder, env: environment });
    // Go's print writes to standard error.
    const output = execFileSync('sh', ['-c', './main 2>&1'], { cwd: folder, encoding: 'utf8' });
    assert.equal(output, `go${toolchain.version}`);
  });

  it('is not used when its checksum is another', async () => {
    const program = goThatSays({ Dir: join(folder, 'evil'), Sum: 'h1:AAAA' });
    await assert.rejects(fetchToolchain(join(folder, 'go'), program), (error: Error) => {
      assert.ok(error instanceof ToolUnavailable);
      assert.match(error.message, /has the checksum h1:AAAA, not h1:.*Install Go/);
      return true;
    });
    assert.ok(!existsSync(join(folder, 'go/bin')));
  });

  it('says why it cannot be fetched', async () => {
    const program = goThatSays({ Error: 'dial tcp: connection refused' }, 1);
    await assert.rejects(fetchToolchain(join(folder, 'go'), program), /connection refused.*Go module proxy reachable/);
  });
});
