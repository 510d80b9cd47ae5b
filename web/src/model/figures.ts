/** Times and numbers for people, in the language of the page. */
interface Stamp {
  readonly seconds: bigint;
  readonly nanos: number;
}

/** Milliseconds since 1970, or undefined. */
export function millis(stamp: Stamp | undefined): number | undefined {
  return stamp ? Number(stamp.seconds) * 1000 + stamp.nanos / 1e6 : undefined;
}

const UNITS: Readonly<Record<string, readonly [string, string, string, string]>> = {
  en: ["s", "min", "h", "d"],
  "zh-CN": ["秒", "分", "小时", "天"],
};

/** `0.4 s`, `14 s`, `2 min 05 s`, `3 h 20 min`, `2 d 4 h`, in the words of a language. */
export function duration(ms: number, language: string): string {
  const [second, minute, hour, day] = UNITS[language] ?? UNITS.en!;
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} ${second}`;
  if (seconds < 60) return `${Math.round(seconds)} ${second}`;
  const whole = Math.round(seconds);
  const two = (n: number) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} ${minute} ${two(whole % 60)} ${second}`;
  const hours = Math.floor(whole / 3600);
  if (hours < 48) return `${hours} ${hour} ${two(Math.floor(whole / 60) % 60)} ${minute}`;
  return `${Math.floor(hours / 24)} ${day} ${hours % 24} ${hour}`;
}

/** Making a formatter takes longer than all its work on a page. */
const made = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

function numbers(language: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = `n ${language} ${JSON.stringify(options)}`;
  const known = (made.get(key) as Intl.NumberFormat | undefined) ?? new Intl.NumberFormat(language, options);
  made.set(key, known);
  return known;
}

function times(language: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `t ${language} ${JSON.stringify(options)}`;
  const known = (made.get(key) as Intl.DateTimeFormat | undefined) ?? new Intl.DateTimeFormat(language, options);
  made.set(key, known);
  return known;
}

/** `850`, `1.2k`, `34k`. */
export function compact(count: bigint | number, language: string): string {
  return numbers(language, { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** Millionths of the catalogue's currency, which has no name here. */
export function money(micros: bigint, language: string): string {
  return numbers(language, { maximumSignificantDigits: 2 }).format(Number(micros) / 1e6);
}

export function bytes(size: bigint | number, language: string): string {
  return numbers(language, { style: "unit", unit: "kilobyte", maximumFractionDigits: 0 }).format(
    Math.max(1, Number(size) / 1024),
  );
}

export function clock(ms: number, language: string): string {
  return times(language, { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(ms);
}

/** Today's times, other days' dates. */
export function when(ms: number, language: string, now = Date.now()): string {
  const today = new Date(now).toDateString() === new Date(ms).toDateString();
  const options: Intl.DateTimeFormatOptions = today
    ? { hour: "2-digit", minute: "2-digit" }
    : { month: "short", day: "numeric" };
  return times(language, options).format(ms);
}
