import { writeFileSync } from 'node:fs';
import { DaemonProcess, freePort, TemporaryFolder } from '@hearth/common/testing';
import { stringify } from 'yaml';

/** A program that serves metrics on loopback, with the labels that the chart's monitors would give its series. */
export interface Target {
  port: number;
  labels: { job: string; node?: string; pod?: string; storage_cluster?: string };
}

export interface Series {
  labels: Record<string, string>;
  /** Seconds since the epoch, and the value then; one pair for an instant query. */
  samples: [seconds: number, value: number][];
}

/** A scrape may take as long, on a busy machine too. */
export const scrapeSeconds = 2;

/** Prometheus (Debian package `prometheus`) on a free port, which scrapes its targets every two seconds. */
export class PrometheusServer implements AsyncDisposable {
  readonly url: string;
  readonly #folder: TemporaryFolder;
  readonly #process: DaemonProcess;

  private constructor(url: string, folder: TemporaryFolder, process: DaemonProcess) {
    this.url = url;
    this.#folder = folder;
    this.#process = process;
  }

  /** Starts the program and waits until it answers. */
  static async start(targets: readonly Target[]): Promise<PrometheusServer> {
    const folder = new TemporaryFolder('prometheus');
    const address = `127.0.0.1:${await freePort()}`;
    writeFileSync(folder.file('prometheus.yml'), stringify(configuration(targets)));
    const started = new DaemonProcess('prometheus', [
      `--config.file=${folder.file('prometheus.yml')}`,
      `--storage.tsdb.path=${folder.file('data')}`,
      `--web.listen-address=${address}`,
      '--log.level=warn',
    ]);
    const server = new PrometheusServer(`http://${address}`, folder, started);
    try {
      await started.until('Prometheus is ready', () =>
        fetch(`${server.url}/-/ready`).then(
          ({ ok }) => ok,
          () => false,
        ),
      );
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** The series that a query has now. Throws the message of Prometheus when it refuses the query. */
  async now(query: string): Promise<Series[]> {
    const { result } = await this.#ask<{ result: { metric: Series['labels']; value: [number, string] }[] }>('query', {
      query,
    });
    return result.map(({ metric, value: [seconds, value] }) => ({
      labels: metric,
      samples: [[seconds, Number(value)]],
    }));
  }

  /** The series that a query had in the seconds before `end` (seconds since the epoch), with a sample every `step` seconds. */
  async between(query: string, start: number, end: number, step: number): Promise<Series[]> {
    const words = { query, start: `${start}`, end: `${end}`, step: `${step}` };
    const { result } = await this.#ask<{ result: { metric: Series['labels']; values: [number, string][] }[] }>(
      'query_range',
      words,
    );
    return result.map(({ metric, values }) => ({
      labels: metric,
      samples: values.map(([seconds, value]) => [seconds, Number(value)]),
    }));
  }

  /** As the variable `label_values(METRIC, LABEL)` of a dashboard. */
  async labelValues(metric: string, label: string): Promise<string[]> {
    return await this.#ask<string[]>(`label/${label}/values`, { 'match[]': metric });
  }

  async #ask<T>(what: string, words: Record<string, string>): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${what}?${new URLSearchParams(words)}`);
    const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') throw new Error(`${words.query ?? what}: ${error}`);
    return data;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.end();
    await this.#folder.remove();
  }
}

function configuration(targets: readonly Target[]): object {
  const jobs = [...new Set(targets.map(({ labels }) => labels.job))];
  return {
    global: { scrape_interval: `${scrapeSeconds}s`, scrape_timeout: `${scrapeSeconds}s` },
    scrape_configs: jobs.map((job) => ({
      job_name: job,
      static_configs: targets
        .filter(({ labels }) => labels.job === job)
        .map(({ port, labels }) => ({ targets: [`127.0.0.1:${port}`], labels })),
    })),
  };
}
