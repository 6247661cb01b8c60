const maxWordsLength = 200;
/** Longer runs of key and signature characters may be secrets. */
const secretLike = /[A-Za-z0-9+/_~=-]{28,}/g;

/**
 * The reason of a refusal in the server's words, for messages: the text of an S3 or JSON error, the title of a page, or
 * the beginning of plain text. Strips possible secrets that the server repeats (queries, signatures, keys). '' without
 * a reason.
 */
export function refusalWords(body: Buffer): string {
  const text = body.toString('utf8');
  const found = ofXml(text) ?? ofJson(text) ?? ofPage(text) ?? text;
  const words = found
    .replace(/[?&][^\s"'<>&]*=[^\s"'<>]*/g, '?…')
    .replace(secretLike, '…')
    .replace(/[^\P{C}\s]/gu, '')
    .replace(/\s+/g, ' ')
    .trim();
  return words.length <= maxWordsLength ? words : `${words.slice(0, maxWordsLength - 1)}…`;
}

/** Shorter words of an Authorization header name its scheme. */
const minSecretLength = 8;

/** Removes the words of the request's Authorization header, which a server may repeat, from a refusal. */
export function withoutAuthorization(body: Buffer, authorization: string | undefined): Buffer {
  const secrets = (authorization ?? '').split(' ').filter((word) => word.length >= minSecretLength);
  if (secrets.length === 0) return body;
  return Buffer.from(secrets.reduce((text, secret) => text.replaceAll(secret, '…'), body.toString('utf8')));
}

/** S3: the code and message; other elements repeat the request with its signature. */
function ofXml(text: string): string | undefined {
  const element = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`, 'i').exec(text)?.[1];
  const parts = [element('Code'), element('Message')].filter((part) => part !== undefined);
  if (parts.length > 0) return parts.join(': ');
  return text.trimStart().startsWith('<?xml') ? '' : undefined;
}

function ofJson(text: string): string | undefined {
  try {
    const { error, message } = JSON.parse(text) as { error?: unknown; message?: unknown };
    return [error, message].find((part) => typeof part === 'string') ?? '';
  } catch {
    return undefined;
  }
}

function ofPage(text: string): string | undefined {
  if (!/<(!doctype|html|body|head)/i.test(text)) return undefined;
  return /<(title|h1)[^>]*>([^<]*)</i.exec(text)?.[2] ?? text.replace(/<[^>]*>/g, ' ');
}
