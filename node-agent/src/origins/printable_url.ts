/** A URL for messages: without user, password, query and fragment, which may be secrets (presigned URLs, tokens). */
export function printableUrl(url: string | URL): string {
  if (!URL.canParse(String(url))) return '(malformed URL)';
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
