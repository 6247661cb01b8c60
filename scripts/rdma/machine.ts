import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Packages, rdmaPackages } from './packages.ts';

const root = join(import.meta.dirname, '../..');
const guestScripts = join(import.meta.dirname, 'guest');

/** Where the machine writes. */
export const resultsFolder = join(root, 'build/rdma');

/** How often the suite measures. */
const rounds = String(Number(process.env.HEARTH_RDMA_ROUNDS ?? 3));

/** Runs a program to its end. */
type Run<Outcome> = (command: string, args: string[], options: { env: NodeJS.ProcessEnv }) => Promise<Outcome>;

/**
 * Boots the machine, runs a script of `guest/` in it as root, and ends the machine. The script sees the files of this
 * machine read-only, `$RESULTS` as the only folder to keep something in, and these variables: HEARTH_ROOT, GUEST (the
 * folder of the scripts), ROUNDS, RDMA_TOOLS (bin folder of perftest) and RDMA_LIBRARIES (their
 * LD_LIBRARY_PATH). Throws ToolUnavailable where there is no such machine. Resolves when it is off.
 */
export async function runInMachine<Outcome>(run: Run<Outcome>, script: string): Promise<Outcome> {
  const packages = await rdmaPackages();
  rmSync(resultsFolder, { recursive: true, force: true });
  mkdirSync(resultsFolder, { recursive: true });
  writeFileSync(
    join(resultsFolder, 'guest.sh'),
    `${environmentOf(packages)}exec bash '${join(guestScripts, script)}'\n`,
  );
  const qemu = join(packages.root, 'usr/bin/qemu-system-x86_64');
  return await run('nice', ['-n', '5', qemu, ...machineOptions(packages)], {
    env: { LD_LIBRARY_PATH: packages.libraries },
  });
}

function environmentOf({ root: unpacked, libraries }: Packages): string {
  const variables = {
    HEARTH_ROOT: root,
    GUEST: guestScripts,
    RESULTS: '/run/results',
    ROUNDS: rounds,
    RDMA_TOOLS: join(unpacked, 'usr/bin'),
    RDMA_LIBRARIES: libraries,
  };
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}='${value}'\n`)
    .join('');
}

function machineOptions({ root: unpacked, kernel, initramfs }: Packages): string[] {
  const firmware = ['usr/share/qemu', 'usr/share/seabios'].flatMap((path) => ['-L', join(unpacked, path)]);
  const share = (path: string, tag: string, more: string) => [
    '-virtfs',
    `local,path=${path},mount_tag=${tag},security_model=none,multidevs=remap${more}`,
  ];
  return [
    ...firmware,
    // Emulated processors: test machines are often virtual themselves.
    ...['-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2', '-m', '2048'],
    ...['-display', 'none', '-vga', 'none', '-nic', 'none', '-monitor', 'none', '-serial', 'stdio', '-no-reboot'],
    ...['-kernel', kernel, '-initrd', initramfs, '-append', 'console=ttyS0 quiet panic=-1'],
    ...share('/', 'host', ',readonly=on'),
    ...share(resultsFolder, 'results', ''),
  ];
}
