import { join } from 'node:path';
import { root } from '../checkout.ts';
import { DaemonProcess } from '../daemon_process.ts';
import { freePort } from '../free_port.ts';
import { releaseNamespace } from './chart.ts';

/** The operator's program, as its Deployment runs it. */
export class OperatorProcess extends DaemonProcess {
  /** URL of metrics and health. */
  readonly url: string;

  private constructor(kubeconfig: string, port: number, environment: Record<string, string>) {
    super(join(root, 'operator/bin/hearth-operator'), [], {
      environment: {
        KUBECONFIG: kubeconfig,
        POD_NAMESPACE: releaseNamespace,
        POD_NAME: 'operator-0',
        HEARTH_IMAGE: 'registry/hearth:1',
        HEARTH_ETCD_IMAGE: 'registry/etcd:3',
        HEARTH_HTTP_PORT: String(port),
        ...environment,
      },
    });
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(kubeconfig: string, environment: Record<string, string> = {}): Promise<OperatorProcess> {
    return new OperatorProcess(kubeconfig, await freePort(), environment);
  }

  async ready(): Promise<void> {
    await this.until('the operator is ready', () =>
      fetch(`${this.url}/readyz`).then(
        (answer) => answer.ok,
        () => false,
      ),
    );
  }

  async leads(): Promise<void> {
    await this.until('the operator leads', async () =>
      /^hearth_operator_leader 1$/m.test(
        await fetch(`${this.url}/metrics`).then(
          (answer) => answer.text(),
          () => '',
        ),
      ),
    );
  }
}
