import { systemClock } from '@hearth/common';
import type { Terminal } from '../../../terminal.ts';
import { ClusterSession } from '../../cluster_session.ts';
import { FakeApiServer } from '../../testing/fake_api_server.ts';
import { sampleCluster } from '../../testing/sample_cluster.ts';
import { UiServer } from '../ui_server.ts';

/** The page of `kubectl hearth ui` for the sample cluster, a minute into 2026, with the token `a-token`. */
export class ServedPage implements AsyncDisposable {
  readonly api: FakeApiServer;
  readonly ui: UiServer;

  private constructor(api: FakeApiServer, ui: UiServer) {
    this.api = api;
    this.ui = ui;
  }

  static async start(refreshSeconds: number): Promise<ServedPage> {
    const api = await FakeApiServer.start(sampleCluster());
    const terminal = {
      environment: { KUBECONFIG: api.kubeconfig },
      clock: { ...systemClock, date: () => new Date('2026-01-01T00:01:00Z') },
      interrupt: new AbortController().signal,
    } as unknown as Terminal;
    const session = new ClusterSession(terminal, {});
    return new ServedPage(api, await UiServer.start(session, { port: 0, token: 'a-token', refreshSeconds }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ui[Symbol.asyncDispose]();
    await this.api[Symbol.asyncDispose]();
  }
}
