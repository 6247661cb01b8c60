import { createHash } from 'node:crypto';
import { output } from '@hearth/common/testing';
import { readIndex } from '../cluster/images/oci_layout.ts';
import { copyImage } from '../cluster/images/release_image.ts';

/** Names of what was pushed, each with the digest by which the registry knows it. */
export interface Published {
  image: string;
  chart: string;
}

export interface Artifacts {
  /** Folder that is an OCI layout with one image index. */
  layout: string;
  /** hearth-VERSION.tgz of `helm package`. */
  chart: string;
  version: string;
}

/**
 * Pushes the image as REGISTRY/hearth:VERSION and the chart as REGISTRY/charts/hearth:VERSION, with the credentials of
 * `docker login`, and checks that the registry has the very bytes. `plain`: by http.
 */
export async function publish(
  { layout, chart, version }: Artifacts,
  options: { registry: string; plain: boolean; helm: string },
): Promise<Published> {
  const registry = options.registry.replace(/\/+$/, '');
  const { plain, helm } = options;
  const image = `${registry}/hearth:${version}`;
  const [described] = readIndex(layout).manifests;
  await copyImage(
    `oci:${layout}:${version}`,
    `docker://${image}`,
    ...['--all', '--preserve-digests', `--dest-tls-verify=${!plain}`],
  );
  const raw = await output('skopeo', ['inspect', '--raw', `--tls-verify=${!plain}`, `docker://${image}`]);
  const digest = `sha256:${createHash('sha256').update(raw).digest('hex')}`;
  if (digest !== described?.digest) throw new Error(`${image} is ${digest} there, and ${described?.digest} here`);

  const place = `oci://${registry}/charts`;
  // Helm 3 says it on standard error, Helm 4 on standard output.
  const said = await output('sh', [
    '-ec',
    'exec "$@" 2>&1',
    'sh',
    helm,
    'push',
    chart,
    place,
    ...(plain ? ['--plain-http'] : []),
  ]);
  const chartDigest = /^Digest: (sha256:\S+)$/m.exec(said)?.[1];
  if (chartDigest === undefined) throw new Error(`helm push says no digest: ${said}`);
  return { image: `${image}@${digest}`, chart: `${place}/hearth:${version}@${chartDigest}` };
}
