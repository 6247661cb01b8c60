import { createHash } from 'node:crypto';
import type { Secret } from '@hearth/common/kubernetes';
import { fieldManager } from '@hearth/common/resources';

export const componentLabel = 'app.kubernetes.io/component';
export const managedByLabel = 'app.kubernetes.io/managed-by';
/** Selects all objects of the operator. */
export const ownedSelector = `${managedByLabel}=${fieldManager}`;

export function labelsOfOperator(component: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'hearth', [componentLabel]: component, [managedByLabel]: fieldManager };
}

/** 32 hexadecimal digits of the SHA-256 of `canonical(value)`; undefined fields do not count. */
export function hashOf(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, 32);
}

export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

export type SecretTexts = Readonly<Record<string, string>>;

export function secretTexts(secret: Secret | undefined): SecretTexts {
  const entries = Object.entries(secret?.data ?? {});
  return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

export function secretData(texts: SecretTexts): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}
