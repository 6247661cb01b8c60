import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { TestApiServer } from '../../cluster/api_server.ts';
import { tools } from '../../cluster/tools/build.ts';

/** Those that bind claims to volumes and protect both. */
const controllers = [
  'persistentvolume-binder-controller',
  'persistentvolumeclaim-protection-controller',
  'persistentvolume-protection-controller',
];

/** kube-controller-manager beside a test API server, with the controllers of volumes only. Ends with this process. */
export class VolumeControllers {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(server: TestApiServer): Promise<VolumeControllers> {
    const programs = await tools(['kube-controller-manager']);
    const log = openSync(join(server.folder, 'kube-controller-manager.log'), 'a');
    const child = spawn(
      'setpriv',
      [
        '--pdeathsig',
        'KILL',
        programs['kube-controller-manager'] as string,
        `--kubeconfig=${server.kubeconfig}`,
        `--controllers=${controllers.join(',')}`,
        '--leader-elect=false',
        '--secure-port=0',
        '--pvclaimbinder-sync-period=2s',
      ],
      { stdio: ['ignore', log, log] },
    );
    closeSync(log);
    return new VolumeControllers(child);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }
}
