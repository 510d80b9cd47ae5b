/** The rows of the tree's drawer: pure functions of a session's tree. */
import { type Entry, EntryKind } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";

import { headline, type Tree } from "./transcript";

export interface TreeRowData {
  readonly entry: Entry;
  readonly depth: number;
  /** Entries between the row above and this one, which are not shown. */
  readonly folded: number;
  /** Branches that begin here. */
  readonly branches: number;
  /** Of several roots, which one this is, counted from 1; 0 for every other entry. */
  readonly root: number;
}

/** Roots, users' messages, branch points, marks and leaves; what lies between two of them is counted. */
export function rowsOf(tree: Tree, leafEntryId: string): TreeRowData[] {
  const found: TreeRowData[] = [];
  const { children } = tree;
  const pending: { entry: Entry; depth: number; folded: number }[] = [];
  const push = (list: readonly Entry[], depth: number, folded: number) => {
    for (const entry of [...list].reverse()) pending.push({ entry, depth, folded });
  };
  const roots = children.get("") ?? [];
  push(roots, 0, 0);
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { entry, depth, folded } = next;
    const below = children.get(entry.entryId) ?? [];
    const root = roots.length > 1 ? roots.indexOf(entry) + 1 : 0;
    const shown =
      entry.kind === EntryKind.USER || below.length !== 1 || entry.label || entry.entryId === leafEntryId || root;
    if (shown) found.push({ entry, depth, folded, branches: below.length > 1 ? below.length : 0, root });
    push(below, below.length > 1 ? depth + 1 : depth, shown ? 0 : folded + 1);
  }
  return found;
}

/** The rows with some words in their mark or first line; `marked` leaves those with a mark. */
export function filtered(rows: readonly TreeRowData[], words: string, marked: boolean): readonly TreeRowData[] {
  const wanted = words.trim().toLowerCase();
  return rows.filter(
    ({ entry }) =>
      (!marked || entry.label) && (!wanted || `${entry.label} ${headline(entry)}`.toLowerCase().includes(wanted)),
  );
}
