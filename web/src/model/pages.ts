/** All pages of a list, in order. */
export async function allPages<Page extends { readonly nextPageToken: string }, Item>(
  read: (pageToken: string) => Promise<Page>,
  items: (page: Page) => readonly Item[],
): Promise<Item[]> {
  const found: Item[] = [];
  let pageToken = "";
  do {
    const page = await read(pageToken);
    found.push(...items(page));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return found;
}
