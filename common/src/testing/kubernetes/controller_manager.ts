import { join } from 'node:path';
import { DaemonProcess } from '../daemon_process.ts';
import { tool } from '../tool.ts';
import type { TestApiServer } from './api_server.ts';

/** Controllers that bind claims to volumes and protect both. */
const volumeControllers = [
  'persistentvolume-binder-controller',
  'persistentvolumeclaim-protection-controller',
  'persistentvolume-protection-controller',
];

/** kube-controller-manager with a few controllers, against a test API server. Ends with this process. */
export class ControllerManager {
  readonly #program: DaemonProcess;

  private constructor(program: DaemonProcess) {
    this.#program = program;
  }

  /** `controllers`: names; default: the volume controllers. */
  static async start(server: TestApiServer, controllers = volumeControllers): Promise<ControllerManager> {
    const words = [
      `--kubeconfig=${server.kubeconfig}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      '--secure-port=0',
      '--pvclaimbinder-sync-period=2s',
    ];
    const log = join(server.folder, 'kube-controller-manager.log');
    return new ControllerManager(new DaemonProcess(await tool('kube-controller-manager'), words, { log }));
  }

  async stop(): Promise<void> {
    await this.#program.end();
  }
}
