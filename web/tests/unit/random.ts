/** Numbers that another run doesn't draw; `UNLADEN_SEED` draws them again. */
export function random() {
  const seed = Number(process.env["UNLADEN_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  let state = seed;
  /** 0 to n - 1. */
  const next = (n: number): number => {
    // Mulberry32.
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
  const pick = <V>(values: readonly V[]): V => values[next(values.length)] as V;
  return { seed, next, pick };
}
