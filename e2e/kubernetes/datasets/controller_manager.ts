import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { tools } from '../../../scripts/tools/build.ts';
import type { TestApiServer } from '../../cluster/api_server.ts';

/** Those that bind claims to volumes and protect both. */
const volumeControllers = [
  'persistentvolume-binder-controller',
  'persistentvolumeclaim-protection-controller',
  'persistentvolume-protection-controller',
];

/** kube-controller-manager beside a test API server, with a few controllers only. Ends with this process. */
export class ControllerManager {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** `controllers`: by their names; absent: those of volumes. */
  static async start(server: TestApiServer, controllers = volumeControllers): Promise<ControllerManager> {
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
    return new ControllerManager(child);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }
}
