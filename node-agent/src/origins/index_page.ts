/** A link of an index page to a direct child. */
export interface IndexLink {
  /** As in the URL: percent-encoded, without '/'. */
  encoded: string;
  folder: boolean;
}

/** A server's index has no longer anchors; the bound keeps hostile pages cheap. */
const anchors = /<a\s([^<>]{1,8192})>/gi;
const href = /(?:^|\s)href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i;

/**
 * The names on an index page (nginx autoindex, Apache mod_autoindex, Python http.server and similar: one anchor a
 * name). Links elsewhere, such as the parent, sorting or other hosts, are ignored.
 */
export function readIndexPage(html: string, page: URL): IndexLink[] {
  const links = new Map<string, IndexLink>();
  for (const [, attributes = ''] of html.matchAll(anchors)) {
    const found = href.exec(attributes);
    const text = decodeEntities(found?.[1] ?? found?.[2] ?? found?.[3] ?? '');
    if (text === '' || !URL.canParse(text, page.href)) continue;
    const url = new URL(text, page);
    if (url.origin !== page.origin || url.search !== '' || !url.pathname.startsWith(page.pathname)) continue;
    const rest = url.pathname.slice(page.pathname.length);
    const folder = rest.endsWith('/');
    const encoded = folder ? rest.slice(0, -1) : rest;
    if (encoded === '' || encoded.includes('/')) continue;
    links.set(encoded, { encoded, folder });
  }
  return [...links.values()];
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** Decodes the character references that servers write into attributes. */
function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}));/gi, (whole, decimal, hexadecimal, name) => {
    if (name !== undefined) return entities[name.toLowerCase()] ?? whole;
    const point = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
