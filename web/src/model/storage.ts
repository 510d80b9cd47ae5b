/** What this browser remembers. Where storage is denied nothing is remembered, and nothing fails. */
const PREFIX = "netaclaw-";

export function stored(name: string): string {
  try {
    return localStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return "";
  }
}

/** Keep a text; an empty one forgets it. */
export function store(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(PREFIX + name, value);
    else localStorage.removeItem(PREFIX + name);
  } catch {
    // Denied or full: the page works without.
  }
}
