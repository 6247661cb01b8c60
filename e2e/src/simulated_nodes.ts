import { join } from 'node:path';
import { DaemonProcess, tools } from '@hearth/common/testing';
import { ControllerManager, type TestApiServer } from '@hearth/common/testing/kubernetes';

/**
 * Runs pods of DaemonSets on Nodes that do not exist: the real controller and the real scheduler, and kwok for the
 * kubelets, which starts pods at once, reports the nodes' state and renews their leases.
 */
export class SimulatedNodes {
  readonly #kubelets: DaemonProcess;
  readonly #scheduler: DaemonProcess;
  readonly #controllers: ControllerManager;

  private constructor(kubelets: DaemonProcess, scheduler: DaemonProcess, controllers: ControllerManager) {
    this.#kubelets = kubelets;
    this.#scheduler = scheduler;
    this.#controllers = controllers;
  }

  /** For every Node that there is or will be. `address`: of all of them. */
  static async start(server: TestApiServer, address: string): Promise<SimulatedNodes> {
    const programs = await tools(['kwok', 'kube-scheduler']);
    const stages = ['--config', join(import.meta.dirname, 'simulated_nodes.yaml')];
    const nodes = ['--manage-all-nodes', `--node-ip=${address}`, '--node-lease-duration-seconds=40'];
    return new SimulatedNodes(
      new DaemonProcess(programs.kwok as string, ['--kubeconfig', server.kubeconfig, ...stages, ...nodes]),
      new DaemonProcess(programs['kube-scheduler'] as string, [
        ...[`--kubeconfig=${server.kubeconfig}`, '--leader-elect=false', '--secure-port=0'],
      ]),
      await ControllerManager.start(server, ['daemonset-controller']),
    );
  }

  async stop(): Promise<void> {
    await this.#controllers.stop();
    await this.#scheduler.end('SIGKILL');
    await this.#kubelets.end('SIGKILL');
  }
}
