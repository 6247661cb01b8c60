import assert from 'node:assert/strict';
import { needsPrograms, tools, until } from '@hearth/common/testing';
import {
  Admission,
  type Answer,
  Chart,
  chartFolder,
  collectionPath,
  flags,
  type Manifest,
  releaseNamespace,
  someRegistry,
  startApiServer,
  type TestApiServer,
} from '@hearth/common/testing/kubernetes';
import type { Context } from 'mocha';

/** An API server on which helm has installed the chart, for Datasets whose Secrets are in the namespace `models`. */
export class InstalledChart {
  readonly server: TestApiServer;
  readonly chart: Chart;
  readonly admin: Admission;

  private constructor(server: TestApiServer, chart: Chart) {
    this.server = server;
    this.chart = chart;
    this.admin = new Admission(server.kubeconfig);
  }

  static async start(context: Context): Promise<InstalledChart> {
    const { helm = '' } = await needsPrograms(context, () => tools(['helm']));
    const made = new InstalledChart(await startApiServer(context), new Chart(helm));
    try {
      await made.#install();
    } catch (error) {
      await made.stop();
      throw error;
    }
    return made;
  }

  /** The output of helm, which must succeed. */
  async helm(...args: string[]): Promise<string> {
    const outcome = await this.chart.helm(args, this.server.kubeconfig);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stdout;
  }

  async create(object: Manifest): Promise<Answer> {
    const answer = await this.admin.create(collectionPath(object), object);
    assert.equal(answer.code, 201, JSON.stringify(answer.causes));
    return answer;
  }

  /** Makes the account and the rights that the chart gives the clean-up, as helm does while it uninstalls. */
  async beginUninstall(): Promise<AsyncDisposable> {
    const made = (await this.chart.template()).filter(
      ({ kind, metadata }) => kind !== 'Job' && metadata.annotations?.['helm.sh/hook'] === 'pre-delete',
    );
    for (const object of made) await this.create(object);
    const paths = made.map((object) => `${collectionPath(object)}/${object.metadata.name}`);
    return {
      [Symbol.asyncDispose]: async () => {
        for (const path of paths) await this.admin.ask('DELETE', path);
      },
    };
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }

  async #install(): Promise<void> {
    for (const name of ['models', 'no', '0123'])
      await this.create({ kind: 'Namespace', apiVersion: 'v1', metadata: { name } });
    const place = ['-n', releaseNamespace, '--create-namespace'];
    await this.helm(
      'install',
      'hearth',
      chartFolder,
      ...place,
      ...flags({ ...someRegistry, datasetNamespaces: ['models'] }),
    );
    const datasets = '/apis/hearth.storage/v1alpha1/datasets';
    await until('Datasets served', async () => (await this.admin.ask('GET', datasets)).code === 200);
  }
}
