import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of the OCI image specification 1.1. */
const indexType = 'application/vnd.oci.image.index.v1+json';
const referenceName = 'org.opencontainers.image.ref.name';

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { os: string; architecture: string };
  annotations?: Record<string, string>;
}

/**
 * Makes one image for several processors of all images in an OCI layout: an index that names each by its platform, alone in
 * the layout's own index under `reference`. Gives the digest by which a registry will know it.
 */
export function joinPlatforms(layout: string, reference: string): string {
  const { manifests } = readIndex(layout);
  const joined = manifests
    .map(({ mediaType, digest, size }) => ({ mediaType, digest, size, platform: platformOf(layout, digest) }))
    .sort((a, b) => a.platform.architecture.localeCompare(b.platform.architecture));
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: indexType, manifests: joined }));
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  writeFileSync(blobPath(layout, digest), bytes);
  const descriptor = { mediaType: indexType, digest, size: bytes.length, annotations: { [referenceName]: reference } };
  const index = { schemaVersion: 2, mediaType: indexType, manifests: [descriptor] };
  writeFileSync(join(layout, 'index.json'), `${JSON.stringify(index)}\n`);
  return digest;
}

/** What the layout's own index names. */
export function readIndex(layout: string): { manifests: Descriptor[] } {
  return JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8'));
}

/** A manifest, an index or a configuration of a layout. */
// biome-ignore lint/suspicious/noExplicitAny: of every type
export const readBlob = (layout: string, digest: string): any =>
  JSON.parse(readFileSync(blobPath(layout, digest), 'utf8'));

function platformOf(layout: string, digest: string): { os: string; architecture: string } {
  const { os, architecture } = readBlob(layout, readBlob(layout, digest).config.digest);
  return { os, architecture };
}

const blobPath = (layout: string, digest: string) => join(layout, 'blobs', digest.replace(':', '/'));
