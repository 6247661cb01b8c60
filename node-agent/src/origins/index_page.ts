/** A link of an index page to something directly below it. */
export interface IndexLink {
  /** As in the URL, percent-encoded, without '/'. */
  encoded: string;
  folder: boolean;
}

/** Longer anchors are none that a server's index has; the bound keeps hostile pages cheap. */
const anchors = /<a\s([^<>]{1,8192})>/gi;
const href = /(?:^|\s)href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i;

/**
 * The names that an index page lists (nginx autoindex, Apache mod_autoindex, Python http.server and the
 * like: one anchor a name). Links elsewhere - the parent, sorting, other hosts - are not names.
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

/** The character references that servers write into attributes. */
function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}));/gi, (whole, decimal, hexadecimal, name) => {
    if (name !== undefined) return entities[name.toLowerCase()] ?? whole;
    const point = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
