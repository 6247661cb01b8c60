import { execFile } from 'node:child_process';
import { chmodSync, existsSync, globSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from './cache.ts';
import { lock } from './lock.ts';

const execute = promisify(execFile);

/** The Go that is fetched where none new enough is installed, and the checksums that a go.sum would hold of it. */
export const toolchain = {
  version: '1.26.8',
  sums: {
    x64: 'h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=',
    arm64: 'h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc=',
  } as Record<string, string>,
};

/** Go is often installed where its own instructions say, which is on the PATH of few who are not developers. */
const installed = `${process.env.PATH}:/usr/local/go/bin`;

/**
 * Folder of a `go` of at least `wanted` ("1.26.0"): the installed one, or the one that the Go module proxy keeps for every
 * version (https://go.dev/doc/toolchain), fetched once by any older Go, which root gets from Debian.
 */
export async function goFolder(wanted: string): Promise<string> {
  const found = await installedVersion('go');
  if (found && atLeast(found, wanted)) {
    const { stdout } = await execute('go', ['env', 'GOROOT'], inPath());
    return join(stdout.trim(), 'bin');
  }
  const folder = join(cacheFolder, `go-${toolchain.version}`);
  await fetchToolchain(folder, found ? 'go' : undefined);
  return join(folder, 'bin');
}

/** Leaves a Go in `folder`, unless it is there, using the program `bootstrap`, which is installed when not given. */
export async function fetchToolchain(folder: string, bootstrap?: string): Promise<void> {
  const complete = () => existsSync(join(folder, 'bin/go'));
  if (complete()) return;
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  if (complete()) return;
  const go = bootstrap ?? (await installDebians());
  const sum = toolchain.sums[process.arch];
  if (!sum) throw new ToolUnavailable(`There is no checksum of Go for ${process.arch}. ${installIt}`);
  const modules = join(folder, '.modules');
  rmSync(modules, { recursive: true, force: true });
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
  const module = `golang.org/toolchain@v0.0.1-go${toolchain.version}.linux-${architecture}`;
  console.error(`fetching Go ${toolchain.version} (once)`);
  // With -json its errors are in what it writes to standard output.
  const { stdout } = await execute(go, ['mod', 'download', '-json', module], {
    ...inPath({ GOMODCACHE: modules, GOFLAGS: '-modcacherw', GOTOOLCHAIN: 'local', GO111MODULE: 'on' }),
    cwd: '/',
  }).catch((error: { stdout?: string }) => ({ stdout: error.stdout || JSON.stringify({ Error: String(error) }) }));
  const { Dir, Sum, Error: failure } = JSON.parse(stdout) as { Dir?: string; Sum?: string; Error?: string };
  if (!Dir) {
    throw new ToolUnavailable(
      `Go ${toolchain.version} cannot be fetched: ${failure}. Is the Go module proxy reachable?`,
    );
  }
  if (Sum !== sum) {
    throw new ToolUnavailable(
      `What came as ${module} has the checksum ${Sum}, not ${sum}, and is not used. ${installIt}`,
    );
  }
  // A module's files are not executable; `go`, which says that all is there, comes last.
  for (const program of globSync(['bin/*', 'pkg/tool/*/*'], { cwd: Dir })) chmodSync(join(Dir, program), 0o755);
  for (const name of globSync('*', { cwd: Dir }).filter((name) => name !== 'bin')) {
    rmSync(join(folder, name), { recursive: true, force: true });
    renameSync(join(Dir, name), join(folder, name));
  }
  renameSync(join(Dir, 'bin'), join(folder, 'bin'));
  rmSync(modules, { recursive: true, force: true });
}

const installIt = `Install Go ${toolchain.version} or newer (https://go.dev/dl) and run this again.`;

const inPath = (more: Record<string, string> = {}) => ({ env: { ...process.env, PATH: installed, ...more } });

async function installedVersion(go: string): Promise<string | undefined> {
  try {
    const { stdout } = await execute(go, ['env', 'GOVERSION'], { ...inPath({ GOTOOLCHAIN: 'local' }), cwd: '/' });
    return stdout.trim().replace(/^go/, '');
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
}

function atLeast(found: string, wanted: string): boolean {
  return found.localeCompare(wanted, 'en', { numeric: true }) >= 0;
}

/** Debian's Go: too old for what is built here, and new enough to fetch and check another. */
async function installDebians(): Promise<string> {
  if (process.getuid?.() !== 0) throw new ToolUnavailable(`No Go compiler is installed. ${installIt}`);
  console.error('Installing Debian packages: golang-go');
  try {
    const environment = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
    await execute('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'golang-go'], environment);
  } catch (error) {
    throw new ToolUnavailable(
      `apt-get could not install golang-go. ${installIt}\n${(error as { stderr?: string }).stderr}`,
    );
  }
  return 'go';
}
