import type { Secret } from '@hearth/common/kubernetes';

/** Text by key, as it stands in a Secret's data without its base64. */
export type SecretTexts = Readonly<Record<string, string>>;

export function secretTexts(secret: Secret | undefined): SecretTexts {
  const entries = Object.entries(secret?.data ?? {});
  return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

export function secretData(texts: SecretTexts): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}
