import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import type { Context } from 'mocha';
import { needsMounts } from './needs.ts';

/** Mounts a FUSE file system that answers no request, so every caller waits. */
const program = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fuse = os.open('/dev/fuse', os.O_RDWR)
options = 'fd=%d,rootmode=40000,user_id=0,group_id=0' % fuse
if libc.mount(b'frozen', sys.argv[1].encode(), b'fuse', 6, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print('mounted', flush=True)
time.sleep(3600)
`;

/** A frozen FUSE mount, like that of an agent that stopped for good. Creates the folder. */
export class FrozenFuse {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Skips the test, with the reason, where FUSE cannot be mounted. */
  static async start(context: Context, folder: string): Promise<FrozenFuse> {
    needsMounts(context);
    mkdirSync(folder);
    const child = spawn('python3', ['-c', program, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    return new FrozenFuse(child);
  }

  /** Closes the FUSE descriptor, so every waiting caller gets an error. */
  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}
