/**
 * Expiry of a signed URL, milliseconds since the epoch; undefined if unknown. Supports AWS Signature 4 and Google's
 * (date and seconds), CloudFront and S3's Signature 2 (`Expires`, seconds since the epoch), Azure's shared access
 * signatures (`se`).
 */
export function signedUrlExpiry(url: URL): number | undefined {
  const parameters = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value]));
  for (const vendor of ['x-amz', 'x-goog']) {
    const signedAt = basicTime(parameters.get(`${vendor}-date`));
    const seconds = Number(parameters.get(`${vendor}-expires`) ?? Number.NaN);
    if (signedAt !== undefined && seconds > 0) return signedAt + seconds * 1000;
  }
  const expires = parameters.get('expires');
  if (expires !== undefined && /^\d{9,11}$/.test(expires)) return Number(expires) * 1000;
  const azure = Date.parse(parameters.get('se') ?? '');
  return Number.isNaN(azure) ? undefined : azure;
}

/** 20261121T120000Z */
function basicTime(text: string | undefined): number | undefined {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text ?? '');
  if (parts === null) return undefined;
  const [year = 0, month = 1, ...rest] = parts.slice(1).map(Number);
  return Date.UTC(year, month - 1, ...rest);
}
